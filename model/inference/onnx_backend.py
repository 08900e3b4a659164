"""The backend of ONNX Runtime: exported parsers, without torch.

`arbora.model.storage.onnx` describes the graphs. Character vectors of forms are cached between batches, so that each
form is computed only once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
from llvmlite.binding import get_host_cpu_features  # type: ignore[import-untyped]
from numpy.typing import NDArray

from arbora.data.batch import Batch, groups
from arbora.data.vocabulary import PAD, Vocabulary
from arbora.decoders import Decoder, Parts
from arbora.decoders.parts.kinds import HIGHER_ORDER
from arbora.decoders.pruning import prune
from arbora.decoders.vine.candidates import sentence_of_arcs
from arbora.extras import importing_extra
from arbora.model.inference.backend import Tags
from arbora.model.inference.byte_lstm import LARGEST, MIDDLE, ByteLSTM, Bytes, to_bytes
from arbora.model.scorers.products import Spots, score_pairs, score_parts
from arbora.model.tokenizer.tokenizer import Tokenizer

LABELLED = 256
"""Words whose labels are scored at once: this many vectors times the number of labels fit the cache."""

PIECES = 1024
"""Pieces of words, with padding, that a transformer reads at once: a word of many does not lengthen a whole batch."""

PADDING = 16
"""Pieces of padding that cost as much as one more call of a transformer's graph, about."""

KEPT_FORMS = 30_000
"""Maximum number of forms whose character vectors are cached."""

BLOCK_CELLS = 4_000_000
"""Arc scores of a long sentence that are returned at once."""


