"""Regions: the program that computes what waits, prepared once for each structure, and run."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..blocks.partitioned import Partitioned
from ..program.dag import Node, Program
from .expressions import Expression, Places, Record
from .prepare import Options, Prepared, needless, prepare

if TYPE_CHECKING:
    from ..blocks.block_plan import BlockPlan

# Imported within functions: blocks, for arrays that come in some.


@dataclass(frozen=True, slots=True)
class Region:
    """Expressions each after its operands, which `operands` names by position.

    `leaves` and `constants` are the values by position; `key` is what the region is known by: it
    leaves out those values.
    """

    expressions: tuple[Expression, ...]
    operands: tuple[tuple[int, ...], ...]
    leaves: Mapping[int, Any]
    outputs: tuple[int, ...]
    constants: Mapping[int, Any]
    key: Hashable

    def inputs(self, varying: frozenset[int]) -> list[Any]:
        """Return the values of the inputs, the constants `varying` being some."""
        if not varying:
            return list(self.leaves.values())
        varying_inputs = {
            number: np.asarray(self.constants[number], dtype=self.expressions[number].dtype)
            for number in varying
        }
        return [value for _, value in sorted({**self.leaves, **varying_inputs}.items())]

    def program(self, varying: frozenset[int]) -> Program:
        """Return the program, the constants `varying` being inputs."""
        nodes = []
        for number, (expression, operands) in enumerate(
            zip(self.expressions, self.operands, strict=True)
        ):
            attributes = dict(expression.attributes)
            if expression.op == "Constant":
                attributes = {"value": self.constants[number]}
            node = Node(
                number,
                expression.op,
                operands,
                attributes,
                expression.shape,
                expression.dtype,
                expression.nnz,
                expression.layout,
            )
            nodes.append(
                Node(number, "Input", (), {}, (), expression.dtype) if number in varying else node,
            )
        return Program(tuple(nodes), tuple(sorted([*self.leaves, *varying])), self.outputs)


def _block_layout(value: Any) -> Hashable:
    """Return how a value is held, as far as what runs depends on that."""
    return (value.axis, value.rows) if isinstance(value, Partitioned) else ()


def number_at(record: Record, expression: Expression) -> Any:
    """Return the value of a Constant as a number of Python's."""
    if expression.attributes:
        return expression.attributes[0][1]
    return np.asarray(record.numbers[expression.place], expression.dtype).item()


def region(wanted: Sequence[Expression], record: Record) -> Region:
    """Return the program that computes the wanted expressions from the values under them.

    Equal subexpressions become one node; sizes of sparse values count by powers of two in the key.
    """
    expressions: list[Expression] = []
    places: list[tuple[int, ...]] = []
    leaves: dict[int, Any] = {}
    constants: dict[int, Any] = {}
    parts: list[Hashable] = []
    numbers: dict[Hashable, int] = {}
    place: dict[int, int] = {}  # by id: `wanted` keeps all of them alive
    stack = list(reversed(wanted))
    while stack:
        expression = stack[-1]
        if id(expression) in place:
            stack.pop()
            continue
        below = expression.operands
        if below:
            waiting = len(stack)
            for operand in reversed(below):
                if id(operand) not in place:
                    stack.append(operand)
            if len(stack) > waiting:
                continue
        stack.pop()
        operands = tuple([place[id(operand)] for operand in below])
        facts: Hashable = expression.attributes
        name: Hashable = facts
        value: Any = None
        if expression.op == "Input":
            value = record.leaves[expression.place]
            facts, name = _block_layout(value), expression.place
        elif expression.op == "Constant":
            value = number_at(record, expression)
            # By its text: 0.0 isn't -0.0, and True isn't 1. Two that come from elsewhere may differ
            # in another call.
            facts, name = (), expression.place if expression.place >= 0 else repr(value)
        identity = (expression.op, operands, name, expression.shape, expression.dtype)
        number = numbers.get(identity)
        if number is None:
            number = numbers[identity] = len(expressions)
            expressions.append(expression)
            places.append(operands)
            if expression.op == "Input":
                leaves[number] = value
            elif expression.op == "Constant":
                constants[number] = value
            bucket = None if expression.nnz is None else round(math.log2(expression.nnz + 1))
            parts.append(
                (
                    expression.op,
                    operands,
                    facts,
                    expression.shape,
                    expression.dtype,
                    expression.layout,
                    bucket,
                )
            )
        place[id(expression)] = number
    outputs = tuple([place[id(expression)] for expression in wanted])
    key = (tuple(parts), outputs)
    return Region(tuple(expressions), tuple(places), leaves, outputs, constants, key)


