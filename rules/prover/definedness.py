"""The conditions under which an element has a value.

A condition says, for all bound indices at which guards and truth values hold, that an element isn't
0, isn't negative, is positive, lies in a function's domain, or that integers fulfil a constraint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from .constraint import Constraint, joined, ordered
from .normal import Place
from .polynomial import Polynomial, variable

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
            names = {n: variable(f"%{at}") for at, n in enumerate(ordered(bound, guards))}
            inner = sorted(guard.substitute(names).text for guard in guards)
            texts.append(f"exists {', '.join(n.text for n in names.values())}: {' & '.join(inner)}")
        return " or ".join(sorted(texts))

    @property
    def variables(self) -> frozenset[str]:
        """Return the names of all variables that aren't bound."""
        found: set[str] = set()
        for bound, guards in self.cases:
            found |= {name for guard in guards for name in guard.variables} - set(bound)
        return frozenset(found)

    def substitute(self, known: Mapping[str, Polynomial]) -> Nonempty:
        """Return the condition with variables replaced."""
        return Nonempty(
            tuple(
                (bound, tuple(guard.substitute(known) for guard in guards))
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
    error.

    `given` conditions hold anyhow, as was seen from the form of an expression.
    """

    kind: str
    about: Place | Constraint | Nonempty
    bound: tuple[str, ...] = ()
    guards: tuple[Constraint, ...] = ()
    literals: Literals = ()
    given: bool = False

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
    given: bool = False

    def granted(self) -> Path:
        """Return a path on which what is asked for is known to hold."""
        return Path(self.guards, self.literals, self.conditions, True)

    def inner(self, guards: Iterable[Constraint] = (), literals: Literals = ()) -> Path:
        """Return a path on which more holds; its conditions are this one's."""
        return Path(
            (*self.guards, *guards), (*self.literals, *literals), self.conditions, self.given
        )

    def ask(self, kind: str, about: Place | Constraint | Nonempty) -> None:
        """Note a condition."""
        self.conditions.append(Condition(kind, about, (), self.guards, self.literals, self.given))
