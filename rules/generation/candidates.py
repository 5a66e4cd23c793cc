"""Equalities as candidates for rules: oriented, as general as they hold, in the order of a search.

An enumeration has few variables, so that a law of four operands is seen with some of them alike.
Which occurrences may be different variables is tried on numbers, like anything else that is only a
candidate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product, starmap

from .choices import sort_made
from .fingerprint import (
    Programs,
    Vectors,
    alike,
    constant_vectors,
    digests,
    input_vectors,
    sort_of_term,
)
from .number_fields import OrderedField
from .terms import (
    Apply,
    Number,
    Sort,
    Term,
    Variable,
    operators,
    parts,
    renamed,
    variables,
    written,
)

# A variable that occurs more often, on both sides together, is left as it is.
_MOST_OCCURRENCES = 8
# A side of so many operators may become one of one more: Relu(X) is never made Relu(Relu(X)).
_LEAST_GROWN = 2
# Between the terms of several outputs.
BESIDE = "; "


@dataclass(frozen=True)
class Candidate:
    """Two terms with one characteristic vector: `left` would be rewritten to `right`.

    `both`: the other way would be a rule as well, of about as many operators, and cost decides.
    `beside` it are the sides of further outputs.
    """

    left: Term
    right: Term
    both: bool
    beside: tuple[tuple[Term, Term], ...] = ()

    @property
    def sides(self) -> tuple[tuple[Term, Term], ...]:
        """The left and the right side of each output."""
        return ((self.left, self.right), *self.beside)

    @property
    def turned(self) -> Candidate:
        """The candidate for the other direction."""
        beside = tuple((right, left) for left, right in self.beside)
        return Candidate(self.right, self.left, self.both, beside)

    @cached_property
    def inputs(self) -> tuple[Variable, ...]:
        """The variables of all left sides, in the order of their first occurrence."""
        return tuple(dict.fromkeys(v for left, _ in self.sides for v in variables(left)))

    @property
    def texts(self) -> tuple[str, str]:
        """The left and the right side, those of several outputs in a row."""
        lefts, rights = zip(*self.sides, strict=True)
        return BESIDE.join(map(str, lefts)), BESIDE.join(map(str, rights))

    @cached_property
    def text(self) -> str:
        """The equality, as the rule language writes terms."""
        return BESIDE.join(f"{left} = {right}" for left, right in self.sides)

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators of both sides, each once."""
        return tuple(sorted({*operators((self.left,)), *operators((self.right,))}))

    @property
    def variables(self) -> int:
        """The number of variables."""
        return len(variables(self.left))

    @cached_property
    def repeats(self) -> int:
        """How often variables occur again, on both sides."""
        return sum(_leaves(side) - len(variables(side)) for side in (self.left, self.right))

    @cached_property
    def rank(self) -> tuple[int, int, int, int, str]:
        """The order of candidates: small ones first, of these general ones.

        What repeats a variable, or states what it need not, is often an instance of a larger law
        that doesn't: either counts as an operator. What broadcasts follows what doesn't.
        """
        nodes = self.left.nodes + self.right.nodes + self.repeats
        nodes += sum(
            part.operation.options
            for part in parts((self.left, self.right))
            if isinstance(part, Apply)
        )
        broadcast = sum(1 in v.sort.shapes[0] for v in self.inputs)
        return nodes, -self.variables, broadcast, len(self.text), self.text


def candidate_of(first: Term, second: Term, pool: Sequence[Variable]) -> Candidate | None:
    """The candidate that an equality is; None where no side has all variables of the other."""
    of_first, of_second = set(variables(first)), set(variables(second))
    forward, backward = of_second <= of_first, of_first <= of_second
    if not forward and not backward:
        return None
    options = []
    if forward and (first.nodes >= second.nodes or not backward):
        options.append((first, second))
    if backward and (second.nodes >= first.nodes or not forward):
        options.append((second, first))
    is_worth = first.nodes == second.nodes or min(first.nodes, second.nodes) >= _LEAST_GROWN
    both = forward and backward and is_worth and abs(first.nodes - second.nodes) < 2
    pairs = [_named(left, right, pool) for left, right in options]
    left, right = min(pairs, key=lambda pair: (len(str(pair[0])), str(pair[0]), str(pair[1])))
    return Candidate(left, right, both)


def _named(left: Term, right: Term, pool: Sequence[Variable]) -> tuple[Term, Term]:
    """Variables renamed in the order in which they occur on the left.

    They have the names of the pool; where it has too few of a sort, others.
    """
    free: dict[object, list[Variable]] = {}
    for variable in pool:
        free.setdefault(variable.sort, []).append(variable)
    others = (f"X{number}" for number in range(1, 1000))
    taken = {variable.name for variable in pool}
    names: dict[Variable, Term] = {}
    for variable in variables(left):
        if free.get(variable.sort):
            names[variable] = free[variable.sort].pop(0)
        else:
            name = next(name for name in others if name not in taken)
            names[variable] = Variable(name, variable.sort)
    return renamed(left, names), renamed(right, names)


def structure(candidate: Candidate) -> str:
    """What a candidate says apart from the sorts of variables, attributes and lists."""
    return _text_without_sorts(candidate, stated=False)