# A number of more characters was computed: it will be another one in the next call.
_LITERAL = 8
# Structures kept for one function.
_KEPT = 256
# Ways to its regions.
_WAYS = 1024
# What a region gains at least that is worth while whatever its tracing takes.
GAINED_S = 1e-3


@dataclass
class Computed:
    """One region of a call: why it was computed when it was, and how."""

    why: str
    prepared: Prepared | BlockPlan
    cached: bool


@dataclass
class Runner:
    """Computes the regions of one call."""

    engine: Engine
    regions: list[Computed] = field(default_factory=list)
    notes: dict[str, int] = field(default_factory=dict)
    repeats: bool = False  # calls like this one run its region without being traced
    plain: str = ""  # why the function ran as it is
    stopped: str = ""  # why tracing stopped before the function returned
    lost_s: float = 0.0  # what the call takes longer than NumPy alone would, by the model of costs

    @property
    def needless(self) -> bool:
        """Whether tracing gained nothing: NumPy alone would have been done sooner."""
        return needless(
            [
                region.prepared if isinstance(region.prepared, Prepared) else None
                for region in self.regions
            ]
        )

    def _count(self, prepared: Prepared | BlockPlan) -> None:
        seconds = prepared.seconds if isinstance(prepared, Prepared) else None
        if seconds is None:
            self.lost_s = min(self.lost_s, 0.0) - GAINED_S
        else:
            self.lost_s += seconds[0] - seconds[1]

    def note(self, text: str) -> None:
        """Remember something that explain should say."""
        self.notes[text] = self.notes.get(text, 0) + 1

    def run(
        self, record: Record, wanted: tuple[Expression, ...], why: str
    ) -> tuple[list[Any], list[Any]]:
        """Return the values of expressions, and what they may be or share memory with."""
        prepared, inputs, cached = self.engine.prepared(record, wanted)
        if len(self.regions) < _KEPT:
            self.regions.append(Computed(why, prepared, cached))
        self._count(prepared)
        taken = list(inputs)
        if type(prepared) is not Prepared:  # of blocks: what runs otherwise reads none
            taken += [input_.source for input_ in inputs if isinstance(input_, Partitioned)]
        return prepared.run(inputs), taken


@dataclass
class _Structure:
    """Regions that differ in numbers only: those of the first one, and which of them vary."""

    first: Mapping[int, str]
    varying: frozenset[int]
    prepared: dict[frozenset[int], Prepared | BlockPlan] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Way:
    """A region that is known by its expressions alone, as a call that went the same way has them.

    `numbers` are the places of those that count as literals, and what they were; `inputs` the
    places of what is read, the types of numbers, and the values of those that have no place.
    """

    structure: _Structure
    varying: frozenset[int]
    prepared: Prepared | BlockPlan
    numbers: tuple[tuple[int, Any], ...]
    inputs: tuple[tuple[int, str, Any], ...]

    def inputs_of(self, record: Record) -> list[Any] | None:
        """Return the inputs; None where a number isn't what it was."""
        if self.structure.varying is not self.varying:
            return None
        numbers = record.numbers
        for place, first in self.numbers:
            value = numbers[place]
            # 0.0 equals -0.0, and 1 equals True: those are looked at more closely elsewhere
            if value is not first and not (
                type(value) is type(first) and value == first and value != 0
            ):
                return None
        leaves = record.leaves
        return [
            np.asarray(numbers[place] if place >= 0 else value, dtype) if dtype else leaves[place]
            for place, dtype, value in self.inputs
        ]


