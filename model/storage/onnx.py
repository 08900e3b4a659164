"""The network of a parser as ONNX graphs, one per module, and a parser that runs them in place of torch.

    encoder       columns of a batch -> vectors of words (B, N, size), and those of the lower layer that taggers read
    encoder.model of a transformer, in place of it: pieces of words -> their vectors
    arc           vectors, lengths -> scores of arcs (B, N, N)
    pruner.arc    the same, of the pruner; one that was trained before has its own pruner.encoder
    parts         vectors -> vectors of words in the roles of higher-order parts
    features      vectors -> vectors that score features of whole trees
    label         vectors, heads -> scores of labels (B, N, L)

Sentences B, positions N, distinct forms, characters and features of a word are free in all of them. Cutting words into
pieces, picking parts out of products of roles, and searching are left to the same code as without ONNX.

Graphs come from torch's exporter by tracing. That by `torch.export` does not take packed sequences (torch 2.13), which
recurrent encoders need so that padding changes nothing.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from arbora.data.batch import Batch, batch_of
from arbora.data.conll import Sentence
from arbora.data.vocabulary import PAD, Vocabulary
from arbora.extras import importing_extra
from arbora.model.encoders.embeddings import CharacterLSTM, InputLayer
from arbora.model.encoders.encoder import Between, EncoderModule
from arbora.model.encoders.transformer import TransformerModule
from arbora.model.network import Network
from arbora.model.pruners.marginal import MarginalPruner
from arbora.model.scorers.multilinear import Multilinear, PartScorer, Vectors
from arbora.model.storage.checkpoint import naming_file
from arbora.model.storage.folder import GRAPHS, Precision, read_config, read_file
from arbora.model.tensors import to_tensors

OPSET = 17

LABELLED = 10_000
"""Positions of a batch that are labelled at a time, at most."""

SENTENCES, POSITIONS = "sentences", "positions"
AXES = {
    "lengths": {0: SENTENCES},
    "feats": {0: SENTENCES, 1: POSITIONS, 2: "features"},
    "characters": {0: "forms", 1: "characters"},
}
"""Axes that are free, of inputs that are not (sentences, positions, ...)."""


@dataclass
class Source:
    """A module that becomes a graph.

    Args:
        module: takes tensors, and gives a tensor or several.
        inputs: their names.
        outputs: names of what it gives.
        example: tensors to trace it with.
    """

    module: nn.Module
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    example: tuple[Tensor, ...]


class _SummedEmbeddings(nn.Module):
    """`nn.EmbeddingBag` in operations that ONNX has."""

    def __init__(self, bag: nn.EmbeddingBag) -> None:
        super().__init__()
        self.weight = bag.weight

    def forward(self, indices: Tensor) -> Tensor:
        vectors = nn.functional.embedding(indices, self.weight)
        return (vectors * (indices != PAD)[..., None]).sum(1)


class _LastStates(nn.Module):
    """`CharacterLSTM` with states that are picked from the output, since the exporter takes no others of it."""

    def __init__(self, network: CharacterLSTM) -> None:
        super().__init__()
        self.embedding = network.embedding
        self.lstm = network.lstm

    def forward(self, characters: Tensor) -> Tensor:
        lengths = (characters != PAD).sum(1)
        letters = self.embedding(characters)
        packed = pack_padded_sequence(letters, lengths, batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=letters.shape[1])
        left_to_right, right_to_left = states.split(self.lstm.hidden_size, -1)  # (U, C, size / 2)
        last = (lengths - 1)[:, None, None].expand(-1, 1, self.lstm.hidden_size)
        return torch.cat([left_to_right.gather(1, last).squeeze(1), right_to_left[:, 0]], -1)


class _Encoding(nn.Module):
    """An encoder that takes the columns of a batch one by one."""

    def __init__(self, encoder: EncoderModule, layer: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.layer = layer
        self.columns = columns_of(encoder)

    def forward(self, *columns: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        given = dict(zip(self.columns, columns, strict=True))
        nothing = columns[0].new_zeros(0)
        names = (name for name in Batch.__dataclass_fields__ if name != "forms")
        batch = Batch(**{name: given.get(name, nothing) for name in names}, forms=[])
        lower: list[Tensor] = []

        def keep(layer: int, vectors: Tensor) -> Tensor:
            if layer == self.layer:
                lower.append(vectors)
            return vectors

        vectors: Tensor = self.encoder(batch, keep)
        return (vectors, *lower) if lower else vectors  # type: ignore[return-value]


class _Pieces(nn.Module):
    """A transformer that takes its inputs one by one."""

    def __init__(self, model: nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model = model
        self.names = names

    def forward(self, *pieces: Tensor) -> Tensor:
        vectors: Tensor = self.model(**dict(zip(self.names, pieces, strict=True))).last_hidden_state
        return vectors


class _Roles(nn.Module):
    """A part scorer that gives a tuple."""

    def __init__(self, parts: PartScorer) -> None:
        super().__init__()
        self.parts = parts

    def forward(self, vectors: Tensor) -> tuple[Tensor, ...]:
        roles = self.parts(vectors)
        return (roles.head, roles.modifier, *roles.third.values(), *roles.columns.values())


def columns_of(encoder: EncoderModule) -> tuple[str, ...]:
    """Names of the columns of a batch that a recurrent encoder reads."""
    layer = cast(InputLayer, encoder.input)
    # Where words have no embeddings, they still say how many positions there are.
    columns = ["lengths", "words", *(name for name in layer.columns if name != "words")]
    columns += ["feats"] * (layer.feats is not None)
    columns += ["characters", "spelling"] * (layer.characters is not None)
    columns += ["pretrained"] * (layer.vectors is not None)
    return tuple(columns)


def export_graphs(parser: Network, precision: Precision = "fp32") -> dict[str, bytes]:
    """The graphs of a parser, by module.

    Args:
        parser: as `load` gives it.
        precision: `fp16` keeps weights in half of their size and computes as before; `int8` multiplies whole numbers of
            one byte, by onnxruntime's dynamic quantisation.
    """
    with importing_extra():
        import onnx  # noqa: F401
    pack = {"fp32": lambda graph: graph, "fp16": _halve, "int8": _quantise}[precision]
    return {name: pack(_export(source)) for name, source in _sources(parser).items()}


def _sources(parser: Network) -> dict[str, Source]:
    parser = deepcopy(parser).cpu().eval().requires_grad_(False)
    for module in parser.modules():
        if isinstance(module, InputLayer) and isinstance(module.feats, nn.EmbeddingBag):
            module.feats = _SummedEmbeddings(module.feats)  # type: ignore[assignment]
        if isinstance(module, InputLayer) and isinstance(module.characters, CharacterLSTM):
            module.characters = _LastStates(module.characters)
    batch = sample_batch(parser.vocabulary, (3, 1))
    vectors = torch.randn(*batch.words.shape, parser.encoder.size)
    with_lengths = (("vectors", "lengths"), ("scores",), (vectors, batch.lengths))
    sources = {
        **_encoder("encoder", parser.encoder, batch, _tagged_layer(parser)),
        "arc": Source(parser.arc, *with_lengths),
        "label": Source(parser.label, ("vectors", "heads"), ("scores",), (vectors, batch.heads.clamp(min=0))),
    }
    if parser.parts is not None:
        roles = parser.parts(vectors)
        names = ["head", "modifier", *(f"third.{kind}" for kind in roles.third)]
        names += [f"column.{kind}" for kind in roles.columns]
        sources["parts"] = Source(_Roles(parser.parts), ("vectors",), tuple(names), (vectors,))
    if parser.features is not None:
        sources["features"] = Source(parser.features.project, ("vectors",), ("hidden",), (vectors,))
    if isinstance(parser.pruner, MarginalPruner):
        pruner = cast(Any, parser.pruner)
        if hasattr(pruner, "encoder"):
            sources |= _encoder("pruner.encoder", pruner.encoder, batch)
            with_lengths = (*with_lengths[:2], (torch.randn(*batch.words.shape, pruner.encoder.size), batch.lengths))
        sources["pruner.arc"] = Source(pruner.arc, *with_lengths)
    return sources


def sample_batch(vocabulary: Vocabulary, lengths: Sequence[int]) -> Batch[Tensor]:
    """Sentences of these lengths, of words that the vocabulary has."""
    words = cycle(["a", *vocabulary.words[:1000]])
    sentences = [Sentence.from_words(list(islice(words, length))) for length in lengths]
    return to_tensors(batch_of(sentences, vocabulary))


def _tagged_layer(parser: Network) -> int:
    """The layer below the last that taggers read; 0 where they read the last, or are not there."""
    layer = 0 if parser.taggers is None else parser.taggers.layer or 0
    return layer if layer <= len(parser.encoder.lower_sizes) else 0


def _encoder(name: str, encoder: EncoderModule, batch: Batch[Tensor], layer: int = 0) -> dict[str, Source]:
    if isinstance(encoder, TransformerModule):
        pieces = encoder.cut(batch.forms)
        names = tuple(key for key in pieces if key in encoder.tokenizer.model_input_names)
        example = tuple(pieces[key] for key in names)
        return {f"{name}.model": Source(_Pieces(encoder.model, names).eval(), names, ("vectors",), example)}
    columns = columns_of(encoder)
    example = tuple(getattr(batch, column) for column in columns)
    outputs = ("vectors", "lower") if layer else ("vectors",)
    return {name: Source(_Encoding(encoder, layer), columns, outputs, example)}


def _export(source: Source) -> bytes:
    axes = {name: AXES.get(name, {0: SENTENCES, 1: POSITIONS}) for name in source.inputs}
    axes |= {name: {0: SENTENCES, 1: f"positions of {name}"} for name in source.outputs}
    with TemporaryDirectory() as folder, warnings.catch_warnings(), _silence(), torch.no_grad():
        warnings.simplefilter("ignore")  # what is traced is checked afterwards, on other shapes
        path = Path(folder, "graph.onnx")
        torch.onnx.export(
            source.module,
            source.example,
            path,
            input_names=source.inputs,
            output_names=source.outputs,
            dynamic_axes=axes,
            opset_version=OPSET,
            dynamo=False,
        )
        if list(Path(folder).iterdir()) != [path]:
            raise ValueError("the network is too large for ONNX, of which a file has at most 2 GB")
        return path.read_bytes()


@contextmanager
def _silence() -> Iterator[None]:
    """Hide what compiled code writes to standard error: warnings of types without shapes, which it then infers."""
    kept = os.dup(2)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def _halve(graph: bytes) -> bytes:
    """Keep large weights in half of their size; the runtime widens them once, when it reads the graph."""
    import numpy as np
    from onnx import TensorProto, helper, load_from_string, numpy_helper

    model = load_from_string(graph)
    widen = []
    for weight in model.graph.initializer:
        values = numpy_helper.to_array(weight)
        if weight.data_type != TensorProto.FLOAT or values.size < 64 or abs(values).max() > np.finfo(np.float16).max:
            continue
        name = weight.name
        weight.CopyFrom(numpy_helper.from_array(values.astype(np.float16), f"{name}.half"))
        widen.append(helper.make_node("Cast", [weight.name], [name], name=f"{name}.widen", to=TensorProto.FLOAT))
    nodes = [*widen, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return cast(bytes, model.SerializeToString())


def _quantise(graph: bytes) -> bytes:
    """Multiply whole numbers of one byte: weights once and for all, the rest when the graph runs."""
    from onnx import load_from_string
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with TemporaryDirectory() as folder:
        path = Path(folder, "graph.onnx")
        logger = logging.getLogger()
        level = logger.level
        logger.setLevel(logging.ERROR)  # it recommends a preprocessing that changes nothing here
        try:
            quantize_dynamic(
                load_from_string(graph),
                path,
                op_types_to_quantize=["MatMul", "LSTM", "Gather"],
                weight_type=QuantType.QInt8,
            )
        finally:
            logger.setLevel(level)
        return path.read_bytes()


class Graph(nn.Module):
    """A module of a parser, run by onnxruntime on the CPU."""

    def __init__(self, contents: bytes, inputs: Sequence[str] | None = None) -> None:
        super().__init__()
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 3
        try:
            self.session = onnxruntime.InferenceSession(contents, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # of a hierarchy of its own
            raise ValueError(f"not a graph that onnxruntime runs: {error}") from None
        self.inputs = [entry.name for entry in self.session.get_inputs()]
        self.outputs = [entry.name for entry in self.session.get_outputs()]
        if inputs is not None and set(self.inputs) - set(inputs):
            raise ValueError(f"takes {', '.join(self.inputs)}, where {', '.join(inputs)} was expected")

    def run(self, *tensors: Tensor) -> list[Tensor]:
        """All outputs."""
        given = {name: tensor.detach().numpy() for name, tensor in zip(self.inputs, tensors, strict=True)}
        return [torch.from_numpy(output) for output in self.session.run(None, given)]

    def forward(self, *tensors: Tensor) -> Tensor:
        """The only output."""
        (output,) = self.run(*tensors)
        return output


class _GraphEncoder(EncoderModule):
    def __init__(self, graph: Graph, encoder: EncoderModule, layer: int) -> None:
        super().__init__()
        self.graph = graph
        self.size, self.lower_sizes = encoder.size, encoder.lower_sizes
        self.layer = layer
        if len(graph.outputs) != 1 + bool(layer):
            raise ValueError(f"gives {', '.join(graph.outputs)}, which is not what taggers of this parser read")

    def forward(self, batch: Batch[Tensor], between: Between | None = None) -> Tensor:
        vectors, *lower = self.graph.run(*(getattr(batch, name) for name in self.graph.inputs))
        if between is not None and lower:
            between(self.layer, lower[0])
        return vectors


class _GraphPieces(nn.Module):
    """Stands for a transformer in its encoder."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph

    def forward(self, **pieces: Tensor) -> SimpleNamespace:
        return SimpleNamespace(last_hidden_state=self.graph(*(pieces[name] for name in self.graph.inputs)))


