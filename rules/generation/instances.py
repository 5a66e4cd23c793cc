"""Which equalities are instances of others, and which of these a rule derives as it is declared.

Most of what an enumeration sees is an instance of something smaller or more general: that is told
from the terms alone, a thousand times as fast as by an e-graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from ...catalog.terms.syntax_tree import Expression, Literal, Name
from ..language.syntax import Rule, Star
from .candidates import Candidate
from .fingerprint import sort_of_term
from .terms import Apply, Size, Sort, Term, Variable, parts


class Instances:
    """Equalities that hold, and which candidates are instances of them: terms for variables."""

    def __init__(self) -> None:
        # By the frames of both sides: most of what holds has others, and is never looked at.
        self._by_frame: dict[tuple[_Frame, ...], list[Candidate]] = {}
        self._seen: set[Candidate] = set()

    def add(self, candidate: Candidate) -> None:
        """Take an equality that holds; of several outputs none is an instance."""
        if candidate in self._seen or candidate.beside:
            return
        self._seen.add(candidate)
        sides = (candidate.left, candidate.right)
        self._by_frame.setdefault(tuple(map(_frame, sides)), []).append(candidate)

    def general(self, candidate: Candidate) -> Candidate | None:
        """The first equality taken that a candidate is an instance of, sorts aside."""
        instance_of = self.instance(candidate)
        return None if instance_of is None else instance_of[0]

    def instance(self, candidate: Candidate) -> tuple[Candidate, Mapping[Term, Term]] | None:
        """The same, with the terms for its variables."""
        frames_of_sides = [tuple(_frames(side)) for side in (candidate.left, candidate.right)]
        orders = ((candidate.left, candidate.right), (candidate.right, candidate.left))
        for (left, right), frames in zip(
            orders, (frames_of_sides, frames_of_sides[::-1]), strict=True
        ):
            for frame in product(*frames):
                for general in self._by_frame.get(frame, ()):
                    for of_left in _matches(general.left, left, {}):
                        names = next(_matches(general.right, right, of_left), None)
                        if names is not None:
                            return general, names
        return None


# What is outermost in a term, and in its operands; None: a variable, which anything matches.
_Frame = tuple[object, ...] | None


def _frame(pattern: Term) -> _Frame:
    if isinstance(pattern, Variable):
        return None
    if not isinstance(pattern, Apply):
        return (pattern,)
    return (pattern.operation, *map(_outermost, pattern.operands))


def _outermost(term: Term) -> object:
    if isinstance(term, Variable):
        return None
    return term.operation if isinstance(term, Apply) else term


def _frames(term: Term) -> Iterator[_Frame]:
    """Yield the frames of the patterns that may match a term."""
    yield None
    if isinstance(term, Variable):
        return
    if not isinstance(term, Apply):
        yield (term,)
        return
    operands = [tuple(dict.fromkeys((None, _outermost(operand)))) for operand in term.operands]
    frames = {(term.operation, *chosen): None for chosen in product(*operands)}
    if term.operation.commutative:
        frames |= {(term.operation, *chosen): None for chosen in product(*operands[::-1])}
    yield from frames


def _matches(
    pattern: Term, term: Term, names: Mapping[Term, Term]
) -> Iterator[Mapping[Term, Term]]:
    """Yield the terms for the variables of a pattern that make it a term."""
    if isinstance(pattern, Variable):
        if names.get(pattern, term) == term:
            yield {**names, pattern: term}
        return
    if not isinstance(pattern, Apply) or not isinstance(term, Apply):
        if pattern == term:
            yield names
        return
    if pattern.operation != term.operation:
        return
    orders = [term.operands]
    if pattern.operation.commutative and len(term.operands) > 1:
        orders.append(term.operands[::-1])
    for operands in orders:
        yield from _all_match(pattern.operands, operands, names)


def _all_match(
    patterns: Sequence[Term], terms: Sequence[Term], names: Mapping[Term, Term]
) -> Iterator[Mapping[Term, Term]]:
    if not patterns:
        yield names
        return
    for of_first in _matches(patterns[0], terms[0], names):
        yield from _all_match(patterns[1:], terms[1:], of_first)


# ------------------------------------------------------------------------------------- rules


def fits_all(rule: Rule, candidate: Candidate, operands: Mapping[Term, Term]) -> bool:
    """Whether the rule of a candidate derives the instance that has these operands.

    It states no conditions, and the operands are of its types and of the shapes that it declares.
    False says nothing: an e-graph knows.
    """
    if rule.given or (_names_sizes(rule) and _lists_sizes(candidate)):
        return False
    declared = {operand.name: operand.shape for operand in rule.operands}
    known: dict[str, object] = {}
    for variable, term in operands.items():
        if isinstance(variable, Variable):
            sort, shape = sort_of_term(term), declared.get(variable.name)
            if sort.dtype != variable.sort.dtype or (sort.rank and not variable.sort.rank):
                return False
            if shape is not None and not _has_shape(sort, shape, known):
                return False
    return True


def have_sorts(operands: Mapping[Term, Term]) -> bool:
    """Whether the terms that stand for variables have their types and sizes."""
    return all(
        sort_of_term(term) == variable.sort
        for variable, term in operands.items()
        if isinstance(variable, Variable)
    )


# The sizes of a dimension, one under each assignment.
_Sizes = tuple[int, ...]


def _has_shape(sort: Sort, shape: Sequence[Expression], known: dict[str, object]) -> bool:
    """Whether a sort has a declared shape; names and stars stand for one thing everywhere."""
    sizes: list[_Sizes] = list(zip(*sort.shapes, strict=True))
    stars = [i for i, item in enumerate(shape) if isinstance(item, Star)]
    if len(stars) > 1 or len(sizes) < len(shape) - len(stars):
        return False
    if not stars:
        return len(sizes) == len(shape) and all(map(_is_size, shape, sizes, [known] * len(sizes)))
    first, star = stars[0], shape[stars[0]]
    last = len(sizes) - (len(shape) - first - 1)
    assert isinstance(star, Star)
    middle = tuple(sizes[first:last])
    plain = [*zip(shape[:first], sizes[:first], strict=True)]
    plain += zip(shape[first + 1 :], sizes[last:], strict=True)
    return known.setdefault(f"*{star.text}", middle) == middle and all(
        _is_size(item, size, known) for item, size in plain
    )


def _is_size(item: Expression, size: _Sizes, known: dict[str, object]) -> bool:
    match item:
        case Literal(value):
            return set(size) == {value}
        case Name(name):
            return known.setdefault(name, size) == size
        case _:
            return False


def _names_sizes(rule: Rule) -> bool:
    return any(operand.shape for operand in rule.operands)


def _lists_sizes(candidate: Candidate) -> bool:
    """Whether a list of it holds sizes, which a rule may name."""
    return any(
        isinstance(item, Size)
        for part in parts([term for pair in candidate.sides for term in pair])
        if isinstance(part, Apply)
        for _, value in part.operation.contents
        if isinstance(value, tuple)
        for item in value
    )
