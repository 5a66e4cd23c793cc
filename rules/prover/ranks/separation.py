"""Whether the axes of a list have nothing to do with each other, and how many a difference needs.

Each axis by itself can be left out of such a statement, in whatever order they stand.

Where nothing is summed over, an element of either side is computed with a few elements of operands,
which conditions on indices choose: Pad takes an element of its operand where all axes say so, and
the number that fills elsewhere. Let the sides differ at some index, and let no condition connect
two axes. Keep of the axes

- for each condition that doesn't hold there, one along which it doesn't;
- of each operand that is read at n places, so many that two different ones differ along one of
  them: n - 1 do (Bondy, Induced subsets, 1972).

Without the others each condition holds that held, and no other; places that were the same are the
same, and different ones are different. So operands can hold the same elements there, and both sides
compute what they computed. The same goes for a target that reads out of bounds, with the axis along
which it does; as long as no condition asks about elements, those needn't be told apart there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TypeVar

from ....catalog.operators.expand import Definition
from ....catalog.terms.index_notation import (
    Apply,
    Read,
    Reduce,
    Select,
    Symbol,
    Term,
    Variable,
    map_children,
    reads,
    select,
    subterms,
    symbol_names,
)
from ..statement import Outcome, Statement
from .slicing import Program, canonical


class _ManyError(Exception):
    """Something is summed over, or a number is made of indices."""


@dataclass(frozen=True)
class _Uses:
    """The conditions on indices that one element may depend on, and how often it reads what."""

    conditions: int = 0
    elements: Counter[str] = field(default_factory=Counter)
    # Whether elements decide anything, too.
    compared: bool = False

    def __add__(self, other: _Uses) -> _Uses:
        return _Uses(
            self.conditions + other.conditions,
            self.elements + other.elements,
            self.compared or other.compared,
        )


def axes_needed(program: Program) -> int | None:
    """Return how many axes of a list a difference needs at most; None where that isn't known."""
    uses_of: dict[str, _Uses] = {}
    operands = {operand.name for operand in program.operands}
    most = 0
    try:
        for definition in program.definitions:
            uses_of[definition.name] = _uses(definition.value, uses_of, operands)
        for pair in program.equations:
            both = _Uses()
            for name in pair:
                both += uses_of.get(name, _Uses(0, Counter([name])))
            repeated = sum(count - 1 for count in both.elements.values())
            outside = both.conditions + 1 + (repeated if both.compared else 0)
            most = max(most, both.conditions + repeated, outside)
    except _ManyError:
        return None
    return most


def _uses(term: Term, uses_of: dict[str, _Uses], operands: set[str]) -> _Uses:
    match term:
        case Read(tensor, indices):
            if any(map(reads, indices)):
                raise _ManyError
            return _Uses(0, Counter([tensor])) if tensor in operands else uses_of[tensor]
        case Select(condition, then, otherwise):
            uses = _asked(condition, uses_of, operands)
            for part in (then, otherwise):
                uses += _uses(part, uses_of, operands)
            return uses
        case Apply(_, arguments) if reads(term):
            uses = _Uses()
            for part in arguments:
                uses += _uses(part, uses_of, operands)
            return uses
        case _ if isinstance(term, Reduce) or not counts_nothing(term):
            raise _ManyError
        case _:
            return _Uses()


def _asked(condition: Term, uses_of: dict[str, _Uses], operands: set[str]) -> _Uses:
    match condition:
        case Apply("and" | "or" | "not", arguments) if reads(condition):
            uses = _Uses()
            for part in arguments:
                uses += _asked(part, uses_of, operands)
            return uses
        case _ if reads(condition):
            return _uses(condition, uses_of, operands) + _Uses(compared=True)
        case _:
            return _Uses(1)


def counts_nothing(term: Term) -> bool:
    """Whether no number is made of indices or of sizes of axes, but for where elements are read."""
    match term:
        case Read():
            return True
        case Variable():
            return False
        case Symbol(name):
            return "." not in name
        case Reduce():
            return False
        case Apply(_, arguments):
            return all(map(counts_nothing, arguments))
        case Select(condition, then, otherwise):
            return all(map(counts_nothing, (condition, then, otherwise)))
        case _:
            return not any(isinstance(part, Variable) for part in subterms(term))


