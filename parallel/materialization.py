"""A plan as an ONNX model: parts of operators, with Slice, Concat and Add between them.

Run on one device it computes what the model computes, whatever the plan: so plans are checked. Its
nodes say which part of which operator they are, and on which devices it is computed.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import onnx
from onnx import helper

from ..optimizer.graph.convert import to_model
from ..optimizer.graph.graph import Graph, Node, TensorType
from ..profiles.kernel import Kernel
from ..rules import ABSENT
from .search.goals import PlanError
from .simulation.placement import Box, Config, full_box, meet
from .simulation.tasks import Plan, Problem

_OLDEST_OPSET = 13
_COMBINE = {"sum": "Add", "max": "Max", "min": "Min", "prod": "Mul"}
# Attributes that a part may have otherwise than the whole.
_ADJUSTED = ("pads", "group")


@dataclass(frozen=True)
class Materialized:
    """A plan as a model; `devices` says by a node's name which devices compute that part."""

    model: onnx.ModelProto
    devices: dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Divided:
    """A plan as a graph; `devices` says by node who computes it: all but Slice, Concat, Identity.

    `cells` has the values that are divided: their boxes, each with the value that it is.
    """

    graph: Graph
    devices: dict[int, tuple[int, ...]]
    cells: dict[int, list[tuple[Box, int]]]


def materialize(problem: Problem, plan: Plan) -> Materialized:
    """Write a plan as a model. Raises PlanError for an operator set older than 13."""
    divided = divide(problem, plan)
    names = {divided.graph.node_name(node): devices for node, devices in divided.devices.items()}
    return Materialized(to_model(divided.graph), names)


def divide(problem: Problem, plan: Plan) -> Divided:
    """Write a plan as a graph; PlanError where it divides a model of an older set than 13."""
    writer = _Writer(problem, plan)
    writer.write()
    return Divided(writer.graph, writer.devices, writer.cells)