def _text_without_sorts(candidate: Candidate, *, stated: bool) -> str:
    """The text of a candidate, with variables numbered whatever their sorts are."""
    numbers: dict[Variable, int] = {}

    def text(term: Term) -> str:
        if isinstance(term, Variable):
            return f"v{numbers.setdefault(term, len(numbers))}"
        if isinstance(term, Number):
            return str(term)
        operands = [text(operand) for operand in term.operands]
        if stated:
            return written(term.operation, operands)
        return f"{term.operation.op_type}({', '.join(operands)})"

    return BESIDE.join(f"{text(left)} = {text(right)}" for left, right in candidate.sides)


def in_order(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Candidates each once, small and general ones first."""
    return sorted(dict.fromkeys(candidates), key=lambda candidate: candidate.rank)


def _leaves(term: Term) -> int:
    if isinstance(term, Apply):
        return sum(_leaves(operand) for operand in term.operands)
    return int(isinstance(term, Variable))


# --------------------------------------------------------------------------- more variables


class Generalising:
    """Tells variables apart in candidates of a run; numbers are drawn by the run's seed.

    What holds for variables of some sorts is not asked again of others.
    """

    def __init__(
        self,
        pool: Sequence[Variable],
        seed: int,
        arithmetic: OrderedField,
        *,
        places: bool = False,
    ) -> None:
        self.pool, self.seed, self.places = tuple(pool), seed, places
        self.arithmetic = arithmetic
        self._programs = Programs(arithmetic)
        self._names = {variable.name for variable in pool}
        # By the text of a candidate without sorts: the first one that holds. The others.
        self._holding: dict[str, Candidate] = {}
        self._refused: set[Candidate] = set()

    def general(self, candidate: Candidate) -> Candidate:
        """The candidate with as many variables as it holds for; itself if there is none."""
        general = candidate
        while True:
            other = next(filter(None, map(self._answer, self._split(general))), None)
            if other is None:
                return general
            general = other

    def _answer(self, candidate: Candidate) -> Candidate | None:
        """A candidate of this text that holds on numbers."""
        text = _text_without_sorts(candidate, stated=True)
        if text not in self._holding and candidate not in self._refused:
            if self._holds(candidate):
                self._holding[text] = candidate
            else:
                self._refused.add(candidate)
        return self._holding.get(text)

    def _split(self, candidate: Candidate) -> Iterator[Candidate]:
        """Candidates in which some occurrences of one variable are another one."""
        left, right = candidate.left, candidate.right
        for variable in variables(left):
            before, after = _occurrences(left, variable), _occurrences(right, variable)
            if before < 2 or before + after > _MOST_OCCURRENCES:
                continue
            twin = self._fresh(variable, {other.name for other in variables(left)})
            pool = tuple(dict.fromkeys((*self.pool, *variables(left), twin)))
            for places in product((False, True), repeat=before - 1 + after):
                chosen = (False, *places)
                if not any(chosen[:before]) or (after and not any(chosen[before:])):
                    continue
                split_left = _replaced(left, variable, twin, iter(chosen[:before]))
                split_right = _replaced(right, variable, twin, iter(chosen[before:]))
                split = candidate_of(split_left, split_right, pool)
                if split is not None:
                    yield split

    def _fresh(self, variable: Variable, taken: set[str]) -> Variable:
        for spare in self.pool:
            if spare.sort == variable.sort and spare.name not in taken:
                return spare
        stem = variable.name.rstrip("0123456789")
        names = (f"{stem}{number}" for number in range(1, 100))
        return Variable(
            next(name for name in names if name not in taken | self._names), variable.sort
        )

    # ------------------------------------------------------------------------------ numbers

    def _holds(self, candidate: Candidate) -> bool:
        """Whether both sides have one value on numbers."""
        inputs = variables(candidate.left)
        drawn = input_vectors(inputs, self.seed + 1, self.arithmetic, places=self.places)
        values = dict(zip(inputs, drawn, strict=True))
        left = self._value(candidate.left, values)
        right = self._value(candidate.right, values)
        if left is None or right is None or left[0] != right[0]:
            return False
        sides = (digests(vectors, self.arithmetic) for _, vectors in (left, right))
        return all(starmap(alike, zip(*sides, strict=True)))

    def _value(self, term: Term, values: Mapping[Variable, Vectors]) -> tuple[Sort, Vectors] | None:
        if isinstance(term, Variable):
            return term.sort, values[term]
        if isinstance(term, Number) or term.is_constant:
            samples = next(iter(values.values()))[0].shape[1]
            return sort_of_term(term), constant_vectors(term, self._programs, samples)
        operands = [self._value(operand, values) for operand in term.operands]
        values_known = [operand for operand in operands if operand is not None]
        if len(values_known) < len(operands):
            return None
        sorts = tuple(sort for sort, _ in values_known)
        result_sort = sort_made(term.operation, sorts)
        if result_sort is None:
            return None
        results = []
        for assignment, program in enumerate(self._programs.of(term.operation, sorts, result_sort)):
            result, defined = program.run([vectors[assignment] for _, vectors in values_known])
            if not defined.all():
                return None
            results.append(result)
        return result_sort, tuple(results)


def _occurrences(term: Term, variable: Variable) -> int:
    if isinstance(term, Apply):
        return sum(_occurrences(operand, variable) for operand in term.operands)
    return int(term == variable)


def _replaced(term: Term, variable: Variable, twin: Variable, chosen: Iterator[bool]) -> Term:
    """A term with the twin in the place of the occurrences that are chosen, from left to right."""
    if isinstance(term, Apply):
        operands = tuple(_replaced(operand, variable, twin, chosen) for operand in term.operands)
        return Apply(term.operation, operands)
    if term != variable:
        return term
    return twin if next(chosen) else term
