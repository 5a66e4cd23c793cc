"""Numbers for the symbols of a statement, so that its assumptions hold.

Small sizes first, 0 and 1 among them; then one size far beyond the others, which is what tells a
rule that is wrong only for h >= 40; then larger ones. Where drawing doesn't meet the assumptions,
Z3 completes what was drawn.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction

import z3

from ....catalog.interruption import endable
from ....catalog.terms.index_notation import Apply, Symbol, Term, reads, subterms
from ...prover.statement import Statement
from ...prover.work_clock import limit
from ..evaluation.arithmetic import NoValueError, Number, number
from ..evaluation.solver_terms import (
    NotInSolverError,
    SolverTerms,
    solver_number,
    solver_variable,
)

# Z3 would take Ctrl-C for its own, and go on with the next question.
z3.set_param("ctrl_c", False)

# No size and no offset that Z3 is asked for is larger.
LARGEST = 4096
_TIMEOUT_S = 0.3
_REALS = (1, 0, 2, -1, Fraction(1, 2), 3, Fraction(-3, 2), Fraction(1, 8), -2, 5)
_SPIKES = (8, 13, 41, 70, 130)


def endable_solver() -> z3.Solver:
    """Return a solver whose questions a signal ends.

    Not Z3's whole context: that refuses all questions once it was told to end while nobody asked.
    """
    return endable(z3.Solver(), z3.Solver.interrupt)


class SymbolSampler:
    """Draws numbers for symbols; every answer was checked against the assumptions."""

    def __init__(self, statement: Statement, seed: int = 0) -> None:
        self.statement = statement
        self.symbols = {symbol.name: symbol for symbol in statement.symbols}
        self.random = random.Random(f"{statement.title}:{seed}")
        self.named = sorted(integers_in(statement))
        self.divisors = {
            name for assumption in statement.assumptions for name in _divisors(assumption)
        }
        self._solver: z3.Solver | None = None

    def holds(self, symbols: Mapping[str, Number]) -> bool:
        """Whether numbers are of their symbols' kinds, and all assumptions on sizes hold."""
        for name, symbol in self.symbols.items():
            if symbol.kind == "dimension" and symbols[name] < 0:
                return False
        return all(self._true(condition, symbols) for condition in self.statement.assumptions)

    def _true(self, condition: Term, symbols: Mapping[str, Number]) -> bool:
        if reads(condition):
            return True  # of elements: the values drawn later decide
        try:
            return bool(number(condition, symbols))
        except NoValueError:
            return False

    # ------------------------------------------------------------------------- proposals

    def small(self, most: int = 4, least: int = 0) -> dict[str, Number] | None:
        """Small numbers for all symbols."""
        return self.complete(
            {name: self._propose(symbol, least, most) for name, symbol in self.symbols.items()},
            least=least,
        )

    def spike(self, name: str, value: int) -> dict[str, Number] | None:
        """One symbol far beyond the others."""
        proposed = {n: self._propose(s, 1, 2) for n, s in self.symbols.items()}
        return self.complete(proposed | {name: value}, first=(name,), least=1)

    def _propose(self, symbol: Symbol, least: int, most: int) -> Number:
        if symbol.kind == "real":
            return self.random.choice(_REALS)
        if symbol.kind == "integer" and self.random.random() < 0.2:
            return -self.random.randint(0, most)
        return self.random.randint(least, most)

    def schedule(self) -> Iterator[dict[str, Number] | None]:
        """Sizes to try, the cheap ones first, without end; None where drawing failed."""
        for least, most, times in ((1, 3, 3), (0, 4, 6), (1, 7, 3)):
            for _ in range(times):
                yield self.small(most, least)
        sizes = [name for name, symbol in self.symbols.items() if symbol.kind != "real"]
        thresholds = [n + d for n in self.named if 3 < n <= 600 for d in (0, 1, -1)]
        for value in (*_SPIKES[:2], *thresholds, *_SPIKES[2:]):
            for name in sizes:
                yield self.spike(name, value)
        most = 8
        while True:
            yield self.small(most, 0 if self.random.random() < 0.3 else 1)
            if sizes:
                name = self.random.choice(sizes)
                yield self.spike(name, self.random.randint(2, 2 * most))
            most = min(most + 1, 48)

    # ------------------------------------------------------------------------ completion

    def complete(
        self,
        proposed: Mapping[str, Number],
        wanted: Sequence[Term] = (),
        first: Sequence[str] = (),
        least: int = 0,
    ) -> dict[str, Number] | None:
        """Numbers near the proposed ones for which assumptions and `wanted` hold; None: none found.

        The symbols of `first` keep their numbers before others do; dimensions are at least `least`
        if that is possible.
        """
        values = dict(proposed)
        if set(values) >= set(self.symbols) and not wanted and self.holds(values):
            return values
        solver = self._solver_of_assumptions()
        solver.push()
        try:
            for condition in wanted:
                solver.add(SolverTerms(self.symbols).truth(condition))
            if solver.check() != z3.sat:
                return None
            self._keep_large(solver, least)
            self._keep_small(solver, values, first)
            rest = [name for name in values if name not in first]
            self.random.shuffle(rest)
            rest.sort(key=lambda name: name not in self.divisors)
            for name in (*first, *rest):
                solver.push()
                solver.add(solver_variable(self.symbols[name]) == solver_number(values[name]))
                if solver.check() != z3.sat:
                    solver.pop()
                    if name in first:
                        return None
            if solver.check() != z3.sat:
                return None
            numbers = self._read(solver.model())
        except (NotInSolverError, z3.Z3Exception):
            return None
        finally:
            while solver.num_scopes():
                solver.pop()
        met = all(self._true(condition, numbers) for condition in wanted)
        return numbers if met and self.holds(numbers) else None

    def _keep_large(self, solver: z3.Solver, least: int) -> None:
        """Keep dimensions from 0, all of them or those for which it can be."""
        if not least:
            return
        dimensions = [solver_variable(s) for s in self.symbols.values() if s.kind == "dimension"]
        for some in (dimensions, *([size] for size in dimensions)):
            solver.push()
            solver.add(*(variable >= least for variable in some))
            if solver.check() == z3.sat:
                if some is dimensions:
                    return
            else:
                solver.pop()

    def _keep_small(
        self, solver: z3.Solver, values: Mapping[str, Number], first: Sequence[str]
    ) -> None:
        """Bound what isn't asked for, as tightly as the conditions allow."""
        integers = [n for n, s in self.symbols.items() if s.kind != "real" and n not in first]
        largest = max([4, *(abs(int(values[n])) for n in integers if n in values)])
        for most in (largest, 2 * largest, 8 * largest):
            solver.push()
            for name in integers:
                variable = solver_variable(self.symbols[name])
                solver.add(variable <= most, variable >= -most)
            if solver.check() == z3.sat:
                return
            solver.pop()

    def violating(self, condition: Term) -> dict[str, Number] | None:
        """Small sizes at which the assumptions hold and a condition doesn't."""
        wanted = Apply("not", (condition,))
        for most in (3, 7, 40, LARGEST):
            bounds = [
                Apply("<=", (symbol, most))
                for symbol in self.symbols.values()
                if symbol.kind != "real"
            ]
            numbers = self.complete({}, [wanted, *bounds])
            if numbers is not None:
                return numbers
        return None

    def _solver_of_assumptions(self, *, bounded: bool = True) -> z3.Solver:
        if self._solver is None or not bounded:
            solver = endable_solver()
            limit(solver, _TIMEOUT_S)
            for symbol in self.symbols.values():
                variable = solver_variable(symbol)
                if symbol.kind == "dimension":
                    solver.add(variable >= 0)
                if bounded and symbol.kind != "real":
                    solver.add(variable <= LARGEST, variable >= -LARGEST)
            for condition in self.statement.assumptions:
                try:
                    solver.add(SolverTerms(self.symbols).truth(condition))
                except NotInSolverError:
                    continue  # `holds` decides afterwards
            if not bounded:
                return solver
            self._solver = solver
        return self._solver

    def _read(self, model: z3.ModelRef) -> dict[str, Number]:
        numbers: dict[str, Number] = {}
        for name, symbol in self.symbols.items():
            value = model.eval(solver_variable(symbol), model_completion=True)
            if symbol.kind != "real":
                numbers[name] = value.as_long()
            elif z3.is_rational_value(value):
                numbers[name] = Fraction(value.numerator_as_long(), value.denominator_as_long())
            else:
                raise NotInSolverError(f"{name} is no rational number")
        return numbers