@dataclass
class _Writer:
    problem: Problem
    plan: Plan
    devices: dict[int, tuple[int, ...]] = field(default_factory=dict)
    graph: Graph = field(init=False)
    # The cells that a value lies in, each with the value of the new graph that it is.
    cells: dict[int, list[tuple[Box, int]]] = field(default_factory=dict)
    box_values: dict[tuple[int, Box], int] = field(default_factory=dict)

    def write(self) -> None:
        self.graph = self.problem.workload.graph.copy()
        divided = [n for n, config in enumerate(self.plan) if config.cuts]
        if divided and self.graph.opset() < _OLDEST_OPSET:
            raise PlanError(
                f"a model of operator set {self.graph.opset()} can't be divided: convert it to"
                f" {_OLDEST_OPSET} or newer"
            )
        for operator, config in zip(self.problem.workload.operators, self.plan, strict=True):
            self.devices[operator.node] = config.devices
        for number in divided:
            node = self.problem.workload.operators[number].node
            self.graph.remove_node(node)
            del self.devices[node]
        for number in divided:
            self.operator(number, self.plan[number])
        # What is not divided reads whole values, by their names.
        kept = set(divided)
        operators = self.problem.workload.operators
        for number in divided:
            for value in operators[number].outputs:
                if value is None:
                    continue
                users = {user for user, _ in self.problem.consumers.get(value, ())}
                if value in self.graph.graph_outputs or users - kept:
                    self.whole(value)

    # ---- operators
    def operator(self, number: int, config: Config) -> None:
        """Add the parts of an operator, and what adds up the parts of a sum."""
        operator = self.problem.workload.operators[number]
        original = self.problem.workload.graph.nodes[operator.node]
        parts = self.problem.parts(number, config)
        results: list[tuple[int, ...]] = []
        for place, part in enumerate(parts):
            inputs = []
            for position, value in enumerate(operator.inputs):
                box = part.reads[position]
                spec, old = (
                    part.kernel.inputs[position : position + 1],
                    operator.kernel.inputs[position],
                )
                if value is None or box is None:
                    inputs.append(ABSENT)
                elif (
                    spec
                    and spec[0] is not None
                    and old is not None
                    and spec[0].value != old.value
                    and spec[0].value is not None
                ):
                    array = np.array(spec[0].value, dtype=np.int64)
                    inputs.append(self.graph.add_constant(array, f"{operator.name}/shape"))
                else:
                    inputs.append(self.box(value, box))
            while inputs and inputs[-1] == ABSENT:
                inputs.pop()
            outputs = tuple(
                ABSENT if value is None else self.value(value, box, f"part{place}")
                for value, box in zip(operator.outputs, part.gives, strict=True)
            )
            name = f"{operator.name}/part{place}"
            node = self.graph.add_node(
                replace(
                    original,
                    inputs=tuple(inputs),
                    outputs=outputs,
                    name=name,
                    attributes=_attributes(original, operator.kernel, part.kernel),
                    proto=None,
                )
            )
            self.devices[node] = config.holders(place)
            results.append(outputs)
        combine = next((cut.combine for cut, _ in config.cuts if cut.combine != "concat"), None)
        for output, value in enumerate(operator.outputs):
            if value is None:
                continue
            self.cells[value] = []
            for place, cell in enumerate(self.problem.cells(number, config, output)):
                pieces = [
                    self.sliced(results[part][output], parts[part].gives[output], cell.box)
                    for part in cell.parts
                ]
                joined = pieces[0]
                for count, other in enumerate(pieces[1:]):
                    name = f"{operator.name}/output{output}/cell{place}/{count}"
                    total = self.value(value, cell.box, f"cell{place}")
                    node = self.add(_COMBINE[combine or "sum"], (joined, other), total, name)
                    self.devices[node] = cell.holders
                    joined = total
                self.cells[value].append((cell.box, joined))

    # ---- values
    def value(self, value: int, box: Box, suffix: str) -> int:
        value_ = self.problem.workload.values[value]
        shape = tuple(high - low for low, high in box)
        return self.graph.new_value(f"{value_.name}/{suffix}", TensorType(value_.dtype, shape))

    def box(self, value: int, box: Box) -> int:
        """Return the value of the new graph that is a box of a value of the old one."""
        if (value, box) not in self.box_values:
            full = full_box(self.problem.workload.values[value].shape)
            if value in self.cells:
                self.box_values[value, box] = self.joined(value, box)
            else:
                self.box_values[value, box] = self.sliced(value, full, box)
        return self.box_values[value, box]

    def joined(self, value: int, box: Box) -> int:
        pieces = []
        for cell, name in self.cells[value]:
            shared = meet(cell, box) if box else box
            if shared is not None:
                pieces.append((shared, self.sliced(name, cell, shared)))
        return self.assembled(value, box, pieces)

    def assembled(self, value: int, box: Box, pieces: Sequence[tuple[Box, int]]) -> int:
        """Join pieces that fill a box, slab by slab."""
        if len(pieces) == 1:
            return pieces[0][1]
        for axis in range(len(box)):
            edges = [box[axis][0]]
            for low, high in sorted({(piece[axis]) for piece, _ in pieces}):
                if low == edges[-1] and all(not p[axis][0] < high < p[axis][1] for p, _ in pieces):
                    edges.append(high)
            if len(edges) < 3 or edges[-1] != box[axis][1]:
                continue
            slabs = []
            for low, high in itertools.pairwise(edges):
                inside = [piece for piece in pieces if low <= piece[0][axis][0] < high]
                slab = (*box[:axis], (low, high), *box[axis + 1 :])
                slabs.append(self.assembled(value, slab, inside))
            result = self.value(value, box, "joined")
            axis_attribute = helper.make_attribute("axis", axis)
            self.add("Concat", tuple(slabs), result, "", axis=axis_attribute)
            return result
        raise AssertionError(f"cells of {value} do not fill {box}")

    def sliced(self, name: int, whole: Box, box: Box) -> int:
        axes = [axis for axis, (a, b) in enumerate(zip(whole, box, strict=True)) if a != b]
        if not axes:
            return name
        key = (-1 - name, box)
        if key not in self.box_values:
            bounds = [
                [box[axis][0] - whole[axis][0] for axis in axes],
                [box[axis][1] - whole[axis][0] for axis in axes],
                axes,
            ]
            stem = self.graph.names[name]
            bound_values = [
                self.graph.add_constant(np.array(row, dtype=np.int64), f"{stem}/{word}")
                for row, word in zip(bounds, ("starts", "ends", "axes"), strict=True)
            ]
            dtype = self.graph.dtype(name) or "float32"
            shape = tuple(high - low for low, high in box)
            result = self.graph.new_value(f"{stem}/slice", TensorType(dtype, shape))
            self.add("Slice", (name, *bound_values), result, "")
            self.box_values[key] = result
        return self.box_values[key]

    def whole(self, value: int) -> None:
        """Give a divided value its old name."""
        full = full_box(self.problem.workload.values[value].shape)
        self.add("Identity", (self.joined(value, full),), value, "")

    def add(
        self,
        op_type: str,
        inputs: tuple[int, ...],
        output: int,
        name: str,
        **attributes: onnx.AttributeProto,
    ) -> int:
        return self.graph.add_node(Node(op_type, "", inputs, (output,), attributes, name=name))


def _attributes(original: Node, whole: Kernel, part: Kernel) -> dict[str, onnx.AttributeProto]:
    attributes = dict(original.attributes)
    for name in _ADJUSTED:
        value = part.attribute(name)
        if value is None:  # the default: no pads, one group
            attributes.pop(name, None)
        elif value != whole.attribute(name):
            attributes[name] = helper.make_attribute(name, value)
    return attributes
