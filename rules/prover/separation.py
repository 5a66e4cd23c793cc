"""Whether the axes of a list have nothing to do with each other in a statement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from ...catalog.operators.terms import Apply, Read, Reduce, Select, Symbol, Term, Variable
from .chosen import axes_needed, counts_nothing
from .slicing import Program
from .statement import Outcome, Statement
from .walk import parts, reads, symbol_names

# Values that are the same at all places.
_Number = int | float | Symbol


@dataclass
class _Groups:
    """What is connected with what."""

    parents: dict[object, object] = field(default_factory=dict)
    # Tensors that are 0; None where values aren't sums of products, so that it says nothing.
    zeros: set[str] | None = None
    # Whether the list is long enough for all choices between elements (chosen.py).
    chosen: bool = False

    def root(self, one: object) -> object:
        while (parent := self.parents.setdefault(one, one)) != one:
            one = parent
        return one

    def join(self, members: Iterable[object]) -> None:
        found = list(members)
        for one, other in pairwise(found):
            self.parents[self.root(one)] = self.root(other)


@dataclass(frozen=True)
class Apart:
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
    apart = separated(statement, name, outcome)
    if apart is None:
        return False
    orders: dict[str, list[int]] = {}
    for (tensor, _), axis in sorted(apart.places.items()):
        orders.setdefault(tensor, []).append(axis)
    return all(one < other for axes in orders.values() for one, other in pairwise(axes))


def separated(statement: Statement, name: str, outcome: Outcome) -> Apart | None:
    """What belongs to each axis of a list that is long enough for all terms; None if connected."""
    extent = statement.free[name]
    if not statement.equations or not extent.places or extent.length < 2:
        return None
    program = Program.of(statement)
    needed = axes_needed(program)
    groups = _Groups(chosen=needed is not None and needed <= extent.length)
    if outcome.widest - 1 > extent.length and not groups.chosen:
        return None
    shapes = program.shapes
    for tensor, shape in shapes.items():
        for at, size in enumerate(shape):
            groups.join([(tensor, at), *_axis_symbols(size)])
    groups.zeros = _zeros(program)
    for definition in program.definitions:
        own = definition.name
        for at, index in enumerate(definition.indices):
            groups.join([(own, at), (own, index)])
        _connect(groups, own, definition.value)
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
    found = Apart({}, {}, {})
    for member in list(groups.parents):
        axis_of = axes.get(groups.root(member))
        match member:
            case _ if axis_of is None:
                continue
            case str(symbol):
                found.symbols[symbol] = axis_of
            case (str(own), Variable() as index):
                found.indices[own, index] = axis_of
            case (str(tensor), int(at)):
                found.places[tensor, at] = axis_of
    return found


def _zeros(program: Program) -> set[str] | None:
    """The tensors that are 0, if all values are sums of products of elements and numbers.

    Where elements are only moved, and what is filled in is everywhere the same, that counts as 0:
    the sides are equal where they hold the same elements of operands at the same places.
    """
    if not all(_is_sum(one.value) for one in program.definitions):
        return None
    fills = {one.value for one in program.definitions if isinstance(one.value, _Number)}
    operands = {one.name for one in program.operands if all(size == 1 for size in one.shape)}
    same = len(fills) + len(operands) == 1
    if same and all(_is_move(one.value) for one in program.definitions):
        return operands | {one.name for one in program.definitions if one.value in fills}
    return {one.name for one in program.definitions if _is_number(one.value, 0)}


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
        for part in parts(term)
    )


def _connect(groups: _Groups, own: str, term: Term) -> None:
    """Connect what stands together in an index, a comparison or a number of a value."""
    match term:
        case Read(tensor, indices):
            for at, index in enumerate(indices):
                groups.join([(tensor, at), *_members(own, index)])
        case Reduce(_, variables, extents, condition, body):
            for variable, extent in zip(variables, extents, strict=True):
                groups.join([(own, variable), *_members(own, extent)])
            _connect(groups, own, condition)
            _connect(groups, own, body)
        case Select(condition, then, otherwise) if groups.chosen or _by_elements(condition):
            for part in (condition, then, otherwise):
                _connect(groups, own, part)
        case Select(condition, then, otherwise) if _is_zero(otherwise, groups.zeros):
            _connect(groups, own, condition)  # a guard of the product like any other
            _connect(groups, own, then)
        case Select(condition, then, otherwise):
            # either branch stands under the whole condition
            groups.join(_members(own, condition))
            for part in (then, otherwise):
                _connect(groups, own, part)
        case Apply("and", arguments):
            for part in arguments:
                _connect(groups, own, part)
        case Apply("or" | "not" | "=" | "!=" | "<" | "<=" | ">" | ">=") if not reads(term):
            groups.join(_members(own, term))
        case Apply(function, arguments) if reads(term) or function == "*":
            for part in arguments:
                _connect(groups, own, part)
        case Apply():
            groups.join(_members(own, term))


def _by_elements(condition: Term) -> bool:
    """Whether a condition compares elements and nothing else: it is a function of them."""
    match condition:
        case Apply("and" | "or" | "not", arguments):
            return all(map(_by_elements, arguments))
        case _:
            return reads(condition) and counts_nothing(condition)


def _members(own: str, term: Term) -> Iterator[object]:
    for part in parts(term):
        if isinstance(part, Variable):
            yield (own, part)
        elif isinstance(part, Symbol):
            yield from _axis_symbols(part)


def _axis_symbols(term: Term) -> Iterator[object]:
    """The symbols that belong to an axis; others are the same for all axes and connect none."""
    for name in sorted(symbol_names(term)):
        if "." in name:
            yield name
