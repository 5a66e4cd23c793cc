"""Joining two axes of a statement that go together everywhere, as those of one reduction do."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import permutations

from ....catalog.operators.expand import Definition
from ....catalog.terms.index_notation import (
    Apply,
    Read,
    Reduce,
    Symbol,
    Term,
    Variable,
    apply,
    map_children,
    subterms,
    symbol_names,
)
from ..statement import Statement
from .slicing import Program, canonical, without


def joined(statement: Statement, name: str, smaller: Collection[str]) -> bool:
    """Whether two axes can be joined so that a case is left that was looked at as well.

    `smaller` are the cases in which what `name` measures is one shorter, in canonical spelling.
    """
    extent = statement.free[name]
    if not statement.equations or not extent.places or statement.region is not None:
        return False
    program = Program.of(statement)
    shapes = program.shapes
    starts = [(tensor, first) for tensor, first in extent.places if tensor in shapes]
    for kept, gone in permutations(range(extent.length), 2):
        pairs = {(shapes[t][first + kept], shapes[t][first + gone]) for t, first in starts}
        if len(pairs) != 1:
            continue
        ((kept_size, gone_size),) = pairs
        if (
            isinstance(kept_size, Symbol)
            and isinstance(gone_size, Symbol)
            and kept_size != gone_size
        ):
            less = _Join(program, kept_size, gone_size).program()
            if less is not None and canonical(less) in smaller:
                return True
    return False


class _NotTogetherError(Exception):
    """The two axes don't go together everywhere."""


