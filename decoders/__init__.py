"""Decoders: numpy scores in, best trees out; torch is never imported."""

from arbora.decoders.ad3 import AD3, RelaxedTrees
from arbora.decoders.branch_and_bound import BranchAndBound
from arbora.decoders.greedy import Greedy
from arbora.decoders.hill_climbing import HillClimbing
from arbora.decoders.mst import MST
from arbora.decoders.optima import count_optima
from arbora.decoders.parts import Parts
from arbora.decoders.projective import Eisner, Projective
from arbora.decoders.subgradient import Subgradient
from arbora.decoders.trees import Decoder, Trees, rerank
from arbora.decoders.vine_cascade import VineCascade

__all__ = [
    "AD3",
    "MST",
    "BranchAndBound",
    "Decoder",
    "Eisner",
    "Greedy",
    "HillClimbing",
    "Parts",
    "Projective",
    "RelaxedTrees",
    "Subgradient",
    "Trees",
    "VineCascade",
    "count_optima",
    "rerank",
]
