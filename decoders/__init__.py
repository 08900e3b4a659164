"""Decoders: numpy scores in, best trees out; torch is never imported."""

from arbora.decoders.constraints import Constraints
from arbora.decoders.dual.ad3 import AD3, RelaxedTrees
from arbora.decoders.dual.branch_and_bound import BranchAndBound
from arbora.decoders.dual.subgradient import Subgradient
from arbora.decoders.greedy.decoder import Greedy
from arbora.decoders.hill_climbing.decoder import HillClimbing
from arbora.decoders.hill_climbing.optima import count_optima
from arbora.decoders.k_best import k_best
from arbora.decoders.minimum_risk import MinimumRisk
from arbora.decoders.mst import MST
from arbora.decoders.parts.batch import Parts
from arbora.decoders.projective.decoder import Projective
from arbora.decoders.projective.eisner import Eisner
from arbora.decoders.trees import Decoder, NoTreeError, Trees, rerank
from arbora.decoders.vine.cascade import VineCascade

__all__ = [
    "AD3",
    "MST",
    "BranchAndBound",
    "Constraints",
    "Decoder",
    "Eisner",
    "Greedy",
    "HillClimbing",
    "MinimumRisk",
    "NoTreeError",
    "Parts",
    "Projective",
    "RelaxedTrees",
    "Subgradient",
    "Trees",
    "VineCascade",
    "count_optima",
    "k_best",
    "rerank",
]
