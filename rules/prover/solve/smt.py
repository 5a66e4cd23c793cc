"""Questions about integers, put to Z3 as SMT-LIB 2.6 and kept as they were put.

A script declares what it uses, asserts the assumptions that bear on the question, and asks whether
all can hold. Leaving assumptions out can only turn unsat into sat, so an unsat answer stands.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import z3

from ..statement import Query
from ..work_clock import DONE, Z3_STEPS, limit, steps, steps_of
from .polynomials import Constraint, Opaque, Polynomial

Result = Literal["unsat", "sat", "unknown"]

_SIMPLE = re.compile(r"[A-Za-z~!$%^&*_+=<>.?/-][0-9A-Za-z~!@$%^&*_+=<>.?/-]*")
_RESERVED = frozenset(
    [
        *("and", "or", "not", "xor", "div", "mod", "abs", "ite", "let", "exists", "forall", "par"),
        *("true", "false", "distinct", "Int", "Real", "Bool", "Array", "select", "store", "as"),
        *("to_real", "to_int", "is_int", "match", "_", "!", "=>", "=", "<", "<=", ">", ">="),
        *("+", "-", "*", "/"),
    ]
)
# For a question whose answer only spares work, in seconds: undecided counts as "may hold".
_QUICK_S = 0.7

_LARGEST_SIZE = 2**63 - 1
# Products and quotients of integers, until a script says whether they are computed; see `ask`.
_TIMES, _QUOTIENT = "*@", "div@"
_ABSTRACT = re.compile(r"\(([*]@\d+|div@) ")
_TIMES_OF = re.compile(r"\([*]@\d+ ")
# What a question may take in which they are functions of which no more is known, in seconds.
_ABSTRACT_S = 0.1
_HUGE = re.compile(r"\d{18}")


def symbol(name: str) -> str:
    """Return a name as SMT-LIB writes it, clear of its own words."""
    name = f"{name}!" if name in _RESERVED else name
    return name if _SIMPLE.fullmatch(name) else f"|{name}|"


def number(value: int) -> str:
    """Return an integer as SMT-LIB writes it."""
    return str(value) if value >= 0 else f"(- {-value})"


@dataclass
class Solver:
    """Puts questions under fixed assumptions; `minimum` bounds variables from below.

    `sizes` are variables that ONNX keeps in 64 bits: that is said where numbers come near.
    `ranges` are the least and the largest integer that a tensor holds, by name. `timeout` bounds
    each answer, in seconds of work (work_clock.py).
    """

    assumptions: tuple[Constraint, ...] = ()
    minimum: Mapping[str, int] = field(default_factory=dict)
    timeout: float = 20.0
    queries: list[Query] = field(default_factory=list)
    model: dict[str, int] = field(default_factory=dict)
    sizes: frozenset[str] = frozenset()
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    _texts: dict[str, str] = field(default_factory=dict)
    _feasible: dict[frozenset[str], bool] = field(default_factory=dict)

    def forget(self) -> None:
        """Drop what was decided and written before more was assumed."""
        self._feasible.clear()
        self._texts.clear()

    # ---- terms as text
    def polynomial(self, whole: Polynomial) -> str:
        """Return a polynomial as an SMT-LIB term."""
        text = self._texts.get(whole.text)
        if text is None:
            parts = []
            for monomial, coefficient in whole.terms.items():
                factors = [
                    symbol(a) if a not in whole.opaque else self._opaque(whole.opaque[a])
                    for a in monomial
                ]
                if len(factors) > 1:
                    factors = [f"({_TIMES}{len(factors)} {' '.join(factors)})"]
                if coefficient != 1 or not factors:
                    factors.insert(0, number(coefficient))
                parts.append(factors[0] if len(factors) == 1 else f"(* {' '.join(factors)})")
            text = "0" if not parts else parts[0] if len(parts) == 1 else f"(+ {' '.join(parts)})"
            self._texts[whole.text] = text
        return text

    def _opaque(self, atom: Opaque) -> str:
        arguments = [self.polynomial(argument) for argument in atom.arguments]
        match atom.function:
            case "//":
                return self._quotient(atom.arguments, arguments)
            case "min":
                return f"(ite (<= {arguments[0]} {arguments[1]}) {arguments[0]} {arguments[1]})"
            case "max":
                return f"(ite (>= {arguments[0]} {arguments[1]}) {arguments[0]} {arguments[1]})"
            case "if":
                assert atom.condition is not None
                return f"(ite {self.constraint(atom.condition)} {arguments[0]} {arguments[1]})"
            case function:
                if not arguments:
                    return symbol(function)
                return f"({symbol(function)} {' '.join(arguments)})"

    def _quotient(self, terms: Sequence[Polynomial], arguments: Sequence[str]) -> str:
        # SMT-LIB's div rounds down for positive divisors only.
        whole, by = arguments
        div = "div" if terms[1].number is not None else _QUOTIENT
        if self.bound(terms[1]) >= 1:
            return f"({div} {whole} {by})"
        return f"(ite (> {by} 0) ({div} {whole} {by}) ({div} (- {whole}) (- {by})))"

    def constraint(self, condition: Constraint) -> str:
        """Return a constraint as an SMT-LIB term."""
        match condition.kind:
            case "and" | "or" as kind:
                if not condition.parts:
                    return "true" if kind == "and" else "false"
                return f"({kind} {' '.join(self.constraint(part) for part in condition.parts)})"
            case kind:
                text = self.polynomial(condition.whole)
                if kind == "ge":
                    return f"(>= {text} 0)"
                return f"(= {text} 0)" if kind == "eq" else f"(not (= {text} 0))"

    # ---- what is seen without a solver
    def bound(self, whole: Polynomial) -> float:
        """Return a number that the polynomial is never below; -inf if none is seen."""
        lowest = 0.0
        for monomial, coefficient in whole.terms.items():
            if not monomial:
                lowest += coefficient
                continue
            if len(monomial) == 1:
                name = monomial[0]
                atom = whole.opaque.get(name)
                end = self._most(atom) if coefficient < 0 else self._atom_bound(atom, name)
                lowest += coefficient * end
                continue
            least = 1.0
            for name in monomial:
                least *= self._atom_bound(whole.opaque.get(name), name)
                if not least >= 0:  # nothing is known of the others' size
                    return float("-inf")
            if coefficient < 0:
                return float("-inf")
            lowest += coefficient * least
        return lowest

    def _atom_bound(self, atom: Opaque | None, name: str) -> float:
        if atom is None:
            return self.minimum.get(name, float("-inf"))
        bounds = [self.bound(argument) for argument in atom.arguments]
        match atom.function:
            case "max":
                return max(bounds)
            case "min" | "if":
                return min(bounds)
            case "//":
                return 0.0 if bounds[0] >= 0 and bounds[1] >= 1 else float("-inf")
            case _:
                limits = self._limits(atom)
                return float("-inf") if limits is None else limits[0]

    def _most(self, atom: Opaque | None) -> float:
        """Return a number that an atom is never above; inf if none is seen."""
        limits = None if atom is None else self._limits(atom)
        return float("inf") if limits is None else limits[1]

    def _limits(self, atom: Opaque) -> tuple[int, int] | None:
        """Return the least and the largest that an element of a tensor of integers may be."""
        kind, _, head = atom.function.partition(":")
        return self.ranges.get(head) if kind == "read" else None

    def plain(self, condition: Constraint) -> bool | None:
        """Return whether a constraint holds, where that is seen without a solver."""
        if condition.truth is not None:
            return condition.truth
        match condition.kind:
            case "ge":
                if self.bound(condition.whole) >= 0:
                    return True
                return False if self.bound(-condition.whole) >= 1 else None
            case "eq" | "ne" as kind:
                differs = self.bound(condition.whole) >= 1 or self.bound(-condition.whole) >= 1
                return (kind == "ne") if differs else None
            case _:
                return None

    # ---- questions
    def script(
        self,
        assertions: Iterable[str],
        about: Iterable[Polynomial | Constraint],
        declared: Sequence[str] = (),
    ) -> str:
        """Return a script that asserts texts; `about` is what they are made of.

        `declared` are the declarations of what isn't an integer.
        """
        assertions = list(assertions)
        mentioned: set[str] = set()
        functions: dict[str, int] = {}
        for part in about:
            mentioned |= part.variables
            _functions(part, functions)
        relevant: list[Constraint] = []
        waiting = list(self.assumptions)
        while True:
            reached = [c for c in waiting if c.variables & mentioned or not c.variables]
            if not reached:
                break
            waiting = [c for c in waiting if c not in reached]
            relevant += reached
            for assumption in reached:
                mentioned |= assumption.variables
                _functions(assumption, functions)
        lines = ["(set-logic ALL)"]
        lines += [f"(declare-fun {symbol(name)} () Int)" for name in sorted(mentioned)]
        for name, arity in sorted(functions.items()):
            lines.append(f"(declare-fun {symbol(name)} ({' '.join(['Int'] * arity)}) Int)")
        lines += declared
        for name in sorted(mentioned):
            if name in self.minimum:
                lines.append(f"(assert (>= {symbol(name)} {number(self.minimum[name])}))")
        texts = [self.constraint(assumption) for assumption in relevant] + assertions
        if any(map(_HUGE.search, texts)):
            lines += [
                f"(assert (<= {symbol(name)} {_LARGEST_SIZE}))"
                for name in sorted(mentioned & self.sizes)
            ]
        lines += [f"(assert {text})" for text in texts]
        return "\n".join([*lines, "(check-sat)", ""])

    def ask(
        self,
        purpose: str,
        assertions: Iterable[str],
        about: Iterable[Polynomial | Constraint],
        *,
        quick: bool = False,
        declared: Sequence[str] = (),
    ) -> Result:
        """Return whether assertions can hold together under the assumptions.

        Most that can't hold can't whatever the values of products and quotients of variables are,
        as long as equal ones have equal values: that is asked first, for integers are hard to
        multiply. Whatever fulfils the assertions fulfils them with those functions for others.
        """
        written = self.script(assertions, about, declared)
        script = _computed(written)
        if script != written and not quick:
            easier = _declared(written)
            answer = _answer(easier, _ABSTRACT_S)
            if answer.result == "unsat":
                self.queries.append(Query(purpose, easier, answer.result, answer.seconds))
                return "unsat"
        answer = _answer(script, _QUICK_S if quick else self.timeout)
        if answer.result == "sat" and not quick:
            self.model.clear()
            self.model.update(answer.model)
        if answer.result == "unsat" or not quick:
            self.queries.append(Query(purpose, script, answer.result, answer.seconds))
        return answer.result

    def valid(
        self, purpose: str, condition: Constraint, under: Iterable[Constraint] = ()
    ) -> Result:
        """Return unsat where the condition follows from the assumptions and `under`."""
        under = list(under)
        if self.plain(condition) or condition in under or condition in self.assumptions:
            return "unsat"
        texts = [self.constraint(constraint) for constraint in (*under, condition.negation)]
        return self.ask(purpose, texts, [*under, condition])

    def feasible(self, constraints: Iterable[Constraint]) -> bool:
        """Return False only where the constraints can't hold together."""
        unsettled = {}
        for constraint in constraints:
            plain = self.plain(constraint)
            if plain is False:
                return False
            if plain is None:
                unsettled[constraint.text] = constraint
        if any(part.negation.text in unsettled for part in unsettled.values()):
            return False
        key = frozenset(unsettled)
        if not key:
            return True
        if key not in self._feasible:
            ordered = [unsettled[text] for text in sorted(unsettled)]
            texts = [self.constraint(part) for part in ordered]
            answer = self.ask("a case can't arise", texts, ordered, quick=True)
            self._feasible[key] = answer != "unsat"
        return self._feasible[key]


