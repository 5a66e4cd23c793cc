"""The conditions under which an element has a value, and whether both sides have them alike.

A condition says, for all bound indices at which guards and truth values hold, that an element isn't
0, isn't negative, is positive, lies in a function's domain, or that integers fulfil a constraint. A
target must have a value exactly where the source has one: each condition follows from the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..solve.polynomials import Constraint, Polynomial, joined, ordered, variable
from ..solve.smt import symbol
from .coefficients import exists
from .context import Context, UndecidedError
from .elimination import Eliminated, eliminated
from .sums import Place

Literals = tuple[tuple[Place, bool], ...]


@dataclass(frozen=True)
class Nonempty:
    """There are values of the bound indices for which the guards of one of the cases hold."""

    cases: tuple[tuple[tuple[str, ...], tuple[Constraint, ...]], ...]

    @property
    def text(self) -> str:
        """Return a text that is the same for equal conditions."""
        texts = []
        for bound, guards in self.cases:
            names = {n: variable(f"%{number}") for number, n in enumerate(ordered(bound, guards))}
            inner = sorted(guard.substitute(names).text for guard in guards)
            texts.append(f"exists {', '.join(n.text for n in names.values())}: {' & '.join(inner)}")
        return " or ".join(sorted(texts))

    @property
    def variables(self) -> frozenset[str]:
        """Return the names of all variables that aren't bound."""
        names: set[str] = set()
        for bound, guards in self.cases:
            names |= {name for guard in guards for name in guard.variables} - set(bound)
        return frozenset(names)

    def substitute(self, replacements: Mapping[str, Polynomial]) -> Nonempty:
        """Return the condition with variables replaced."""
        return Nonempty(
            tuple(
                (bound, tuple(guard.substitute(replacements) for guard in guards))
                for bound, guards in self.cases
            )
        )

    def witnessed(self, fresh: Callable[[], str]) -> Constraint:
        """Return the condition with names for indices that there are then."""
        cases = []
        for bound, guards in self.cases:
            names = {name: variable(fresh()) for name in bound}
            cases.append(joined("and", [guard.substitute(names) for guard in guards]))
        return joined("or", cases)


@dataclass(frozen=True)
class Condition:
    """`kind`: nonzero | nonnegative | positive | domain of a place, or `holds` of a constraint.

    `read` is `holds` of an index of an element that is read: elsewhere, there is no value but an
    error. `exact` is `holds` of an integer that is computed modulo a power of two: elsewhere, there
    is a value, but another one. So it may be shown, and shows nothing.

    What is granted (`is_granted`) holds anyhow, as was seen from the form of an expression.
    """

    kind: str
    about: Place | Constraint | Nonempty
    bound: tuple[str, ...] = ()
    guards: tuple[Constraint, ...] = ()
    literals: Literals = ()
    is_granted: bool = False

    def under(
        self,
        guards: Iterable[Constraint] = (),
        bound: Sequence[str] = (),
        literals: Literals = (),
    ) -> Condition:
        """Return the condition where more must hold for it to matter."""
        return replace(
            self,
            bound=(*self.bound, *bound),
            guards=tuple(dict.fromkeys((*self.guards, *guards))),
            literals=tuple(dict.fromkeys((*self.literals, *literals))),
        )

    def describe(self) -> str:
        """Return the condition as a text for people."""
        match self.kind:
            case "nonzero":
                return f"{self.about} != 0"
            case "nonnegative":
                return f"{self.about} >= 0"
            case "positive":
                return f"{self.about} > 0"
            case "domain":
                return f"{self.about} has a value"
            case _:
                return self.about.text


@dataclass
class Path:
    """Where a subexpression is computed, and what it asks for there."""

    guards: tuple[Constraint, ...] = ()
    literals: Literals = ()
    conditions: list[Condition] = field(default_factory=list)
    is_granted: bool = False

    def granted(self) -> Path:
        """Return a path on which what is asked for is known to hold."""
        return Path(self.guards, self.literals, self.conditions, True)

    def inner(self, guards: Iterable[Constraint] = (), literals: Literals = ()) -> Path:
        """Return a path on which more holds; its conditions are this one's."""
        return Path(
            (*self.guards, *guards), (*self.literals, *literals), self.conditions, self.is_granted
        )

    def ask(self, kind: str, about: Place | Constraint | Nonempty) -> None:
        """Note a condition."""
        self.conditions.append(
            Condition(kind, about, (), self.guards, self.literals, self.is_granted)
        )