__all__ = ["axes_needed", "counts_nothing"]


# Values that are the same at all places.
_Number = int | float | Symbol


@dataclass
class _Connections:
    """What is connected with what."""

    parents: dict[object, object] = field(default_factory=dict)
    # Tensors that are 0; None where values aren't sums of products, so that it says nothing.
    zeros: set[str] | None = None
    # Whether the list is long enough for all choices between elements (separation.py).
    chosen: bool = False

    def root(self, member: object) -> object:
        while (parent := self.parents.setdefault(member, member)) != member:
            member = parent
        return member

    def join(self, members: Iterable[object]) -> None:
        member_list = list(members)
        for member, next_member in pairwise(member_list):
            self.parents[self.root(member)] = self.root(next_member)


@dataclass(frozen=True)
class AxisPartition:
    """What belongs to each axis of a list of which no constraint connects two: each has a number.

    `places` are the axes of tensors, `indices` those of definitions by the definition's name.
    """

    places: dict[tuple[str, int], int]
    indices: dict[tuple[str, Variable], int]
    symbols: dict[str, int]


def separates(statement: Statement, name: str, outcome: Outcome) -> bool:
    """Whether no constraint connects two axes of a list that is long enough for all its terms.

    The axes of the list stand in their order in each tensor. A permutation of R + 1 axes is none of
    R axes and one more: taking away all axes but a few from what is permuted leaves what was proved
    only where nothing is permuted.
    """
    partition = axis_partition(statement, name, outcome)
    if partition is None:
        return False
    orders: dict[str, list[int]] = {}
    for (tensor, _), axis in sorted(partition.places.items()):
        orders.setdefault(tensor, []).append(axis)
    return all(earlier < later for axes in orders.values() for earlier, later in pairwise(axes))


def axis_partition(statement: Statement, name: str, outcome: Outcome) -> AxisPartition | None:
    """What belongs to each axis of a list that is long enough for all terms; None if connected."""
    extent = statement.free[name]
    if not statement.equations or not extent.places or extent.length < 2:
        return None
    program = Program.of(statement)
    needed = axes_needed(program)
    groups = _Connections(chosen=needed is not None and needed <= extent.length)
    if outcome.widest - 1 > extent.length and not groups.chosen:
        return None
    shapes = program.shapes
    for tensor, shape in shapes.items():
        for axis, size in enumerate(shape):
            groups.join([(tensor, axis), *_axis_symbols(size)])
    groups.zeros = _zeros(program)
    for definition in program.definitions:
        defined = definition.name
        for axis, index in enumerate(definition.indices):
            groups.join([(defined, axis), (defined, index)])
        _connect(groups, defined, definition.value)
    for condition in statement.assumptions:
        _connect(groups, "", condition)
    for obligation in statement.obligations:
        _connect(groups, "", obligation.condition)
    axes: dict[object, int] = {}
    for axis in range(extent.length):
        roots = {groups.root((tensor, first + axis)) for tensor, first in extent.places}
        if roots & axes.keys():
            return None
        axes |= dict.fromkeys(roots, axis)
    partition = AxisPartition({}, {}, {})
    for member in list(groups.parents):
        axis_of = axes.get(groups.root(member))
        match member:
            case _ if axis_of is None:
                continue
            case str(symbol):
                partition.symbols[symbol] = axis_of
            case (str(defined), Variable() as index):
                partition.indices[defined, index] = axis_of
            case (str(tensor), int(axis)):
                partition.places[tensor, axis] = axis_of
    return partition


def _zeros(program: Program) -> set[str] | None:
    """The tensors that are 0, if all values are sums of products of elements and numbers.

    Where elements are only moved, and what is filled in is everywhere the same, that counts as 0:
    the sides are equal where they hold the same elements of operands at the same places.
    """
    if not all(_is_sum(definition.value) for definition in program.definitions):
        return None
    fills = {
        definition.value
        for definition in program.definitions
        if isinstance(definition.value, _Number)
    }
    operands = {
        operand.name for operand in program.operands if all(size == 1 for size in operand.shape)
    }
    same = len(fills) + len(operands) == 1
    if same and all(_is_move(definition.value) for definition in program.definitions):
        return operands | {
            definition.name for definition in program.definitions if definition.value in fills
        }
    return {
        definition.name for definition in program.definitions if _is_number(definition.value, 0)
    }


