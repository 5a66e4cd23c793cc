"""Signs that the form of a term shows, before products of sums are multiplied out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ...catalog.operators.expand import Definition
from ...catalog.operators.terms import Apply, Read, Reduce, Select, Symbol, Term, is_integer


@dataclass
class Signs:
    """1 for a term that is positive wherever it has a value, 0 for one never negative, or None.

    `integer` says so of integers; `known` of real symbols.
    """

    definitions: Mapping[str, Definition]
    integer: Callable[[Term], int | None]
    known: dict[str, int] = field(default_factory=dict)
    _found: dict[str, int | None] = field(default_factory=dict)

    def of(self, term: Term) -> int | None:
        """Return the sign of a real term."""
        match term:
            case bool():
                return 0
            case int() | float():
                return None if not term >= 0 else 1 if term > 0 else 0
            case Symbol(name, "real"):
                return self.known.get(name)
            case Apply(function, arguments):
                return self._apply(function, arguments, term)
            case Select(_, then, otherwise):
                return _least(self.of(then), self.of(otherwise))
            case Reduce("sum" | "min" | "max" as kind, _, _, _, body):
                inner = self.of(body)
                return None if inner is None else 0 if kind == "sum" else inner
            case Reduce("prod", _, _, _, body):
                return self.of(body)
            case Read(tensor, _):
                return self._definition(tensor)
            case _:
                return self.integer(term) if is_integer(term) else None

    def _definition(self, name: str) -> int | None:
        if name not in self.definitions:
            return None
        if name not in self._found:
            self._found[name] = None
            self._found[name] = self.of(self.definitions[name].value)
        return self._found[name]

    def _apply(self, function: str, arguments: tuple[Term, ...], term: Term) -> int | None:
        if is_integer(term):
            return self.integer(term)
        signs = [self.of(argument) for argument in arguments]
        match function:
            case "+":
                if None in signs:
                    return None
                return 1 if 1 in signs else 0
            case "*":
                if arguments[0] == arguments[1]:
                    return 1 if signs[0] == 1 else 0
                return _least(*signs)
            case "/":
                if None in signs:
                    return None
                return signs[0]
            case "max":
                return max((sign for sign in signs if sign is not None), default=None)
            case "min":
                return _least(*signs)
            case "exp":
                return 1
            case "abs" | "sqrt":
                return 1 if signs[0] == 1 else 0
            case "real":
                return signs[0]
            case "pow":
                even = isinstance(arguments[1], int) and arguments[1] % 2 == 0
                return signs[0] if signs[0] is not None else 0 if even else None
            case _:
                return None


def _least(*signs: int | None) -> int | None:
    return None if None in signs else min(sign for sign in signs if sign is not None)
