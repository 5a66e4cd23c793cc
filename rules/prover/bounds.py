"""Bounds that conditions put on single symbols: enough to see early that two contradict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...catalog.operators.terms import Apply, Symbol, Term

_TURNED = {"=": "=", ">=": "<=", ">": "<", "<=": ">=", "<": ">"}


class Bounds:
    """The least and the largest number that each symbol may be."""

    def __init__(self) -> None:
        self.low: dict[str, int] = {}
        self.high: dict[str, int] = {}

    def add(self, condition: Term) -> bool:
        """Take a condition in; return whether it may hold beside those taken before."""
        return all(map(self._add, parts_of([condition])))

    def _add(self, condition: Term) -> bool:
        match condition:
            case Apply(relation, (Symbol() as symbol, int() as bound)) if relation in _TURNED:
                pass
            case Apply(turned, (int() as bound, Symbol() as symbol)) if turned in _TURNED:
                relation = _TURNED[turned]
            case _:
                return True
        name = symbol.name
        step = int(symbol.kind != "real")  # x > 1 is x >= 2 of integers, and at least x >= 1
        if relation in ("=", ">=", ">"):
            least = bound + step * (relation == ">")
            self.low[name] = max(self.low.get(name, least), least)
        if relation in ("=", "<=", "<"):
            most = bound - step * (relation == "<")
            self.high[name] = min(self.high.get(name, most), most)
        return not (name in self.low and name in self.high and self.low[name] > self.high[name])


def parts_of(conditions: Iterable[Term]) -> Iterator[Term]:
    """Yield the conditions that are joined by `and`."""
    for one in conditions:
        match one:
            case Apply("and", arguments):
                yield from parts_of(arguments)
            case _:
                yield one
