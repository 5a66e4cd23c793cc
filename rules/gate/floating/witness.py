"""A run that shows what a rule does in floating point, as a program that anyone can run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from ..counterexample.python_program import models_program

Array = NDArray[Any]
_NARROW = (TensorProto.FLOAT, TensorProto.FLOAT16)


@dataclass(frozen=True)
class Witness:
    """Both sides of an instance as models, and inputs by name."""

    source: onnx.ModelProto
    target: onnx.ModelProto
    feeds: Mapping[str, Array]

    def program(self, title: str, summary: str, *, longer: bool = False) -> str:
        """Run both sides and print what they give; with `longer` the left side in float64 too.

        Where ONNX Runtime has no kernels for that, the program says so and goes on.
        """
        wide = _in_float64(self.source) if longer else None
        return models_program(title, summary, self.source, self.target, self.feeds, wide)


def _in_float64(model: onnx.ModelProto) -> onnx.ModelProto:
    """Copy a model with double precision in the place of single and half."""
    widened = onnx.ModelProto()
    widened.CopyFrom(model)
    graph = widened.graph
    for info in (*graph.input, *graph.output, *graph.value_info):
        if info.type.tensor_type.elem_type in _NARROW:
            info.type.tensor_type.elem_type = TensorProto.DOUBLE
    for tensor in graph.initializer:
        if tensor.data_type in _NARROW:
            array = numpy_helper.to_array(tensor).astype(np.float64)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    for node in graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i in _NARROW:
                attribute.CopyFrom(helper.make_attribute("to", int(TensorProto.DOUBLE)))
    return widened
