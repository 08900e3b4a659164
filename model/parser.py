"""The parser: an encoder, scorers and a decoder. `arbora.model.training` has what trains it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from arbora.data.batch import Batch
from arbora.data.vocabulary import Vocabulary
from arbora.decoders import AD3, MST, Decoder, Parts, Trees
from arbora.model.encoders.lstm import LSTM, Encoder
from arbora.model.pruners.settings import PrunerSettings, Shared
from arbora.model.scorers.biaffine import ArcScorer, ArcScores, Biaffine, LabelScorer, Nodes
from arbora.model.scorers.multilinear import Multilinear, PartScorer
from arbora.model.scorers.tree_features import FeatureScorer, TreeFeatures
from arbora.model.storage.checkpoint import naming
from arbora.model.storage.folder import CONFIG, VOCABULARY, WEIGHTS, read_parser

Runtime = Literal["torch", "onnx"]


@dataclass
class Parses:
    """Trees of a batch with their labels."""

    trees: Trees
    labels: Tensor  # (B, N) label of each word's arc; 0 at the root and at padding
    parts: Parts  # what the trees were found among

    @property
    def heads(self) -> Tensor:
        """(B, N), -1 at the root and at padding."""
        return torch.from_numpy(self.trees.heads).long()


class Labels(NamedTuple):
    """Labels of the arcs of trees."""

    label: Tensor  # (B, N), 0 at the root and at padding
    probability: Tensor | None  # (B, N) of each, if asked for; 1 at the root and at padding


class Scored(NamedTuple):
    """Candidate parts of a batch with scores, and what gives some of a type with gradients, by their numbers."""

    parts: Parts
    score_some: Callable[[str, Tensor], Tensor] | None


class Parser(nn.Module):
    """A graph-based parser.

    Args:
        vocabulary: of the training part.
        encoder: from words to vectors.
        scorer: from vectors to scores of arcs and labels.
        parts: from vectors to scores of higher-order parts. Without it, the parser is of first order.
        features: from vectors to scores of features of whole trees, by which hill-climbing alone searches.
        pruner: leaves a few candidate heads for each word, which higher-order parts need; unless given, a small scorer
            on the parser's own encoder where there are such parts, and none in a first-order parser.
        decoder: from scores to trees.
        files: folder with what encoder and pruner need beside their weights, as `save_files` wrote it. Nothing else is
            then read, and pretrained weights are left for `load_state_dict` to fill in.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        encoder: Encoder = LSTM(),  # noqa: B008 - settings are frozen
        scorer: Biaffine = Biaffine(),  # noqa: B008
        parts: Multilinear | None = None,
        features: TreeFeatures | None = None,
        pruner: PrunerSettings | None = None,
        decoder: Decoder = MST(),  # noqa: B008
        files: Path | None = None,
    ) -> None:
        super().__init__()
        if not vocabulary.labels:
            raise ValueError("the vocabulary has no labels: the training part must be annotated")
        check_search("decoder", decoder, parts, features)
        if (parts or features) is not None and pruner is None:
            pruner = Shared()
        self.vocabulary = vocabulary
        self.settings: dict[str, Any] = {
            "encoder": encoder,
            "scorer": scorer,
            "parts": parts,
            "features": features,
            "pruner": pruner and pruner.portable(),
            "decoder": decoder,
        }
        self.tags = encoder.tags
        self.decoder = decoder
        self.encoder = encoder.build(vocabulary, files and files / "encoder")
        self.arc = ArcScorer(self.encoder.size, scorer)
        self.label = LabelScorer(self.encoder.size, len(vocabulary.labels), scorer)
        self.parts = PartScorer(self.encoder.size, parts) if parts else None
        self.features = FeatureScorer(self.encoder.size, features) if features else None
        self.pruner = pruner.build(vocabulary, self.encoder.size, files and files / "pruner") if pruner else None
        allowed = torch.from_numpy(vocabulary.allowed_labels)
        self.register_buffer("label_allowed", allowed, persistent=False)
        self.label_allowed: Tensor  # (2, L)

    @property
    def device(self) -> torch.device:
        """Where batches must be."""
        return self.label_allowed.device

    def save_files(self, folder: Path) -> None:
        """Write what encoder and pruner need beside their weights; `files` takes the folder."""
        self.encoder.save_files(folder / "encoder")
        if self.pruner is not None:
            self.pruner.save_files(folder / "pruner")

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Parse what users have, words, text or documents, as `Pipeline` does; a batch goes to `forward`."""
        if arguments and isinstance(arguments[0], Batch):
            return super().__call__(*arguments, **options)
        from arbora.model.inference.pipeline import Pipeline  # which imports this module

        return Pipeline(self)(*arguments, **options)

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Vectors of words (B, N, size) and scores of arcs (B, N, N)."""
        vectors = self.encoder(batch)
        return vectors, self.arc(vectors, batch.lengths)

    @torch.no_grad()
    def parse(self, batch: Batch) -> Parses:
        """The best trees of a batch, labelled."""
        vectors, arc = self.encode(batch)
        parts = self.candidates(vectors, arc, batch)
        trees = self.decoder(parts)
        heads = torch.from_numpy(trees.heads).long().to(vectors.device)
        return Parses(trees, self.best_labels(vectors, heads).label.cpu(), parts)

    @torch.no_grad()
    def score(self, batch: Batch) -> Parts:
        """What a decoder takes: the candidate parts of a batch with their scores."""
        vectors, arc = self.encode(batch)
        return self.candidates(vectors, arc, batch)

    def encode(self, batch: Batch, all_arcs: bool = False) -> tuple[Tensor, Tensor | None]:
        """What `candidates` takes: vectors of words (B, N, size), and scores of arcs (B, N, N).

        Args:
            batch: of sentences.
            all_arcs: score them in any case; otherwise not where so few are left that each is scored by itself.
        """
        vectors = self.encoder(batch)
        sparse = self.pruner is not None and self.pruner.is_sparse(self.decoder) and isinstance(self.arc, ArcScorer)
        return vectors, None if sparse and not all_arcs else self.arc(vectors, batch.lengths)

    @torch.no_grad()
    def candidates(self, vectors: Tensor, arc: Tensor | None, batch: Batch, keep_heads: bool = False) -> Parts:
        """The same, from vectors of words and scores of arcs as `encode` gives them.

        Args:
            vectors: (B, N, size).
            arc: (B, N, N), or None to score those alone that the pruner leaves.
            batch: the batch they come from.
            keep_heads: keep the heads that the batch has, such as another parser's, among the candidates.
        """
        own = self.arc_scores(vectors, batch, arc)
        pruner_scores = None if self.pruner is None else self.pruner.prepare(vectors, batch, own)
        return self._score(vectors, arc, batch, own, pruner_scores, self.decoder, keep_heads).parts

    def arc_scores(self, vectors: Tensor, batch: Batch, arc: Tensor | None = None) -> ArcScores:
        """What gives scores of candidate arcs.

        Args:
            vectors: (B, N, size).
            batch: the batch they come from.
            arc: (B, N, N) scores of all arcs, if there are these.
        """
        vectors = vectors.detach()
        alone = arc is None and vectors.device.type == "cpu" and not torch.is_grad_enabled()
        return ArcScores(self.arc, Nodes.packed(vectors, batch.lengths) if alone else Nodes.padded(vectors), arc)

    def _score(
        self,
        vectors: Tensor,
        arc: Tensor | None,
        batch: Batch,
        own: ArcScores,
        pruner_scores: Any,
        decoder: Decoder,
        keep_heads: bool,
    ) -> Scored:
        """Prune arcs, keeping a tree for the decoder, and score the parts that are left, without gradients."""
        lengths = batch.lengths.cpu().numpy()
        if self.pruner is None:
            assert arc is not None
            parts = Parts.from_dense(arc.detach().cpu().numpy(), lengths)
        else:
            keep = batch.heads.cpu().numpy() if keep_heads else None
            parts = self.pruner.candidates(pruner_scores, lengths, decoder, keep)
            parts = parts.with_scores(arc_score=own(parts))
        if self.parts is None and self.features is None:
            return Scored(parts, None)
        features: dict[str, Tensor] = {}
        scores: dict[str, Tensor] = {}
        if self.features is not None:
            features = self.features(vectors, parts)
        if self.parts is not None:
            roles = self.parts(vectors if torch.is_grad_enabled() else own.nodes.vectors)
            places = self.parts.places(parts, vectors.device)
            with torch.no_grad():
                scores = self.parts.score(roles.detach(), places)

        def score_some(kind: str, entries: Tensor) -> Tensor:
            if kind in features:
                return features[kind][entries]
            assert self.parts is not None
            return self.parts.score_some(roles, places, kind, entries)

        every = [*scores.items(), *features.items()]
        numbers = {kind: score.detach().float().cpu().numpy() for kind, score in every}
        return Scored(parts.with_scores(**numbers), score_some)

    @torch.no_grad()
    def best_labels(self, vectors: Tensor, heads: Tensor, probabilities: bool = False) -> Labels:
        """The best label of each word's arc among those seen in training on arcs from the root, or from words.

        Args:
            vectors: (B, N, size).
            heads: (B, N) as in `Trees.heads`.
            probabilities: whether these are wanted.
        """
        sentence, m = (heads >= 0).nonzero(as_tuple=True)
        h, start = heads[sentence, m], sentence * heads.shape[1]
        scores = self.label.score_words(vectors, start + m, start + h)
        scores = scores.masked_fill(~self.label_allowed[(h == 0).long()], -torch.inf)
        best = scores.max(-1)
        label, probability = torch.zeros_like(heads), None
        label[sentence, m] = best.indices
        if probabilities:
            probability = torch.ones(heads.shape, dtype=torch.float64, device=heads.device)
            probability[sentence, m] = (best.values - scores.logsumexp(-1)).double().exp()
        return Labels(label, probability)


