"""Proof of a statement: obligations, equality at every index, and equal definedness."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...catalog.operators.terms import Apply, Symbol, Term, Variable, substitute
from .constraint import Constraint, equals, joined, within
from .definedness import Condition, Path
from .equality import require_equal
from .implied import require_implied
from .lower import Lowering
from .normal import Place
from .polynomial import Polynomial, variable
from .signs import Signs
from .solver import Solver
from .space import Space, UndecidedError
from .statement import Obligation, Outcome, Query, Statement


class _FailedError(UndecidedError):
    def __init__(self, obligation: Obligation, reason: str) -> None:
        super().__init__(reason)
        self.obligation = obligation


def prove(statement: Statement, timeout: float = 20.0) -> Outcome:
    """Return whether the statement is proved, for all sizes and all elements.

    `timeout` bounds each question to the solver and the whole, in seconds; what takes longer stays
    open. Nothing raises.
    """
    began = time.perf_counter()
    prover = _Prover(statement, timeout, began)
    try:
        prover.run()
    except _FailedError as error:
        outcome = Outcome("open", str(error), error.obligation, dict(prover.solver.model))
    except UndecidedError as error:
        outcome = Outcome("open", str(error), None, dict(prover.solver.model))
    except RecursionError:
        outcome = Outcome("open", "the terms are nested too deep")
    else:
        outcome = Outcome("proved")
    return replace(
        outcome,
        queries=_kept(prover.solver.queries),
        widest=prover.space.widest,
        seconds=time.perf_counter() - began,
    )


def _kept(queries: Sequence[Query]) -> tuple[Query, ...]:
    """Return what was shown, each once."""
    found: dict[str, Query] = {}
    for query in queries:
        if query.result == "unsat":
            found.setdefault(query.script, query)
    return tuple(found.values())


class _Prover:
    def __init__(self, statement: Statement, timeout: float, began: float) -> None:
        self.statement = statement
        minimum = {s.name: 0 for s in statement.symbols if s.kind == "dimension"}
        self.solver = Solver((), minimum, timeout)
        integers = frozenset(s.name for s in statement.symbols if s.kind != "real")
        self.space = Space(self.solver, integers)
        self.facts: list[Condition] = []
        self.known: dict[str, int] = {}
        definitions = {one.name: one for one in statement.definitions}
        operands = {one.name: one for one in statement.operands}
        signs = Signs(definitions, self._sign, self.known)
        self.lowering = Lowering(self.space, definitions, operands, statement.algebras, signs)

        def deadline() -> None:
            if time.perf_counter() - began > timeout:
                raise UndecidedError(f"not decided in {timeout:g} s")

        self.space.deadline = deadline

    def _sign(self, term: Term) -> int | None:
        try:
            bound = self.solver.bound(self.lowering.index(term, {}, Path()))
        except (UndecidedError, KeyError):
            return None
        return 1 if bound >= 1 else 0 if bound >= 0 else None

    def run(self) -> None:
        self._assume()
        for obligation in self.statement.obligations:
            self._oblige(obligation)
        assumptions = self.solver.assumptions
        for equation in self.statement.equations:
            self._equation(equation.output, equation.source, equation.target)
            self.solver.assumptions = assumptions
            self.space.ambient = set(assumptions)
            self.solver._feasible.clear()

    # ---- assumptions
    def _assume(self) -> None:
        constraints: list[Constraint] = []
        for term in self.statement.assumptions:
            if self._assume_real(term):
                continue
            truth = self.lowering.truth(term, {}, Path())
            if not isinstance(truth, Constraint):
                raise UndecidedError(f"the assumption {term} is about elements")
            constraints += truth.conjuncts()
        whole = joined("and", constraints)
        if whole.known is False:
            raise UndecidedError("vacuous: the assumptions contradict each other")
        constraints = list(whole.conjuncts()) if whole.known is None else []
        minimum = dict(self.solver.minimum)
        for one in constraints:
            if one.kind == "ge" and len(one.variables) == 1:
                (name,) = one.variables
                value = one.whole.linear(name)
                if value is not None and value.number is not None and one.whole.terms[(name,)] == 1:
                    minimum[name] = max(value.number, minimum.get(name, value.number))
        self.solver.minimum = minimum
        self.solver.assumptions = tuple(one for one in constraints if not self.solver.plain(one))
        self.space.ambient = set(self.solver.assumptions)
        if self.solver.assumptions:
            texts = [self.solver.constraint(one) for one in self.solver.assumptions]
            answer = self.solver.ask("the assumptions can hold", texts, self.solver.assumptions)
            if answer == "unsat":
                raise UndecidedError("vacuous: the assumptions contradict each other")

    def _assume_real(self, term: Term) -> bool:
        """Note an assumption on a real symbol; return whether it is one."""
        match term:
            case Apply("and", (left, right)) if self._about_real(left) and self._about_real(right):
                return self._assume_real(left) and self._assume_real(right)
            case Apply(function, (Symbol(name, "real"), int() | float() as number)):
                place = Place(name)
                kinds: tuple[str, ...] = ()
                if function == "!=" and number == 0:
                    kinds = ("nonzero",)
                elif (function == ">" and number >= 0) or (function == ">=" and number > 0):
                    kinds = ("positive",)
                    self.space.positive.add(name)
                    self.known[name] = 1
                elif function == ">=" and number == 0:
                    kinds = ("nonnegative",)
                    self.space.never_negative.add(name)
                    self.known.setdefault(name, 0)
                # anything else is true as well, but not used
                self.facts += [Condition(kind, place) for kind in kinds]
                return True
            case Apply(function, (int() | float() as number, Symbol(name, "real") as symbol)):
                turned = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(function, function)
                return self._assume_real(Apply(turned, (symbol, number)))
            case _:
                return self._about_real(term)

    def _about_real(self, term: Term) -> bool:
        match term:
            case Symbol(_, kind):
                return kind == "real"
            case Apply(_, arguments):
                return any(map(self._about_real, arguments))
            case _:
                return False

    # ---- obligations
    def _oblige(self, obligation: Obligation) -> None:
        if self._about_real(obligation.condition):
            raise _FailedError(obligation, f"{obligation.text} is about elements")
        try:
            truth = self.lowering.truth(obligation.condition, {}, Path())
        except UndecidedError as error:
            raise _FailedError(obligation, str(error)) from error
        if not isinstance(truth, Constraint):
            raise _FailedError(obligation, f"{obligation.text} is about elements")
        for part in truth.conjuncts():
            result = self.solver.valid(obligation.text, part)
            if result == "sat":
                raise _FailedError(obligation, f"{obligation.text} doesn't hold for all sizes")
            if result == "unknown":
                raise _FailedError(obligation, f"the solver can't tell whether {obligation.text}")

    # ---- equations
    def _equation(self, output: str, source: str, target: str) -> None:
        shapes = [self._shape(name) for name in (source, target)]
        if len(shapes[0]) != len(shapes[1]):
            raise UndecidedError(f"{output} has another rank")
        for axis, (one, two) in enumerate(zip(*shapes, strict=True)):
            purpose = f"{output} has one size along axis {axis}"
            if self.solver.valid(purpose, equals(one, two)) != "unsat":
                raise UndecidedError(f"it isn't shown that {purpose}")
        names = [self.space.fresh(extent) for extent in shapes[0]]
        places = tuple(variable(name) for name in names)
        ranges = [r for p, extent in zip(places, shapes[0], strict=True) for r in within(p, extent)]
        outside = self._outside(names)
        self.solver.minimum = {**self.solver.minimum, **dict.fromkeys(names, 0)}
        added = [one for one in (*ranges, *outside) if not self.solver.plain(one)]
        self.solver.assumptions = (*self.solver.assumptions, *added)
        self.space.ambient |= {*ranges, *added}
        self.solver._feasible.clear()
        paths = Path(), Path()
        one = self.lowering.read(source, places, paths[0])
        two = self.lowering.read(target, places, paths[1])
        require_equal(one, two, self.space, output)
        first, second = [*paths[0].conditions, *self.facts], [*paths[1].conditions, *self.facts]
        given = [c for c in (*first, *second) if c.given]
        require_implied(second, [*first, *given], self.space, output, "target")
        require_implied(first, [*second, *given], self.space, output, "source")

    def _shape(self, name: str) -> list[Polynomial]:
        one = self.lowering.operands.get(name) or self.lowering.definitions[name]
        return [self.lowering.index(size, {}, Path()) for size in one.shape]

    def _outside(self, names: Sequence[str]) -> tuple[Constraint, ...]:
        """Return that an index lies outside of the region where the sides may differ."""
        region = self.statement.region
        if region is None:
            return ()
        inside = {
            Variable(name, 0): variable(names[at])
            for at, name in enumerate(self.statement.region_indices)
        }
        truth = self.lowering.truth(_with_indices(region, inside), inside, Path())
        if not isinstance(truth, Constraint):
            raise UndecidedError("the region is about elements")
        return truth.negation.conjuncts()


def _with_indices(term: Term, indices: Mapping[Variable, Polynomial]) -> Term:
    """Return a term whose symbols that name indices are those."""
    return substitute(term, {one.name: one for one in indices})
