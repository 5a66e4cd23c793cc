"""The source of a rule, computed from its operators' specifications with digits to spare."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import helper

from ....catalog.errors import TensologError
from ....catalog.operators import specification
from ....catalog.operators.evaluate import evaluate
from ....catalog.operators.expand import Expansion
from ....catalog.terms.numpy_evaluator import EvaluationError
from ...language import schemas
from ..onnx_models import Feeds, SideModels

Array = NDArray[Any]


class Reference:
    """Evaluates the source in float64, and in long double where the rule runs in float64.

    Where a long double is no longer than a double, errors of float64 come out as those of two
    roundings against each other.
    """

    def __init__(self, sides: SideModels, dtype: str) -> None:
        """Expand the operators once; raises TensologError where one isn't specified."""
        self.wide: type[np.floating[Any]] = np.longdouble if dtype == "float64" else np.float64
        view = sides.instance.view
        self.outputs = sides.outputs
        self.constants = view.constants
        self.nodes: list[tuple[Any, Expansion]] = []
        for node in view.nodes:
            meaning = specification(node.domain, node.op_type, view.opset)
            if meaning is None:
                raise EvaluationError(f"{node.op_type} has no specification")
            attributes = {
                a.name: schemas.plain(helper.get_attribute_value(a)) for a in node.attribute
            }
            values: dict[int, Any] = {}
            for position in meaning.known_inputs:
                name = node.input[position] if position < len(node.input) else ""
                if name in self.constants:
                    values[position] = self.constants[name].tolist()
            shapes = [view.shape(view.ids[name]) if name else None for name in node.input]
            expansion = meaning.expand(shapes, attributes, values=values, outputs=len(node.output))
            self.nodes.append((node, expansion))

    def run(self, feeds: Feeds) -> list[Array]:
        """Return the outputs; raises TensologError on data on which an operator has no value."""
        known: dict[str, Array] = {**self.constants, **feeds}
        values = {name: self._widened(array) for name, array in known.items()}
        for node, expansion in self.nodes:
            inputs = [values[name] if name else None for name in node.input]
            for name, array in zip(node.output, evaluate(expansion, inputs), strict=True):
                if name:
                    values[name] = array
        return [values[name] for name in self.outputs]

    def _widened(self, array: Array) -> Array:
        return array.astype(self.wide) if array.dtype.kind == "f" else array


def reference_of(sides: SideModels, dtype: str) -> Reference | None:
    """Return the yardstick of an instance; None where an operator of the source is opaque."""
    try:
        return Reference(sides, dtype)
    except TensologError:
        return None


def reference_outputs(stick: Reference | None, feeds: Mapping[str, Array]) -> list[Array] | None:
    """Return what the outputs should be; None where that is not known."""
    if stick is None:
        return None
    try:
        with np.errstate(all="ignore"):
            return stick.run(feeds)
    except TensologError:
        return None
