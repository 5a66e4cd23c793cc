"""A plan as models that run: one for each stage of each device, and where tensors between them lie.

A stage is what a device computes without hearing from the others: all operators that wait for
equally many messages and are followed by equally many. Along an operator's input the first number
never falls and the second never rises, and from device to device both change, so that stages wait
for each other in no circle; and what another device needs is not kept back by what it does not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from ..optimizer.graph.convert import model_around, node_proto, tensor_proto, type_proto
from ..optimizer.graph.graph import Constant, Graph, Node, TensorType, constant_of
from ..optimizer.graph.simplify import is_pure
from ..profiles.kernel import numpy_dtype
from ..rules import ABSENT
from .materialization import divide
from .runnable_plan import CALLER, Output, Partition, Piece, Stage, Tensor
from .search.goals import PlanError
from .simulation.placement import Box, full_box
from .simulation.tasks import Plan, Problem

_ALIGNMENT = 64  # bytes: what the runtime's vector instructions load at once
# Weights of more bytes go to a file beside the model: the runtime maps it, and has no copy of them
# while it opens the model.
_LARGE_BYTES = 1 << 20
_LEAST_IR = 4  # from which on constants need not be inputs as well


@dataclass(frozen=True)
class Parted:
    """A partition with its models, by the names that stages call them by."""

    partition: Partition
    models: Mapping[str, onnx.ModelProto]

    def write(self, folder: Path) -> None:
        """Write the models into a folder where all lies that the whole model has beside it."""
        for name, model in self.models.items():
            embedded = sum(len(tensor.raw_data) for tensor in model.graph.initializer)
            if embedded <= _LARGE_BYTES:
                onnx.save(model, str(folder / name))
                continue
            written = onnx.ModelProto()
            written.CopyFrom(model)  # weights are taken out of what is written so
            onnx.save(
                written, str(folder / name), save_as_external_data=True, location=f"{name}.data"
            )


def part(problem: Problem, plan: Plan, name: str = "") -> Parted:
    """Write a plan as models of stages.

    Raises PlanError where a value between devices is no tensor of numbers, or where the plan
    divides a model of an older operator set than 13.
    """
    return _Parter(problem, plan, name).part()


Copy = tuple[int, int]
"""A node of the divided graph as a device computes it."""


@dataclass
class _Parter:
    problem: Problem
    plan: Plan
    name: str
    graph: Graph = field(init=False)
    devices: dict[int, tuple[int, ...]] = field(init=False)
    graph_inputs: frozenset[int] = field(init=False)
    fixed: set[int] = field(init=False)
    order: list[int] = field(init=False)
    # Devices that have something to do, as the partition counts them.
    used: list[int] = field(init=False)

    def part(self) -> Parted:
        divided = divide(self.problem, self.plan)
        self.graph, self.devices = divided.graph, divided.devices
        self._take_defaults()
        self._name_constant_outputs()
        self.order = self.graph.order()
        self.graph_inputs = frozenset(self.graph.graph_inputs)
        self.fixed = self._fixed(divided.cells)
        pieces = {value: self._pieces(value, divided.cells) for value in self.graph.graph_outputs}
        copies = self._copies(pieces)
        self.used = sorted({device for _, device in copies}) or [0]
        outputs = {value for pieces_ in pieces.values() for _, value, _ in pieces_}
        stages = self._stages(copies, outputs)
        return self._written(copies, stages, pieces)

    # ---- what is known before a request comes
    def _take_defaults(self) -> None:
        """Take inputs that have a default for constants: requests don't give them."""
        graph = self.graph
        defaults = {tensor.name: tensor for tensor in graph.base.graph.initializer}
        for value in graph.graph_inputs:
            tensor = defaults.get(graph.names[value])
            if tensor is not None and value in graph.types:
                graph.set_constant(value, Constant(graph.types[value], tensor))
        graph.graph_inputs = tuple(v for v in graph.graph_inputs if v not in graph.constants)

    def _name_constant_outputs(self) -> None:
        """Have a node give each output that is a constant."""
        graph = self.graph
        for value in set(graph.graph_outputs) & graph.constants.keys():
            constant = graph.constants.pop(value)
            source = graph.new_value(f"{graph.names[value]}/constant")
            graph.set_constant(source, constant)
            graph.replace_uses(value, source)
            self.devices[graph.add_node(Node("Identity", "", (source,), (value,), {}))] = (0,)

    def _fixed(self, cells: Mapping[int, list[tuple[Box, int]]]) -> set[int]:
        """Return the nodes that compute of constants alone: the runtime does so as it opens."""
        graph, fixed = self.graph, set[int]()
        outputs = set(graph.graph_outputs)
        outputs |= {cell for value in graph.graph_outputs for _, cell in cells.get(value, ())}
        for number in self.order:
            node = graph.nodes[number]
            reads = list(node.reads)
            is_fixed = all(v in graph.constants or graph.producer.get(v) in fixed for v in reads)
            if reads and is_fixed and not outputs & set(node.outputs) and is_pure(graph, node):
                fixed.add(number)
        return fixed

    def _is_known(self, value: int) -> bool:
        return value in self.graph.constants or self.graph.producer.get(value) in self.fixed

    # ---- who computes what
    def _home(self, value: int, device: int) -> int:
        """Return the device that a device has a value from: itself, where it can."""
        while True:
            number = self.graph.producer[value]
            node = self.graph.nodes[number]
            if number in self.devices:
                return self.problem.nearest(self.devices[number], device)
            # What others need a slice of is sliced there; pieces are joined where they are needed.
            if node.op_type != "Slice" or self._is_everywhere(node.inputs[0]):
                return device
            value = node.inputs[0]

    def _is_everywhere(self, value: int) -> bool:
        return value in self.graph_inputs or self._is_known(value)

    def _pieces(
        self, value: int, cells: Mapping[int, list[tuple[Box, int]]]
    ) -> list[tuple[Box, int, int]]:
        """Return the boxes of an output, each with the value that it is, and where it is made."""
        if value in self.graph_inputs:
            return [(full_box(self._shape(value)), value, CALLER)]
        whole = [(full_box(self._shape(value)), value)]
        entry = self.problem.entry or 0
        return [
            (box, cell, CALLER if cell in self.graph_inputs else self._home(cell, entry))
            for box, cell in cells.get(value, whole)
        ]

    def _copies(self, pieces: Mapping[int, list[tuple[Box, int, int]]]) -> list[Copy]:
        """Return what is computed where, in an order in which it could be."""
        todo = [(value, home) for pieces_ in pieces.values() for _, value, home in pieces_]
        seen: set[Copy] = set()
        while todo:
            value, device = todo.pop()
            if self._is_everywhere(value):
                continue
            copy = (self.graph.producer[value], self._home(value, device))
            if copy not in seen:
                seen.add(copy)
                todo += [(read, copy[1]) for read in self.graph.nodes[copy[0]].reads]
        place = {number: position for position, number in enumerate(self.order)}
        return sorted(seen, key=lambda copy: (place[copy[0]], copy[1]))

    def _before(self, copy: Copy) -> Iterator[tuple[int, Copy]]:
        """Yield the values that a copy reads, and who computes each; CALLER for what is given."""
        for value in dict.fromkeys(self.graph.nodes[copy[0]].reads):
            if value in self.graph_inputs:
                yield value, (CALLER, CALLER)
            elif not self._is_known(value):
                yield value, (self.graph.producer[value], self._home(value, copy[1]))

    def _stages(self, copies: Sequence[Copy], returned_values: Collection[int]) -> dict[Copy, int]:
        """Number the stages, in an order in which they could run; return that of each copy.

        `given` are values that the caller gets.
        """
        depth: dict[Copy, int] = {}
        height: dict[Copy, int] = dict.fromkeys(copies, 0)
        for copy in copies:
            before = [other for _, other in self._before(copy) if other[0] != CALLER]
            depth[copy] = max((depth[o] + (o[1] != copy[1]) for o in before), default=0)
        for copy in reversed(copies):
            for _, other in self._before(copy):
                if other[0] != CALLER:
                    height[other] = max(height[other], height[copy] + (other[1] != copy[1]))
        keys = {copy: (depth[copy], -height[copy], copy[1]) for copy in copies}
        # What only cuts or joins goes with what reads it: as a stage it would compute nothing.
        readers: dict[Copy, list[Copy]] = {}
        for copy in copies:
            for _, other in self._before(copy):
                readers.setdefault(other, []).append(copy)
        ends = {self.graph.producer.get(value) for value in returned_values}
        for copy in reversed(copies):
            number, device = copy
            users = readers.get(copy, [])
            is_here = users and all(user[1] == device for user in users)
            if number not in self.devices and number not in ends and is_here:
                keys[copy] = min(keys[user] for user in users)
        numbers = {key: number for number, key in enumerate(sorted(set(keys.values())))}
        return {copy: numbers[key] for copy, key in keys.items()}

    # ---- what is written
    def _written(
        self,
        copies: Sequence[Copy],
        stage_of: Mapping[Copy, int],
        pieces: Mapping[int, list[tuple[Box, int, int]]],
    ) -> Parted:
        graph = self.graph
        count = max(stage_of.values(), default=-1) + 1
        members: list[list[Copy]] = [[] for _ in range(count)]
        for copy in copies:
            members[stage_of[copy]].append(copy)
        passed: dict[tuple[int, int], None] = {
            (value, CALLER): None for value in graph.graph_inputs
        }
        reads: list[dict[tuple[int, int], None]] = [{} for _ in range(count)]
        after: list[dict[int, None]] = [{} for _ in range(count)]
        for stage, group in enumerate(members):
            for copy in group:
                for value, other in self._before(copy):
                    source = CALLER if other[0] == CALLER else stage_of[other]
                    if source != stage:
                        passed[value, other[1]] = reads[stage][value, other[1]] = None
                        after[stage][source] = None
        for pieces_ in pieces.values():
            passed |= {(value, home): None for _, value, home in pieces_}
        tensors, slot_bytes = self._laid_out(list(passed))
        numbers = {key: number for number, key in enumerate(passed)}
        stages, models = [], {}
        for stage, group in enumerate(members):
            device = group[0][1]
            nodes = [number for number, _ in group]
            gives = [
                value
                for number in nodes
                for value in graph.nodes[number].outputs
                if value != ABSENT and (value, device) in numbers
            ]
            name = f"stage{stage}.onnx"
            models[name] = self._model(nodes, [value for value, _ in reads[stage]], gives)
            stages.append(
                Stage(
                    self.used.index(device),
                    name,
                    tuple(numbers[key] for key in reads[stage]),
                    tuple(numbers[value, device] for value in gives),
                    tuple(sorted(after[stage])) or (CALLER,),
                    self._said(nodes),
                )
            )
        names = graph.names
        devices = [self.problem.cluster.devices[number] for number in self.used]
        partition = Partition(
            self.name,
            tuple(device.name for device in devices),
            tuple(device.cores for device in devices),
            tuple(device.memory_bytes for device in devices),
            tuple(stages),
            tensors,
            tuple(numbers[value, CALLER] for value in graph.graph_inputs),
            tuple(
                Output(
                    names[value],
                    self._dtype(value),
                    self._shape(value),
                    tuple(
                        Piece(numbers[cell, home], tuple(low for low, _ in box))
                        for box, cell, home in pieces_
                    ),
                )
                for value, pieces_ in pieces.items()
            ),
            slot_bytes,
        )
        return Parted(partition, models)

    def _said(self, nodes: Sequence[int]) -> str:
        names = [self.graph.node_name(number) for number in nodes if number in self.devices]
        if len(names) < 2:
            return "".join(names)
        return f"{names[0]} to {names[-1]} ({len(names)})"

    def _laid_out(
        self, passed: Sequence[tuple[int, int]]
    ) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        """Give each tensor its place in the memory of its owner."""
        ends = [0] * (len(self.used) + 1)
        tensors = []
        for value, device in passed:
            owner = CALLER if device == CALLER else self.used.index(device)
            tensor = Tensor(
                self.graph.names[value],
                self._dtype(value),
                self._shape(value),
                owner,
                ends[owner + 1],
            )
            tensors.append(tensor)
            ends[owner + 1] += -(-tensor.size_bytes // _ALIGNMENT) * _ALIGNMENT
        return tuple(tensors), tuple(ends)

    def _model(
        self, nodes: Sequence[int], reads: Sequence[int], gives: Sequence[int]
    ) -> onnx.ModelProto:
        """Write nodes as a model, with the constants that they read, and what is made of these."""
        graph = self.graph
        todo = [value for number in nodes for value in graph.nodes[number].reads]
        fixed: set[int] = set()
        constants: dict[int, Constant] = {}
        while todo:
            value = todo.pop()
            if value in constants:
                continue
            if value in graph.constants:
                constants[value] = graph.constants[value]
            elif graph.producer.get(value) in self.fixed:
                number = graph.producer[value]
                node = graph.nodes[number]
                is_ours = number not in self.devices and node.op_type == "Slice"
                if is_ours and node.inputs[0] in graph.constants:
                    # Only the slice of a weight is kept, not all of it.
                    constants[value] = self._slice(node)
                elif number not in fixed:
                    fixed.add(number)
                    todo += node.reads
        proto = onnx.GraphProto(name=graph.base.graph.name or "stage")
        proto.input.extend(self._info(value) for value in reads)
        proto.output.extend(self._info(value) for value in gives)
        wanted = {*nodes, *fixed}
        proto.node.extend(node_proto(graph, graph.nodes[n]) for n in self.order if n in wanted)
        proto.initializer.extend(tensor_proto(graph.names[v], c) for v, c in constants.items())
        model = model_around(graph, proto)
        model.ir_version = max(model.ir_version, _LEAST_IR)
        model.metadata_props.extend(graph.base.metadata_props)
        return model

    def _slice(self, node: Node) -> Constant:
        array, starts, ends, axes = (self.graph.constants[v].array() for v in node.inputs)
        index: list[slice] = [slice(None)] * array.ndim
        for start, end, axis in zip(starts, ends, axes, strict=True):
            index[int(axis)] = slice(int(start), int(end))
        return constant_of(np.ascontiguousarray(array[tuple(index)]))

    def _info(self, value: int) -> onnx.ValueInfoProto:
        type_ = TensorType(self.graph.types[value].dtype, self._shape(value))
        return helper.make_value_info(self.graph.names[value], type_proto(type_))

    def _shape(self, value: int) -> tuple[int, ...]:
        shape = self.graph.shape(value)
        if shape is None or not all(isinstance(size, int) for size in shape):
            raise PlanError(f"the sizes of {self.graph.names[value]} are not known before a run")
        return tuple(int(size) for size in shape)

    def _dtype(self, value: int) -> str:
        dtype = numpy_dtype(self.graph.dtype(value) or "float32")
        if dtype.kind not in "biufc":
            raise PlanError(
                f"{self.graph.names[value]} is of type {self.graph.dtype(value)}, which can't be "
                "passed between devices: deploy the model without --devices"
            )
        return dtype.name
