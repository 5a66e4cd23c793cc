"""Rules of several outputs, made of equalities of one output that were proved.

No pairs of graphs are enumerated. What the two outputs of one operator are equal to is one rule.
That a Split undoes a Concat is such a rule; where a Concat of two results that read something in
common equals one larger result, MatMul(X, Concat(W, V)) say, both results are parts of that. So are
any two results that were seen to be made of one larger one, by two Slices say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from .candidates import Candidate
from .fingerprint import sort_of_term
from .terms import Apply, Operation, Size, Term, Variable, operators, parts, variables

_TWO = 2


def with_two_outputs(
    candidates: Sequence[Candidate], holding: Sequence[Candidate] = ()
) -> Iterator[tuple[Candidate, list[Candidate]]]:
    """Candidates of two outputs, each with those it says as much as; merges say more than any.

    `candidates` are rules; `holding` is what holds besides, of which merges are made as well.
    """
    pairs = list(_of_one_operator(candidates))
    for first, other in pairs:
        yield (
            Candidate(first.left, first.right, False, ((other.left, other.right),)),
            [first, other],
        )
    for undone, by in dict.fromkeys(filter(None, (_inverse(first) for first, _ in pairs))):
        for candidate in candidates:
            for joined, whole in (
                (candidate.left, candidate.right),
                (candidate.right, candidate.left),
            ):
                if isinstance(joined, Apply) and joined.operation.op_type == undone.op_type:
                    merged = _merged(joined, whole, by)
                    if merged is not None:
                        yield merged, []
    for merged in _made_of_one([*candidates, *holding]):
        yield merged, []


def _made_of_one(candidates: Sequence[Candidate]) -> Iterator[Candidate]:
    """Two smaller sides that read something in common, for what makes both of one larger term.

    The larger term has all of their variables, and fewer of some operator than both together.
    """
    makers: dict[Term, list[Candidate]] = {}
    for candidate in candidates:
        if (
            isinstance(candidate.right, Apply)
            and candidate.left.nodes > candidate.right.nodes
            and not candidate.beside
        ):
            for part in parts((candidate.left,)):
                is_inner = (
                    isinstance(part, Apply) and part != candidate.left and bool(part.operands)
                )
                if is_inner and set(variables(part)) == set(variables(candidate.left)):
                    makers.setdefault(part, []).append(candidate)
    for whole, some in makers.items():
        for first, other in combinations(sorted(some, key=lambda candidate: candidate.rank), _TWO):
            read, others = set(variables(first.right)), set(variables(other.right))
            if not read & others or read == others or read | others != set(variables(whole)):
                continue
            before = Counter([*operators((first.right,)), *operators((other.right,))])
            if before - Counter(operators((first.left, other.left))):
                yield Candidate(first.right, first.left, False, ((other.right, other.left),))


def _of_one_operator(candidates: Sequence[Candidate]) -> Iterator[tuple[Candidate, Candidate]]:
    """Candidates whose left sides are the two outputs of one operator on the same operands."""
    first: dict[object, Candidate] = {}
    for candidate in candidates:
        if isinstance(candidate.left, Apply) and candidate.left.operation.outputs == _TWO:
            key = (replace(candidate.left.operation, output=0), candidate.left.operands)
            other = first.setdefault(key, candidate)
            if other is not candidate:
                yield tuple(sorted((candidate, other), key=_output))  # type: ignore[misc]


def _output(candidate: Candidate) -> int:
    assert isinstance(candidate.left, Apply)
    return candidate.left.operation.output


def _inverse(candidate: Candidate) -> tuple[Operation, Operation] | None:
    """An operation of two variables and the one that gives these back, if that is what is said."""
    outer = candidate.left
    if not isinstance(outer, Apply) or not isinstance(outer.operands[0], Apply):
        return None
    inner = outer.operands[0]
    plain = len(inner.operands) == _TWO and all(
        isinstance(operand, Variable) for operand in inner.operands
    )
    return (
        (inner.operation, outer.operation)
        if plain and candidate.right == inner.operands[0]
        else None
    )


def _merged(joined: Apply, whole: Term, by: Operation) -> Candidate | None:
    """Two results that read something in common as the parts of one; None where they don't."""
    first, other = joined.operands
    axis = dict(joined.operation.attributes).get("axis")
    shares = set(variables(first)) & set(variables(other))
    if not isinstance(first, Apply) or not isinstance(other, Apply) or not shares or first == other:
        return None
    if not isinstance(axis, int) or not isinstance(whole, Apply) or whole == joined:
        return None
    if not set(variables(whole)) <= {*variables(first), *variables(other)}:
        return None
    sizes = tuple(
        Size(tuple(shape[axis] for shape in sort_of_term(part).shapes)) for part in (first, other)
    )
    contents = tuple((position, sizes) for position, _ in by.contents)
    parts = [
        Apply(replace(by, attributes=(("axis", axis),), contents=contents, output=output), (whole,))
        for output in range(_TWO)
    ]
    return Candidate(first, parts[0], False, ((other, parts[1]),))
