"""Terms by size, larger ones of representatives only: the classes of what was seen to be equal.

After Ruler (Nandi et al., OOPSLA 2021): a term whose characteristic vector is known belongs to that
class and is built upon no further; that it equals the representative is a candidate for a rule.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
import numpy.typing as npt

from ...catalog.operators.expand import Expansion
from .choices import MOST_CHOICES, each_operation_on, expansions_of, operations_on, slots_of
from .fingerprint import (
    Digests,
    Programs,
    Vectors,
    alike,
    arithmetic_of,
    constant_vectors,
    digests,
    input_vectors,
    reads_by_element,
    sort_of_term,
)
from .terms import Apply, Operation, Sort, Term, Variable

# Terms computed at once, and elements that a tensor may have beyond those of the largest variable.
_BATCH = 1 << 13
_GROWTH = 4

# Beyond so many bytes of classes nothing is built.
_MOST_BYTES = 1 << 31

# Kinds of operands on which an operation is tried to see that it adds nothing.
_WITNESSES = 2

# Bits of an int64 that tell operators and variables apart.
_BITS = 62

ENode = tuple[int, tuple[int, ...]]
"""How a term is made: the number of its operation, and the classes it reads."""


@dataclass(frozen=True)
class Workload:
    """What is worth building of more than `free` operators (Enumo: Pal et al., OOPSLA 2023).

    Laws are stated with few operators, of which few repeat a variable: at most so many different
    `operators`, so many `repeats` of variables, and so much `said` that may be left out, each
    counted as an operator. Of what an operator leaves to choose on the same operands, the first
    `choices` stand for all in terms of two operators, and half as many in those of each operator
    more, whatever these are made of: attributes stay open in rules. Constants stand in terms of up
    to `constant` operators, once in each.
    """

    operators: int = 3
    repeats: int = 1
    said: int = 4
    choices: int = 4
    free: int = 2
    constant: int = 1

    def most_choices(self, nodes: int) -> int:
        """How many of an operator's choices stand for all in terms of so many operators."""
        return MOST_CHOICES if nodes < 2 else max(1, self.choices >> (nodes - 2))


@dataclass(frozen=True)
class Equality:
    """A term that has the vector of a class it did not found: operation, operands, class."""

    e_node: ENode
    equal_to: int


@dataclass
class Level:
    """What the terms of one size were: how many, how many new classes, what equals what."""

    nodes: int
    terms: int = 0
    undefined: int = 0
    classes: int = 0
    equalities: list[Equality] = field(default_factory=list)
    complete: bool = True


@dataclass(frozen=True)
class _Applied:
    """An operation on operands of some sorts; `choice` counts those that these leave, from 1."""

    operation: Operation
    sorts: tuple[Sort, ...]
    result_sort: Sort
    choice: int


@dataclass
class _SortClasses:
    """The classes of one sort: their vectors, and their numbers."""

    sort: Sort
    vectors: list[Vectors] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    rows: dict[int, int] = field(default_factory=dict)
    # Numbers by size, and the largest of the choices that their terms are made with.
    by_choice: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    _joined: tuple[int, Vectors] | None = None

    def pool(self, nodes: int, most_choices: int) -> list[int]:
        """The classes of so many operators, of which each is one of the first choices."""
        return [
            number
            for (size, choice), numbers in self.by_choice.items()
            if size == nodes and choice <= most_choices
            for number in numbers
        ]

    def take(self, classes: npt.NDArray[np.int64], assignment: int) -> npt.NDArray[np.generic]:
        """The values of classes under an assignment."""
        if self._joined is None or self._joined[0] != len(self.vectors):
            joined = tuple(np.concatenate(parts) for parts in zip(*self.vectors, strict=True))
            self.vectors = [joined]
            self._joined = (1, joined)
        rows = np.array([self.rows[c] for c in classes.tolist()], np.int64)
        return self._joined[1][assignment][rows]


