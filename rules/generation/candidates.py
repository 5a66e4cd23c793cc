"""Equalities as candidates for rules: oriented, renamed, each once, in the order of a search."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from .terms import Term, Variable, operators, renamed, variables


@dataclass(frozen=True)
class Candidate:
    """Two terms with one characteristic vector: `left` would be rewritten to `right`.

    `both`: the other way would be a rule as well, and cost decides.
    """

    left: Term
    right: Term
    both: bool

    @cached_property
    def text(self) -> str:
        """The equality, as the rule language writes terms."""
        return f"{self.left} = {self.right}"

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators of both sides, each once."""
        return tuple(sorted({*operators((self.left,)), *operators((self.right,))}))

    @property
    def variables(self) -> int:
        """The number of variables."""
        return len(variables(self.left))

    @cached_property
    def rank(self) -> tuple[int, int, int, str]:
        """The order of candidates: small ones first, of these general ones."""
        nodes = self.left.nodes + self.right.nodes
        return nodes, -self.variables, len(self.text), self.text


def candidate_of(one: Term, other: Term, pool: Sequence[Variable]) -> Candidate | None:
    """The candidate that an equality is; None where no side has all variables of the other."""
    own, others = set(variables(one)), set(variables(other))
    forward, backward = others <= own, own <= others
    if not forward and not backward:
        return None
    options = []
    if forward and (one.nodes >= other.nodes or not backward):
        options.append((one, other))
    if backward and (other.nodes >= one.nodes or not forward):
        options.append((other, one))
    both = forward and backward and one.nodes == other.nodes
    found = [_named(left, right, pool) for left, right in options]
    left, right = min(found, key=lambda pair: (len(str(pair[0])), str(pair[0]), str(pair[1])))
    return Candidate(left, right, both)


def _named(left: Term, right: Term, pool: Sequence[Variable]) -> tuple[Term, Term]:
    """Variables renamed in the order in which they occur on the left."""
    free: dict[object, list[Variable]] = {}
    for variable in pool:
        free.setdefault(variable.sort, []).append(variable)
    names: dict[Variable, Term] = {}
    for variable in variables(left):
        names[variable] = free[variable.sort].pop(0)
    return renamed(left, names), renamed(right, names)


def in_order(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Candidates each once, small and general ones first."""
    return sorted(dict.fromkeys(candidates), key=lambda one: one.rank)
