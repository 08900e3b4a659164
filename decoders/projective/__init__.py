"""Exact projective decoding: first order, siblings, grandparents, grand-siblings."""
