"""Losses of the small scorer of a pruner."""

from dataclasses import replace

import pytest
import torch

from arbora.data.batch import Batch
from arbora.data.vocabulary import Vocabulary
from arbora.decoders import MST
from arbora.model import losses
from arbora.model.pruners.settings import Shared


def test_likelihood_of_trees_or_of_each_head(vocabulary: Vocabulary, batch: Batch) -> None:
    size = batch.heads.shape[1]
    position = torch.arange(size)
    absent = (position[:, None] == position) | (position > batch.lengths[:, None, None])
    scores = torch.randn(len(batch.lengths), size, size, generator=torch.Generator().manual_seed(1))
    scores = scores.masked_fill(absent, -torch.inf)
    heads = batch.heads.clone()
    heads[0, 1] = -1  # a sentence that is annotated in part
    partial = replace(batch, heads=heads, numpy=replace(batch.on_host, heads=heads.numpy()))
    each = Shared().build(vocabulary, 8).loss(scores, partial, MST())
    assert each == pytest.approx(float(losses.head_cross_entropy(scores, heads)), rel=1e-5)
    trees = Shared(loss="matrix_tree").build(vocabulary, 8).loss(scores, partial, MST())
    expected = losses.crf(scores, heads, batch.lengths, single_root=True, projective=False)[0]
    assert trees == pytest.approx(float(expected), rel=1e-5)
    assert trees != pytest.approx(float(each), rel=1e-3)
