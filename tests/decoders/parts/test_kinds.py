"""Records of kinds against the fields that hold their scores."""

from dataclasses import fields

import brute_force
import numpy as np
import pytest

from arbora.decoders import Parts
from arbora.decoders.parts.kinds import COMMON, HIGHER_ORDER, KINDS, TREE_FEATURES, kind_of
from arbora.decoders.parts.layout import Layout, Wide


def test_each_kind_has_its_fields():
    names = [field.name for field in fields(Parts)]
    first = names.index("modifier_offsets") + 1
    assert names[first : first + len(KINDS)] == list(KINDS)
    assert [name for name in Layout._fields if name in KINDS] == list(COMMON)
    assert [name for name in Wide._fields if name in KINDS] == [name for name in KINDS if name not in COMMON]
    assert (*HIGHER_ORDER, *TREE_FEATURES) == tuple(KINDS)


@pytest.mark.parametrize("name", KINDS)
def test_records(name: str) -> None:
    kind = kind_of(name)
    assert kind.dense_shape(6) == brute_force.dense_shape(name, 6)
    assert len(kind.roles) == len(kind.dense_shape(6))
    if name in HIGHER_ORDER:
        record = HIGHER_ORDER[name]
        assert len(set(record.roles) - set(record.row_roles)) == 1
        assert len(record.row_roles) == (2 if record.rows == "arc" else len(HIGHER_ORDER[record.rows].roles))
    else:
        assert kind.order == 0


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("n", [1, 2, 4])
def test_no_tree_fires_more_than_a_record_says(name: str, n: int) -> None:
    most = int(kind_of(name).most(np.array([n]))[0])
    mask = np.ones((n + 1, n + 1), dtype=bool)
    fired = [len(brute_force.fired(tree, mask, [name])[name]) for tree in brute_force.trees(n)]
    assert max(fired) <= most
    if name in ("sibling", "any_sibling", "head_bigram", "tri_sibling", "valency", "neighbours", "right_branching"):
        assert max(fired) == most


def test_unknown_kind() -> None:
    with pytest.raises(ValueError, match="no kind of parts is called uncle: choose from grandparent, sibling"):
        kind_of("uncle")
