"""Whether the axes of a list have nothing to do with each other in a statement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from ...catalog.operators.terms import Apply, Read, Reduce, Select, Symbol, Term, Variable
from .statement import Outcome, Statement
from .walk import parts, reads, symbol_names


@dataclass
class _Groups:
    """What is connected with what."""

    parents: dict[object, object] = field(default_factory=dict)

    def root(self, one: object) -> object:
        while (parent := self.parents.setdefault(one, one)) != one:
            one = parent
        return one

    def join(self, members: Iterable[object]) -> None:
        found = list(members)
        for one, other in pairwise(found):
            self.parents[self.root(one)] = self.root(other)


def separates(statement: Statement, name: str, outcome: Outcome) -> bool:
    """Whether no constraint connects two axes of a list that is long enough for all its terms."""
    extent = statement.free[name]
    long = extent.length >= 2 and outcome.widest - 1 <= extent.length
    if not statement.equations or not extent.places or not long:
        return False
    groups = _Groups()
    shapes = {one.name: one.shape for one in statement.operands}
    shapes |= {one.name: one.shape for one in statement.definitions}
    for tensor, shape in shapes.items():
        for at, size in enumerate(shape):
            groups.join([(tensor, at), *_axis_symbols(size)])
    for definition in statement.definitions:
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
            return False
        axes |= dict.fromkeys(roots, axis)
    return all(_in_order(tensor, len(shape), groups, axes) for tensor, shape in shapes.items())


def _in_order(tensor: str, rank: int, groups: _Groups, axes: Mapping[object, int]) -> bool:
    """Whether the axes of the list stand in their order in a tensor, each once at most.

    A permutation of R + 1 axes is none of R axes and one more: taking away all axes but a few from
    what is permuted leaves what was proved only where nothing is permuted.
    """
    found = [axes[root] for at in range(rank) if (root := groups.root((tensor, at))) in axes]
    return all(one < other for one, other in pairwise(found))


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