def check_search(role: str, decoder: Decoder, parts: Multilinear | None, features: TreeFeatures | None) -> None:
    """Refuse a decoder that does not search by all that is scored."""
    kinds = [*(parts.kinds if parts else ()), *(features.kinds if features else ())]
    if others := [kind for kind in kinds if kind not in decoder.takes]:
        who = "AD3" if set(kinds) <= AD3.takes else "HillClimbing"
        name = type(decoder).__name__
        raise ValueError(f"model.{role}: {name} does not search by {', '.join(others)}; {who} does")


SETTINGS: dict[str, type | tuple[type, ...]] = {
    "encoder": Encoder,
    "scorer": Biaffine,
    "parts": (Multilinear, NoneType),
    "features": (TreeFeatures, NoneType),
    "pruner": (PrunerSettings, NoneType),
    "decoder": Decoder,
}
"""What each setting must be, since files may say anything."""


def load(path: str | Path, runtime: Runtime = "torch") -> Parser:
    """A parser as it was trained, on the CPU and ready to parse.

    Args:
        path: a checkpoint that `arbora train` wrote, or a folder that `arbora export` wrote.
        runtime: what computes the scores: `torch`, or `onnx` where the folder was exported with ONNX.
    """
    path = Path(path)
    stored = read_parser(path)
    file = {name: path / name if path.is_dir() else path for name in (CONFIG, WEIGHTS, VOCABULARY)}
    with naming(file[VOCABULARY]):
        vocabulary = Vocabulary.from_dict(stored.vocabulary)
    with naming(file[CONFIG]), stored.unpacked() as files:
        for name, value in stored.settings.items():
            if name not in SETTINGS or not isinstance(value, SETTINGS[name]):
                raise ValueError(f"settings: {name} is not what a parser has, or of the wrong kind")
        parser = Parser(vocabulary, **stored.settings, files=files)
    with naming(file[WEIGHTS]):
        parser.load_state_dict(stored.weights)
    if runtime == "onnx":
        from arbora.model.storage.onnx import attach

        attach(parser, path)
    return parser.eval()
