"""Randomized hill-climbing (Zhang et al., 2014)."""
