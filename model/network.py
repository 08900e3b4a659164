"""The torch backend: a network of an encoder, scorers and a pruner. `arbora.model.training` trains it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from arbora.data.batch import Batch
from arbora.data.vocabulary import Vocabulary
from arbora.decoders import AD3, MST, Decoder, Parts
from arbora.decoders.parts.tree_features import TAG_NUMBERS
from arbora.model.encoders.encoder import Encoder
from arbora.model.encoders.lstm import LSTM
from arbora.model.inference.backend import Tags
from arbora.model.pruners.marginal import MarginalPruner
from arbora.model.pruners.settings import PrunerSettings, Shared
from arbora.model.scorers.biaffine import ArcScorer, ArcScores, Biaffine, LabelScorer, Nodes, with_one
from arbora.model.scorers.multilinear import Multilinear, PartScorer
from arbora.model.scorers.taggers import Predicted, Taggers, TagScorer
from arbora.model.scorers.tree_features import FeatureScorer, TreeFeatures
from arbora.model.tensors import download, to_tensors, upload
from arbora.model.tokenizer.tokenizer import Tokenizer

BLOCK_POSITIONS = 4000
"""Positions of a long sentence whose arcs are scored at once. Longer sentences are scored in blocks of half as many
words and half as many heads. This takes four times the work, since the scorer also scores words and heads of a block
with each other."""

BLOCK_CELLS = 4_000_000
"""Arc scores of a long sentence that are returned at once."""

LABEL_CELLS = 1 << 23
"""Maximum number of label scores of candidate arcs in memory."""


class ScoredParts(NamedTuple):
    """Candidate parts of a batch with scores, and a function that gives those of a kind with gradients, by number."""

    parts: Parts
    score_some: Callable[[str, Tensor], Tensor] | None


class Network(nn.Module):
    """The network of a graph-based parser, and its backend.

    Args:
        vocabulary: of the training part.
        encoder: turns words into vectors.
        scorer: scores arcs and labels.
        parts: scores higher-order parts. Without it, the parser is of first order.
        features: scores tree features, by which only hill-climbing can search.
        pruner: keeps a few candidate heads for each word, as higher-order parts require. By default, a small scorer on
            the parser's own encoder if there are higher-order parts, and none in a first-order parser.
        decoder: searches for the best tree.
        taggers: predict tags, features and lemmas. Without it, the parser predicts none of them.
        files: folder with the files that encoder and pruner need besides their weights, as written by `save_files`. If
            given, nothing else is read, and `load_state_dict` must fill in pretrained weights.
    """

    temperature = (1.0, 1.0)

    at_once = 1  # each is spread over threads by torch

    def __init__(
        self,
        vocabulary: Vocabulary,
        encoder: Encoder = LSTM(),  # noqa: B008 - settings are frozen
        scorer: Biaffine = Biaffine(),  # noqa: B008
        parts: Multilinear | None = None,
        features: TreeFeatures | None = None,
        pruner: PrunerSettings | None = None,
        decoder: Decoder = MST(),  # noqa: B008
        taggers: Taggers | None = None,
        files: Path | None = None,
    ) -> None:
        super().__init__()
        if not vocabulary.labels:
            raise ValueError("the vocabulary has no labels: the training part must be annotated")
        check_search("decoder", decoder, parts, features)
        if (parts or features) is not None and pruner is None:
            pruner = Shared()
        self.vocabulary = vocabulary
        self.tokenizer: Tokenizer | None = None
        self.settings: dict[str, Any] = {
            "encoder": encoder,
            "scorer": scorer,
            "parts": parts,
            "features": features,
            "pruner": pruner and pruner.portable(),
            "decoder": decoder,
            "taggers": taggers,
        }
        self.tags = encoder.tags
        self.decoder = decoder
        self.encoder = encoder.build(vocabulary, files and files / "encoder")
        self.arc = ArcScorer(self.encoder.size, scorer)
        self.label = LabelScorer(self.encoder.size, len(vocabulary.labels), scorer)
        self.parts = PartScorer(self.encoder.size, parts) if parts else None
        self.features = FeatureScorer(self.encoder.size, features) if features else None
        self.taggers = self._tag_scorer(taggers) if taggers else None
        self.predicts = tuple(self.taggers.sizes) if self.taggers else ()
        for name in {"upos", "xpos"} & set(self.predicts):
            numbers = torch.tensor([vocabulary.index[name][tag] for tag in vocabulary.tag_classes[name]])
            self.register_buffer(f"{name}_of_class", numbers, persistent=False)
        own_files = files and files / "pruner"
        self.pruner = pruner.build(vocabulary, self.encoder.size, own_files, scorer) if pruner else None
        allowed = torch.from_numpy(vocabulary.allowed_labels)
        self.register_buffer("label_allowed", allowed, persistent=False)
        self.label_allowed: Tensor  # (2, L), 1 for arcs from the root

    def _tag_scorer(self, settings: Taggers) -> TagScorer:
        lower = self.encoder.lower_sizes
        if settings.layer is not None and not 1 <= settings.layer <= len(lower) + 1:
            raise ValueError(f"taggers.layer must be from 1 to {len(lower) + 1}, got {settings.layer}")
        inputs = [*lower, self.encoder.size][(settings.layer or 0) - 1]
        return TagScorer(inputs, settings, self.vocabulary)

    @property
    def device(self) -> torch.device:
        """Device on which it computes."""
        return self.label_allowed.device

    def score_only_arcs(self) -> None:
        """Leave parts of higher order and tree features out."""
        self.parts = self.features = None

    def save_files(self, folder: Path) -> None:
        """Write what encoder and pruner need besides their weights; `files` takes the folder."""
        self.encoder.save_files(folder / "encoder")
        if self.pruner is not None:
            self.pruner.save_files(folder / "pruner")

    def encode(self, batch: Batch[Tensor]) -> tuple[Tensor, Tensor]:
        """Vectors (B, N, size) of words for scoring trees, and those for tags."""
        lower: dict[int, Tensor] = {}

        def keep(layer: int, vectors: Tensor) -> Tensor:
            lower[layer] = vectors
            return vectors

        vectors = self.encoder(batch, keep)
        return vectors, vectors if self.taggers is None else lower.get(self.taggers.layer or 0, vectors)

    def forward(self, batch: Batch[Tensor]) -> tuple[Tensor, Tensor]:
        """Vectors of words (B, N, size) and scores of arcs (B, N, N)."""
        vectors, _ = self.encode(batch)
        return vectors, self.arc(vectors, batch.lengths)

    @torch.no_grad()
    def score(self, batch: Batch[Any]) -> NetworkScores:
        """Read a batch; scores are computed when they are asked for."""
        tensors = to_tensors(batch, self.device)
        vectors, for_tags = self.encode(tensors)
        return NetworkScores(self, tensors, vectors, for_tags=for_tags)


class NetworkScores:
    """Scores of one batch; implements `BatchScores`.

    Args:
        network: computes them.
        batch: on the network's device.
        vectors: (B, N, size) of words.
        arc: (B, N, N) scores of all arcs, if already computed.
        for_tags: (B, N, ...) vectors that taggers read, if they are others.
    """

    def __init__(
        self,
        network: Network,
        batch: Batch[Tensor],
        vectors: Tensor,
        arc: Tensor | None = None,
        for_tags: Tensor | None = None,
    ) -> None:
        self.network = network
        self.batch = batch
        self.vectors = vectors
        self._arc = arc
        self._arcs: NDArray[np.float32] | None = None  # the same on the host
        self._for_tags = vectors if for_tags is None else for_tags

    @cached_property
    def arc_scores(self) -> ArcScores:
        """Gives the parser's scores of candidate arcs, without gradients; taken from those of all arcs if there are."""
        vectors = self.vectors.detach()
        packed = self._arc is None and vectors.device.type == "cpu" and not torch.is_grad_enabled()
        nodes = Nodes.packed(vectors, self.batch.lengths) if packed else Nodes.padded(vectors)
        return ArcScores(self.network.arc, nodes, None if self._arc is None else self.arcs)

    @cached_property
    def pruner_scores(self) -> Any:
        """Scores of the pruner, as its methods take them."""
        pruner = self.network.pruner
        if pruner is None:
            return None
        return pruner.prepare(self.vectors, self._tagged if pruner.reads_tags else self.batch, self.arc_scores)

    @cached_property
    def _tagged(self) -> Batch[Tensor]:
        """Return the batch with predicted tags instead of the input's, if the parser has taggers."""
        columns = {}
        for name, found in self._predict_tags().items():
            if name in ("upos", "xpos"):
                whole, numbers = getattr(self.batch, name), getattr(self.network, f"{name}_of_class")[found.classes]
                columns[name] = whole.flatten().index_copy(0, self.batch.places, numbers).view_as(whole)
        return replace(self.batch, **columns)

    @torch.no_grad()
    def arcs(self) -> NDArray[np.float32]:
        if self._arcs is None:
            (self._arcs,) = download([self._dense()])
        return self._arcs

    def _dense(self) -> Tensor:
        if self._arc is None:
            self._arc = self.network.arc(self.vectors, self.batch.lengths)
        return self._arc

    @torch.no_grad()
    def parts(self, decoder: Decoder, keep: NDArray[np.integer] | None = None) -> Parts:
        pruner = self.network.pruner
        sparse = pruner is not None and pruner.is_sparse(decoder) and isinstance(self.network.arc, ArcScorer)
        if not sparse:
            self._dense()
        return self.scored_parts(decoder, keep).parts

    def scored_parts(self, decoder: Decoder, keep: NDArray[np.integer] | None = None) -> ScoredParts:
        """Prune arcs, keeping a tree for the decoder, and score the remaining parts.

        Args:
            decoder: the pruner leaves a tree that it can find.
            keep: (B, N) heads to keep among the candidates, -1 where there is none.
        """
        network, vectors = self.network, self.vectors
        lengths = self.batch.on_host.lengths
        supported = None  # siblings that the pruner leaves, 0, or forbids, -inf
        if network.pruner is None:
            parts = Parts.from_dense(self.arcs(), lengths)
        else:
            of_pruner = self.pruner_scores
            if isinstance(of_pruner, Tensor):  # its own scores come along
                own = [] if self._arc is None or self._arcs is not None else [self._arc]
                of_pruner, *own_on_host = download([of_pruner, *own])
                self._arcs = own_on_host[0] if own_on_host else self._arcs
            parts = network.pruner.candidates(of_pruner, lengths, decoder, keep)
            if not network.pruner.scores_candidates(decoder, keep):
                parts = parts.with_scores(arc_score=self.arc_scores(parts))
            supported, parts = parts.sibling, parts.only()
        if network.parts is None and network.features is None:
            return ScoredParts(parts, None)
        part_scorer = network.parts
        features: dict[str, Tensor] = {}
        scores: dict[str, Tensor] = {}
        if network.features is not None:
            parts = parts.with_tags(self._tags())
            features = network.features(vectors, parts)
        if part_scorer is not None:
            roles = part_scorer(vectors if torch.is_grad_enabled() else self.arc_scores.nodes.vectors)
            places = part_scorer.places(parts, vectors.device)
            with torch.no_grad():
                scores = part_scorer.score(roles.detach(), places)

        def score_some(kind: str, entries: Tensor) -> Tensor:
            if kind in features:
                return features[kind][entries]
            assert part_scorer is not None
            return part_scorer.score_some(roles, places, kind, entries)

        every = [*scores.items(), *features.items()]
        kinds, tensors = [kind for kind, _ in every], [score.float() for _, score in every]
        numbers = dict(zip(kinds, download(tensors)))
        if supported is not None and "sibling" in decoder.takes:
            numbers["sibling"] = numbers["sibling"] + supported if "sibling" in numbers else supported
        return ScoredParts(parts.with_scores(**numbers), score_some)

    def _tags(self) -> NDArray[np.uint8]:
        """(W,) universal tags of the words, as `Parts` numbers them."""
        vocabulary = self.network.vocabulary
        numbers = np.zeros(vocabulary.size("upos"), dtype=np.uint8)
        for tag, index in vocabulary.index["upos"].items():
            numbers[index] = TAG_NUMBERS.get(tag, 0)
        predicted = "upos" in self.network.predicts
        upos = download([self._tagged.upos])[0] if predicted else self.batch.on_host.upos
        tags: NDArray[np.uint8] = numbers[upos[self.batch.on_host.is_word]]
        return tags

    @torch.no_grad()
    def arc_rows(self) -> Iterator[tuple[int, NDArray[np.float32]]]:
        vectors, scorer = self.vectors, self.network.arc
        size = vectors.shape[1]
        if size <= BLOCK_POSITIONS:
            arc = self.arcs()[0]
            step = max(1, BLOCK_CELLS // size)
            yield from ((start, arc[start : start + step]) for start in range(1, size, step))
            return
        half = BLOCK_POSITIONS // 2
        for start in range(1, size, half):
            words = vectors[:, start : start + half]
            among = []
            for first in range(0, size, half):
                both = torch.cat([words, vectors[:, first : first + half]], 1)
                arc_block = scorer(both, torch.tensor([both.shape[1] - 1], device=vectors.device))
                among.append(arc_block[0, : words.shape[1], words.shape[1] :].cpu())
            block = torch.cat(among, 1).numpy()
            row = np.arange(len(block))
            block[row, start + row] = -np.inf
            yield start, block

    @torch.no_grad()
    def labels(self, heads: NDArray[np.integer]) -> NDArray[np.int64]:
        places, label = np.nonzero(heads >= 0), np.zeros(heads.shape, np.int64)
        label[places] = self._label_scores(heads, *places).argmax(-1).cpu().numpy()
        return label

    @torch.no_grad()
    def tags(self, probabilities: bool = False) -> dict[str, Tags]:
        found = self._predict_tags(probabilities)
        classes = download([of.classes for of in found.values()])
        likely = download([of.probability for of in found.values() if of.probability is not None])
        return {name: Tags(*pair) for name, *pair in zip_longest(found, classes, likely)}

    def _predict_tags(self, probabilities: bool = False) -> dict[str, Predicted]:
        if self.network.taggers is None:
            return {}
        words = self._for_tags.flatten(0, 1).index_select(0, self.batch.places)
        return self.network.taggers.predict(words, probabilities)

    @torch.no_grad()
    def label_scores(self, heads: NDArray[np.integer], words: NDArray[np.bool_]) -> NDArray[np.float64]:
        return self._label_scores(heads, *np.nonzero(words)).double().log_softmax(-1).cpu().numpy()

    def _label_scores(self, heads: NDArray[np.integer], sentence: NDArray[np.int64], m: NDArray[np.int64]) -> Tensor:
        """(words, L) scores of labels of some words' arcs."""
        h, start = heads[sentence, m].astype(np.int64), sentence * heads.shape[1]
        modifier, head, from_root = upload([start + m, start + h, h], self.vectors.device)
        scores = self.network.label.score_words(self.vectors, modifier, head)
        return scores.masked_fill(~self.network.label_allowed[(from_root == 0).long()], -torch.inf)

    @torch.no_grad()
    def arc_labels(self, parts: Parts) -> NDArray[np.int32]:
        scorer, vectors = self.network.label, self.vectors
        head, modifier = with_one(scorer.head(vectors)), scorer.modifier(vectors)
        size, longest, _ = head.shape
        best = torch.zeros(size, longest, longest, dtype=torch.int32, device=vectors.device)  # [b, m, h]
        rows = max(1, LABEL_CELLS // (size * longest * scorer.labels))
        forbidden = ~self.network.label_allowed
        for start in range(0, longest, rows):
            weighted = scorer.weigh(modifier[:, start : start + rows])
            scores = (weighted @ head[:, None].transpose(-1, -2)).float()  # (B, rows, L, N)
            scores[..., :1].masked_fill_(forbidden[1, :, None], -torch.inf)
            scores[..., 1:].masked_fill_(forbidden[0, :, None], -torch.inf)
            best[:, start : start + rows] = scores.argmax(2).int()
        sentence = np.repeat(np.arange(size), np.diff(parts.sentence_offsets))
        return best.cpu().numpy()[sentence, parts.modifier, parts.head]

    @torch.no_grad()
    def pruner_arcs(self) -> NDArray[np.float32] | None:
        pruner = self.network.pruner
        if not isinstance(pruner, MarginalPruner):
            return None
        scores: Tensor = pruner(self.vectors, self.batch)
        return scores.cpu().numpy()


def check_search(role: str, decoder: Decoder, parts: Multilinear | None, features: TreeFeatures | None) -> None:
    """Raise an error if a decoder does not search by every kind of part that is scored."""
    kinds = [*(parts.kinds if parts else ()), *(features.kinds if features else ())]
    if others := [kind for kind in kinds if kind not in decoder.takes]:
        who = "AD3" if set(kinds) <= AD3.takes else "HillClimbing"
        name = type(decoder).__name__
        raise ValueError(f"model.{role}: {name} does not search by {', '.join(others)}; {who} does")