def require_implied(
    wanted: Sequence[Condition],
    known: Sequence[Condition],
    context: Context,
    purpose: str,
    side: str,
) -> None:
    """Raise UndecidedError unless each condition follows from the known ones.

    A condition on a place follows if, wherever it is asked for, known ones ask for the same; one
    on integers if the known ones on integers say so.
    """
    texts = {_text(condition) for condition in known}
    seen: set[str] = set()
    for condition in wanted:
        text = _text(condition)
        if text in texts or text in seen or condition.is_granted:
            continue
        seen.add(text)
        context.deadline()
        if isinstance(condition.about, Place):
            shown = _place_implied(condition, condition.about, known, context, purpose)
        else:
            shown = _integers_implied(condition, known, context, purpose)
        if not shown:
            raise UndecidedError(f"the {side} needs {condition.describe()} where the other doesn't")


def _text(condition: Condition) -> str:
    names = {name: variable(f"%{number}") for number, name in enumerate(condition.bound)}
    about = condition.about
    whole = about.text if isinstance(about, Nonempty) else about.substitute(names).text
    guards = sorted(guard.substitute(names).text for guard in condition.guards)
    literals = sorted(f"{p.substitute(names).text}={v}" for p, v in condition.literals)
    return f"{condition.kind} {whole} {len(condition.bound)} {guards} {literals}"


# What says more than asked does as well: x > 0 where x != 0 or x >= 0 is wanted.
_SAYS = {
    "nonzero": ("nonzero", "positive"),
    "nonnegative": ("nonnegative", "positive"),
    "positive": ("positive",),
    "domain": ("domain",),
}


def _renamed(condition: Condition, context: Context) -> Condition:
    names = {name: variable(context.fresh(context.extents.get(name))) for name in condition.bound}
    assert not isinstance(condition.about, Nonempty)
    return Condition(
        condition.kind,
        condition.about.substitute(names),
        tuple(str(names[name]) for name in condition.bound),
        tuple(guard.substitute(names) for guard in condition.guards),
        tuple((place.substitute(names), value) for place, value in condition.literals),
        condition.is_granted,
    )


def _place_implied(
    condition: Condition, place: Place, known: Sequence[Condition], context: Context, purpose: str
) -> bool:
    texts: list[str] = []
    about: list[Constraint | Polynomial] = []
    for other in known:
        if other.kind not in _SAYS[condition.kind] or not isinstance(other.about, Place):
            continue
        if other.about.head != place.head:
            continue
        for equations in _matches(condition, place, _renamed(other, context)):
            bound, guards, pairs = equations
            system = eliminated(bound, pairs, guards, context)
            if system.impossible:
                continue
            if all(part in condition.guards for part in system.constraints) and not system.bound:
                return True
            texts.append(exists(system, context))
            about += system.constraints
    if condition.kind == "positive":
        both = [
            Condition(kind, place, condition.bound, condition.guards, condition.literals)
            for kind in ("nonzero", "nonnegative")
        ]
        exact = [o for o in known if o.kind != "positive"]
        if all(_place_implied(weaker, place, exact, context, purpose) for weaker in both):
            return True
    open_guards = [guard for guard in condition.guards if context.solver.plain(guard) is not True]
    if not texts and not open_guards:
        return False
    solver = context.solver
    result = solver.ask(
        f"{purpose}: {condition.describe()} is asked for on the other side too",
        [*(solver.constraint(g) for g in open_guards), *(f"(not {text})" for text in texts)],
        [*open_guards, *about, *place.indices],
    )
    return result == "unsat"


