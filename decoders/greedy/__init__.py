"""Greedy search with partial-part predictions (2016)."""
