"""From the ranks at which a rule was proved to all ranks.

A rule whose operands may have any rank is proved for lists of dimensions of lengths up to R. That
it holds for longer lists follows by one of two arguments, whose premises are checked on the
statements of length R. Both rest on the texts of the operators being uniform: they treat all
entries of a list alike, so that what is seen of every case of length R is so for every longer one.

Slicing. Along an axis on which both sides act point by point, every element of every tensor depends
on elements of the same index only (or of index 0, where a dimension of 1 broadcasts). Fix that
index: what is left is the statement without that axis, about slices of the operands, and it was
proved for all operands. If each case of length R has such an axis, and taking it away leaves a case
of length R - 1 that was proved, then length R + 1 follows from R, and so on. Cases with another
operator, element type or spelling are looked at for length R only, as what is computed with an
element doesn't depend on where it stands: of them it is enough that an axis can be taken away.

Separation. Let no constraint or index expression connect variables of two axes of the list. Then in
each class of products that have the same factors the two sides differ by

    D = sum over t of c_t * g_t0 * product over axes a of g_ta,

T terms whose guards g_ta are 0 or 1 and speak of one axis each. Where D is not 0, the terms that
are alive are those whose guards all hold. Each axis kills some terms; keep, one after another, an
axis that kills a term which no axis kept before kills. Since one term at least stays alive, at most
T - 1 axes are kept, and they leave the same terms alive as all axes do. Without the other axes D is
what it was: a counterexample needs no more than T - 1 axes of the list, and R >= T - 1 shows that
there is none. The same holds of the largest of several elements, where a difference is an element
of one side that no element of the other side equals. R must also be 2 or more, or the absence of
connections was not seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from ...catalog.operators.expand import Definition
from ...catalog.operators.terms import (
    Apply,
    Read,
    Reduce,
    Select,
    Symbol,
    Term,
    Variable,
)
from .statement import Operand, Outcome, Statement


def lift(statements: Sequence[Statement], outcomes: Sequence[Outcome]) -> str:
    """Return the ranks for which a rule whose cases are all proved holds: "all", or which.

    `outcomes` are those of the statements, in order; those of cases that can't arise count too.
    """
    tried: dict[str, set[int]] = {}
    for statement in statements:
        for name, length in statement.free.items():
            tried.setdefault(name, set()).add(length)
    smaller = {_canonical(_Program.of(statement)) for statement in statements}
    left = []
    for name, lengths in sorted(tried.items()):
        longest = max(lengths)
        for statement, outcome in zip(statements, outcomes, strict=True):
            if statement.free.get(name) != longest:
                continue
            if not (
                _slices(statement, name, longest, smaller)
                or _separates(statement, name, longest, outcome)
            ):
                left.append(f"{name} {min(lengths)} to {longest}")
                break
    return "; ".join(left) or "all"


# ------------------------------------------------------------------------------------ slicing


@dataclass(frozen=True)
class _Program:
    """What of a statement decides its truth: operands, tensors that are read, conditions."""

    operands: tuple[Operand, ...]
    definitions: tuple[Definition, ...]
    equations: tuple[tuple[str, str], ...]
    assumptions: tuple[Term, ...]
    obligations: tuple[Term, ...]

    @staticmethod
    def of(statement: Statement) -> _Program:
        """The program of a statement, without the tensors that nothing reads."""
        wanted = {name for one in statement.equations for name in (one.source, one.target)}
        for one in reversed(statement.definitions):
            if one.name in wanted:
                wanted |= {part.tensor for part in _parts(one.value) if isinstance(part, Read)}
        return _Program(
            tuple(one for one in statement.operands if one.name in wanted),
            tuple(one for one in statement.definitions if one.name in wanted),
            tuple((one.source, one.target) for one in statement.equations),
            statement.assumptions,
            tuple(one.condition for one in statement.obligations),
        )


def _slices(statement: Statement, name: str, length: int, smaller: set[str]) -> bool:
    """Whether an axis can be taken away so that a case is left that was looked at as well."""
    if not statement.equations:
        return False
    program = _Program.of(statement)
    for axis in range(length):
        without = _without_axis(program, f"{name}.{axis}")
        if without is not None and (statement.varied or _canonical(without) in smaller):
            return True
    return False


def _without_axis(program: _Program, symbol: str) -> _Program | None:
    """The program on a slice along the axis of a symbol; None where it isn't point by point."""
    own = {symbol}
    shapes: dict[str, tuple[Term, ...]] = {one.name: one.shape for one in program.operands}
    shapes |= {one.name: one.shape for one in program.definitions}
    places: dict[str, int] = {}
    while True:
        found = dict(places)
        for tensor, shape in shapes.items():
            at = [p for p, size in enumerate(shape) if own & _symbols(size)]
            if len(at) > 1 or (at and found.setdefault(tensor, at[0]) != at[0]):
                return None
        for one in program.definitions:
            if one.name not in found:
                continue
            index = one.indices[found[one.name]]
            for part in _parts(one.value):
                if not isinstance(part, Read):
                    continue
                at = [p for p, i in enumerate(part.indices) if index in set(_parts(i))]
                if len(at) > 1 or (at and found.setdefault(part.tensor, at[0]) != at[0]):
                    return None
        own = own.union(*(_symbols(shapes[tensor][at]) for tensor, at in found.items()))
        if found == places:
            break
        places = found
    definitions = []
    for one in program.definitions:
        place = places.get(one.name)
        here = None if place is None else one.indices[place]
        value = _sliced(one.value, here, places, own)
        if value is None or own & _symbols(value) or here in set(_parts(value)):
            return None
        definitions.append(
            Definition(one.name, _drop(one.shape, place), _drop(one.indices, place), value)
        )
    assumptions = []
    for condition in program.assumptions:
        said = _symbols(condition)
        if said & own and not said <= own:
            return None
        if not said & own:
            assumptions.append(condition)
    operands = tuple(
        Operand(one.name, _drop(one.shape, places.get(one.name)), one.algebra)
        for one in program.operands
    )
    if any(_symbols(one) & own and not _symbols(one) <= own for one in program.obligations):
        return None
    return _Program(operands, tuple(definitions), program.equations, tuple(assumptions), ())


