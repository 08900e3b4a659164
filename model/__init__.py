"""The neural model: encoders, scorers, losses, and the parser that joins them to a decoder."""

from arbora.model.loading import load
from arbora.model.parser import Parser

__all__ = ["Parser", "load"]
