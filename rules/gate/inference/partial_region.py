"""The region of a partial equivalence: where the two sides of a statement differ.

The prover asks whether there are sizes, an element of the output, and a choice of elements of the
operands such that the two sides count that choice differently. Where it finds that there are, the
elements of the operands are eliminated from the question: what is left, a condition on the indices
of the output and on sizes, is the region (PET, Wang et al., OSDI 2021, section 4, tests boxes of a
tensor instead). A statement may ask several such questions: each widens the region until the prover
says that the sides are equal outside of it. Where elimination fails, on products of sizes and
indices say, a region is guessed from sizes (sampled_region.py). Either way it is one's own only
once the whole prover has shown, for all sizes, that the sides are equal outside of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice

import z3
from z3.z3util import get_vars

from ....catalog.terms.index_notation import Apply, Symbol, Term
from ...language.canonical_text import rule_text
from ...language.errors import RuleError
from ...language.parser import parse_rules
from ...language.syntax import Rule
from ...prover.cases.case_split import statements
from ...prover.lowering.lowering import Lowering
from ...prover.normal.context import UndecidedError
from ...prover.prove import Proof, prove
from ...prover.solve.polynomials import Constraint
from ...prover.solve.smt import symbol
from ...prover.statement import Outcome, Query, Statement
from ...prover.work_clock import limit
from ..counterexample.symbol_values import endable_solver
from .implicants import NotPlainError, implicants
from .inequalities import Conditions
from .sampled_region import learned_region

Prover = Callable[[Statement, float], Outcome]
_PROOF_S = 20.0
_ELIMINATION_MS = 5000
_QUESTION_S = 2.0
# How many questions may widen a region, how many answers are looked at each time, and how many
# regions are tried in all.
_WIDENINGS = 6
_CANDIDATES = 8
_NARROWINGS = 3
_TRIES = 16


@dataclass(frozen=True)
class Region:
    """A condition over the indices i0, i1, … of the output, as term and as text of the language.

    `eliminated`: it comes from the prover's own questions; else it was guessed from sizes.
    """

    text: str
    term: Term
    indices: tuple[str, ...]
    eliminated: bool = True


def synthesize_region(
    statement: Statement, seconds: float = 30.0, prover: Prover = prove
) -> Region | None:
    """The region in which the sides of a statement with one output differ.

    Equality outside of it is proved. None where no such region is found, where the sides differ
    everywhere, or nowhere.
    """
    if len(statement.equations) != 1:
        return None
    until = time.thread_time() + seconds
    names = _indices(statement)
    search = _Search(statement, names, until)
    for method in (search.run, lambda: learned_region(statement, names, until)):
        term = method()
        if term is None:
            continue
        claim = replace(statement, region=term, region_indices=names)
        outcome = prover(claim, min(_PROOF_S, max(1.0, until - time.thread_time())))
        if outcome.status == "proved":
            return Region(region_text(term), term, names, method == search.run)
    return None


def with_region(rule: Rule, seconds: float) -> Rule | None:
    """A partial equivalence without a region, its region written down; None where none is found.

    The region is that of all its cases. It is proved case by case, not yet of the rule as a whole:
    that, and what corrects it, is for the gate.
    """
    until = time.thread_time() + seconds
    texts: dict[str, None] = {}
    for statement in statements(replace(rule, correct=())):
        remaining_s = until - time.thread_time()
        if remaining_s <= 0:
            return None
        if prove(statement, min(_PROOF_S, remaining_s)).status == "proved":
            continue
        region = synthesize_region(statement, remaining_s)
        if region is None:
            return None
        texts[region.text] = None
    if not texts:
        return None
    lines = rule_text(rule).splitlines()
    line_number = next(k for k, line in enumerate(lines) if line.split() == ["equal", "partial"])
    lines[line_number] += f" except {' or '.join(texts)}"
    try:
        (changed,) = parse_rules("\n".join(lines) + "\n", rule.path)
    except RuleError:
        return None  # of sizes that have no name in the rule
    return changed


def _indices(statement: Statement) -> tuple[str, ...]:
    equation = statement.equations[0]
    shape = next(d.shape for d in statement.definitions if d.name == equation.source)
    return tuple(f"i{axis}" for axis in range(len(shape)))


class _Search:
    """Widens a region by one question of the prover after the other."""

    def __init__(self, statement: Statement, names: tuple[str, ...], until: float) -> None:
        self.statement, self.names, self.until = statement, names, until
        self.output = statement.equations[0].output
        sizes = {symbol(s.name).strip("|"): s for s in statement.symbols if s.kind != "real"}
        self.indices = {name: z3.Int(f"i@{name}") for name in names}
        self.symbols = {
            **sizes,
            **{str(self.indices[name]): Symbol(name, "integer") for name in names},
        }
        # Where nothing is empty a region is told; it covers what differs elsewhere, too.
        self.usual = [z3.Int(name) >= 1 for name, s in sizes.items() if s.kind == "dimension"]
        self.background: list[z3.BoolRef] | None = None
        self.tries = 0
        self.seen: list[z3.BoolRef] = []

    def run(self) -> Term | None:
        """The region; None where the sides are equal everywhere, or none is found."""
        region = self._widened(None, 0)
        if region is None:
            return None
        with suppress(NotPlainError):
            return self._as_term(self._narrowed(region))
        return None

    def _widened(self, region: z3.BoolRef | None, depth: int) -> z3.BoolRef | None:
        asked, equal = self._asked(region)
        if equal:
            return region
        if depth == _WIDENINGS:
            return None
        candidates = list(islice(self._candidates(asked), _CANDIDATES))
        self.seen += candidates
        for more in candidates:
            wider = more if region is None else z3.Or(region, more)
            if (widened := self._widened(wider, depth + 1)) is not None:
                return widened
        return None

    def _narrowed(self, region: z3.BoolRef) -> z3.BoolRef:
        """A region cut down to what other questions leave of it, where that is enough.

        A largest element may be looked at in two ways, and each differ in more places than both do.
        """
        others = [assignment for assignment in self.seen if not self._covers(assignment, region)]
        for other in others[:_NARROWINGS]:
            meet = z3.And(region, other)
            if self._asked(meet)[1]:
                region = meet
        return region

    def _as_term(self, region: z3.BoolRef) -> Term:
        """A region as a condition of the rule language; NotPlainError."""
        cubes = implicants(region, self.background or [], self.usual)
        if not cubes or not all(cubes):
            raise NotPlainError("it is everywhere, or nowhere")
        return Conditions(self.symbols, self.names).union(cubes)

    def _covers(self, wide: z3.BoolRef, narrow: z3.BoolRef) -> bool:
        solver = endable_solver()
        limit(solver, _QUESTION_S)
        solver.add(*(self.background or []), *self.usual, narrow, z3.Not(wide))
        return bool(solver.check() == z3.unsat)

    def _asked(self, region: z3.BoolRef | None) -> tuple[_Asked, bool]:
        """What the prover asks of the statement outside of a region, and whether it is proved."""
        remaining_s = self.until - time.thread_time()
        claim = self.statement
        if region is not None:
            try:
                term = self._as_term(region)
            except NotPlainError:
                return _Asked(claim, 0.0), False
            claim = replace(claim, region=term, region_indices=self.names)
        asked = _Asked(claim, min(_PROOF_S, remaining_s))
        if remaining_s <= 0 or self.tries == _TRIES:
            return asked, False
        self.tries += 1
        try:
            asked.run()
        except (UndecidedError, RecursionError, ArithmeticError, LookupError, ValueError):
            return asked, False
        except (AssertionError, z3.Z3Exception):
            asked.queries.clear()
            return asked, False
        return asked, True

    def _candidates(self, asked: _Asked) -> Iterator[z3.BoolRef]:
        """Where the questions that failed can be answered with yes, those of the output first."""
        prefix = f"{self.output}:"
        failed = {q.script: q for q in asked.queries if q.result == "sat" and asked.names}
        tried: list[z3.BoolRef] = []
        for query in sorted(failed.values(), key=lambda q: not q.purpose.startswith(prefix)):
            if time.thread_time() > self.until:
                return
            try:
                region = self._differs(query, asked.names)
            except (NotPlainError, z3.Z3Exception):
                continue
            if region is None or any(self._covers(region, region_tried) for region_tried in tried):
                continue
            tried.append(region)
            yield region

    def _differs(self, query: Query, names: Sequence[str]) -> z3.BoolRef | None:
        """Where a question of the prover can be answered with yes; None: everywhere, or nowhere."""
        places = [
            (z3.Int(name), self.indices[i]) for name, i in zip(names, self.names, strict=True)
        ]
        assertions = [z3.substitute(a, *places) for a in z3.parse_smt2_string(query.script)]
        known = assertions[:-1]  # what comes last is the question
        background = [literal for literal in known if _names(literal) <= self.symbols.keys()]
        if self.background is None:
            self.background = background
        formula = _eliminated(assertions, set(self.symbols))
        cubes = implicants(formula, background, self.usual)
        if not cubes or not all(cubes):
            return None
        return z3.Or(*(z3.And(*cube) for cube in cubes))


class _Asked(Proof):
    """An attempt at a statement that keeps the names of the output's indices in its questions."""

    names: tuple[str, ...] = ()

    def _outside(self, names: Sequence[str], setting: Lowering) -> tuple[Constraint, ...]:
        self.names = tuple(names)
        return super()._outside(names, setting)