def unsatisfiable(statement: Statement, wanted: Sequence[Term]) -> bool:
    """Whether no numbers meet the assumptions on sizes and what is wanted, as Z3 sees it.

    What isn't about integers, and divisions by what may be negative, are left out.
    """
    sizes = SymbolSampler(statement)
    solver = sizes._solver_of_assumptions(bounded=False)
    for condition in wanted:
        if all(map(_divides_by_positive, _divisions(condition))):
            with suppress(NotInSolverError, z3.Z3Exception):
                solver.add(SolverTerms(sizes.symbols).truth(condition))
    return bool(solver.check() == z3.unsat)


def _divides_by_positive(divisor: Term) -> bool:
    match divisor:
        case int():
            return divisor > 0
        case Symbol(_, kind):
            return kind == "dimension"
        case _:
            return False


def _divisions(term: Term) -> Iterator[Term]:
    """The divisors of a term."""
    for part in subterms(term):
        if isinstance(part, Apply) and part.function in ("//", "%", "mod", "/"):
            yield part.arguments[1]


def _divisors(term: Term) -> Iterator[str]:
    """The symbols that something else is to be a multiple of: they are chosen first."""
    for part in subterms(term):
        match part:
            case Apply("%", (_, Symbol(name))):
                yield name


def integers_in(statement: Statement) -> set[int]:
    """Return the integers that a statement mentions: where its cases meet, something changes."""
    terms: list[Term] = list(statement.assumptions)
    for definition in statement.definitions:
        terms += [*definition.shape, definition.value]
    parts = (part for term in terms for part in subterms(term))
    return {abs(part) for part in parts if isinstance(part, int) and not isinstance(part, bool)}
