"""Candidate arcs and higher-order parts: the one structure between scoring and decoding."""
