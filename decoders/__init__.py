"""Decoders: numpy scores in, best trees out; torch is never imported.

Decoders are imported when they are first used: one does not load the kernels of the others.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from arbora.decoders.constraints import Constraints
from arbora.decoders.k_best import k_best
from arbora.decoders.parts.batch import Parts
from arbora.decoders.trees import Decoder, NoTreeError, Trees, rerank

if TYPE_CHECKING:
    from arbora.decoders.dual.ad3 import AD3, RelaxedTrees
    from arbora.decoders.dual.branch_and_bound import BranchAndBound
    from arbora.decoders.dual.subgradient import Subgradient
    from arbora.decoders.greedy.decoder import Greedy
    from arbora.decoders.hill_climbing.decoder import HillClimbing
    from arbora.decoders.hill_climbing.optima import count_optima
    from arbora.decoders.minimum_risk import MinimumRisk
    from arbora.decoders.mst import MST
    from arbora.decoders.projective.decoder import Projective
    from arbora.decoders.projective.eisner import Eisner
    from arbora.decoders.vine.cascade import VineCascade

_MODULES = {
    "AD3": "dual.ad3",
    "MST": "mst",
    "BranchAndBound": "dual.branch_and_bound",
    "Eisner": "projective.eisner",
    "Greedy": "greedy.decoder",
    "HillClimbing": "hill_climbing.decoder",
    "MinimumRisk": "minimum_risk",
    "Projective": "projective.decoder",
    "RelaxedTrees": "dual.ad3",
    "Subgradient": "dual.subgradient",
    "VineCascade": "vine.cascade",
    "count_optima": "hill_climbing.optima",
    "find_decoder": "names",
}
"""Modules of the names, below this package."""

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
    "find_decoder",
    "k_best",
    "rerank",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'arbora.decoders' has no attribute {name!r}")
    value = getattr(import_module(f"arbora.decoders.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