class _Traits:
    """What classes are made of, by their numbers: bits of operators and variables, and counts."""

    def __init__(self) -> None:
        self._bits: dict[str, int] = {}
        self.operators, self.variables = array("q"), array("q")
        self.leaves, self.options = array("q"), array("q")
        self.constants = array("q")
        self.choices = array("q")

    def add_leaf(self, variable: int) -> None:
        self.operators.append(0)
        self.variables.append(variable)
        self.leaves.append(int(variable != 0))
        self.options.append(0)
        self.constants.append(int(variable == 0))
        self.choices.append(0)

    def add(self, operands: Sequence[int], operation: Operation, choice: int) -> None:
        operators, variables = self._bit(operation.op_type), 0
        for operand in operands:
            operators |= self.operators[operand]
            variables |= self.variables[operand]
        self.operators.append(operators)
        self.variables.append(variables)
        self.leaves.append(sum(self.leaves[operand] for operand in operands))
        self.options.append(operation.options + sum(self.options[o] for o in operands))
        self.constants.append(sum(self.constants[operand] for operand in operands))
        self.choices.append(max([choice, *(self.choices[operand] for operand in operands)]))

    def worth(
        self,
        chosen: npt.NDArray[np.int64],
        operation: Operation,
        nodes: int,
        workload: Workload | None,
    ) -> npt.NDArray[np.bool_]:
        """Which terms to build: none of constants alone, and of large ones those of a workload."""
        variables = np.bitwise_or.reduce(_column(self.variables)[chosen], axis=1)
        keep: npt.NDArray[np.bool_] = variables != 0
        if workload is None:
            return keep
        options = _column(self.options)[chosen].sum(axis=1) + operation.options
        keep &= nodes + options <= workload.said
        constants = _column(self.constants)[chosen].sum(axis=1)
        keep &= constants <= (nodes <= workload.constant)
        if nodes <= workload.free:
            return keep
        operators = np.bitwise_or.reduce(_column(self.operators)[chosen], axis=1)
        keep &= _bits(operators | self._bit(operation.op_type)) <= workload.operators
        leaves = _column(self.leaves)[chosen].sum(axis=1)
        return np.asarray(keep & (leaves - _bits(variables) <= workload.repeats))

    def _bit(self, op_type: str) -> int:
        return 1 << self._bits.setdefault(op_type, len(self._bits) % _BITS)


def _column(values: array[int]) -> npt.NDArray[np.int64]:
    return np.array(values, np.int64)


