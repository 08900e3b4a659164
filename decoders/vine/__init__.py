"""Vine pruning and cascades (Rush and Petrov, 2012)."""
