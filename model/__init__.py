"""The neural model: encoders, scorers, losses, and the parser that joins them to a decoder."""

from arbora.model.parser import Parser, load

__all__ = ["Parser", "load"]