class Session:
    """One graph.

    Args:
        contents: of its file. Each call is computed by one thread; several threads may call.

    Raises:
        ValueError: it is not a graph that onnxruntime runs.
    """

    def __init__(self, contents: bytes) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        if not _adds_bytes_exactly():
            options.add_session_config_entry("session.x64quantprecision", "1")
        try:
            self._session = onnxruntime.InferenceSession(contents, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # of a hierarchy of its own
            raise ValueError(f"not a graph that onnxruntime runs: {error}") from None
        self.inputs = [entry.name for entry in self._session.get_inputs()]
        self.outputs = [entry.name for entry in self._session.get_outputs()]

    def __call__(self, given: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """All outputs, by name."""
        found = self._session.run(None, {name: given[name] for name in self.inputs})
        return dict(zip(self.outputs, found, strict=True))


@cache
def _adds_bytes_exactly() -> bool:
    """Return whether the CPU adds products of bytes without overflow; otherwise, unsigned weights are used (slower)."""
    features = get_host_cpu_features()
    return not features.get("avx2") or any(features.get(name) for name in ("avx512vnni", "avxvnni"))


@dataclass
class PrunerFacts:
    """Settings of pruning by marginals, which may be changed."""

    max_heads: int
    ratio: float


class OnnxBackend:
    """Runs the graphs of an exported parser; implements `Backend`.

    Args:
        vocabulary: of the parser.
        graphs: contents of their files, by name.
        decoder: the parser's own.
        tags: columns that it reads besides words.
        predicts: columns that it predicts besides heads and labels.
        kinds: of higher-order parts that it scores.
        pruner: settings of pruning by marginals, or None if all arcs are candidates.
        pieces: cuts the words of a transformer into pieces.
        threads: batches that may be scored at a time, each by one thread.
    """

    device = "cpu"
    temperature = (1.0, 1.0)

    def __init__(
        self,
        vocabulary: Vocabulary,
        graphs: Mapping[str, bytes],
        decoder: Decoder,
        tags: tuple[str, ...] = (),
        predicts: tuple[str, ...] = (),
        kinds: tuple[str, ...] = (),
        pruner: PrunerFacts | None = None,
        pieces: Pieces | None = None,
        threads: int = 1,
    ) -> None:
        self.vocabulary = vocabulary
        self.tokenizer: Tokenizer | None = None
        self.decoder = decoder
        self.tags = tags
        self.predicts = predicts
        self.kinds = kinds
        self.pruner = pruner
        self.pieces = pieces
        self.at_once = threads
        self.sessions = {name: Session(contents) for name, contents in graphs.items() if name != "lstm"}
        self.label_allowed = vocabulary.allowed_labels
        self._layers, spell = _read_lstms(graphs["lstm"]) if "lstm" in graphs else ({}, None)
        if "characters" in self.sessions:
            spell = self._read_letters
        self._forms = FormVectors(spell) if spell else None

    def score_only_arcs(self) -> None:
        """Leave parts of higher order out."""
        self.kinds = ()

    def score(self, batch: Batch[Any]) -> OnnxScores:
        """Read a batch of at least one sentence."""
        given = self._columns(batch)
        if self.pieces is not None:
            given |= self._read_pieces(self.pieces, batch)
        if self._layers:
            given |= self._read_words(given)
        return OnnxScores(self, batch.lengths, self.sessions["words"](given))

    def _columns(self, batch: Batch[Any]) -> dict[str, NDArray[Any]]:
        """Return the inputs of a recurrent encoder, (P, ...) for all positions except padding, and their places."""
        sizes = batch.lengths + 1
        inside = np.arange(batch.words.shape[1]) < sizes[:, None]  # (B, N)
        names = ("words", "upos", "xpos", "lemmas", "feats", "pretrained", "treebanks")
        given = {name: getattr(batch, name)[inside] for name in names}
        if self._forms is not None:
            given["forms"], given["spelling"] = self._forms(batch)
            given["spelling"] = given["spelling"][inside]
        if "rows" in self.sessions["words"].inputs:
            sentence, position = np.nonzero(inside)
            rows = np.full(inside.shape, len(sentence))
            rows[inside] = np.arange(len(sentence))
            places = position * len(sizes) + sentence
            given |= {"rows": rows.T, "places": places, "inside": inside.T[..., None]}
        return given | {"sizes": sizes}

    def _read_words(self, given: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """States of LSTMs outside of graphs, and what others read."""
        inputs, sizes = self.sessions["inputs"](given), given["sizes"]
        at, starts = np.arange(int(sizes.sum())), np.cumsum(sizes) - sizes
        found: dict[str, NDArray[Any]] = {}
        for number, vectors in inputs.items():
            found[f"inputs.{number}"] = vectors
            read = to_bytes(vectors) if number in self._layers else None
            for depth, layer in enumerate(self._layers.get(number, ()), 1):
                assert read is not None
                read = layer(read, at, starts, sizes)
                found[f"states.{number}.{depth}"] = np.ascontiguousarray(read.rows[:, : 2 * layer.size])
        return found

    def _read_letters(self, letters: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.float32]:
        return self.sessions["characters"]({"characters": letters[:, : lengths.max()]})["vectors"]

    def _read_pieces(self, pieces: Pieces, batch: Batch[Any]) -> dict[str, NDArray[Any]]:
        """Return the word vectors that a transformer computes from pieces."""
        starts = np.cumsum(batch.lengths + 1) - batch.lengths - 1
        cut = pieces(batch.forms, starts)
        session = self.sessions["pieces"]
        vectors, places = [], []
        lengths = cut.inputs["attention_mask"].sum(1)
        for group in groups(lengths, PIECES, PADDING):
            width = int(lengths[group[0]])
            given = {name: cut.inputs[name][group, :width] for name in session.inputs}
            place = cut.place[group, :width]
            vectors.append(session(given)["vectors"][place >= 0])
            places.append(place[place >= 0])
        place = np.concatenate(places)
        count = np.bincount(place, minlength=int((batch.lengths + 1).sum()))
        is_root = np.zeros(len(count), bool)
        is_root[starts] = True
        return {
            "pieces": np.concatenate(vectors),
            "place": place[:, None],
            "count": count.clip(min=1).astype(np.float32)[:, None],
            "is_root": is_root[:, None],
        }


Spell = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float32]]
"""From the letters of forms (U, C) and how many each has (U,) to vectors of forms."""


def _read_lstms(weights: bytes) -> tuple[dict[str, list[ByteLSTM]], Spell | None]:
    """Layers of each encoder, by its number, and what reads letters."""
    arrays = Session(weights)({})
    of_layer: dict[str, dict[str, NDArray[Any]]] = {}
    for name, array in arrays.items():
        first, second, *rest = name.split(".")
        of_layer.setdefault(f"{first}.{second}", {})[".".join(rest)] = array
    layers: dict[str, list[ByteLSTM]] = {}
    spellers: list[tuple[Bytes, ByteLSTM]] = []
    for name, own in of_layer.items():
        kind, number = name.split(".")
        if kind == "letters":
            spellers.append((to_bytes(arrays[f"alphabet.{number}"]), ByteLSTM(own)))
        elif kind != "alphabet":
            layers.setdefault(kind, []).append(ByteLSTM(own))

    def spell(letters: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.float32]:
        at = letters[np.arange(letters.shape[1]) < lengths[:, None]]
        ends = np.cumsum(lengths)
        found = []
        for alphabet, layer in spellers:
            states = layer(alphabet, at, ends - lengths, lengths).rows
            last = [states[ends - 1, : layer.size], states[ends - lengths, layer.size : 2 * layer.size]]
            found.append((np.concatenate(last, 1).astype(np.float32) - MIDDLE) / np.float32(LARGEST))
        return np.concatenate(found, 1)

    return layers, spell if spellers else None


class CutWords(NamedTuple):
    """Split the words of a batch into pieces, in stretches that fit the transformer."""

    inputs: dict[str, NDArray[np.int64]]  # (stretches, pieces)
    place: NDArray[np.int64]  # (stretches, pieces) position of the word among all, or -1


class Pieces:
    """Cuts words into pieces as the tokenizer of a transformer does.

    Args:
        tokenizer: contents of its `tokenizer.json`.
        longest: most pieces of a stretch.
        padding: number of the piece that fills stretches up.
        case: tell words with upper case by the type of their pieces.
    """

    def __init__(self, tokenizer: bytes, longest: int, padding: int, case: bool = False) -> None:
        with importing_extra():
            from tokenizers import Tokenizer
        self._tokenizer = Tokenizer.from_str(tokenizer.decode())
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(longest)
        self._padding = padding
        self._case = case

    def __call__(self, forms: list[list[str]], starts: NDArray[np.int64]) -> CutWords:
        """Cut the words of sentences that start at some positions."""
        stretches = [
            (stretch, b)
            for b, encoding in enumerate(self._tokenizer.encode_batch(forms, is_pretokenized=True))
            for stretch in (encoding, *encoding.overflowing)
        ]
        shape = len(stretches), max(len(stretch.ids) for stretch, _ in stretches)
        ids, mask = np.full(shape, self._padding, np.int64), np.zeros(shape, np.int64)
        types, place = np.zeros(shape, np.int64), np.full(shape, -1, np.int64)
        for row, (stretch, b) in enumerate(stretches):
            size, start = len(stretch.ids), starts[b]
            ids[row, :size], mask[row, :size], types[row, :size] = stretch.ids, 1, stretch.type_ids
            place[row, :size] = [-1 if word is None else start + word + 1 for word in stretch.word_ids]
            if self._case:
                upper = [form != form.lower() for form in forms[b]]
                types[row, :size] = [word is not None and upper[word] for word in stretch.word_ids]
        return CutWords({"input_ids": ids, "attention_mask": mask, "token_type_ids": types}, place)


class FormVectors:
    """Character vectors of forms, kept from batch to batch.

    Args:
        spell: computes them.
    """

    def __init__(self, spell: Spell) -> None:
        self._spell = spell
        self._rows: dict[str | None, int] = {}  # of each form; None is the root
        self._vectors = np.empty((0, 0), np.float32)
        self._lock = Lock()

    def __call__(self, batch: Batch[Any]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Vectors of forms, and the row of each word's form (B, N)."""
        with self._lock:
            return self._look_up(batch)

    def _look_up(self, batch: Batch[Any]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        forms: list[str | None] = [None, *batch.distinct_forms]
        if len(self._rows) + len(forms) > KEPT_FORMS:
            self._rows, self._vectors = {}, np.empty((0, 0), np.float32)  # other threads may still read the old ones
        new = [number for number, form in enumerate(forms) if form not in self._rows]
        if new:
            letters = batch.characters[new]
            vectors = self._spell(letters, (letters != PAD).sum(1))
            first = len(self._rows)
            if len(self._vectors) < first + len(new):
                grown = np.empty((2 * (first + len(new)), vectors.shape[1]), np.float32)
                grown[:first] = self._vectors[:first].reshape(first, vectors.shape[1])
                self._vectors = grown
            self._vectors[first : first + len(new)] = vectors
            self._rows.update((forms[number], first + i) for i, number in enumerate(new))
        rows = np.array([self._rows[form] for form in forms])
        return self._vectors, rows[batch.spelling]


class OnnxScores:
    """Scores of one batch; implements `BatchScores`.

    Args:
        backend: computes them.
        lengths: (B,) words of each sentence.
        words: outputs of the graph `words`, for all positions except padding.
    """

    def __init__(self, backend: OnnxBackend, lengths: NDArray[np.int64], words: dict[str, NDArray[Any]]) -> None:
        self.backend = backend
        self.lengths = lengths
        self.words = words
        self.starts = np.cumsum(lengths + 1) - lengths - 1  # of each sentence among all positions
        self._arcs: NDArray[np.float32] | None = None

    def _dense(self, name: str) -> NDArray[np.float32]:
        """(B, N, N) scores of all arcs by the parser, `arc`, or by its pruner."""
        roles = {role: self._pad(self.words[f"{name}.{role}"]) for role in ("modifier", "head")}
        scores: NDArray[np.float32] = self.backend.sessions["arcs"](roles | {"lengths": self.lengths})["scores"]
        return scores

    def _pad(self, packed: NDArray[np.float32]) -> NDArray[np.float32]:
        padded = np.zeros((len(self.lengths), int(self.lengths.max()) + 1, packed.shape[1]), np.float32)
        padded[np.arange(padded.shape[1]) <= self.lengths[:, None]] = packed
        return padded

    def arcs(self) -> NDArray[np.float32]:
        if self._arcs is None:
            self._arcs = self._dense("arc")
        return self._arcs

    def pruner_arcs(self) -> NDArray[np.float32] | None:
        return self._dense("pruner") if self.backend.pruner else None

    def parts(self, decoder: Decoder, keep: NDArray[np.integer] | None = None) -> Parts:
        pruner = self.backend.pruner
        if pruner is None:
            parts = Parts.from_dense(self.arcs(), self.lengths)
        else:
            dense = self._dense("pruner")
            mask = prune(
                dense, self.lengths, pruner.max_heads, pruner.ratio, decoder.single_root, decoder.projective, keep
            )
            parts = Parts.from_dense(dense, self.lengths, mask)
            parts = parts.with_scores(arc_score=self._score_arcs(parts))
        return parts.with_scores(**self._score_parts(parts)) if self.backend.kinds else parts

    def _score_arcs(self, parts: Parts) -> NDArray[np.floating]:
        sentence = sentence_of_arcs(parts)
        if self._arcs is not None:
            return self._arcs[sentence, parts.modifier, parts.head]
        first = self.starts[sentence]
        roles = self.words["arc.modifier"], self.words["arc.head"]
        return score_pairs(first + parts.modifier, first + parts.head, *roles)

    def _score_parts(self, parts: Parts) -> dict[str, NDArray[np.floating]]:
        words = self.words
        spots = Spots(self.starts, self.starts, np.full(len(self.lengths), len(words["arc.head"])))
        scores = {}
        for kind in self.backend.kinds:
            third = words.get(f"parts.third.{HIGHER_ORDER[kind].rows}")
            roles = words["parts.head"], words["parts.modifier"], third, words[f"parts.column.{kind}"]
            scores[kind] = score_parts(kind, parts, spots, *roles)
        return scores

    def arc_rows(self) -> Iterator[tuple[int, NDArray[np.float32]]]:
        modifier, head = self.words["arc.modifier"], self.words["arc.head"]
        step = max(1, BLOCK_CELLS // len(head))
        for start in range(1, len(head), step):
            block = modifier[start : start + step] @ head.T
            row = np.arange(len(block))
            block[row, start + row] = -np.inf
            yield start, block

    def labels(self, heads: NDArray[np.integer]) -> NDArray[np.int64]:
        sentence, m = np.nonzero(heads >= 0)
        h, start = heads[sentence, m], self.starts[sentence]
        label = np.zeros(heads.shape, np.int64)
        label[sentence, m] = self._best_labels(start + m, start + h, h == 0)
        return label

    def arc_labels(self, parts: Parts) -> NDArray[np.int32]:
        first = self.starts[sentence_of_arcs(parts)]
        return self._best_labels(first + parts.modifier, first + parts.head, parts.head == 0).astype(np.int32)

    def tags(self, probabilities: bool = False) -> dict[str, Tags]:
        if not self.backend.predicts:
            return {}
        is_word = np.ones(len(self.words["tags"]), bool)
        is_word[self.starts] = False
        words = self.words["tags"][is_word]
        found = {
            name: Tags(np.empty(len(words), np.int64), np.empty(len(words)) if probabilities else None)
            for name in self.backend.predicts
        }
        for start in range(0, len(words), LABELLED):
            some = slice(start, start + LABELLED)
            scores = self.backend.sessions["tags"]({"words": words[some]})
            for name, (classes, probability) in found.items():
                classes[some] = scores[name].argmax(1)
                if probability is not None:
                    probability[some] = _highest_probability(scores[name])
        return found

    def label_scores(self, heads: NDArray[np.integer], words: NDArray[np.bool_]) -> NDArray[np.float64]:
        sentence, m = np.nonzero(words)
        h, start = heads[sentence, m], self.starts[sentence]
        found = np.empty((len(m), self.backend.label_allowed.shape[1]))
        for some, scores in self._score_labels(start + m, start + h, h == 0):
            found[some] = scores
            found[some] += np.log(_highest_probability(scores))[:, None] - scores.max(1, keepdims=True)
        return found

    def _score_labels(
        self, modifier: NDArray[np.int64], head: NDArray[np.int64], from_root: NDArray[np.bool_]
    ) -> Iterator[tuple[slice, NDArray[np.float32]]]:
        """Yield scores of labels of some arcs, group by group: the slice of the arcs, and scores (words, L)."""
        session = self.backend.sessions["labels"]
        forbidden = ~self.backend.label_allowed[from_root.astype(np.int64)]
        for start in range(0, len(modifier), LABELLED):
            some = slice(start, start + LABELLED)
            roles = {"modifier": modifier[some], "head": head[some]}
            scores = session({name: self.words[f"label.{name}"][place] for name, place in roles.items()})["scores"]
            scores[forbidden[some]] = -np.inf
            yield some, scores

    def _best_labels(
        self, modifier: NDArray[np.int64], head: NDArray[np.int64], from_root: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """(W,) best labels of some arcs."""
        best = np.empty(len(modifier), np.int64)
        for some, scores in self._score_labels(modifier, head, from_root):
            best[some] = scores.argmax(1)
        return best


def _highest_probability(scores: NDArray[np.float32]) -> NDArray[np.float64]:
    """(W,) probability of the best of the classes, from (W, classes)."""
    differences = (scores - scores.max(1, keepdims=True)).astype(np.float64)
    highest: NDArray[np.float64] = 1 / np.exp(differences).sum(1)
    return highest