def _computed(script: str) -> str:
    """Return a script in which products and quotients are those of integers."""
    return _TIMES_OF.sub("(* ", script).replace(f"({_QUOTIENT} ", "(div ")


def _declared(script: str) -> str:
    """Return a script in which products and quotients are functions of which nothing is known."""
    names = sorted(set(_ABSTRACT.findall(script)))
    arity = {name: 2 if name == _QUOTIENT else int(name.removeprefix(_TIMES)) for name in names}
    lines = [f"(declare-fun {name} ({' '.join(['Int'] * arity[name])}) Int)" for name in names]
    head, rest = script.split("\n", 1)
    return "\n".join([head, *lines, rest])


@dataclass(frozen=True)
class _Answer:
    """What Z3 said under a limit, with integers of a model, how long it took, and its steps."""

    result: Result
    limit: float
    model: Mapping[str, int]
    seconds: float
    steps: int


# Cases of a rule ask much alike, and so do rules; the clock goes on as if each were asked anew.
_ANSWERS: dict[str, _Answer] = {}
_MOST_ANSWERS = 20_000


def _answer(script: str, seconds: float) -> _Answer:
    """Put a script to Z3, or tell what it said to the same script under such a limit."""
    answer = _ANSWERS.get(script)
    if answer is None or (answer.limit != seconds and not _says(answer, seconds)):
        if len(_ANSWERS) >= _MOST_ANSWERS:
            _ANSWERS.clear()
        answer = _ANSWERS[script] = _asked(script, seconds)
    DONE.questions += 1
    DONE.z3_steps += answer.steps
    return answer