def _is_move(term: Term) -> bool:
    """Whether a value is an element, or a number that fills a whole tensor."""
    match term:
        case Read():
            return True
        case Select(_, then, otherwise):
            return all(isinstance(part, Read | Select) for part in (then, otherwise)) and all(
                map(_is_move, (then, otherwise))
            )
        case _:
            return isinstance(term, _Number)


def _is_zero(term: Term, zeros: set[str] | None) -> bool:
    if zeros is None:
        return False
    return _is_number(term, 0) or (isinstance(term, Read) and term.tensor in zeros)


def _is_number(term: Term, number: int) -> bool:
    return isinstance(term, int | float) and not isinstance(term, bool) and term == number


def _is_sum(term: Term) -> bool:
    """Whether a value is a sum of products; what reads no element is a number."""
    match term:
        case Read(_, indices):
            return not any(map(reads, indices))
        case Apply("+" | "-" | "*" | "neg", arguments):
            return all(map(_is_sum, arguments))
        case Apply("/", (whole, by)):
            return _is_sum(whole) and _is_count(by)
        case Select(condition, then, otherwise):
            return not reads(condition) and _is_sum(then) and _is_sum(otherwise)
        case Reduce("sum", _, _, condition, body):
            return not reads(condition) and _is_sum(body)
        case _:
            return not reads(term)


def _is_count(term: Term) -> bool:
    """Whether a number is made of sizes and indices alone, such as how many elements there are."""
    return not any(
        isinstance(part, Read) or (isinstance(part, Reduce) and part.kind != "sum")
        for part in subterms(term)
    )


def _connect(groups: _Connections, defined: str, term: Term) -> None:
    """Connect what stands together in an index, a comparison or a number of a value."""
    match term:
        case Read(tensor, indices):
            for axis, index in enumerate(indices):
                groups.join([(tensor, axis), *_members(defined, index)])
        case Reduce(_, variables, extents, condition, body):
            for variable, extent in zip(variables, extents, strict=True):
                groups.join([(defined, variable), *_members(defined, extent)])
            _connect(groups, defined, condition)
            _connect(groups, defined, body)
        case Select(condition, then, otherwise) if groups.chosen or _by_elements(condition):
            for part in (condition, then, otherwise):
                _connect(groups, defined, part)
        case Select(condition, then, otherwise) if _is_zero(otherwise, groups.zeros):
            _connect(groups, defined, condition)  # a guard of the product like any other
            _connect(groups, defined, then)
        case Select(condition, then, otherwise):
            # either branch stands under the whole condition
            groups.join(_members(defined, condition))
            for part in (then, otherwise):
                _connect(groups, defined, part)
        case Apply("and", arguments):
            for part in arguments:
                _connect(groups, defined, part)
        case Apply("or" | "not" | "=" | "!=" | "<" | "<=" | ">" | ">=") if not reads(term):
            groups.join(_members(defined, term))
        case Apply(function, arguments) if reads(term) or function == "*":
            for part in arguments:
                _connect(groups, defined, part)
        case Apply():
            groups.join(_members(defined, term))


def _by_elements(condition: Term) -> bool:
    """Whether a condition compares elements and nothing else: it is a function of them."""
    match condition:
        case Apply("and" | "or" | "not", arguments):
            return all(map(_by_elements, arguments))
        case _:
            return reads(condition) and counts_nothing(condition)


def _members(defined: str, term: Term) -> Iterator[object]:
    for part in subterms(term):
        if isinstance(part, Variable):
            yield (defined, part)
        elif isinstance(part, Symbol):
            yield from _axis_symbols(part)


def _axis_symbols(term: Term) -> Iterator[object]:
    """The symbols that belong to an axis; others are the same for all axes and connect none."""
    for name in sorted(symbol_names(term)):
        if "." in name:
            yield name


