"""Pruners: modules that leave a few candidate heads for each word."""