class Engine:
    """The prepared structures of one function; safe under threads."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.most_bytes = math.inf if options.memory is None else options.memory
        self._lock = threading.Lock()
        self._structures: OrderedDict[Hashable, _Structure] = OrderedDict()
        self._places = Places()
        self._ways: dict[tuple[Expression, ...], _Way] = {}
        self.repeats = False  # calls may be known without tracing them

    def places(self) -> Places:
        """Return what regions name their values by: the same for all calls, or begun anew."""
        if self._places.full or len(self._ways) > _WAYS:
            with self._lock:
                self._places, self._ways = Places(), {}
        return self._places

    def prepared(
        self, record: Record, wanted: tuple[Expression, ...]
    ) -> tuple[Prepared | BlockPlan, list[Any], bool]:
        """Return what computes expressions, its inputs, and whether it was known already.

        A number that differs from the first call's, such as a step size, becomes an input, and
        so does one that looks computed.
        """
        way = self._ways.get(wanted)
        if way is not None:
            inputs = way.inputs_of(record)
            if inputs is not None:
                return way.prepared, inputs, True
        region_ = region(wanted, record)
        texts = {number: repr(value) for number, value in region_.constants.items()}
        with self._lock:
            structure = self._structures.get(region_.key)
            if structure is None:
                structure = self._structures[region_.key] = _Structure(texts, frozenset())
                while len(self._structures) > _KEPT:
                    self._structures.popitem(last=False)
            else:
                self._structures.move_to_end(region_.key)
            first = structure.first
            new = {
                number
                for number, text in texts.items()
                if first[number] != text or len(text) > _LITERAL
            }
            if not new <= structure.varying:
                structure.varying |= new
            varying = structure.varying
            runnable = structure.prepared.get(varying)
        inputs = region_.inputs(varying)
        cached = runnable is not None
        if runnable is None:
            prepared_region = self._prepare(region_.program(varying), inputs)
            with self._lock:
                runnable = structure.prepared.setdefault(varying, prepared_region)
        if all(expression.steady for expression in wanted):
            self._ways[wanted] = _way(region_, structure, varying, runnable, record)
        return runnable, inputs, cached

    def _prepare(self, program: Program, inputs: Sequence[Any]) -> Prepared | BlockPlan:
        if not any(isinstance(input_, Partitioned) for input_ in inputs):
            tunes = self.options.heuristic == "cost"
            return prepare(program, replace(self.options, repeats=self.repeats, tunes=tunes))
        from ..blocks.block_plan import prepare_blocks

        return prepare_blocks(program, inputs, self.options)

    def prepared_regions(self) -> Sequence[Prepared | BlockPlan]:
        """Return the prepared structures, the least recently used first."""
        with self._lock:
            kept = list(self._structures.values())
            return [prepared for structure in kept for prepared in structure.prepared.values()]


def _way(
    region: Region,
    structure: _Structure,
    varying: frozenset[int],
    prepared: Prepared | BlockPlan,
    record: Record,
) -> _Way:
    """Return how a region is known again, in a call that went the same way."""
    numbers: list[tuple[int, Any]] = []
    inputs: list[tuple[int, str, Any]] = []
    for number, expression in enumerate(region.expressions):
        if expression.op == "Input":
            inputs.append((expression.place, "", None))
        elif number in varying:
            inputs.append((expression.place, expression.dtype, region.constants[number]))
        elif expression.op == "Constant" and expression.place >= 0:
            numbers.append((expression.place, record.numbers[expression.place]))
    return _Way(structure, varying, prepared, tuple(numbers), tuple(inputs))
