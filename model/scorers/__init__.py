"""Scorers of arcs, labels, higher-order parts and tree features."""