def _names(formula: z3.ExprRef) -> set[str]:
    return {str(variable) for variable in get_vars(formula)}


def _eliminated(assertions: Sequence[z3.BoolRef], kept: set[str]) -> z3.BoolRef:
    """Say, of the kept names alone, when assertions can hold together; NotPlainError."""
    whole = z3.And(*assertions)
    others = [variable for variable in get_vars(whole) if str(variable) not in kept]
    goal = z3.Goal()
    goal.add(z3.Exists(others, whole) if others else whole)
    for tactic in ("qe2", "qe"):
        attempt = z3.TryFor(z3.Then(tactic, "simplify"), _ELIMINATION_MS)
        try:
            formula = attempt(goal).as_expr()
        except z3.Z3Exception:
            continue
        if _names(formula) <= kept:
            return formula
    raise NotPlainError("the elements of the operands can't be eliminated")


def region_text(term: Term) -> str:
    """A region as the rule language spells it."""
    match term:
        case Apply(("and" | "or") as junction, (left, right)):
            return f"{region_text(left)} {junction} {region_text(right)}"
        case Apply(function, (left, right)) if function in ("+", "-", "*", "//", "%"):
            return f"{_operand(left)} {function} {_operand(right)}"
        case Apply(function, (left, right)):
            return f"{region_text(left)} {function} {region_text(right)}"
        case _:
            return str(term)


def _operand(term: Term) -> str:
    return f"({region_text(term)})" if isinstance(term, Apply) else str(term)
