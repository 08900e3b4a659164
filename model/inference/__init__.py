"""Parsing: the path from sentences to trees that all commands share."""