class _GraphParts(PartScorer):
    """Takes roles from a graph, and picks parts as every part scorer does."""

    def __init__(self, graph: Graph, settings: Multilinear) -> None:
        super().__init__(1, settings)  # weights that are not read, as small as can be
        self.graph = graph

    def forward(self, vectors: Tensor) -> Vectors:
        roles = dict(zip(self.graph.outputs, self.graph.run(vectors), strict=True))
        third = {kind: roles[f"third.{kind}"] for kind in self.triples}
        return Vectors(roles["head"], roles["modifier"], third, {kind: roles[f"column.{kind}"] for kind in self.kinds})


class _GraphLabels(nn.Module):
    """Stands for a `LabelScorer`."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph

    def forward(self, vectors: Tensor, heads: Tensor) -> Tensor:
        scores: Tensor = self.graph(vectors, heads)
        return scores

    def score_words(self, vectors: Tensor, modifier: Tensor, head: Tensor) -> Tensor:
        """As `LabelScorer` has it. The graph takes sentences as they are, long ones in pieces with heads behind."""
        sentences, positions, _ = vectors.shape
        if sentences * positions <= LABELLED:
            heads = torch.zeros(sentences * positions, dtype=torch.int64)
            heads[modifier] = head % positions
            scores: Tensor = self(vectors, heads.view(sentences, positions))
            return scores.flatten(0, 1)[modifier]
        flat, found = vectors.flatten(0, 1), []
        for some in zip(*(places.split(max(1, LABELLED // 4)) for places in (modifier, head))):
            words = len(some[0])
            heads = torch.arange(2 * words) % words + words
            found.append(self(flat[torch.cat(some)][None], heads[None])[0, :words])
        return torch.cat(found)


def attach(parser: Network, folder: Path) -> None:
    """Let a parser run the graphs of its folder in place of its modules.

    Raises:
        ValueError: there are none, or they are not those of the parser.
    """
    if not folder.is_dir():
        raise ValueError(f"{folder}: a checkpoint has no ONNX graphs; `arbora export --onnx` makes a folder that does")
    config = read_config(folder)
    if not any(name.startswith(GRAPHS) for name in config.files):
        raise ValueError(f"{folder}: exported without ONNX graphs; export it again with --onnx")

    def read(name: str, *inputs: str) -> Graph:
        file = f"{GRAPHS}{name}.onnx"
        if file not in config.files:
            raise ValueError(f"{folder / file}: missing; the parser has such a module")
        contents = read_file(folder, file, config)
        with naming_file(folder / file):
            return Graph(contents, inputs)

    attach_graphs(parser, read)


def attach_graphs(parser: Network, read: Callable[..., Graph]) -> None:
    """The same with graphs from anywhere: `read` takes the name of a module and the names of its inputs."""
    parser.encoder = _attach_encoder("encoder", parser.encoder, read, _tagged_layer(parser))
    parser.arc = cast(Any, read("arc", "vectors", "lengths"))
    parser.label = cast(Any, _GraphLabels(read("label", "vectors", "heads")))
    if parser.parts is not None:
        parser.parts = _GraphParts(read("parts", "vectors"), parser.settings["parts"])
    if parser.features is not None:
        parser.features.project = cast(Any, read("features", "vectors"))
    if isinstance(parser.pruner, MarginalPruner):
        pruner = cast(Any, parser.pruner)
        if hasattr(pruner, "encoder"):
            pruner.encoder = _attach_encoder("pruner.encoder", pruner.encoder, read)
        pruner.arc = read("pruner.arc", "vectors", "lengths")


def _attach_encoder(name: str, encoder: EncoderModule, read: Callable[..., Graph], layer: int = 0) -> EncoderModule:
    if isinstance(encoder, TransformerModule):
        encoder.model = _GraphPieces(read(f"{name}.model", *encoder.tokenizer.model_input_names))
        return encoder
    return _GraphEncoder(read(name, *columns_of(encoder)), encoder, layer)


@torch.no_grad()
def largest_difference(parser: Network, other: Network, batch: Batch[Tensor]) -> float:
    """By how much the scores of two parsers differ at most, everything counted that a graph gives.

    Of numbers above one, the difference is taken as a share. Where one score is finite and the other is not, it is
    infinite.
    """
    found = [_everything(each, batch) for each in (parser, other)]
    largest = 0.0
    for name, one in found[0].items():
        two = found[1][name]
        finite = one.isfinite()
        if one.shape != two.shape or (finite != two.isfinite()).any():
            return float("inf")
        if finite.any():
            difference = (one - two)[finite].abs() / one[finite].abs().clamp(min=1)
            largest = max(largest, float(difference.max()))
    return largest


def _everything(parser: Network, batch: Batch[Tensor]) -> dict[str, Tensor]:
    vectors, for_tags = parser.encode(batch)
    arc = parser.arc(vectors, batch.lengths)
    inside = torch.arange(batch.words.shape[1]) <= batch.lengths[:, None]
    heads = batch.is_word.long() * (batch.lengths[:, None] // 2)
    found = {"vectors": vectors[inside], "arc": arc[inside], "label": parser.label(vectors, heads)[inside]}
    if isinstance(parser.pruner, MarginalPruner):
        found["pruner"] = parser.pruner(vectors, batch)[inside]
    if parser.taggers is not None:
        found |= parser.taggers(parser.taggers.project(for_tags[inside]))
    if parser.parts is not None:
        roles = parser.parts(vectors)
        named = {"head": roles.head.unflatten(1, (-1, 2)), "modifier": roles.modifier}
        named |= {f"third {kind}": role for kind, role in roles.third.items()}
        named |= {f"column {kind}": role for kind, role in roles.columns.items()}
        found |= {name: role[:, : inside.shape[1]][inside] for name, role in named.items()}
    if parser.features is not None:
        found["features"] = parser.features.project(vectors)[inside]
    return found