def _says(answer: _Answer, seconds: float) -> bool:
    """Whether an answer is the one under another limit as well."""
    return answer.result != "unknown" and answer.steps < steps(seconds, Z3_STEPS)


def _asked(script: str, seconds: float) -> _Answer:
    """Put a script to Z3."""
    began = time.perf_counter()
    solver = z3.Solver(ctx=z3.Context())  # what was asked before has no part in the answer
    limit(solver, seconds)
    solver.from_string(script)
    said = str(solver.check())
    result: Result = "unsat" if said == "unsat" else "sat" if said == "sat" else "unknown"
    model: dict[str, int] = {}
    if result == "sat":
        solver_model = solver.model()
        for decl in solver_model.decls():
            if decl.arity() == 0 and z3.is_int_value(solver_model[decl]):
                model[decl.name()] = solver_model[decl].as_long()
    took = round(time.perf_counter() - began, 6)
    return _Answer(result, seconds, model, took, steps_of(solver))


def _functions(whole: Polynomial | Constraint, functions: dict[str, int]) -> None:
    parts = [whole] if isinstance(whole, Polynomial) else list(whole.polynomials())
    for part in parts:
        for atom in part.atoms():
            if atom.function not in ("//", "min", "max", "if"):
                functions[atom.function] = len(atom.arguments)