def _bits(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """How many bits of each number are set."""
    octets = np.ascontiguousarray(numbers).view(np.uint8).reshape(len(numbers), -1)
    return np.asarray(np.unpackbits(octets, axis=1).sum(axis=1, dtype=np.int64))


class Enumeration:
    """Classes of terms over operators and variables, grown size by size.

    `stop` is asked between batches whether to end early; what was seen until then stands.
    """

    def __init__(
        self,
        operators: Sequence[str],
        inputs: Sequence[Variable],
        seed: int = 0,
        *,
        constants: Sequence[Term] = (),
        workload: Workload | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self.operators, self.inputs, self.stop = tuple(operators), tuple(inputs), stop
        self.bytes = 0
        self.operations: list[Operation] = []
        self.terms: list[ENode | Term] = []
        self.workload = workload
        self._traits = _Traits()
        self.sizes: list[int] = []
        self.digests: list[bytes] = []
        self.sorts: list[Sort] = []
        self._numbers: dict[Operation, int] = {}
        self._classes_by_sort: dict[Sort, _SortClasses] = {}
        # By the place of a hash among those of a term, and the hash.
        self._class_of: dict[tuple[Sort, int, bytes], int] = {}
        expansions = list(self._expansions())
        self.places = any(map(reads_by_element, expansions))
        self.arithmetic = arithmetic_of(expansions)
        self._programs = Programs(self.arithmetic)
        self._built: dict[int, Term] = {}
        self._seed = seed
        self._redundant: dict[
            tuple[Operation, tuple[_Kind, ...]], dict[tuple[Sort, ...], bool]
        ] = {}
        self._meanings: dict[tuple[Sort, ...], list[tuple[Sort, Digests]]] = {}
        self._first_size: dict[tuple[Operation, tuple[_Kind, ...]], int] = {}
        self._largest = _GROWTH * max(
            math.prod(shape) for input_ in inputs for shape in input_.sort.shapes
        )
        input_values = self._drawn(self.inputs, seed)
        for number, (variable, vectors) in enumerate(zip(self.inputs, input_values, strict=True)):
            self._take_leaf(variable.sort, variable, vectors, 1 << number % _BITS)
        for constant in constants:
            samples = input_values[0][0].shape[1]
            vectors = constant_vectors(constant, self._programs, samples)
            self._take_leaf(sort_of_term(constant), constant, vectors, 0)

    # ------------------------------------------------------------------------------- reading

    def term(self, number: int) -> Term:
        """The representative of a class."""
        if number not in self._built:
            e_node = self.terms[number]
            self._built[number] = self.applied(e_node) if isinstance(e_node, tuple) else e_node
        return self._built[number]

    def applied(self, e_node: ENode) -> Term:
        """The term that an operation on classes is."""
        operation, operands = e_node
        return Apply(self.operations[operation], tuple(map(self.term, operands)))

    # ------------------------------------------------------------------------------- growing

    def grow(self, nodes: int, *, last: bool) -> Level:
        """Build all terms of so many operators; of the `last` size nothing is built upon."""
        level = Level(nodes)
        for op_type in self.operators:
            for slots in slots_of(op_type):
                for sizes in _compositions(nodes - 1, len(slots)):
                    for applied in self._fitting(op_type, sizes, nodes):
                        if not self._apply(level, applied, sizes, last):
                            level.complete = False
                            return level
                    if self.stop():
                        level.complete = False
                        return level
        return level

    def _fitting(self, op_type: str, sizes: tuple[int, ...], nodes: int) -> Iterator[_Applied]:
        most = self._most_choices(nodes)
        options = [[s for s, k in self._classes_by_sort.items() if k.pool(n, most)] for n in sizes]
        for sorts in product(*options):
            if self.stop():  # of large terms there are more sorts than time to look at them
                return
            count = 0
            for operation, result_sort in each_operation_on(op_type, sorts):
                if operation.commutative and not _ordered(sorts, sizes, self._order):
                    continue
                if max(map(math.prod, result_sort.shapes)) > self._largest:
                    continue
                if self._was_seen_redundant(operation, sorts, result_sort, nodes):
                    continue
                count += 1
                if count > most:
                    break
                yield _Applied(operation, sorts, result_sort, count)

    def _most_choices(self, nodes: int) -> int:
        return MOST_CHOICES if self.workload is None else self.workload.most_choices(nodes)

    def _was_seen_redundant(
        self, operation: Operation, sorts: tuple[Sort, ...], result_sort: Sort, nodes: int
    ) -> bool:
        """Whether smaller terms showed that an operation adds nothing on any such operands.

        It gives an operand, as a Transpose that permutes nothing, or what an earlier operation
        gives. That is seen on the smallest operands of the kind, twice; all others are instances.
        """
        key = (operation, tuple(_kind(sort) for sort in sorts))
        first = self._first_size.setdefault(key, nodes) == nodes
        seen = self._redundant.setdefault(key, {})
        if sorts not in seen and len(seen) < _WITNESSES:
            seen[sorts] = self._is_redundant(operation, sorts, result_sort)
        return not first and all(seen.values())

    def _is_redundant(
        self, operation: Operation, sorts: tuple[Sort, ...], result_sort: Sort
    ) -> bool:
        anything = [Variable(f"any{slot}", sort) for slot, sort in enumerate(sorts)]
        drawn = self._drawn(anything, self._seed + 1)
        if sorts not in self._meanings:
            self._meanings[sorts] = [
                (sort, digest)
                for sort, vectors in zip(sorts, drawn, strict=True)
                for digest in digests(vectors, self.arithmetic)
            ]
        meanings = self._meanings[sorts]
        programs = self._programs.of(operation, sorts, result_sort)
        results = [
            program.run([vectors[assignment] for vectors in drawn])
            for assignment, program in enumerate(programs)
        ]
        (digest,) = digests(tuple(values for values, _ in results), self.arithmetic)
        is_defined = all(defined.all() for _, defined in results)
        is_redundant = is_defined and any(
            sort == result_sort and alike(digest, other) for sort, other in meanings
        )
        meanings.append((result_sort, digest))
        return is_redundant

    def _order(self, sort: Sort) -> int:
        return list(self._classes_by_sort).index(sort)

    def _apply(self, level: Level, applied: _Applied, sizes: tuple[int, ...], last: bool) -> bool:
        """Compute an operation on all classes of some sorts and sizes; False: asked to stop."""
        operation, sorts, result_sort = applied.operation, applied.sorts, applied.result_sort
        most = self._most_choices(level.nodes)
        programs = self._programs.of(operation, sorts, result_sort)
        number = self._numbers.setdefault(operation, len(self.operations))
        if number == len(self.operations):
            self.operations.append(operation)
        pools = [
            np.array(self._classes_by_sort[sort].pool(size, most), np.int64)
            for sort, size in zip(sorts, sizes, strict=True)
        ]
        alike = operation.commutative and len(set(zip(sorts, sizes, strict=True))) == 1
        for chosen in _tuples(pools, ordered=alike):
            chosen = chosen[self._traits.worth(chosen, operation, level.nodes, self.workload)]
            if not len(chosen):
                continue
            if self.stop() or self.bytes > _MOST_BYTES:
                return False
            vectors, defined = [], np.ones(len(chosen), bool)
            for assignment, program in enumerate(programs):
                operands = [
                    self._classes_by_sort[sort].take(chosen[:, i], assignment)
                    for i, sort in enumerate(sorts)
                ]
                values, whole = program.run(operands)
                vectors.append(values)
                defined &= whole
            level.terms += len(chosen)
            level.undefined += int((~defined).sum())
            self._sorted_out(level, number, chosen, tuple(vectors), defined, applied, last)
        return True

    def _sorted_out(
        self,
        level: Level,
        number: int,
        chosen: npt.NDArray[np.int64],
        vectors: Vectors,
        defined: npt.NDArray[np.bool_],
        applied: _Applied,
        last: bool,
    ) -> None:
        result_sort = applied.result_sort
        fresh: list[int] = []
        rows = chosen.tolist()
        for row, digest in enumerate(digests(vectors, self.arithmetic)):
            if not defined[row]:
                continue
            e_node: ENode = (number, tuple(rows[row]))
            equal_class = self._class_with(result_sort, digest)
            if equal_class is not None:
                level.equalities.append(Equality(e_node, equal_class))
                continue
            self._register(result_sort, digest)
            fresh.append(row)
            self.terms.append(e_node)
            self.sizes.append(level.nodes)
            self.digests.append(digest[0])
            self.sorts.append(result_sort)
            self._traits.add(e_node[1], self.operations[number], applied.choice)
        level.classes += len(fresh)
        if fresh and not last:
            first = len(self.terms) - len(fresh)
            self._keep(
                result_sort,
                range(first, len(self.terms)),
                level.nodes,
                tuple(values[fresh] for values in vectors),
            )

    def _class_with(self, sort: Sort, digest: Digests) -> int | None:
        """The class that has one of a term's hashes."""
        numbers = (self._class_of.get((sort, i, word)) for i, word in enumerate(digest))
        return next((number for number in numbers if number is not None), None)

    def _register(self, sort: Sort, digest: Digests) -> None:
        """Let the next term found a class."""
        for i, word in enumerate(digest):
            self._class_of[sort, i, word] = len(self.terms)

    def _take_leaf(self, sort: Sort, leaf: Term, vectors: Vectors, variable: int) -> None:
        """Take a leaf: a variable with its bit, or a constant, unless it equals an earlier one."""
        (digest,) = digests(vectors, self.arithmetic)
        if self._class_with(sort, digest) is not None:
            return
        self._register(sort, digest)
        self.terms.append(leaf)
        self.sizes.append(0)
        self.digests.append(digest[0])
        self.sorts.append(sort)
        self._traits.add_leaf(variable)
        self._keep(sort, range(len(self.terms) - 1, len(self.terms)), 0, vectors)

    def _keep(self, sort: Sort, classes: range, nodes: int, vectors: Vectors) -> None:
        sort_classes = self._classes_by_sort.setdefault(sort, _SortClasses(sort))
        for number in classes:
            sort_classes.rows[number] = len(sort_classes.ids)
            sort_classes.ids.append(number)
            choice = self._traits.choices[number]
            sort_classes.by_choice.setdefault((nodes, choice), []).append(number)
        sort_classes.vectors.append(vectors)
        self.bytes += sum(values.nbytes for values in vectors)

    def _drawn(self, variables: Sequence[Variable], seed: int) -> list[Vectors]:
        return input_vectors(variables, seed, self.arithmetic, places=self.places)

    def _expansions(self) -> Iterator[Expansion]:
        """What the operators compute: the first that fits operands of each of the sorts."""
        sorts = list(dict.fromkeys(input_.sort for input_ in self.inputs))
        for op_type in self.operators:
            for slots in slots_of(op_type):
                for chosen in product(sorts, repeat=len(slots)):
                    for operation, _ in operations_on(op_type, chosen)[:1]:
                        yield from expansions_of(operation, chosen) or ()


# What matters of a sort where sizes don't: its type, its rank, and where it has one element.
_Kind = tuple[str, tuple[bool, ...]]


def _kind(sort: Sort) -> _Kind:
    return sort.dtype, tuple(size == 1 for size in sort.shapes[0])


def _compositions(total: int, count: int) -> Iterator[tuple[int, ...]]:
    """All ways to write a number as a sum of so many, in order."""
    if count == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in _compositions(total - first, count - 1):
            yield (first, *rest)


def _ordered(sorts: tuple[Sort, ...], sizes: tuple[int, ...], order: Callable[[Sort], int]) -> bool:
    """Whether operands that commute stand in the one order in which they are built."""
    keys = [(size, order(sort)) for size, sort in zip(sizes, sorts, strict=True)]
    return keys == sorted(keys)


def _tuples(
    pools: Sequence[npt.NDArray[np.int64]], *, ordered: bool
) -> Iterator[npt.NDArray[np.int64]]:
    """All combinations of classes in batches; of classes that may be permuted, sorted ones."""
    total = math.prod(map(len, pools))
    for start in range(0, total, _BATCH):
        rest = np.arange(start, min(total, start + _BATCH))
        columns = []
        for pool in reversed(pools):
            columns.append(pool[rest % len(pool)])
            rest = rest // len(pool)
        chosen = np.stack(columns[::-1], axis=1)
        if ordered:
            chosen = chosen[(np.diff(chosen, axis=1) >= 0).all(axis=1)]
        if len(chosen):
            yield chosen