T = TypeVar("T")


def leaves_out(statement: Statement, name: str, outcome: Outcome, smaller: Collection[str]) -> bool:
    """Whether each axis of a list can be left out so that a case is left that was looked at.

    No constraint connects two of the axes, and the list is long enough for all terms (separation).
    `smaller` are the cases in which what `name` measures is one shorter, in canonical spelling.
    """
    if statement.region is not None:
        return False
    partition = axis_partition(statement, name, outcome)
    if partition is None:
        return False
    program = Program.of(statement)
    for axis in range(statement.free[name].length):
        try:
            without = _AxisRemoval(program, partition, axis).program()
        except _DependsError:
            return False
        if canonical(without) not in smaller:
            return False
    return True


class _DependsError(Exception):
    """Something else depends on the axis."""


@dataclass
class _AxisRemoval:
    """What is left of a program without an axis: its guards hold, its indices aren't read at.

    That is the program at indices along the axis where all its guards hold.
    """

    whole: Program
    partition: AxisPartition
    axis: int

    def program(self) -> Program:
        """The program that is left; _StaysError where the axis is more than a place to read at."""
        axis_symbols = {name for name, axis in self.partition.symbols.items() if axis == self.axis}
        operands = tuple(
            replace(operand, shape=self._kept(operand.name, operand.shape))
            for operand in self.whole.operands
        )
        definitions = tuple(map(self._definition, self.whole.definitions))
        shapes = [
            *(operand.shape for operand in operands),
            *(definition.shape for definition in definitions),
        ]
        terms = [*(size for shape in shapes for size in shape), *(d.value for d in definitions)]
        if any(axis_symbols & symbol_names(term) for term in terms):
            raise _DependsError
        kept_assumptions = tuple(
            assumption
            for assumption in self.whole.assumptions
            if not axis_symbols & symbol_names(assumption)
        )
        return Program(operands, definitions, self.whole.equations, kept_assumptions, ())

    def _definition(self, definition: Definition) -> Definition:
        value = self._term(definition.name, definition.value)
        indices = (part for part in subterms(value) if isinstance(part, Variable))
        if any(self._goes(definition.name, index) for index in indices):
            raise _DependsError
        return Definition(
            definition.name,
            self._kept(definition.name, definition.shape),
            self._kept(definition.name, definition.indices),
            value,
        )

    def _goes(self, defined: str, index: Variable) -> bool:
        return self.partition.indices.get((defined, index)) == self.axis

    def _kept(self, tensor: str, items: Iterable[T]) -> tuple[T, ...]:
        return tuple(
            item
            for axis, item in enumerate(items)
            if self.partition.places.get((tensor, axis)) != self.axis
        )

    def _belongs(self, defined: str, term: Term) -> bool:
        """Whether a condition is one on the axis."""
        return any(
            (isinstance(part, Variable) and self._goes(defined, part))
            or any(self.partition.symbols.get(name) == self.axis for name in symbol_names(part))
            for part in subterms(term)
        )

    def _guard(self, defined: str, term: Term) -> Term:
        match term:
            case Apply("and", arguments):
                kept_parts = [
                    kept_part
                    for part in arguments
                    if (kept_part := self._guard(defined, part)) is not True
                ]
                return _conjunction(kept_parts)
            case _:
                return True if self._belongs(defined, term) else term

    def _term(self, defined: str, term: Term) -> Term:
        match term:
            case Read(tensor, indices):
                return Read(tensor, self._kept(tensor, indices))
            case Select(condition, then, otherwise):
                guard = self._guard(defined, condition)
                return select(guard, self._term(defined, then), self._term(defined, otherwise))
            case Reduce():
                raise _DependsError  # how often an element is taken may depend on the axis
            case _:
                return map_children(lambda part: self._term(defined, part), term)


def _conjunction(conditions: list[Term]) -> Term:
    """Conditions joined as they were: from the left."""
    whole: Term = True
    for condition in conditions:
        whole = condition if whole is True else Apply("and", (whole, condition))
    return whole
