"""The network of a parser as ONNX graphs, which `arbora.model.inference.onnx_backend` runs without torch.

    characters  letters of distinct forms (U, C) -> their vectors
    pieces      of a transformer: pieces of words -> their vectors
    inputs      columns of a batch -> what an encoder by `ByteLSTM` reads
    lstm        its weights, and those of character LSTMs; it computes nothing
    words       columns of a batch, or states of `ByteLSTM` -> vectors of words in the roles in which scorers take them,
                and their tags
    arcs        words as modifiers and as heads, (B, N, size) each -> scores of all arcs (B, N, N)
    labels      modifiers and heads, (W, size) each -> scores of labels (W, L)
    tags        words in the role of taggers, (W, size) -> scores of the classes of each column

Those of recurrent encoders are written node by node; a transformer comes from torch's exporter. Words are packed,
without padding, but for the steps of SRUs and of LSTMs that graphs compute. Each weight is in one graph only.

With `int8`, products are of whole numbers of one byte. Weights have one scale a column. What they are multiplied with
has one scale a row, found when the graph runs, or a fixed one where it is the state of an LSTM, which lies between -1
and 1. So nothing depends on the other sentences of a batch. LSTMs are then outside of the graphs: see
`arbora.model.inference.byte_lstm`.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from itertools import cycle, islice
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from arbora.data.batch import Batch, batch_of
from arbora.data.conll import Sentence
from arbora.data.vocabulary import PAD, Vocabulary
from arbora.model.encoders.embeddings import CharacterCNN, CharacterLSTM, InputLayer
from arbora.model.encoders.encoder import EncoderModule
from arbora.model.encoders.lstm import LSTMModule
from arbora.model.encoders.sru import SRULayer
from arbora.model.encoders.transformer import TransformerModule
from arbora.model.network import Network
from arbora.model.pruners.marginal import FrozenPruner, KeepEverything, MarginalPruner, SharedPruner
from arbora.model.scorers.biaffine import ArcScorer
from arbora.model.scorers.multilinear import Attachment, PartScorer
from arbora.model.scorers.taggers import TagScorer
from arbora.model.storage.folder import Precision
from arbora.model.storage.graph import OPSET, Graph, quantise


class Unsupported(ValueError):
    """A part of the parser runs only with torch."""


def facts_for_graphs(network: Network) -> dict[str, Any]:
    """Facts that `OnnxBackend` needs besides the graphs."""
    pruner = network.pruner
    pruning = {"max_heads": pruner.max_heads, "ratio": pruner.ratio} if isinstance(pruner, MarginalPruner) else None
    facts: dict[str, Any] = {
        "tags": network.tags,
        "predicts": network.predicts,
        "kinds": network.parts.kinds if network.parts else (),
        "pruning": pruning,
    }
    if isinstance(network.encoder, TransformerModule):
        encoder = network.encoder
        facts["pieces"] = {"longest": encoder.longest, "padding": encoder.tokenizer.pad_token_id, "case": encoder.case}
    return facts


def sample_batch(vocabulary: Vocabulary, lengths: Sequence[int]) -> Batch[NDArray[Any]]:
    """Make sentences of these lengths from words of the vocabulary."""
    words = cycle(["a", *vocabulary.words[:1000]])
    return batch_of([Sentence.from_words(list(islice(words, length))) for length in lengths], vocabulary)


def export_graphs(network: Network, precision: Precision = "int8") -> dict[str, bytes]:
    """Return the graphs of a parser, by name.

    Args:
        network: from `load_network`.
        precision: `fp16` stores weights in half the size and computes in fp32; `int8` multiplies integers.

    Raises:
        Unsupported: a part of the parser runs only with torch.
    """
    network = deepcopy(network).cpu().eval().requires_grad_(False)
    if network.features is not None:
        raise Unsupported("a parser with tree features runs only with torch")
    if network.pruner is not None and not isinstance(network.pruner, SharedPruner | FrozenPruner | KeepEverything):
        name = type(network.settings["pruner"]).__name__
        raise Unsupported(f"a parser with the pruner {name} runs only with torch")
    encoders = [network.encoder]
    if isinstance(network.pruner, FrozenPruner):
        encoders.append(network.pruner.encoder)
    if len({isinstance(encoder, TransformerModule) for encoder in encoders}) > 1 or (
        len(encoders) > 1 and isinstance(network.encoder, TransformerModule)
    ):
        raise ValueError(
            "a parser with a trained pruner and a transformer runs only with torch: export it with --torch"
        )
    graphs = {"words": _words(network, encoders, precision), "arcs": _arcs(), "labels": _labels(network, precision)}
    if any(by_bytes(encoder, precision) for encoder in encoders):
        graphs["inputs"] = _inputs(encoders, precision)
    if network.taggers is not None:
        graphs["tags"] = _tags(network.taggers, precision)
    if isinstance(network.encoder, TransformerModule):
        graphs["pieces"] = _pieces(network.encoder, precision)
    if characters := _characters(encoders, precision):
        graphs["characters"] = characters
    if precision == "int8" and (weights := _lstms(encoders)):
        graphs["lstm"] = weights
    return graphs


def _inputs_of(encoder: EncoderModule) -> InputLayer:
    return cast(InputLayer, encoder.input)


def _letters_of(encoder: EncoderModule) -> CharacterCNN | CharacterLSTM | None:
    """The network over letters of an encoder, if it has one."""
    layer: InputLayer | None = _inputs_of(encoder)  # a transformer may have none
    return None if layer is None else layer.characters


def _characters(encoders: list[EncoderModule], precision: Precision) -> bytes | None:
    """Letters of forms to vectors, those of all encoders next to each other."""
    networks = [network for encoder in encoders if (network := _letters_of(encoder)) is not None]
    if not networks or (precision == "int8" and _spelt_by_bytes(encoders)):
        return None
    graph = Graph("fp32" if precision == "fp32" else "fp16")
    letters = graph.input("characters")
    found = []
    for network in networks:
        if isinstance(network, CharacterCNN):
            found.append(_convolve(graph, network, letters))
        else:
            found.append(_read_letters(graph, network, letters))
    graph.output("vectors", graph.add("Concat", *found, axis=-1))
    return graph.serialise()


def _convolve(graph: Graph, network: CharacterCNN, letters: str) -> str:
    embedded = graph.add("Transpose", graph.embed(network.embedding.weight, letters), perm=[0, 2, 1])  # (U, size, C)
    windows = []
    for layer in (network.narrow, network.wide):
        weight, bias = graph.weight(layer.weight), graph.constant(cast(Tensor, layer.bias))
        windows.append(graph.add("Conv", embedded, weight, bias, pads=[*layer.padding, *layer.padding]))
    outside = graph.add("Unsqueeze", graph.add("Equal", letters, graph.constant(PAD, np.int64)), graph.axes(1))
    scores = graph.add("Where", outside, graph.constant(-np.inf, np.float32), graph.add("Concat", *windows, axis=1))
    return graph.add("Relu", graph.add("ReduceMax", scores, graph.axes(2), keepdims=0))


def _read_letters(graph: Graph, network: CharacterLSTM, letters: str) -> str:
    is_letter = graph.add("Not", graph.add("Equal", letters, graph.constant(PAD, np.int64)))
    lengths = graph.add("ReduceSum", graph.cast(is_letter, "INT32"), graph.axes(1), keepdims=0)
    embedded = graph.embed(network.embedding.weight, graph.add("Transpose", letters))  # (C, U, size)
    last = _lstm(graph, network.lstm, embedded, lengths)[1]  # (2, U, size / 2)
    return graph.reshape(graph.add("Transpose", last, perm=[1, 0, 2]), 0, -1)


def _lstm(graph: Graph, layer: nn.LSTM, vectors: str, lengths: str) -> tuple[str, str]:
    """States (N, B, 2 size) of a bidirectional layer and the last ones (2, B, size), from (N, B, inputs)."""

    def stacked(name: str) -> Tensor:
        """Weights of both directions, gates in the order of ONNX: input, output, forget, cell."""
        both = [cast(Tensor, getattr(layer, f"{name}_l0{end}")) for end in ("", "_reverse")]
        return torch.stack([torch.cat([weight.chunk(4)[gate] for gate in (0, 3, 1, 2)]) for weight in both])

    biases = torch.cat([stacked("bias_ih"), stacked("bias_hh")], 1)
    weights = (graph.weight(stacked("weight_ih")), graph.weight(stacked("weight_hh")), graph.constant(biases))
    states, last = graph.add_several(
        "LSTM", 2, vectors, *weights, lengths, direction="bidirectional", hidden_size=layer.hidden_size
    )
    return graph.reshape(graph.add("Transpose", states, perm=[0, 2, 1, 3]), 0, 0, -1), last


def _sru(graph: Graph, layer: SRULayer, vectors: str, inside: str) -> str:
    """States (N, B, 2 size) of a layer of simple recurrent units, from (N, B, inputs)."""
    there = graph.cast(inside, "FLOAT")
    vectors = graph.add("Mul", vectors, there)
    rows = graph.add("Transpose", vectors, perm=[1, 2, 0])  # (B, inputs, N)
    window = (graph.constant(layer.window.weight), graph.constant(cast(Tensor, layer.window.bias)))
    seen = graph.add("Conv", rows, *window, pads=[1, 1], group=layer.window.groups)
    seen = graph.add("Add", vectors, graph.add("Transpose", seen, perm=[2, 0, 1]))
    gates = graph.linear(seen, layer.gates.weight, layer.gates.bias)
    size = layer.gates.out_features // 6
    states, forget, reset = graph.split(gates, [2 * size] * 3)
    states, forget = graph.add("Mul", states, there), graph.add("Sigmoid", forget)
    start = graph.zeros(graph.size(inside, 1), size)
    found = []
    for backwards, (inputs, kept) in enumerate(zip(graph.split(states, [size] * 2), graph.split(forget, [size] * 2))):
        body = Graph(graph.precision, graph)
        state, new, share = (body.input(body.name("step"), "FLOAT") for _ in range(3))
        result = body.add("Add", new, body.add("Mul", share, body.add("Sub", state, new)))
        for _ in range(2):
            body.output(body.name("next"), result, axes=2)
        found.append(graph.loop(body, [start], [inputs, kept], bool(backwards)))
    context, reset = graph.add("Concat", *found, axis=-1), graph.add("Sigmoid", reset)
    highway = graph.linear(vectors, layer.highway.weight) if isinstance(layer.highway, nn.Linear) else vectors
    mixed = graph.add("Add", highway, graph.add("Mul", reset, graph.add("Sub", context, highway)))
    norm = (graph.constant(layer.norm.weight), graph.constant(layer.norm.bias))
    return graph.add("LayerNormalization", mixed, *norm, axis=-1, epsilon=layer.norm.eps)


def by_bytes(encoder: EncoderModule, precision: Precision) -> bool:
    """Return whether `ByteLSTM` computes an encoder instead of a graph."""
    return precision == "int8" and isinstance(encoder, LSTMModule)


def _spelt_by_bytes(encoders: list[EncoderModule]) -> bool:
    """Return whether `ByteLSTM` reads letters, if it may."""
    return all(isinstance(_letters_of(encoder), CharacterLSTM | None) for encoder in encoders)


def _lstms(encoders: list[EncoderModule]) -> bytes | None:
    """Weights of `ByteLSTM`: of layers as `NUMBER.LAYER`, of letters as `letters.NUMBER`; letters as `alphabet`."""
    graph, spelt = Graph("int8"), _spelt_by_bytes(encoders)
    for number, encoder in enumerate(encoders):
        if isinstance(encoder, LSTMModule):
            for depth, layer in enumerate(encoder.layers, 1):
                _write_lstm(graph, f"{number}.{depth}", cast(nn.LSTM, layer))
        letters = _letters_of(encoder)
        if spelt and isinstance(letters, CharacterLSTM):
            graph.output(f"alphabet.{number}", graph.weight(letters.embedding.weight))
            _write_lstm(graph, f"letters.{number}", letters.lstm)
    return graph.serialise() if graph.outputs else None


def _write_lstm(graph: Graph, name: str, layer: nn.LSTM) -> None:
    def gates(kind: str) -> Tensor:
        """(2, 4 size, ...) of either direction."""
        return torch.stack([getattr(layer, f"{kind}_l0{end}") for end in ("", "_reverse")])

    shape = (2, 4, layer.hidden_size)
    for kind, weight in (("inputs", gates("weight_ih")), ("states", gates("weight_hh"))):
        rows, scale = quantise(weight.flatten(0, 1))
        graph.output(f"{name}.{kind}", graph.constant(rows.reshape(*shape, -1)), "INT8")
        graph.output(f"{name}.{kind}.scale", graph.constant(scale.reshape(shape)))
    graph.output(f"{name}.bias", graph.constant((gates("bias_ih") + gates("bias_hh")).reshape(shape)))


def _embed(graph: Graph, layer: InputLayer, characters: str | None) -> str:
    """(P, size) of the columns that an encoder reads."""
    vectors = [
        graph.embed(cast(nn.Embedding, table).weight, graph.input(name)) for name, table in layer.columns.items()
    ]
    if layer.feats is not None:
        feats = graph.input("feats")  # (P, F)
        there = graph.add("Not", graph.add("Equal", feats, graph.constant(PAD, np.int64)))
        there = graph.add("Unsqueeze", graph.cast(there, "FLOAT"), graph.axes(2))
        embedded = graph.add("Mul", graph.embed(layer.feats.weight, feats), there)
        vectors.append(graph.add("ReduceSum", embedded, graph.axes(1), keepdims=0))
    if layer.characters is not None:
        assert characters is not None
        vectors.append(graph.add("Gather", characters, graph.input("spelling")))
    for name, table in (("pretrained", layer.vectors), ("treebanks", layer.treebanks)):
        if table is not None:
            vectors.append(graph.embed(table.weight, graph.input(name)))
    return graph.add("Concat", *vectors, axis=-1)


def _embed_all(graph: Graph, encoders: list[EncoderModule]) -> Iterator[str]:
    """(P, size) of the columns that each encoder reads."""
    sizes = [letters.size for encoder in encoders if (letters := _letters_of(encoder)) is not None]
    characters = iter(graph.split(graph.input("forms", "FLOAT"), sizes) if sizes else [])
    for encoder in encoders:
        layer = _inputs_of(encoder)
        yield _embed(graph, layer, next(characters) if layer.characters is not None else None)


def _inputs(encoders: list[EncoderModule], precision: Precision) -> bytes:
    """Columns of a batch to what encoders read; each output has the number of its encoder."""
    graph = Graph(precision)
    for number, vectors in enumerate(_embed_all(graph, encoders)):
        graph.output(str(number), vectors)
    return graph.serialise()


def _encode(graph: Graph, encoder: EncoderModule, vectors: str) -> list[str]:
    """(P, ...) what comes out of each layer of a recurrent encoder, before it is narrowed."""
    nothing = graph.zeros(graph.axes(1), _inputs_of(encoder).size)
    vectors = graph.add("Gather", graph.add("Concat", vectors, nothing, axis=0), graph.input("rows"))  # (N, B, ...)
    lengths, places = graph.cast(graph.input("sizes"), "INT32"), graph.input("places")
    found = []
    for layer in cast(Any, encoder).layers:
        if isinstance(layer, SRULayer):
            vectors = _sru(graph, layer, vectors, graph.input("inside", "BOOL"))
        else:
            vectors = _lstm(graph, layer, vectors, lengths)[0]
        found.append(graph.add("Gather", graph.flatten(vectors), places))
    return found


def _words(network: Network, encoders: list[EncoderModule], precision: Precision) -> bytes:
    """Columns of a batch, or states of `ByteLSTM`, to words in their roles, (P, ...)."""
    graph = Graph(precision)
    packed: list[str] = []
    tagged: str | None = None  # the input of taggers, if it is not that of scorers
    if isinstance(network.encoder, TransformerModule):
        packed.append(_join_pieces(graph, network.encoder))
        if network.encoder.input is not None:
            packed[0] = graph.add("Concat", packed[0], next(_embed_all(graph, encoders)), axis=-1)
    else:
        outside = [by_bytes(encoder, precision) for encoder in encoders]
        embedded = iter(_embed_all(graph, encoders) if not any(outside) else [])
        for number, encoder in enumerate(encoders):
            depth = len(cast(Any, encoder).layers)
            layer = network.taggers.layer if network.taggers is not None and encoder is network.encoder else None
            layer = layer if layer is not None and layer < depth else None
            if outside[number]:
                packed.append(graph.input(f"states.{number}.{depth}", "UINT8"))
                tagged = graph.input(f"states.{number}.{layer}", "UINT8") if layer else tagged
            else:
                given = graph.input(f"inputs.{number}", "FLOAT") if any(outside) else next(embedded)
                layers = _encode(graph, encoder, given)
                packed.append(layers[-1])
                tagged = layers[layer - 1] if layer else tagged
    for number, encoder in enumerate(encoders):
        if isinstance(encoder.narrow, nn.Linear):
            packed[number] = graph.linear(packed[number], encoder.narrow.weight)
    _score(graph, network, packed)
    if network.taggers is not None:
        graph.output("tags", graph.project(tagged or packed[0], [network.taggers.project])[0])
    return graph.serialise()


def _join_pieces(graph: Graph, encoder: TransformerModule) -> str:
    """(P, size) means of the pieces of words; the root has a vector of its own."""
    pieces, place = graph.input("pieces", "FLOAT"), graph.input("place")
    count, is_root = graph.input("count", "FLOAT"), graph.input("is_root", "BOOL")
    nothing = graph.zeros(graph.size(count, 0), encoder.root.shape[0])
    sums = graph.add("ScatterND", nothing, place, pieces, reduction="add")
    return graph.add("Where", is_root, graph.constant(encoder.root), graph.add("Div", sums, count))


def _score(graph: Graph, network: Network, packed: list[str]) -> None:
    """Declare the roles of words as outputs."""
    layers = {"arc": [network.arc.modifier, network.arc.head], "label": [network.label.modifier, network.label.head]}
    if network.parts is not None:
        layers["parts"] = [network.parts.project]
    if isinstance(network.pruner, SharedPruner):
        layers["pruner"] = [network.pruner.arc.modifier, network.pruner.arc.head]
    roles = iter(graph.project(packed[0], [layer for group in layers.values() for layer in group]))
    found = {name: [next(roles) for _ in group] for name, group in layers.items()}
    _declare_arcs(graph, "arc", network.arc, found["arc"])
    graph.output("label.modifier", found["label"][0])
    graph.output("label.head", found["label"][1])
    if isinstance(network.pruner, SharedPruner):
        _declare_arcs(graph, "pruner", network.pruner.arc, found["pruner"])
    elif isinstance(network.pruner, FrozenPruner):
        scorer = network.pruner.arc
        _declare_arcs(graph, "pruner", scorer, graph.project(packed[1], [scorer.modifier, scorer.head]))
    if network.parts is not None:
        _declare_parts(graph, network.parts, found["parts"][0], packed[0])


def _declare_arcs(graph: Graph, name: str, scorer: ArcScorer, roles: list[str]) -> None:
    graph.output(f"{name}.modifier", graph.linear(roles[0], scorer.weight[:-1].t(), scorer.weight[-1]))
    graph.output(f"{name}.head", roles[1])


def _declare_parts(graph: Graph, scorer: PartScorer, hidden: str, words: str) -> None:
    """Words in the roles of `Vectors`, without padding: (positions, rank), START or END behind all of them."""
    rank, count = scorer.rank, len(scorer.triples) + len(scorer.kinds)
    head, modifier, *others = graph.split(hidden, [2 * rank, rank, *[rank] * count])
    roles = {
        "head": graph.reshape(head, -1, rank),
        "modifier": graph.add("Concat", modifier, graph.constant(scorer.end), axis=0),
    }
    for kind in scorer.triples:
        third = others.pop(0)
        if kind == "sibling":
            third = graph.add("Concat", third, graph.constant(cast(Tensor, scorer.inner_start)), axis=0)
        roles[f"third.{kind}"] = third
    for kind in scorer.kinds:
        column = others.pop(0)
        if kind in scorer.start:
            column = graph.add("Concat", column, graph.constant(scorer.start[kind]), axis=0)
        roles[f"column.{kind}"] = graph.add("Mul", column, graph.constant(scorer.weight[kind]))
    if scorer.attachment is not None:
        more = _attach(graph, scorer.attachment, words)
        for name, role in roles.items():
            added = more.get(name) or graph.zeros(graph.size(role, 0), scorer.attachment.size)
            roles[name] = graph.add("Concat", role, added, axis=1)
    for name, role in roles.items():
        graph.output(f"parts.{name}", role)


def _attach(graph: Graph, attachment: Attachment, words: str) -> dict[str, str]:
    """More dimensions of some roles, as `Attachment` has them."""
    size = attachment.size
    (hidden,) = graph.project(words, [attachment.project])
    left, right, modifier, above = graph.split(hidden, [size] * 4)
    gates = graph.add("Sigmoid", graph.linear(words, attachment.gate.weight, attachment.gate.bias))
    of_modifier, of_head = graph.split(gates, [1, 1])
    halves = np.arange(size) < size // 2
    first, second = graph.constant(halves, np.float32), graph.constant(~halves, np.float32)
    of_modifier = graph.add("Add", graph.add("Mul", first, of_modifier), second)
    of_head = graph.add("Add", graph.add("Mul", second, of_head), first)
    sides = [graph.add("Mul", side, of_head) for side in (left, right)]
    ends = graph.constant(np.zeros((2, size)), np.float32)
    return {
        "head": graph.reshape(graph.add("Concat", *sides, axis=1), -1, size),
        "modifier": graph.add("Concat", graph.add("Mul", modifier, of_modifier), ends, axis=0),
        "column.grandparent": graph.add("Mul", above, graph.constant(attachment.weight)),
    }


def _arcs() -> bytes:
    graph = Graph("fp32")
    modifier, head, lengths = graph.input("modifier", "FLOAT"), graph.input("head", "FLOAT"), graph.input("lengths")
    scores = graph.add("MatMul", modifier, graph.add("Transpose", head, perm=[0, 2, 1]))
    zero, one = graph.constant(0, np.int64), graph.constant(1, np.int64)
    position = graph.add("Range", zero, graph.add("Squeeze", graph.size(modifier, 1)), one)
    itself = graph.add("Equal", graph.add("Unsqueeze", position, graph.axes(1)), position)
    padding = graph.add("Greater", position, graph.add("Unsqueeze", lengths, graph.axes(1, 2)))
    absent = graph.add("Or", itself, padding)
    graph.output("scores", graph.add("Where", absent, graph.constant(-np.inf, np.float32), scores))
    return graph.serialise()


def _labels(network: Network, precision: Precision) -> bytes:
    """Scores as in `LabelScorer`; arrays with a vector for each label are computed only once."""
    graph = Graph(precision)
    modifier, head = graph.input("modifier", "FLOAT"), graph.input("head", "FLOAT")
    scorer = network.label
    size, labels = scorer.weight.shape[0] - 1, scorer.labels
    weight = scorer.weight.view(size + 1, labels, size + 1)
    matrix = weight[:-1, :, :-1].flatten(1).t()  # (L size, size)
    step = None
    if precision == "int8":
        whole, step = graph.whole_rows(modifier)
        weighed = graph.whole_product(whole, matrix)
    else:
        weighed = graph.linear(modifier, matrix)
    both = graph.add("MatMul", graph.reshape(weighed, 0, labels, size), graph.add("Unsqueeze", head, graph.axes(2)))
    both = graph.add("Squeeze", both, graph.axes(2))
    both = graph.add("Mul", both, step) if step else both
    of_head = graph.add("MatMul", head, graph.constant(weight[-1, :, :-1].t()))
    of_modifier = graph.add("MatMul", modifier, graph.constant(weight[:-1, :, -1]))
    alone = graph.add("Add", graph.add("Add", of_head, of_modifier), graph.constant(weight[-1, :, -1]))
    graph.output("scores", graph.add("Add", both, alone))
    return graph.serialise()


def _tags(scorer: TagScorer, precision: Precision) -> bytes:
    graph = Graph(precision)
    layers = cast(list[nn.Linear], list(scorer.classify.values()))
    weight, bias = (torch.cat([getattr(layer, name) for layer in layers]) for name in ("weight", "bias"))
    scores = graph.linear(graph.input("words", "FLOAT"), weight, bias)
    for name, of_column in zip(scorer.sizes, graph.split(scores, list(scorer.sizes.values()))):
        graph.output(name, of_column)
    return graph.serialise()


class _Pieces(nn.Module):
    """A transformer that takes its inputs one by one."""

    def __init__(self, encoder: TransformerModule, names: tuple[str, ...]) -> None:
        super().__init__()
        self.encoder = encoder
        self.names = names

    def forward(self, *pieces: Tensor) -> Tensor:
        return self.encoder.of_pieces(**dict(zip(self.names, pieces, strict=True)))


def _pieces(encoder: TransformerModule, precision: Precision) -> bytes:
    """Export the graph from pieces of words to their vectors with torch."""
    cut = encoder.cut([["a", "few", "words"], ["more", "of", "them"]])
    names = tuple(name for name in encoder.tokenizer.model_input_names if name in cut)
    example = tuple(cut[name] for name in names)
    free = {0: torch.export.Dim("stretches", max=1 << 30), 1: torch.export.Dim("pieces", min=2, max=encoder.longest)}
    with warnings.catch_warnings(), _quiet("torch.onnx"):
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            _Pieces(encoder, names),
            example,
            input_names=list(names),
            output_names=["vectors"],
            dynamic_shapes=((free,) * len(names),),
            opset_version=OPSET,
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    model = program.model_proto
    for node in model.graph.node:  # which line of which file on this machine made it
        node.ClearField("metadata_props")
    if precision == "fp32":
        return cast(bytes, model.SerializeToString())
    return _pack(model, precision)


def _pack(model: Any, precision: Precision) -> bytes:
    """A graph with its matrices in another precision: factors of products, and tables of embeddings."""
    graph = Graph(precision)
    weights = {weight.name: weight for weight in model.graph.initializer}
    packed = set()
    for node in model.graph.node:
        names = list(node.input)
        which = {"MatMul": 1, "Gather": 0}.get(node.op_type)
        weight = weights.get(names[which]) if which is not None else None
        if weight is None or len(weight.dims) != 2 or weight.data_type != graph.types.FLOAT:
            graph.nodes.append(node)
            continue
        values = torch.from_numpy(graph.numbers.to_array(weight).copy())
        packed.add(weight.name)
        found = graph.embed(values, names[1]) if which == 0 else graph.linear(names[0], values.t())
        graph.nodes.append(graph.helper.make_node("Identity", [found], list(node.output)))
    used = {name for node in graph.nodes for name in node.input}
    graph.weights += [weight for name, weight in weights.items() if name not in packed or name in used]
    graph.inputs += model.graph.input
    graph.outputs += model.graph.output
    return graph.serialise()


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Let a logger report only errors."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
