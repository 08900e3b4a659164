"""ONNX graphs that are built node by node, with 8-bit integer products."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from arbora.extras import importing_extra
from arbora.model.layers import SLOPE, Projection
from arbora.model.storage.folder import Precision

OPSET = 18

MIDDLE = 128
"""Zero point of unsigned 8-bit integers."""

LARGEST = 127


class Graph:
    """An ONNX graph that is built node by node. Its methods take and return names of values.

    Args:
        precision: of weights, and of products with `int8`.
        parent: the graph around the body of a loop.
    """

    def __init__(self, precision: Precision, parent: Graph | None = None) -> None:
        with importing_extra():
            from onnx import TensorProto, helper, numpy_helper
        self.precision = precision
        self.helper, self.numbers, self.types = helper, numpy_helper, TensorProto
        self.nodes: list[Any] = []
        self.weights: list[Any] = parent.weights if parent else []
        self.count: list[int] = parent.count if parent else [0]
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.bytes: set[str] = set()  # values that are whole numbers already, of which 127 is worth 1

    def name(self, kind: str) -> str:
        """Return a new name for a value."""
        self.count[0] += 1
        return f"{kind}.{self.count[0]}"

    def input(self, name: str, type: str = "INT64") -> str:
        """Declare an input of any shape, unless it is already declared."""
        if type == "UINT8":
            self.bytes.add(name)
        if all(entry.name != name for entry in self.inputs):
            self.inputs.append(self.helper.make_tensor_value_info(name, getattr(self.types, type), None))
        return name

    def output(self, name: str, value: str, type: str = "FLOAT", axes: int | None = None) -> None:
        """Declare an output and its value; loops need its number of axes."""
        self.nodes.append(self.helper.make_node("Identity", [value], [name]))
        shape = None if axes is None else [None] * axes
        self.outputs.append(self.helper.make_tensor_value_info(name, getattr(self.types, type), shape))

    def constant(self, value: Any, type: Any = None) -> str:
        """Add a constant: a number or an array."""
        array = value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)
        name = self.name("weight")
        self.weights.append(self.numbers.from_array(np.ascontiguousarray(array, type or array.dtype), name))
        return name

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output."""
        return self.add_several(kind, 1, *inputs, **attributes)[0]

    def add_several(self, kind: str, count: int, *inputs: str, **attributes: Any) -> list[str]:
        """Add a node with several outputs."""
        outputs = [self.name(kind) for _ in range(count)]
        self.nodes.append(self.helper.make_node(kind, inputs, outputs, **attributes))
        return outputs

    def cast(self, value: str, type: str) -> str:
        """Cast values to another type."""
        return self.add("Cast", value, to=getattr(self.types, type))

    def loop(self, body: Graph, states: list[str], sequence: list[str], backwards: bool) -> str:
        """Add a loop over the first axis of sequences, and return the results of its body at each step.

        Args:
            body: its inputs are states and elements of the sequences; its outputs the new states and a result.
            states: before the first step.
            sequence: values to loop over.
            backwards: start from the end.
        """
        graph = self.helper.make_graph(body.nodes, self.name("body"), body.inputs, body.outputs)
        return self.add_several(
            "Scan",
            len(states) + 1,
            *states,
            *sequence,
            body=graph,
            num_scan_inputs=len(sequence),
            scan_input_directions=[int(backwards)] * len(sequence),
            scan_output_directions=[int(backwards)],
        )[-1]

    def weight(self, values: Tensor) -> str:
        """Add a matrix that is not a factor of `linear`; stored in half the size with `fp16`."""
        if self.precision == "fp32" or values.abs().max() > np.finfo(np.float16).max:
            return self.constant(values.float())
        return self.cast(self.constant(values.half()), "FLOAT")

    def embed(self, table: Tensor, indices: str) -> str:
        """Look up rows of a table."""
        if self.precision != "int8":
            return self.add("Gather", self.weight(table), indices)
        rows, scale = quantise(table)
        picked = self.cast(self.add("Gather", self.constant(rows), indices), "FLOAT")
        return self.add("Mul", picked, self.add("Gather", self.constant(scale[:, None]), indices))

    def linear(self, vectors: str, weight: Tensor, bias: Tensor | None = None) -> str:
        """Multiply vectors (..., inputs) by a matrix (outputs, inputs), and add a bias.

        Args:
            vectors: to multiply; with `int8`, they may be whole numbers.
            weight: the matrix.
            bias: (outputs,), or None.
        """
        if vectors in self.bytes:
            return self.whole_product(vectors, weight, self.constant(1 / LARGEST, np.float32), bias)
        if self.precision != "int8":
            product = self.add("MatMul", vectors, self.weight(weight.t()))
        else:
            whole, step = self.whole_rows(vectors)
            product = self.add("Mul", self.whole_product(whole, weight), step)
        return product if bias is None else self.add("Add", product, self.constant(bias.float()))

    def whole_rows(self, vectors: str) -> tuple[str, str]:
        """Quantize vectors to 8-bit integers; return these and the scale of each vector, (..., 1)."""
        largest = self.add("ReduceMax", self.add("Abs", vectors), self.axes(-1))
        step = self.add("Div", largest, self.constant(LARGEST, np.float32))
        step = self.add("Max", step, self.constant(1e-30, np.float32))
        rounded = self.add("Round", self.add("Div", vectors, step))
        return self.cast(self.add("Add", rounded, self.constant(MIDDLE, np.float32)), "UINT8"), step

    def whole_product(self, whole: str, weight: Tensor, step: str | None = None, bias: Tensor | None = None) -> str:
        """Multiply 8-bit integers by a matrix (outputs, inputs).

        Args:
            whole: the integers, with the zero point `MIDDLE`.
            weight: the matrix.
            step: scale of the integers; 1 unless given.
            bias: (outputs,) to add.
        """
        rows, scale = quantise(weight)
        middle, step = self.constant(MIDDLE, np.uint8), step or self.constant(1, np.float32)
        added = [] if bias is None else ["", self.constant(bias.float())]
        inputs = (whole, self.constant(rows.T), step, self.constant(scale), middle, *added)
        return self.add("MatMulIntegerToFloat", *inputs, domain="com.microsoft")

    def project(self, vectors: str, layers: list[Projection]) -> list[str]:
        """Project words to several roles by one product."""
        linear = [cast(nn.Linear, layer[0]) for layer in layers]
        weight, bias = (torch.cat([getattr(layer, name) for layer in linear]) for name in ("weight", "bias"))
        hidden = self.add("LeakyRelu", self.linear(vectors, weight, bias), alpha=SLOPE)
        return self.split(hidden, [layer.out_features for layer in linear])

    def split(self, vectors: str, sizes: list[int]) -> list[str]:
        """Split the last axis."""
        if len(sizes) == 1:
            return [vectors]
        return self.add_several("Split", len(sizes), vectors, self.constant(sizes, np.int64), axis=-1)

    def axes(self, *axes: int) -> str:
        """Add a constant list of axes, as some nodes need."""
        return self.constant(axes, np.int64)

    def size(self, value: str, axis: int) -> str:
        """(1,) size of an axis."""
        return self.add("Shape", value, start=axis, end=axis + 1)

    def zeros(self, rows: str, columns: int) -> str:
        """A matrix of zeros."""
        return self.add("ConstantOfShape", self.add("Concat", rows, self.axes(columns), axis=0))

    def flatten(self, vectors: str) -> str:
        """Reshape (..., size) to (positions, size)."""
        shape = self.add("Concat", self.axes(-1), self.add("Shape", vectors, start=-1), axis=0)
        return self.add("Reshape", vectors, shape)

    def reshape(self, value: str, *shape: int) -> str:
        """Reshape a value: 0 keeps an axis, -1 is the rest."""
        return self.add("Reshape", value, self.constant(shape, np.int64))

    def serialise(self) -> bytes:
        """Return the contents of a file with the graph."""
        helper = self.helper
        graph = helper.make_graph(self.nodes, "arbora", self.inputs, self.outputs, self.weights)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
        return cast(bytes, helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString())


class Quantised(NamedTuple):
    """A matrix of integers in -127..127."""

    rows: NDArray[np.int8]
    scale: NDArray[np.float32]  # of each row


def quantise(weight: Tensor) -> Quantised:
    """Round the numbers of a matrix."""
    largest = weight.detach().abs().amax(1)
    scale = torch.where(largest > 0, largest / LARGEST, 1.0)
    return Quantised((weight.detach() / scale[:, None]).round().to(torch.int8).numpy(), scale.numpy())