def _sliced(
    term: Term, index: Variable | None, places: Mapping[str, int], own: set[str]
) -> Term | None:
    """A value with the axis left out of all reads; None where it is read elsewhere than there."""
    match term:
        case Read(tensor, indices):
            kept: list[Term] = []
            for at, one in enumerate(indices):
                if at == places.get(tensor):
                    if not _stays(one, index):
                        return None
                    continue
                inner = _sliced(one, index, places, own)
                if inner is None:
                    return None
                kept.append(inner)
            return Read(tensor, tuple(kept))
        case Apply(function, arguments):
            parts = [_sliced(one, index, places, own) for one in arguments]
            return None if None in parts else Apply(function, tuple(parts))  # type: ignore[arg-type]
        case Select(condition, then, otherwise):
            parts = [_sliced(one, index, places, own) for one in (condition, then, otherwise)]
            return None if None in parts else Select(*parts)  # type: ignore[arg-type]
        case Reduce(kind, variables, extents, condition, body):
            parts = [_sliced(one, index, places, own) for one in (*extents, condition, body)]
            if None in parts:
                return None
            *sizes, guard, inner = parts
            return Reduce(kind, variables, tuple(sizes), guard, inner)  # type: ignore[arg-type]
        case _:
            return term


def _stays(place: Term, index: Variable | None) -> bool:
    """Whether a tensor is read at the index itself, or at 0 where its dimension is 1."""
    match place:
        case Select(Apply("=", (_, 1)), 0, inner):
            return inner == index
        case _:
            return place == index or place == 0


def _drop(items: tuple[Term, ...], at: int | None) -> tuple:  # type: ignore[type-arg]
    return items if at is None else (*items[:at], *items[at + 1 :])


def _canonical(program: _Program) -> str:
    """A spelling of a program in which symbols and indices have numbers by order of use."""
    names: dict[object, str] = {}

    def spell(term: Term) -> str:
        match term:
            case Symbol(_, kind):
                return names.setdefault(term, f"{kind[0]}{len(names)}")
            case Variable():
                return names.setdefault(term, f"v{len(names)}")
            case Apply(function, arguments):
                return f"({function} {' '.join(map(spell, arguments))})"
            case Select(condition, then, otherwise):
                return f"(if {spell(condition)} {spell(then)} {spell(otherwise)})"
            case Read(tensor, indices):
                return f"{tensor}[{' '.join(map(spell, indices))}]"
            case Reduce(kind, variables, extents, condition, body):
                parts = [*variables, *extents, condition, body]
                return f"({kind} {' '.join(map(spell, parts))})"
            case _:
                return repr(term)

    lines = []
    for one in program.operands:
        lines.append(f"{one.name} {one.algebra} {' '.join(map(spell, one.shape))}")
    for two in program.definitions:
        indices = {index: f"i{at}" for at, index in enumerate(two.indices)}
        for variable in [v for v in names if isinstance(v, Variable)]:
            del names[variable]
        for index, text in indices.items():
            names[index] = text
        lines.append(f"{two.name} {' '.join(map(spell, two.shape))} = {spell(two.value)}")
    lines += [f"{source} = {target}" for source, target in program.equations]
    known = {symbol for symbol in names if isinstance(symbol, Symbol)}
    for condition in program.assumptions:
        if {part for part in _parts(condition) if isinstance(part, Symbol)} <= known:
            lines.append(spell(condition))
    return "\n".join(lines)


# --------------------------------------------------------------------------------- separation


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


def _separates(statement: Statement, name: str, length: int, outcome: Outcome) -> bool:
    """Whether no constraint connects two axes of a list that is long enough for all its terms."""
    if length < 2 or not statement.equations or outcome.widest - 1 > length:
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
    roots = [groups.root(f"{name}.{axis}") for axis in range(length)]
    return len(set(roots)) == length


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
        case Apply("or" | "not" | "=" | "!=" | "<" | "<=" | ">" | ">=") if not _has_read(term):
            groups.join(_members(own, term))
        case Apply(function, arguments) if _has_read(term) or function == "*":
            for part in arguments:
                _connect(groups, own, part)
        case Apply():
            groups.join(_members(own, term))


def _members(own: str, term: Term) -> Iterator[object]:
    for part in _parts(term):
        if isinstance(part, Variable):
            yield (own, part)
        elif isinstance(part, Symbol):
            yield from _axis_symbols(part)


def _axis_symbols(term: Term) -> Iterator[object]:
    """The symbols that belong to an axis; others are the same for all axes and connect none."""
    for name in sorted(_symbols(term)):
        if "." in name:
            yield name


# -------------------------------------------------------------------------------------- terms


def _parts(term: Term) -> Iterator[Term]:
    yield term
    match term:
        case Apply(_, arguments):
            inner: tuple[Term, ...] = arguments
        case Select(condition, then, otherwise):
            inner = (condition, then, otherwise)
        case Read(_, indices):
            inner = indices
        case Reduce(_, variables, extents, condition, body):
            inner = (*variables, *extents, condition, body)
        case _:
            inner = ()
    for part in inner:
        yield from _parts(part)


def _symbols(term: Term) -> set[str]:
    return {part.name for part in _parts(term) if isinstance(part, Symbol)}


def _has_read(term: Term) -> bool:
    return any(isinstance(part, Read | Reduce) for part in _parts(term))