def _matches(
    condition: Condition, place: Place, other: Condition
) -> Iterable[tuple[tuple[str, ...], tuple[Constraint, ...], list[Polynomial]]]:
    """Yield the ways in which another condition's place and truth values are this one's."""
    assert isinstance(other.about, Place)
    pairs = [a - b for a, b in zip(place.indices, other.about.indices, strict=True)]
    # Each truth value that the other asks for must be one that this condition asks for.
    options: list[list[list[Polynomial]]] = []
    for literal, value in other.literals:
        options.append(
            [
                [a - b for a, b in zip(mine.indices, literal.indices, strict=True)]
                for mine, wanted in condition.literals
                if mine.head == literal.head and wanted == value
            ]
        )
    ways = [pairs]
    for choices in options:
        ways = [[*way, *choice] for way in ways for choice in choices]
    for way in ways:
        yield other.bound, other.guards, way


def _integers_implied(
    condition: Condition, known: Sequence[Condition], context: Context, purpose: str
) -> bool:
    """Whether a constraint on integers follows, whatever the truth values are."""
    solver = context.solver
    guards = list(condition.guards)
    if _same_under_cases(condition, known, context, purpose):
        return True
    if isinstance(condition.about, Constraint):
        if solver.plain(condition.about) or condition.about in guards:
            return True
        goal = solver.constraint(condition.about.negation)
        about: list[Constraint | Polynomial] = [condition.about]
    else:
        assert isinstance(condition.about, Nonempty)
        cases = [
            exists(Eliminated(bound, tuple(case)), context) for bound, case in condition.about.cases
        ]
        goal = f"(not (or false {' '.join(cases)}))"
        about = [part for _, case in condition.about.cases for part in case]
    others = [o for o in known if not (isinstance(o.about, Place) or o.literals)]
    instances = [
        instance for other in others if (instance := _instance(other, condition.bound)) is not None
    ]
    for premises, quick in ((instances, True), (others, False)):
        statements = [_statement(other, context) for other in premises]
        result = solver.ask(
            f"{purpose}: {condition.describe()} follows",
            [*map(solver.constraint, guards), *(text for text, _ in statements), goal],
            [*guards, *about, *(part for _, parts in statements for part in parts)],
            quick=quick,
        )
        if result == "unsat":
            return True
    return False


def _instance(other: Condition, names: Sequence[str]) -> Condition | None:
    """Return a condition at the indices given instead of all, which is simpler to use."""
    if not other.bound:
        return other
    if len(other.bound) > len(names) or isinstance(other.about, Nonempty | Place):
        return None
    replacements = {old: variable(new) for old, new in zip(other.bound, names, strict=False)}
    return Condition(
        other.kind,
        other.about.substitute(replacements),
        guards=tuple(guard.substitute(replacements) for guard in other.guards),
    )


def _same_under_cases(
    condition: Condition, known: Sequence[Condition], context: Context, purpose: str
) -> bool:
    """Whether known conditions ask for the same, wherever this one asks for it."""
    assert not isinstance(condition.about, Place)
    variables = condition.about.variables
    if variables & set(condition.bound):
        return False
    cases = []
    for other in known:
        if isinstance(other.about, Place) or other.literals:
            continue
        if other.about.text == condition.about.text and not other.bound:
            cases.append(other.guards)
    if not cases:
        return False
    solver = context.solver
    if any(all(solver.plain(g) or g in condition.guards for g in case) for case in cases):
        return True
    texts = [solver.constraint(joined("and", case)) for case in cases]
    about = [*condition.guards, *(guard for case in cases for guard in case)]
    result = solver.ask(
        f"{purpose}: {condition.describe()} is asked for on the other side too",
        [*map(solver.constraint, condition.guards), *(f"(not {text})" for text in texts)],
        about,
    )
    return result == "unsat"


def _statement(other: Condition, context: Context) -> tuple[str, list[Constraint]]:
    """Return "for all bound indices, guards imply the condition"."""

    solver = context.solver
    if isinstance(other.about, Nonempty):
        cases = [exists(Eliminated(b, c), context) for b, c in other.about.cases]
        body = f"(or false {' '.join(cases)})"
        parts: list[Constraint] = [part for _, c in other.about.cases for part in c]
    else:
        assert isinstance(other.about, Constraint)
        body = solver.constraint(other.about)
        parts = [other.about]
    guard = joined("and", other.guards)
    if guard.truth is not True:
        body = f"(=> {solver.constraint(guard)} {body})"
    if other.bound:
        names = " ".join(f"({symbol(name)} Int)" for name in other.bound)
        body = f"(forall ({names}) {body})"
    return body, [*parts, *other.guards]
