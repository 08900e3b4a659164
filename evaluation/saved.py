"""A treebank with the scores that a parser gave it, in memory or saved to a folder.

A folder has `about.json`, the sentences as `sentences.conll`, and flat arrays as `.npy` files, which are mapped into
memory when the folder is opened: scores are read only when a decoder needs them, and no code from the folder is run.
Arrays are in the order of the batches that were scored, and `position` says where in the file each sentence is.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from arbora.data.conll import Sentence, read_conll
from arbora.decoders.parts.batch import Parts
from arbora.decoders.parts.kinds import KINDS, TREE_FEATURES

FORMAT = 1
ABOUT = "about.json"
SENTENCES = "sentences.conll"
KIND = "arbora scores"
_DTYPES: dict[str, type[np.generic]] = {
    "length": np.int32,  # words of each sentence
    "position": np.int64,  # of each sentence in the file
    "line": np.int64,  # of each sentence of the file, in the file's order
    "candidates": np.int32,  # heads of each word
    "head": np.int32,  # of each arc
    "arc_score": np.float32,
    "label": np.int32,  # best label of each arc
}


@dataclass(frozen=True, eq=False)
class ScoredTreebank:
    """Sentences with their gold trees, and the scores of their candidate parts."""

    sentences: list[Sentence]  # in the order of the file
    batches: list[Parts]  # parts of all sentences, longest sentences first
    position: NDArray[np.int64]  # (S,) place in `sentences` of each sentence of the batches, one batch after the other
    label: list[NDArray[np.int32]]  # for each batch (A,) number of the best label of each candidate arc
    labels: list[str]  # names of the labels
    about: dict[str, Any]  # where the scores come from, ready for JSON

    def __post_init__(self) -> None:
        lengths = np.array([len(sentence) for sentence in self.sentences], np.int64)
        if sorted(self.position.tolist()) != list(range(len(lengths))):
            raise ValueError("position must name each sentence once")
        found = np.concatenate([parts.lengths for parts in self.batches]) if self.batches else np.empty(0, np.int32)
        if not np.array_equal(found, lengths[self.position]):
            raise ValueError("batches and sentences do not have the same numbers of words")
        for parts, label in zip(self.batches, self.label, strict=True):
            if label.shape != parts.head.shape or not (
                0 <= label.min(initial=0) <= label.max(initial=0) < len(self.labels)
            ):
                raise ValueError("each candidate arc needs the number of one of the labels")

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """(S,) words of each sentence, in the order of the file."""
        return np.array([len(sentence) for sentence in self.sentences], np.int64)

    @property
    def words(self) -> int:
        """Number of words in all sentences."""
        return int(self.lengths.sum())

    @property
    def arcs(self) -> int:
        """Number of candidate arcs of all words."""
        return sum(len(parts.head) for parts in self.batches)

    def places(self) -> Iterator[NDArray[np.int64]]:
        """For each batch the places of its sentences in `sentences`."""
        start = 0
        for parts in self.batches:
            yield self.position[start : start + len(parts.lengths)]
            start += len(parts.lengths)

    def subset(self, chosen: NDArray[np.bool_]) -> ScoredTreebank:
        """Some of the sentences.

        Args:
            chosen: (S,) which of them, in the order of the file.
        """
        batches, label, position = [], [], [np.empty(0, np.int64)]
        new_place = np.cumsum(chosen) - 1
        for parts, places, own in zip(self.batches, self.places(), self.label, strict=True):
            kept = np.flatnonzero(chosen[places])
            if len(kept):
                batches.append(parts.subset(kept))
                label.append(own[parts.entries("arc", kept)])
                position.append(new_place[places[kept]])
        return replace(
            self,
            sentences=[sentence for sentence, there in zip(self.sentences, chosen, strict=True) if there],
            batches=batches,
            position=np.concatenate(position),
            label=label,
        )

    def first_order(self) -> ScoredTreebank:
        """The same sentences with scores of arcs only; how long it takes to score these is not known."""
        return replace(self, batches=[parts.only() for parts in self.batches], about={**self.about, "scoring": None})


class Writer:
    """Writes scored batches to a folder as they come, so that memory does not grow with their number."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._columns: dict[str, _Column] = {}
        self._sizes: list[int] = []

    def add(self, parts: Parts, position: Sequence[int], label: NDArray[np.int32]) -> None:
        """Write one batch.

        Args:
            parts: scores of the batch; all batches must have the same kinds.
            position: place of each sentence in the file.
            label: (A,) best label of each candidate arc.
        """
        arrays: dict[str, NDArray[Any]] = {
            "length": parts.lengths,
            "position": np.asarray(position),
            "candidates": np.diff(parts.modifier_offsets),
            "head": parts.head,
            "arc_score": parts.arc_score,
            "label": label,
            **({"tags": parts.tags} if set(TREE_FEATURES) & set(parts.kinds) else {}),
            **{kind: getattr(parts, kind) for kind in parts.kinds},
        }
        if self._columns and arrays.keys() != self._columns.keys():
            raise ValueError("all batches must have parts of the same kinds")
        for name, array in arrays.items():
            if name not in self._columns:
                self._columns[name] = _Column(
                    self._folder / f"{name}.npy", {**_DTYPES, "tags": np.uint8}.get(name, np.float32)
                )
            self._columns[name].append(array)
        self._sizes.append(len(parts.lengths))

    def finish(self, sentences: Sequence[Sentence], labels: Sequence[str], about: Mapping[str, Any]) -> None:
        """Write the sentences and `about.json`, which belong to all batches."""
        for column in self._columns.values():
            column.close()
        np.save(self._folder / "line.npy", np.array([sentence.line_number for sentence in sentences], np.int64))
        with (self._folder / SENTENCES).open("w", encoding="utf-8", newline="") as file:
            file.writelines("\n".join([*sentence.lines, "", ""]) for sentence in sentences)
        kinds = [name for name in self._columns if name in KINDS]
        described = {
            "what": KIND,
            "format": FORMAT,
            "batches": self._sizes,
            "kinds": kinds,
            "labels": list(labels),
            "source": sentences[0].source if sentences else "",
            "about": dict(about),
        }
        (self._folder / ABOUT).write_text(json.dumps(described, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


class _Column:
    """A one-dimensional .npy file that grows."""

    def __init__(self, path: Path, dtype: type[np.generic]) -> None:
        self._dtype = np.dtype(dtype)
        self._file: BinaryIO = path.open("wb")
        self._size = 0
        self._header()

    def _header(self) -> None:
        """Write the header. numpy leaves room in it, so that it has the same length for any number of entries."""
        shape = {"descr": self._dtype.newbyteorder("<").str, "fortran_order": False, "shape": (self._size,)}
        self._file.seek(0)
        np.lib.format.write_array_header_1_0(self._file, shape)
        if self._size == 0:
            self._start = self._file.tell()
        assert self._file.tell() == self._start

    def append(self, array: NDArray[Any]) -> None:
        entries = np.ascontiguousarray(array, dtype=self._dtype.newbyteorder("<"))
        self._file.write(entries.data)
        self._size += len(entries)

    def close(self) -> None:
        self._header()
        self._file.close()


def save(scored: ScoredTreebank, folder: str | Path) -> None:
    """Save scores to a folder. An older folder of scores at this path is replaced once everything is written."""
    with new_folder(folder, ABOUT, KIND) as place:
        writer = Writer(place)
        for parts, position, label in zip(scored.batches, scored.places(), scored.label, strict=True):
            writer.add(parts, position.tolist(), label)
        writer.finish(scored.sentences, scored.labels, scored.about)


def save_parts(
    folder: str | Path, parts: Parts, heads: NDArray[np.integer], forms: Sequence[Sequence[str]] | None = None
) -> None:
    """Save parts with their right trees to a folder, as `save` does; all arcs get the same label.

    Args:
        folder: to write.
        parts: of any number of sentences.
        heads: (B, N) the right trees.
        forms: words of each sentence; numbers unless given.
    """
    sentences, line = [], 1
    for b, n in enumerate(parts.lengths.tolist()):
        words = [str(m) for m in range(1, n + 1)] if forms is None else forms[b]
        if len(words) != n or heads.shape[1] <= n:
            raise ValueError(
                f"sentence {b} has {n} words: give {n} forms, and {n + 1} heads (the first is for the root)"
            )
        rows = [(str(m + 1), word, *"____", str(heads[b, m + 1]), "dep", "_", "_") for m, word in enumerate(words)]
        (sentence,) = read_conll(io.StringIO("\n".join(map("\t".join, rows)) + "\n\n"), name=str(folder))
        sentences.append(replace(sentence, line_number=line))
        line += n + 1
    label, position = np.zeros(len(parts.head), np.int32), np.arange(len(parts.lengths))
    save(ScoredTreebank(sentences, [parts], position, [label], ["dep"], {}), folder)


def is_saved(path: str | Path) -> bool:
    """Return whether the path is a folder of scores."""
    return (Path(path) / ABOUT).is_file()


def load(folder: str | Path) -> ScoredTreebank:
    """Open a folder of scores, its arrays mapped into memory.

    Raises:
        ValueError: the folder does not hold scores, or its files do not fit together.
    """
    place = Path(folder)
    try:
        described = json.loads((place / ABOUT).read_text(encoding="utf-8"))
        if described["what"] != KIND or described["format"] != FORMAT:
            raise ValueError(f"{ABOUT} is not of format {FORMAT}, the one that this version of arbora reads")
        if unknown := set(described["kinds"]) - set(KINDS):
            raise ValueError(f"this version of arbora has no parts of the kind {min(unknown)}")
        arrays = {name: _open(place / f"{name}.npy", dtype) for name, dtype in _DTYPES.items()}
        if set(TREE_FEATURES) & set(described["kinds"]):
            arrays["tags"] = _open(place / "tags.npy", np.uint8)
        kinds = {name: _open(place / f"{name}.npy", np.float32) for name in described["kinds"]}
        sentences = [
            replace(sentence, source=str(described["source"]), line_number=int(line))
            for sentence, line in zip(read_conll(place / SENTENCES), arrays["line"], strict=True)
        ]
        batches, label = _cut(arrays, kinds, described["batches"])
        return ScoredTreebank(
            sentences, batches, np.array(arrays["position"]), label, list(described["labels"]), described["about"]
        )
    except OSError as error:
        raise ValueError(f"{folder}: {Path(error.filename or '').name}: {error.strerror}") from error
    except (KeyError, TypeError, IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"{folder}: {ABOUT} is incomplete ({error!r}); save the scores again") from error
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from error


def _open(path: Path, dtype: type[np.generic]) -> NDArray[Any]:
    """An array mapped into memory, copied on write: kernels would be compiled anew for read-only arrays."""
    array: NDArray[Any] = np.load(path, mmap_mode="c", allow_pickle=False)
    if array.ndim != 1 or array.dtype != dtype:
        raise ValueError(f"{path.name} must hold one row of {np.dtype(dtype).name}")
    return array


def _cut(
    arrays: Mapping[str, NDArray[Any]], kinds: Mapping[str, NDArray[Any]], sizes: Sequence[int]
) -> tuple[list[Parts], list[NDArray[np.int32]]]:
    """Batches and labels of their arcs, as slices of the arrays."""
    at = dict.fromkeys([*arrays, *kinds], 0)

    def take(name: str, count: int) -> NDArray[Any]:
        start = at[name]
        at[name] += int(count)
        piece: NDArray[Any] = ({**arrays, **kinds})[name][start : at[name]]
        if len(piece) < count:
            raise ValueError(f"{name}.npy ends too early")
        return piece.view(np.ndarray)

    batches, labels = [], []
    for size in sizes:
        lengths = take("length", size)
        counts = take("candidates", lengths.sum())
        modifier_offsets = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        word_offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        head = take("head", modifier_offsets[-1])
        score = take("arc_score", len(head))
        parts = Parts(lengths, head, score, modifier_offsets[word_offsets], modifier_offsets)
        if "tags" in arrays:
            parts = parts.with_tags(take("tags", parts.word_offsets[-1]))
        higher = {kind: take(kind, parts.part_offsets(kind)[-1]) for kind in kinds}
        batches.append(parts.with_scores(**higher) if higher else parts)
        labels.append(take("label", len(head)))
    for name in ("length", "candidates", "head", "arc_score", "label", *kinds):
        if at[name] != len({**arrays, **kinds}[name]):
            raise ValueError(f"{name}.npy has more entries than belong to the sentences")
    return batches, labels


@contextmanager
def new_folder(path: str | Path, mark: str, what: str) -> Iterator[Path]:
    """Context manager of a temporary folder to write to, which is renamed to `path` at the end.

    Args:
        path: of the folder; an older one is removed only at the end.
        mark: name of a JSON file that such folders have, with `what` in it. A folder without it is not replaced.
        what: what is written.
    """
    goal = Path(path)
    check_replaceable(goal, mark, what)
    goal.parent.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix=f".{goal.name}-", dir=goal.parent))
    try:
        yield place
        place.chmod(0o777 & ~_umask())
        check_replaceable(goal, mark, what)
        old = None
        if goal.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{goal.name}-", dir=goal.parent))
            os.replace(goal, old)
        os.replace(place, goal)
        if old is not None:
            shutil.rmtree(old)
    finally:
        if place.exists():
            shutil.rmtree(place, ignore_errors=True)


def check_replaceable(path: str | Path, mark: str, what: str) -> None:
    """Refuse to replace anything but a folder of the same sort.

    Raises:
        ValueError: there is a file, or a folder with other contents.
    """
    goal = Path(path)
    if not goal.exists() or (goal.is_dir() and not any(goal.iterdir())):
        return
    try:
        if json.loads((goal / mark).read_text(encoding="utf-8"))["what"] == what:
            return
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise ValueError(f"{goal} exists and does not hold {what}; name another folder, or remove it")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
