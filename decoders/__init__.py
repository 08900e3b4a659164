"""Decoders: numpy scores in, best trees out; torch is never imported."""

from arbora.decoders.greedy import Greedy
from arbora.decoders.hill_climbing import HillClimbing
from arbora.decoders.mst import MST
from arbora.decoders.parts import Parts
from arbora.decoders.projective import Eisner
from arbora.decoders.trees import Decoder, Trees

__all__ = ["MST", "Decoder", "Eisner", "Greedy", "HillClimbing", "Parts", "Trees"]