@dataclass
class _Join:
    """What is left where an axis of size `gone` is joined to one of size `kept`.

    The size of both together takes the name of the first. Each pair of indices (i, j) stands for
    one index, so that tensors lose an axis, reductions an index, and products of sizes a factor.
    Axes of size 1 that stand over the one that goes, are left out with it: their index is 0. What
    must hold of the sizes is that they are not 0, and is assumed.
    """

    whole: Program
    kept: Symbol
    gone: Symbol
    # By tensor, the places of both axes; and that of an axis of size 1.
    both: dict[str, tuple[int, int]] = field(default_factory=dict)
    unit_axes: dict[str, int] = field(default_factory=dict)

    def program(self) -> Program | None:
        """The program that is left; None where the axes don't go together."""
        try:
            return self._program()
        except _NotTogetherError:
            return None

    def _program(self) -> Program:
        shapes = self.whole.shapes
        for tensor, shape in shapes.items():
            self._place(tensor, shape)
        definitions = tuple(map(self._definition, self.whole.definitions))
        for source, target in self.whole.equations:
            if self.both.get(source) != self.both.get(target) or shapes[source] != shapes[target]:
                raise _NotTogetherError
            # of several axes of size 1 side by side any may go
            shapes_left = [without(shapes[name], self._gone(name)) for name in (source, target)]
            if shapes_left[0] != shapes_left[1]:
                raise _NotTogetherError
        gone_names = {self.kept.name, self.gone.name}
        for condition in self.whole.obligations:
            if gone_names & symbol_names(condition) and not self._is_assumed(condition):
                raise _NotTogetherError
        return Program(
            tuple(
                replace(operand, shape=self._shape(operand.name, operand.shape))
                for operand in self.whole.operands
            ),
            definitions,
            self.whole.equations,
            tuple(self._assumptions()),
            (),
        )

    def _is_assumed(self, condition: Term) -> bool:
        """Whether an obligation is met since some size is not 0, as is assumed of it."""
        match condition:
            case Apply("or", alternatives):
                return any(map(self._is_assumed, alternatives))
            case Apply("!=", (Symbol() as size, 0)):
                return Apply(">", (size, 0)) in self.whole.assumptions
            case _:
                return False

    def _assumptions(self) -> Iterator[Term]:
        """What is assumed: that there are elements of both sizes, where it is said of both."""
        some = {size: Apply(">", (size, 0)) for size in (self.kept, self.gone)}
        both = all(condition in self.whole.assumptions for condition in some.values())
        for condition in self.whole.assumptions:
            if both and condition == some[self.kept]:
                yield condition
            elif not both or condition != some[self.gone]:
                yield self._term(condition, {}, set())

    def _place(self, tensor: str, shape: tuple[Term, ...]) -> None:
        """Note where both axes of a tensor are: it has both, once, or neither.

        An axis whose size is a product of both is one already.
        """
        axes = []
        for size in (self.kept, self.gone):
            places = [
                axis
                for axis, entry in enumerate(shape)
                if size.name in symbol_names(entry) and not self._is_whole(entry)
            ]
            if any(shape[axis] != size for axis in places):
                raise _NotTogetherError
            axes.append(places)
        if axes[0] or axes[1]:
            if not len(axes[0]) == len(axes[1]) == 1:
                raise _NotTogetherError
            self.both[tensor] = (axes[0][0], axes[1][0])

    def _is_whole(self, size: Term) -> bool:
        """Whether a size is a product of both sizes, and of others perhaps."""
        factors = list(_factors(size))
        return factors.count(self.kept) == factors.count(self.gone) == 1

    def _shape(self, tensor: str, shape: tuple[Term, ...]) -> tuple[Term, ...]:
        """The sizes that are left."""
        kept_sizes = without(shape, self._gone(tensor))
        return tuple(
            size if size == self.kept else self._term(size, {}, set()) for size in kept_sizes
        )

    def _gone(self, tensor: str) -> int | None:
        """The axis that a tensor loses."""
        return self.both[tensor][1] if tensor in self.both else self.unit_axes.get(tensor)

    def _definition(self, definition: Definition) -> Definition:
        pairs: dict[Variable, Variable] = {}  # of indices that run together, the one that goes last
        if definition.name in self.both:
            kept, gone = self.both[definition.name]
            pairs[definition.indices[kept]] = definition.indices[gone]
        elif (place := self._over(definition)) is not None:
            self.unit_axes[definition.name] = place
        unit_axis = self.unit_axes.get(definition.name)
        single = set() if unit_axis is None else {definition.indices[unit_axis]}
        place = self._gone(definition.name)
        value = self._term(definition.value, pairs, single)
        shape = self._shape(definition.name, definition.shape)
        return Definition(definition.name, shape, without(definition.indices, place), value)

    def _over(self, definition: Definition) -> int | None:
        """The axis of size 1 of a result that stands over the one that goes.

        Where it is reduced, or read from such an axis. Any axis of size 1 might be left out; this
        is the one that makes of the case another case.
        """
        rank = len(definition.shape)
        for part in subterms(definition.value):
            if not isinstance(part, Read):
                continue
            place = self._gone(part.tensor)
            if place is None:
                continue
            index = part.indices[place]
            if index in definition.indices:
                axis = definition.indices.index(index)
            elif len(part.indices) == rank:
                axis = place
            else:
                continue
            if definition.shape[axis] == 1:
                return axis
        return None

    def _term(
        self, term: Term, pairs: Mapping[Variable, Variable], single: Collection[Variable]
    ) -> Term:
        """A term without the index, the axis, the factor that goes."""

        def inner(part: Term) -> Term:
            return self._term(part, pairs, single)

        match term:
            case Read(tensor, indices):
                return Read(tensor, tuple(self._indices(tensor, indices, pairs, single)))
            case Variable():
                if term in pairs or term in pairs.values():
                    raise _NotTogetherError
                return 0 if term in single else term
            case Symbol():
                if term in (self.kept, self.gone):
                    raise _NotTogetherError
                return term
            case Apply("+", (Apply("*", (Variable() as high, self.gone)), low)) if (
                pairs.get(high) == low
            ):
                return high  # the number of which both indices are the digits
            case Apply("*") if self.gone in (factors := list(_factors(term))):
                if not factors.count(self.gone) == factors.count(self.kept) == 1:
                    raise _NotTogetherError
                factors.remove(self.gone)
                return _product(
                    factor if factor == self.kept else inner(factor) for factor in factors
                )
            case Reduce(kind, variables, extents, condition, body):
                sizes = [extents.count(size) for size in (self.kept, self.gone)]
                if sizes == [1, 1]:
                    position = extents.index(self.gone)
                    pairs = {**pairs, variables[extents.index(self.kept)]: variables[position]}
                    variables, extents = without(variables, position), without(extents, position)
                elif sizes != [0, 0]:
                    raise _NotTogetherError
                kept_extents = tuple(
                    extent if extent == self.kept else inner(extent) for extent in extents
                )
                guard = self._term(condition, pairs, single)
                return Reduce(kind, variables, kept_extents, guard, self._term(body, pairs, single))
            case _:
                return map_children(inner, term)

    def _indices(
        self,
        tensor: str,
        indices: tuple[Term, ...],
        pairs: Mapping[Variable, Variable],
        single: Collection[Variable],
    ) -> Iterator[Term]:
        """The indices of an element that are left."""
        gone = self._gone(tensor)
        kept = self.both[tensor][0] if tensor in self.both else None
        for axis, index in enumerate(indices):
            if kept is not None and axis == kept:
                other = indices[gone or 0]
                if (whole := self._of_digits(index, other)) is not None:
                    yield self._term(whole, pairs, single)
                elif isinstance(index, Variable) and pairs.get(index) == other:
                    yield index
                else:
                    raise _NotTogetherError
            elif axis != gone:
                yield self._term(index, pairs, single)
            elif kept is None and not (index == 0 or index in single):
                # Of an axis of size 1, what is read must be seen to be there.
                raise _NotTogetherError

    def _of_digits(self, index: Term, other: Term) -> Term | None:
        """What an element is read at where both indices are the digits of one number.

        For a number e, that is e itself where they are e // n and e % n, and e modulo the size of
        both axes together where the first is (e // n) % m.
        """
        match other:
            case Apply("%", (whole, self.gone)):
                pass
            case _:
                return None
        high = Apply("//", (whole, self.gone))
        if index == high:
            return whole
        # that size has the name of the first, as it would stand in a product
        both = Apply("*", (self.kept, self.gone))
        return Apply("%", (whole, both)) if index == Apply("%", (high, self.kept)) else None


def _product(factors: Iterable[Term]) -> Term:
    return reduce(lambda product, factor: apply("*", product, factor), factors)


def _factors(term: Term) -> Iterator[Term]:
    match term:
        case Apply("*", arguments):
            for argument in arguments:
                yield from _factors(argument)
        case _:
            yield term
