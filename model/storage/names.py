"""Short type names of settings, which files store instead of class paths.

A file stores `lstm`, never the path of the class `LSTM`, so that modules and classes can be moved and renamed. Names in
files are only looked up here, so a file can never cause any other import. When a class moves, its line in `TYPES`
changes and its name stays. `CLASS_PATHS` never grows, since only files of the first format have class paths.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

TYPES = {
    "lstm": "arbora.model.encoders.lstm.LSTM",
    "sru": "arbora.model.encoders.sru.SRU",
    "transformer": "arbora.model.encoders.transformer.Transformer",
    "embeddings": "arbora.model.encoders.embeddings.Embeddings",
    "biaffine": "arbora.model.scorers.biaffine.Biaffine",
    "multilinear": "arbora.model.scorers.multilinear.Multilinear",
    "tree_features": "arbora.model.scorers.tree_features.TreeFeatures",
    "taggers": "arbora.model.scorers.taggers.Taggers",
    "no_pruner": "arbora.model.pruners.settings.NoPruning",
    "shared_pruner": "arbora.model.pruners.settings.Shared",
    "frozen_pruner": "arbora.model.pruners.settings.Frozen",
    "vine_pruner": "arbora.model.pruners.settings.Vine",
    "linear": "arbora.model.linear.backend.Linear",
    "optimization": "arbora.model.training.Optimization",
    "ad3": "arbora.decoders.AD3",
    "branch_and_bound": "arbora.decoders.BranchAndBound",
    "eisner": "arbora.decoders.Eisner",
    "greedy": "arbora.decoders.Greedy",
    "hill_climbing": "arbora.decoders.HillClimbing",
    "minimum_risk": "arbora.decoders.MinimumRisk",
    "mst": "arbora.decoders.MST",
    "projective": "arbora.decoders.Projective",
    "subgradient": "arbora.decoders.Subgradient",
    "vine_cascade": "arbora.decoders.VineCascade",
}
"""Type names, and the current paths of their classes."""

CLASS_PATHS = {
    "arbora.model.encoders.LSTM": "lstm",
    "arbora.model.encoders.SRU": "sru",
    "arbora.model.transformer.Transformer": "transformer",
    "arbora.model.embeddings.Embeddings": "embeddings",
    "arbora.model.biaffine.Biaffine": "biaffine",
    "arbora.model.multilinear.Multilinear": "multilinear",
    "arbora.model.features.TreeFeatures": "tree_features",
    "arbora.model.pruner.Everything": "no_pruner",
    "arbora.model.pruner.Shared": "shared_pruner",
    "arbora.model.pruner.Frozen": "frozen_pruner",
    "arbora.model.cascade.Vine": "vine_pruner",
    "arbora.model.training.Optimization": "optimization",
    "arbora.decoders.ad3.AD3": "ad3",
    "arbora.decoders.branch_and_bound.BranchAndBound": "branch_and_bound",
    "arbora.decoders.projective.Eisner": "eisner",
    "arbora.decoders.greedy.Greedy": "greedy",
    "arbora.decoders.hill_climbing.HillClimbing": "hill_climbing",
    "arbora.decoders.mst.MST": "mst",
    "arbora.decoders.projective.Projective": "projective",
    "arbora.decoders.subgradient.Subgradient": "subgradient",
    "arbora.decoders.vine_cascade.VineCascade": "vine_cascade",
}
"""Class paths in files of the first format."""


@cache
def class_of(name: str) -> type:
    """Class of a type name.

    Raises:
        ValueError: there is no such type.
    """
    if name not in TYPES:
        raise ValueError(f"settings have the type {name[:50]}, which this version of arbora does not know")
    module, _, attribute = TYPES[name].rpartition(".")
    kind: type = getattr(import_module(module), attribute)
    return kind


def name_of(kind: type) -> str:
    """Return the type name of a class of settings.

    Raises:
        ValueError: the class has no name and cannot be stored.
    """
    for name, path in TYPES.items():
        if path.rpartition(".")[2] == kind.__name__ and class_of(name) is kind:
            return name
    raise ValueError(f"{kind.__module__}.{kind.__qualname__} has no type name: add one to arbora.model.storage.names")
