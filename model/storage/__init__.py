"""Checkpoints, exported folders and the settings that they store."""
