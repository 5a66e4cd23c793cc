"""Proof of a statement: obligations, equality at every index, and equal definedness.

An element of each side is lowered to a guarded sum of products (normal/sums.py) in which all sizes
and indices are symbols, as tensor expressions are in index notation (Tiramisu, Baghdadi et al., CGO
2019) and relational sum-products in SPORES (Wang et al., VLDB 2020). What isn't linear in elements
is interned as a tensor of its own (normal/interning.py): exponentials, powers that aren't whole,
largest elements as guarded sets (functions/extrema.py). Two sides are equal if, monomial by
monomial, the numbers of ways in which their indices can be chosen agree at all places
(normal/coefficients.py), a question about integers that Z3 decides; what only the order of the
reals shows is decided element by element (normal/real_order.py). TASO (Jia et al., SOSP 2019,
section 4) proves its rules from axioms about operators instead; here there is no axiom to get
wrong, only the specifications.

Why it is sound. Every step to a normal form is an equation that holds wherever the element has a
value: x * x^-1 is 1 because the division by x is noted as a condition (normal/definedness.py), and
after the sides are equal, each must ask for what the other asks for (normal/definedness.py), but
for reads in bounds, which the target may do without. Equality is shown for all values of the
elements, so nothing needs to be known of heads but what is noted where they are made. Sizes are at
least 0 unless assumed otherwise; facts about one output's indices are dropped before the next. A
question that Z3 doesn't answer leaves the statement open.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

import z3

from ...catalog.operators.expand import Definition
from ...catalog.terms.comparisons import MIRRORED, NEGATED
from ...catalog.terms.index_notation import (
    Apply,
    Reduce,
    Select,
    Symbol,
    Term,
    Variable,
    substitute,
    subterms,
    symbols,
)
from .assumptions import alternatives
from .lowering.lowering import Lowering
from .lowering.term_kinds import Signs
from .normal.context import Context, UndecidedError
from .normal.definedness import Condition, Path, require_implied
from .normal.equality import require_equal
from .normal.real_order import contradict
from .normal.sums import Place
from .solve.polynomials import Constraint, Polynomial, at_least, equals, joined, variable, within
from .solve.size_facts import least_values, sizes_as_multiples, sizes_as_products
from .solve.smt import Solver
from .statement import Equation, Obligation, Outcome, Query, Statement
from .work_clock import guard, now

# How deep in what is interned elements are compared where they stand.
_DEPTH = 3
# How often real time is looked at: asking the system for it takes its own time.
_SELDOM = 256
# What the last of several alternatives has at least.
_LEAST_S = 0.5


class _FailedError(UndecidedError):
    def __init__(self, obligation: Obligation, reason: str) -> None:
        super().__init__(reason)
        self.obligation = obligation


class _NeverError(UndecidedError):
    """An output of the left side never has a value."""


def prove(statement: Statement, timeout: float = 20.0) -> Outcome:
    """Return whether the statement is proved, for all sizes and all elements.

    `timeout` bounds each question to the solver and the whole, in seconds of work (work_clock.py);
    what takes longer stays open. Nothing raises.
    """
    began = now()
    outcomes: list[Outcome] = []
    for alternative in alternatives(statement):
        remaining_s = timeout - (now() - began)
        outcomes.append(_prove(alternative, max(remaining_s, _LEAST_S)))
        if outcomes[-1].status != "proved" and not outcomes[-1].vacuous:
            return _joined(outcomes, outcomes[-1])
    said = [outcome for outcome in outcomes if not outcome.vacuous]
    return _joined(outcomes, (said or outcomes)[0])


def _joined(outcomes: Sequence[Outcome], result: Outcome) -> Outcome:
    """Return the result with what all of the outcomes took."""
    return replace(
        result,
        queries=_shown([query for outcome in outcomes for query in outcome.queries]),
        widest=max(outcome.widest for outcome in outcomes),
        seconds=sum(outcome.seconds for outcome in outcomes),
    )


def _prove(statement: Statement, timeout: float) -> Outcome:
    began = time.perf_counter()
    proof = Proof(statement, timeout)
    failed: Obligation | None = None
    reason = ""
    try:
        proof.run()
    except _FailedError as error:
        reason, failed = str(error), error.obligation
    except UndecidedError as error:
        reason = str(error)
    except RecursionError:
        reason = "the terms are nested too deep"
    except (ArithmeticError, AssertionError, LookupError, ValueError, z3.Z3Exception) as error:
        reason = f"no normal form is found: {error!r}"
    outcome = Outcome("open" if reason else "proved", reason, failed)
    return replace(
        outcome,
        model=dict(proof.model) if reason else {},
        queries=_shown(proof.queries),
        widest=proof.widest,
        seconds=time.perf_counter() - began,
    )


def _shown(queries: Sequence[Query]) -> tuple[Query, ...]:
    """Return what was shown, each once."""
    by_script: dict[str, Query] = {}
    for query in queries:
        if query.result == "unsat":
            by_script.setdefault(query.script, query)
    return tuple(by_script.values())


@dataclass(frozen=True)
class Way:
    """How elements are lowered; see Lowering."""

    by_order: bool = False
    in_context: bool = False
    by_guards: bool = False
    exact_sums: bool = False
    # Sizes that are multiples of others are written as products.
    by_factors: bool = False


class Proof:
    """One attempt at a statement."""

    def __init__(self, statement: Statement, timeout: float) -> None:
        self.statement = statement
        self.timeout = timeout
        self.queries: list[Query] = []
        self.model: dict[str, int] = {}
        self.widest = 0
        self.integers = frozenset(s.name for s in statement.symbols if s.kind != "real")
        self.minimum = {s.name: 0 for s in statement.symbols if s.kind == "dimension"}
        self.sizes = frozenset(self.minimum)
        self.assumptions: tuple[Constraint, ...] = ()
        self.real_assumptions: list[Term] = []
        self.deadline = _deadline(timeout)

    def run(self) -> None:
        """Raise UndecidedError unless the statement is proved."""
        self._assume()
        setting = self._setting()
        setting.by_guards = self.statement.numbered
        for obligation in self.statement.obligations:
            self._oblige(obligation, setting)
        never: list[_NeverError] = []
        for equation in self.statement.equations:
            try:
                self._attempt(equation)
            except _NeverError as error:  # says nothing of the other outputs
                never.append(error)
        if never and len(never) == len(self.statement.equations):
            raise never[0]

    def _attempt(self, equation: Equation) -> None:
        """Raise UndecidedError unless one of the ways to lower the equation shows it."""
        first: UndecidedError | None = None
        for way in self._ways():
            try:
                self._equation(equation, way)
            except UndecidedError as error:
                first = first or error
            else:
                return
        assert first is not None
        raise first

    def _ways(self) -> Iterator[Way]:
        definitions = [definition.value for definition in self.statement.definitions]
        if self.statement.numbered:
            yield Way(in_context=True, by_guards=True)
            return
        if any(map(_windowed, definitions)):
            yield Way(in_context=True)
        yield Way()
        if any(_calls(definition, ("abs", "max", "min")) for definition in definitions):
            yield Way(by_order=True)
        if any(map(self._adds_integers, self.statement.definitions)):
            yield Way(exact_sums=True)
        if sizes_as_multiples(self.assumptions, self.minimum, self.sizes):
            yield Way(by_factors=True)

    def _adds_integers(self, definition: Definition) -> bool:
        """Whether elements are integers to which something is added, as an index may be."""
        integers = self.statement.algebras.get(definition.name) == "integer"
        return integers and _calls(definition.value, ("+", "-"))

    def _setting(self) -> Lowering:
        """Return a fresh lowering: what one equation may assume of sizes, another may not."""
        statement = self.statement
        solver = Solver(
            self.assumptions,
            dict(self.minimum),
            self.timeout,
            self.queries,
            self.model,
            self.sizes,
            {
                operand.name: operand.limits
                for operand in statement.operands
                if operand.limits is not None
            },
        )
        context = Context(
            solver, self.integers, ambient=set(self.assumptions), deadline=self.deadline
        )
        definitions = {definition.name: definition for definition in statement.definitions}
        operands = {operand.name: operand for operand in statement.operands}
        types = dict(statement.origin.types) if statement.origin is not None else {}
        for definition in statement.definitions:
            if isinstance(definition.type, str):
                types[definition.name] = definition.type
        lowering = Lowering(context, definitions, operands, statement.algebras, types)

        def sign(term: Term) -> int | None:
            path = Path()
            try:
                bound = solver.bound(lowering.index(term, {}, path))
            except (UndecidedError, KeyError):
                return None
            if len(_reliable(path.conditions)) < len(path.conditions):
                return None  # nobody would show the others
            return 1 if bound >= 1 else 0 if bound >= 0 else None

        lowering.signs = Signs(definitions, sign)
        for term in self.real_assumptions:
            _assume_real(term, lowering)
        return lowering

    # ---- assumptions
    def _assume(self) -> None:
        setting = self._setting()
        constraints: list[Constraint] = []
        for term in self.statement.assumptions:
            if about_real(term):
                self.real_assumptions.append(term)
                continue
            truth = setting.truth(term, {}, Path())
            if not isinstance(truth, Constraint):
                raise UndecidedError(f"the assumption {term} is about elements")
            constraints += truth.conjuncts()
        whole = joined("and", constraints)
        if whole.truth is False:
            raise UndecidedError("vacuous: the assumptions contradict each other")
        constraints = list(whole.conjuncts()) if whole.truth is None else []
        self.minimum = least_values(constraints, self.minimum)
        solver = Solver((), self.minimum, self.timeout, self.queries)
        self.assumptions = tuple(
            constraint for constraint in constraints if not solver.plain(constraint)
        )
        if any(solver.plain(constraint) is False for constraint in constraints):
            raise UndecidedError("vacuous: the assumptions contradict each other")
        if self.assumptions:
            texts = [solver.constraint(assumption) for assumption in self.assumptions]
            if solver.ask("the assumptions can hold", texts, self.assumptions) == "unsat":
                raise UndecidedError("vacuous: the assumptions contradict each other")
        if contradict(self.real_assumptions, solver):
            raise UndecidedError("vacuous: the assumptions on numbers contradict each other")

    # ---- obligations
    def _oblige(self, obligation: Obligation, setting: Lowering) -> None:
        if about_real(obligation.condition):
            opposite = Apply("not", (obligation.condition,))
            if not contradict([*self.real_assumptions, opposite], setting.context.solver):
                raise _FailedError(obligation, f"{obligation.text} is about elements")
            return
        try:
            truth = setting.truth(obligation.condition, {}, Path())
        except UndecidedError as error:
            raise _FailedError(obligation, str(error)) from error
        if not isinstance(truth, Constraint):
            raise _FailedError(obligation, f"{obligation.text} is about elements")
        for part in truth.conjuncts():
            result = setting.context.solver.valid(obligation.text, part)
            if result == "sat":
                raise _FailedError(obligation, f"{obligation.text} doesn't hold for all sizes")
            if result == "unknown":
                raise _FailedError(obligation, f"the solver can't tell whether {obligation.text}")

    # ---- equations
    def _equation(self, equation: Equation, way: Way) -> None:
        output = equation.output
        setting = self._setting()
        setting.by_order, setting.in_context = way.by_order, way.in_context
        setting.by_guards = way.by_guards
        solver, context = setting.context.solver, setting.context
        shapes = [_shape(name, setting) for name in (equation.source, equation.target)]
        if len(shapes[0]) != len(shapes[1]):
            raise UndecidedError(f"{output} has another rank")
        for axis, (source_size, target_size) in enumerate(zip(*shapes, strict=True)):
            purpose = f"{output} has one size along axis {axis}"
            if solver.valid(purpose, equals(source_size, target_size)) != "unsat":
                raise UndecidedError(f"it isn't shown that {purpose}")
        names = [context.fresh(extent) for extent in shapes[0]]
        places = tuple(variable(name) for name in names)
        ranges = [r for p, extent in zip(places, shapes[0], strict=True) for r in within(p, extent)]
        added = [*ranges, *self._outside(names, setting)]
        solver.assumptions = (*solver.assumptions, *added)
        solver.minimum = least_values(
            solver.assumptions, {**solver.minimum, **dict.fromkeys(names, 0)}
        )
        described = sizes_as_multiples if way.by_factors else sizes_as_products
        replacements = described(solver.assumptions, solver.minimum, self.sizes)
        if replacements:
            setting.symbol_values = replacements
            factors = frozenset().union(*(value.variables for value in replacements.values()))
            context.symbols |= factors
            solver.minimum = {**dict.fromkeys(factors, 0), **solver.minimum}
            bounds = [at_least(value, self.minimum[name]) for name, value in replacements.items()]
            solver.assumptions = (
                *(a.substitute(replacements) for a in solver.assumptions),
                *bounds,
            )
            folded = [context.fold_constraint(constraint) for constraint in solver.assumptions]
            solver.minimum = least_values(folded, solver.minimum)
            context.extents = {
                n: extent.substitute(replacements) for n, extent in context.extents.items()
            }
            context.ambient = {
                constraint.substitute(replacements) for constraint in context.ambient
            }
            added = [constraint.substitute(replacements) for constraint in added]
        solver.assumptions = tuple(
            assumption for assumption in solver.assumptions if not solver.plain(assumption)
        )
        context.ambient |= set(added)
        context.forget()
        paths = Path(), Path()
        setting.exact_sums = way.exact_sums  # from here on, what that asks for is shown below
        source = setting.read(equation.source, places, paths[0])
        target = setting.read(equation.target, places, paths[1])
        # Whether each side asks for what the other does is shown below, so that here both may.
        required = [_integer_requirements(_reliable(path.conditions), context) for path in paths]
        if any(solver.plain(constraint) is False for constraint in required[0]):
            raise _NeverError(f"vacuous: {output} never has a value")
        if any(solver.plain(constraint) is False for constraint in required[1]):
            raise UndecidedError(f"{output} never has a value on the right side")
        before = solver.assumptions
        try:
            both = (
                constraint
                for side in required
                for constraint in side
                if not solver.plain(constraint)
            )
            solver.assumptions = (*before, *both)
            context.forget()
            require_equal(source, target, context, output, depth=_DEPTH)
            solver.assumptions = before
            context.forget()
            conditions = [[*path.conditions, *setting.facts] for path in paths]
            granted = [c for side in conditions for c in _reliable(side) if c.is_granted]
            first, second = ([*_reliable(side), *granted] for side in conditions)
            # what the source reads is told by what it computes: that must be exact by itself
            computed = [condition for condition in conditions[0] if condition.kind == "exact"]
            require_implied(computed, (), context, output, "source")
            require_implied(conditions[1], first, context, output, "target")
            # a read out of bounds is an error, which a target needn't repeat
            values = [
                condition for condition in conditions[0] if condition.kind not in ("read", "exact")
            ]
            require_implied(values, second, context, output, "source")
        finally:
            self.widest = max(self.widest, context.widest)

    def _outside(self, names: Sequence[str], setting: Lowering) -> tuple[Constraint, ...]:
        """Return that an index lies outside of the region where the sides may differ."""
        region = self.statement.region
        if region is None:
            return ()
        inside = {
            Variable(name, 0): variable(names[axis])
            for axis, name in enumerate(self.statement.region_indices)
        }
        term = substitute(region, {index.name: index for index in inside})
        truth = setting.truth(term, inside, Path())
        if not isinstance(truth, Constraint):
            raise UndecidedError("the region is about elements")
        return truth.negation.conjuncts()


def _reliable(conditions: Iterable[Condition]) -> list[Condition]:
    """Return what may be relied on wherever there is a value."""
    return [condition for condition in conditions if condition.kind != "exact"]


def _integer_requirements(conditions: Iterable[Condition], context: Context) -> list[Constraint]:
    """Return what is asked for of integers without a condition; what there is gets a name."""
    by_text: dict[str, Constraint] = {}
    for condition in conditions:
        about = condition.about
        if isinstance(about, Place) or condition.bound or condition.guards or condition.literals:
            continue
        if about.text not in by_text:
            whole = about if isinstance(about, Constraint) else about.witnessed(context.index)
            by_text[about.text] = whole
    return [part for whole in by_text.values() for part in whole.conjuncts()]


def _shape(name: str, setting: Lowering) -> list[Polynomial]:
    tensor = setting.operands.get(name) or setting.definitions[name]
    return [setting.index(size, {}, Path()) for size in tensor.shape]


def _deadline(timeout: float) -> Callable[[], None]:
    until, guarded = now() + timeout, time.thread_time() + guard(timeout)
    asked = count()

    def check() -> None:
        late = next(asked) % _SELDOM == _SELDOM - 1 and time.thread_time() > guarded
        if late or now() > until:
            raise UndecidedError(f"not decided in {timeout:g} s of work")

    return check


def about_real(term: Term) -> bool:
    """Whether a condition speaks of a real symbol."""
    return any(symbol.kind == "real" for symbol in symbols(term))


def _calls(term: Term, functions: Sequence[str]) -> bool:
    match term:
        case Apply(function, arguments):
            return function in functions or any(
                _calls(argument, functions) for argument in arguments
            )
        case Select(_, then, otherwise):
            return _calls(then, functions) or _calls(otherwise, functions)
        case Reduce(_, _, _, _, body):
            return _calls(body, functions)
        case _:
            return False


def _windowed(term: Term) -> bool:
    """Whether anything is reduced over chosen indices."""
    return any(isinstance(part, Reduce) and part.condition is not True for part in subterms(term))


def _assume_real(term: Term, setting: Lowering) -> None:
    """Use an assumption on real symbols, as far as its form is known; the rest is left unused."""
    context = setting.context
    match term:
        case Apply("and", (left, right)):
            _assume_real(left, setting)
            _assume_real(right, setting)
        case Apply("not", (Apply(function, arguments),)) if function in NEGATED:
            _assume_real(Apply(NEGATED[function], arguments), setting)
        case Apply(function, (int() | float() as number, Symbol(_, "real") as symbol)):
            _assume_real(Apply(MIRRORED.get(function, function), (symbol, number)), setting)
        case Apply(function, (Symbol(name, "real"), int() | float() as number)):
            context.real_conditions.append(term)
            place = Place(name)
            if function == "!=" and number == 0:
                setting.facts.append(Condition("nonzero", place))
            elif (function == ">" and number >= 0) or (function == ">=" and number > 0):
                setting.facts.append(Condition("positive", place))
                context.positive.add(name)
                setting.signs.of_symbols[name] = 1
            elif function == ">=" and number == 0:
                setting.facts.append(Condition("nonnegative", place))
                context.never_negative.add(name)
                setting.signs.of_symbols.setdefault(name, 0)
        case Apply(function, _) if function in NEGATED:
            context.real_conditions.append(term)
        case _:
            pass
