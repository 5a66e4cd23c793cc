"""Two scalar terms, equal bit by bit or not: searched with NumPy, then asked of Z3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from typing import Any, Literal

import numpy as np
import z3
from numpy.typing import NDArray

from ....catalog.terms.index_notation import (
    Apply,
    Read,
    Select,
    Term,
    map_children,
    subterms,
    symbols,
)
from ....catalog.terms.term_evaluator import PrefixText
from ...prover.work_clock import limit
from ..counterexample.symbol_values import endable_solver
from .ieee754 import CHOICES, Formulas, NotFloatingError, Numbers

Array = NDArray[Any]
Kind = Literal["number", "truth", "zero"]

_SAMPLES = 20_000
# Conditions that a term chooses by are each taken both ways, up to so many of them.
_MOST_CONDITIONS = 5
_COMMUTING = ("+", "*", "and", "or", "xor")


@dataclass(frozen=True)
class Bits:
    """Whether bits are equal in one element type ("any": in all, "bool": there are no numbers).

    proved by "movement", as the "same" arithmetic, or by the "solver"; refuted by a "search", whose
    operands `reason` shows; unknown, and `reason` says why. `finite`: finite operands and results
    were supposed. `script` is the longest question to the solver, in SMT-LIB.
    """

    dtype: str
    result: Literal["proved", "refuted", "unknown"]
    method: Literal["movement", "same", "solver", "search", "none"]
    reason: str = ""
    finite: bool = False
    script: str = ""
    solver: str = ""
    seconds: float = 0.0


class _ByPlaces(PrefixText):
    def __init__(self, places: Mapping[Read, str]) -> None:
        self.places = places

    def apply(self, function: str, arguments: Sequence[str]) -> str:
        return super().apply(function, sorted(arguments) if function in _COMMUTING else arguments)

    def read(self, element: Read) -> str:
        return self.places[element]


@dataclass(frozen=True)
class Problem:
    """Two terms to be equal, of numbers or, with `boolean`, of truth values.

    `places` names the elements that are read, by one name those at places that are always the same;
    `distinct`: no two names may be one element. `truths` are operands that hold truth values,
    `zeros` names of numbers that are 0.0 or -0.0. `assumptions` are conditions on scalars.
    """

    source: Term
    target: Term
    places: Mapping[Read, str]
    boolean: bool = False
    truths: frozenset[str] = frozenset()
    zeros: frozenset[str] = frozenset()
    distinct: bool = True
    assumptions: tuple[Term, ...] = field(default=())

    @property
    def key(self) -> tuple[str, str, tuple[str, ...]]:
        """What is asked, whatever the case of the rule it comes from."""
        assumed = tuple(self.canonical(assumption) for assumption in self.assumptions)
        return self.canonical(self.source), self.canonical(self.target), assumed

    def canonical(self, term: Term) -> str:
        """Write a term with the names of its places; a + b is written like b + a."""
        return _ByPlaces(self.places).value(term)

    def unknowns(self) -> dict[str, Kind]:
        """Name what may be any number or truth value, and say which of them it is."""
        unknowns: dict[str, Kind] = {}
        for read, name in self.places.items():
            numeric: Kind = "zero" if name in self.zeros else "number"
            unknowns[name] = "truth" if read.tensor in self.truths else numeric
        for term in (self.source, self.target, *self.assumptions):
            scalars = (symbol.name for symbol in symbols(term) if symbol.kind == "real")
            unknowns.update(dict.fromkeys(scalars, "number"))
        return unknowns


def equal_bits(problem: Problem, dtype: str, *, finite: bool, timeout: float) -> Bits:
    """Prove two terms equal bit by bit, or find numbers on which they differ.

    `finite`: only of finite numbers, where all results are finite too. Raises NotFloatingError for
    arithmetic that IEEE 754 doesn't fix.
    """
    if shown := _unequal(problem, dtype, finite):
        return Bits(dtype, "refuted", "search", shown, finite)
    longest = ""
    for source, target, taken in _by_cases(problem):
        if problem.canonical(source) == problem.canonical(target):
            continue
        solver = _question(problem, source, target, taken, dtype, finite, timeout)
        script = solver.to_smt2()
        longest = max(longest, script, key=len)
        answer = solver.check()
        release = f"Z3 {z3.get_version_string()}"
        if answer == z3.sat:
            reason = f"{_why_not_met(problem)}: {_model(solver)}"
            return Bits(dtype, "unknown", "solver", reason, finite, script, release)
        if answer != z3.unsat:
            reason = f"the solver gave no answer in {timeout:g} s"
            return Bits(dtype, "unknown", "solver", reason, finite, script, release)
    if not longest:
        return Bits(dtype, "proved", "same", "", finite)
    return Bits(dtype, "proved", "solver", "", finite, longest, f"Z3 {z3.get_version_string()}")


def _question(
    problem: Problem,
    source: Term,
    target: Term,
    taken: Mapping[str, tuple[Term, bool]],
    dtype: str,
    finite: bool,
    timeout: float,
) -> z3.Solver:
    formulas = Formulas(dtype, problem.places, problem.truths)
    translate = formulas.truth if problem.boolean else formulas.value
    differ = translate(source) != translate(target)
    solver = endable_solver()
    limit(solver, timeout)
    kinds = problem.unknowns()
    numbers = {name: z3.FP(name, formulas.sort) for name, kind in kinds.items() if kind != "truth"}
    for name in sorted(problem.zeros & set(numbers)):
        solver.add(z3.fpIsZero(numbers[name]))
    if finite:
        for number in (*numbers.values(), *formulas.results):
            solver.add(z3.Not(z3.Or(z3.fpIsNaN(number), z3.fpIsInf(number))))
    for condition, value in taken.values():
        solver.add(formulas.truth(condition) == value)
    for assumption in problem.assumptions:
        solver.add(formulas.truth(assumption))
    solver.add(differ)
    return solver


def _why_not_met(problem: Problem) -> str:
    if _chooses(problem):
        return "it may depend on the sign that kernels give to a zero"
    return "the solver sees a difference that was not met"


def _model(solver: z3.Solver) -> str:
    model = solver.model()
    return ", ".join(sorted(f"{name} = {model[name]}" for name in model))


# ----------------------------------------------------------------------------------- by cases


def _by_cases(
    problem: Problem,
) -> Iterator[tuple[Term, Term, dict[str, tuple[Term, bool]]]]:
    """Take each condition that the terms choose by both ways: what is left is arithmetic alone."""
    conditions: dict[str, Term] = {}
    for term in (problem.source, problem.target):
        for condition in _conditions(term):
            conditions.setdefault(problem.canonical(condition), condition)
    if not conditions or len(conditions) > _MOST_CONDITIONS:
        yield problem.source, problem.target, {}
        return
    for values in product((True, False), repeat=len(conditions)):
        known = dict(zip(conditions, values, strict=True))
        taken = {text: (conditions[text], value) for text, value in known.items()}
        yield (
            _decided(problem, problem.source, known),
            _decided(problem, problem.target, known),
            taken,
        )


def _conditions(term: Term) -> Iterator[Term]:
    match term:
        case Apply(_, arguments):
            for argument in arguments:
                yield from _conditions(argument)
        case Select(condition, then, otherwise):
            yield from _atoms(condition)
            yield from _conditions(then)
            yield from _conditions(otherwise)


def _atoms(condition: Term) -> Iterator[Term]:
    match condition:
        case bool():
            return
        case Apply("and" | "or" | "not" | "xor", arguments):
            for argument in arguments:
                yield from _atoms(argument)
        case _:
            yield condition


def _decided(problem: Problem, term: Term, known: Mapping[str, bool]) -> Term:
    match term:
        case Select(condition, then, otherwise):
            chosen = then if _holds(problem, condition, known) else otherwise
            return _decided(problem, chosen, known)
        case Apply():
            return map_children(lambda part: _decided(problem, part, known), term)
        case _:
            return term


def _holds(problem: Problem, condition: Term, known: Mapping[str, bool]) -> bool:
    match condition:
        case bool():
            return condition
        case Apply("and", (left, right)):
            return _holds(problem, left, known) and _holds(problem, right, known)
        case Apply("or", (left, right)):
            return _holds(problem, left, known) or _holds(problem, right, known)
        case Apply("xor", (left, right)):
            return _holds(problem, left, known) != _holds(problem, right, known)
        case Apply("not", (inner,)):
            return not _holds(problem, inner, known)
        case _:
            return known[problem.canonical(condition)]


# ------------------------------------------------------------------------------------ search


def _unequal(problem: Problem, dtype: str, finite: bool) -> str:
    """Show numbers on which the terms differ whatever the kernels choose; "" where none was met."""
    if not problem.distinct:
        return ""
    known = _operands(problem, dtype, finite)
    differ = np.ones(_SAMPLES, bool)
    shown: tuple[Array, Array] | None = None
    try:
        for left, right in product(CHOICES, CHOICES) if _chooses(problem) else [CHOICES[:2]]:
            source = Numbers(dtype, problem.places, known, left)
            target = Numbers(dtype, problem.places, known, right)
            before, other = source.value(problem.source), target.value(problem.target)
            differ = differ & ~_same(before, other)
            if finite:
                differ = differ & source.finite & target.finite
            for assumption in problem.assumptions:
                differ = differ & source.value(assumption)
            shown = shown or (before, other)
    except NotFloatingError:
        return ""
    if shown is None or not differ.any():
        return ""
    sample = min(np.flatnonzero(differ), key=lambda k: sum(_weight(a[k]) for a in known.values()))
    operands = ", ".join(
        f"{name} = {_text(array[sample])}" for name, array in sorted(known.items())
    )
    before, other = (np.broadcast_to(side, (_SAMPLES,))[sample] for side in shown)
    return f"{operands or 'always'}: {_text(before)} in the source, {_text(other)} in the target"


def _same(array: Array, other: Array) -> Array:
    if array.dtype.kind != "f" or other.dtype.kind != "f":
        equal: Array = array == other
        return equal
    nan: Array = np.isnan(array) & np.isnan(other)
    alike: Array = (array == other) & (np.signbit(array) == np.signbit(other))
    return np.logical_or(nan, alike)


def _chooses(problem: Problem) -> bool:
    parts = (*subterms(problem.source), *subterms(problem.target))
    return any(
        isinstance(part, Apply) and part.function.startswith(("max:", "min:")) for part in parts
    )


def _operands(problem: Problem, dtype: str, finite: bool) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    known: dict[str, Array] = {}
    for name, kind in sorted(problem.unknowns().items()):
        if kind == "truth":
            known[name] = rng.random(_SAMPLES) < 0.5
        elif kind == "zero":
            known[name] = np.where(rng.random(_SAMPLES) < 0.5, 0.0, -0.0).astype(dtype)
        else:
            numbers = _numbers(rng, dtype)
            known[name] = np.where(np.isfinite(numbers), numbers, 1) if finite else numbers
    return known


def _numbers(rng: np.random.Generator, dtype: str) -> Array:
    """Numbers of all kinds: small integers, ordinary ones, all bit patterns, special values."""
    limits = np.finfo(dtype)
    special = [0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, limits.max]
    special += [limits.smallest_normal, limits.smallest_subnormal]
    kinds = [
        rng.integers(-20, 21, _SAMPLES).astype(dtype),
        rng.standard_normal(_SAMPLES).astype(dtype),
        rng.integers(0, np.iinfo(_unsigned(dtype)).max, _SAMPLES, _unsigned(dtype)).view(dtype),
        rng.choice(np.asarray(special, dtype), _SAMPLES),
    ]
    return np.choose(rng.integers(0, len(kinds), _SAMPLES), kinds).astype(dtype)


@cache
def _unsigned(dtype: str) -> Any:
    return {2: np.uint16, 4: np.uint32}[np.dtype(dtype).itemsize]


def _weight(value: Any) -> float:
    """Order examples: small whole numbers first."""
    if isinstance(value, np.bool_):
        return 0.0
    number = float(value)
    if not np.isfinite(number):
        return 1e3
    return min(1e6, abs(number)) if number.is_integer() else 1e6


def _text(value: Any) -> str:
    if isinstance(value, np.bool_):
        return str(bool(value)).lower()
    pattern = int(np.asarray(value).view(_unsigned(str(value.dtype))))
    return f"{float(value):.9g} (0x{pattern:0{2 * value.dtype.itemsize}x})"
