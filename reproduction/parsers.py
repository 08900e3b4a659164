"""Settings of the parsers, as `arbora train` reads them.

They are equal to the files in `configs/`; a test compares them.
"""

from __future__ import annotations

from typing import Any

ENCODER: dict[str, Any] = {
    "class_path": "LSTM",
    "init_args": {"embeddings": {"upos": 50, "xpos": 50, "feats": 100, "lemmas": 100}},
}
"""Words, characters, and the tags, features and lemmas of the input."""

MAX_TOKENS = 500
EPOCHS = 25
LINEAR_EPOCHS = 10

THIRD_ORDER = ["grandparent", "sibling", "any_sibling", "head_bigram", "grand_sibling", "tri_sibling"]
ALL_KINDS = [*THIRD_ORDER, "grand_grandparent", "inner_sibling_grandchild", "outer_sibling_grandchild"]
TREE_FEATURES = ["valency", "span", "neighbours", "crossing", "right_branching", "coordination", "conjunct"]


def first_order() -> dict[str, Any]:
    """Arcs only, trained with cross-entropy: `small_tagged.yaml`."""
    return {"encoder": ENCODER}


def higher_order(kinds: list[str]) -> dict[str, Any]:
    """Further kinds of parts, parsed with AD3: `second_order_tagged.yaml`, `third_order_tagged.yaml`.

    Args:
        kinds: of parts, besides arcs.
    """
    return {
        "encoder": ENCODER,
        "parts": {"kinds": kinds},
        "decoder": {"class_path": "AD3", "init_args": {"max_iterations": 100}},
        "training_decoder": {"class_path": "HillClimbing", "init_args": {"start": "best"}},
        "loss": ["cross_entropy", "hinge"],
    }


def greedy_search(partial: bool = True) -> dict[str, Any]:
    """Greedy search as it is trained in Tchernowitz et al. (2016), without improvements and without a beam."""
    return {"class_path": "Greedy", "init_args": {"partial": partial, "beam": 1, "improvements": 0}}


def searched(kinds: list[str], decoder: dict[str, Any]) -> dict[str, Any]:
    """Training and parsing with the same search; for first order, too.

    Args:
        kinds: of parts, besides arcs; none for first order.
        decoder: for both.
    """
    settings = {"encoder": ENCODER, "decoder": decoder, "loss": ["cross_entropy", "hinge"]}
    return settings | ({"parts": {"kinds": kinds}} if kinds else {})


RELAXATION: dict[str, Any] = {"class_path": "AD3", "init_args": {"fractional": True}}
"""AD3 that gives its fractional solutions to training, as in Martins et al. (2013)."""

SUBGRADIENT: dict[str, Any] = {"class_path": "Subgradient"}
"""Dual decomposition in training as Zhang et al. (2014) have it from Koo et al. (2010)."""

CLIMBING: dict[str, Any] = {
    "class_path": "HillClimbing",
    "init_args": {"patience": 300, "start": "first_order", "best_first": False},
}
"""Hill-climbing as in Zhang et al. (2014)."""


def hinged(kinds: list[str], decoder: dict[str, Any], features: list[str] | None = None) -> dict[str, Any]:
    """Training with hinge only and parsing with one decoder as in Zhang et al. (2014): `hill_climbing_paper.yaml`.

    Args:
        kinds: of parts, besides arcs; none for first order.
        decoder: for both.
        features: tree features; none unless given.
    """
    settings = searched(kinds, decoder) | {"loss": ["hinge"]}
    if features is None:
        return settings
    return settings | {"parts": {"kinds": kinds, "attachment": 16}, "features": {"kinds": features}}


def linear(kinds: list[str], decoder: dict[str, Any] | None = None) -> dict[str, Any]:
    """A linear model, trained with MIRA through the decoder that it parses with.

    Args:
        kinds: of parts, besides arcs, and tree features.
        decoder: the default one unless given.
    """
    settings: dict[str, Any] = {"linear": {"kinds": kinds}}
    return settings if decoder is None else settings | {"decoder": decoder}


def projective(kinds: list[str]) -> dict[str, Any]:
    """Projective search, the last pass of a pruning cascade; pruned by marginals in training.

    Args:
        kinds: of parts, besides arcs; none for first order.
    """
    settings: dict[str, Any] = {"encoder": ENCODER, "decoder": {"class_path": "Projective"}}
    if not kinds:
        return settings | {"loss": ["cross_entropy"]}
    return settings | {"parts": {"kinds": kinds}, "loss": ["cross_entropy", "hinge"]}


def lean(kinds: list[str]) -> dict[str, Any]:
    """The same with small vectors, with which everything after the encoder takes a fraction of the time.

    Args:
        kinds: of parts, besides arcs; none for first order.
    """
    settings = projective(kinds)
    encoder = {**ENCODER, "init_args": {**ENCODER["init_args"], "output": 96}}
    settings |= {"encoder": encoder, "scorer": {"arc": 64, "dropout": 0.2}}
    return settings | ({"parts": {"kinds": kinds, "rank": 32, "dropout": 0.2}} if kinds else {})


def vine(stages: tuple[str, ...], filter: str = "max_marginal", **more: Any) -> dict[str, Any]:
    """A pruner by stages, as the files of `configs/pruners/` have them: tuned to lose a gold arc in 20 % of sentences.

    Args:
        stages: of the cascade.
        filter: what they learn and prune by.
        more: settings of the pruner.
    """
    arguments: dict[str, Any] = {"stages": list(stages)}
    if filter != "max_marginal":
        arguments["filter"] = filter
    arguments |= {"directed": False, "criterion": "sentences", "error": 0.2}
    if filter != "odds" and len(stages) > 2:
        arguments["stagewise"] = True
    if filter == "max_marginal" and "second" in stages:
        arguments["second_filters"] = "siblings"
    return {"class_path": "Vine", "init_args": arguments | more}
