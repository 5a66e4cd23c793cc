"""Bounds that conditions put on single symbols: enough to see early that two contradict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...catalog.operators.terms import Apply, Symbol, Term, apply

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

    @property
    def fixed(self) -> dict[str, Term]:
        """The symbols that may be one number only."""
        return {name: low for name, low in self.low.items() if self.high.get(name) == low}


def spread(condition: Term) -> Iterator[Term]:
    """Yield conditions that hold together where one does, one of each number where that is said.

    The least of some is above a bound where each is, the largest below it; where the least is a
    number, each is at least so much, and that one of them is it is a condition beside. What holds
    on both sides of an `or` holds. A product of sizes is more than 0 where each of them is, and 1
    where each is 1.
    """
    match condition:
        case Apply("and", arguments):
            for argument in arguments:
                yield from spread(argument)
        case Apply("or", (left, right)):
            yield from _common(left, right)
        case Apply("=", (Apply("*") as product, 1) | (1, Apply("*") as product)) if sizes := _sizes(
            product
        ):
            yield from (apply("=", size, 1) for size in sizes)
        case Apply(">", (Apply("*") as product, 0)) if sizes := _sizes(product):
            yield from (apply(">", size, 0) for size in sizes)
        case Apply(relation, (Apply("min" | "max" as extreme, each), bound)) if relation in _TURNED:
            yield from _spread(relation, extreme, each, bound, condition)
        case Apply(turned, (bound, Apply("min" | "max" as extreme, each))) if turned in _TURNED:
            yield from _spread(_TURNED[turned], extreme, each, bound, condition)
        case _:
            yield condition


def _sizes(product: Term) -> list[Symbol]:
    """The sizes that a product is of; none where it has other factors."""
    match product:
        case Symbol(_, "dimension") as size:
            return [size]
        case Apply("*", (left, right)):
            one, other = _sizes(left), _sizes(right)
            return [*one, *other] if one and other else []
        case _:
            return []


def _common(left: Term, right: Term) -> Iterator[Term]:
    one, other = (list(dict.fromkeys(spread(side))) for side in (left, right))
    yield from (part for part in one if part in other)
    shared = {part for part in one if part in other}
    yield apply("or", *(_all(part for part in side if part not in shared) for side in (one, other)))


def _all(conditions: Iterable[Term]) -> Term:
    whole: Term = True
    for one in conditions:
        whole = apply("and", whole, one)
    return whole


def _spread(
    relation: str, extreme: str, each: tuple[Term, ...], bound: Term, whole: Term
) -> Iterator[Term]:
    told = (">", ">=") if extreme == "min" else ("<", "<=")
    if relation == "=":
        yield whole
        relation = told[1]
    if relation not in told:
        yield whole
        return
    for one in each:
        yield from spread(apply(relation, one, bound))


def parts_of(conditions: Iterable[Term]) -> Iterator[Term]:
    """Yield the conditions that are joined by `and`."""
    for one in conditions:
        match one:
            case Apply("and", arguments):
                yield from parts_of(arguments)
            case _:
                yield one
