"""What the assumptions of a statement say: bounds of symbols, and shapes to choose from.

Bounds on single symbols are enough to see early that two conditions contradict.

`shape(s) = repeat(1, r) or shape(s) = [1, m] ++ repeat(1, n)` is a disjunction of lists of
equations. What follows from it follows from each of them, and there sizes are known: a solver of
nonlinear arithmetic is slow at what is a matter of replacing symbols. So there is one statement for
each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ...catalog.terms.comparisons import MIRRORED
from ...catalog.terms.index_notation import Apply, Symbol, Term, apply, substitute
from .statement import Obligation, Statement

# What bounds a number, with the operands in the other order.
_TURNED = {bound: turned for bound, turned in MIRRORED.items() if bound != "!="}


class Bounds:
    """The least and the largest number that each symbol may be."""

    def __init__(self) -> None:
        self.low: dict[str, int] = {}
        self.high: dict[str, int] = {}

    def add(self, condition: Term) -> bool:
        """Take a condition in; return whether it may hold beside those taken before."""
        return all(map(self._add, conjuncts([condition])))

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
        case Apply(relation, (Apply("min" | "max" as extreme, operands), bound)) if (
            relation in _TURNED
        ):
            yield from _spread(relation, extreme, operands, bound, condition)
        case Apply(turned, (bound, Apply("min" | "max" as extreme, operands))) if turned in _TURNED:
            yield from _spread(_TURNED[turned], extreme, operands, bound, condition)
        case _:
            yield condition


def _sizes(product: Term) -> list[Symbol]:
    """The sizes that a product is of; none where it has other factors."""
    match product:
        case Symbol(_, "dimension") as size:
            return [size]
        case Apply("*", (left, right)):
            left_sizes, right_sizes = _sizes(left), _sizes(right)
            return [*left_sizes, *right_sizes] if left_sizes and right_sizes else []
        case _:
            return []


def _common(left: Term, right: Term) -> Iterator[Term]:
    left_parts, right_parts = (list(dict.fromkeys(spread(side))) for side in (left, right))
    yield from (part for part in left_parts if part in right_parts)
    shared = {part for part in left_parts if part in right_parts}
    yield apply(
        "or",
        *(
            _conjunction(part for part in side if part not in shared)
            for side in (left_parts, right_parts)
        ),
    )


def _conjunction(conditions: Iterable[Term]) -> Term:
    whole: Term = True
    for condition in conditions:
        whole = apply("and", whole, condition)
    return whole


def _spread(
    relation: str, extreme: str, operands: tuple[Term, ...], bound: Term, whole: Term
) -> Iterator[Term]:
    distributive = (">", ">=") if extreme == "min" else ("<", "<=")
    if relation == "=":
        yield whole
        relation = distributive[1]
    if relation not in distributive:
        yield whole
        return
    for operand in operands:
        yield from spread(apply(relation, operand, bound))


def conjuncts(conditions: Iterable[Term]) -> Iterator[Term]:
    """Yield the conditions that are joined by `and`."""
    for condition in conditions:
        match condition:
            case Apply("and", arguments):
                yield from conjuncts(arguments)
            case _:
                yield condition


# More are left to the solver.
_MOST = 8
# A disjunction of single equations, as of sizes that broadcast, is one for each axis: too many.
_LEAST_EQUATIONS = 2


def alternatives(statement: Statement) -> list[Statement]:
    """Return statements that together say what the statement says; itself, if it has no choice."""
    waiting = [statement]
    settled: list[Statement] = []
    while waiting and len(waiting) + len(settled) <= _MOST:
        candidate = waiting.pop(0)
        choice = next(filter(None, map(_choice, conjuncts(candidate.assumptions))), None)
        if choice is None:
            settled.append(candidate)
        else:
            waiting += [_narrowed(candidate, disjunct, values) for disjunct, values in choice]
    return [*settled, *waiting]


def _choice(condition: Term) -> list[tuple[Term, Mapping[str, Term]]] | None:
    """Return the parts of a disjunction with what symbols are there, if all of them say that."""
    disjuncts = list(_disjuncts(condition))
    if len(disjuncts) < 2:
        return None
    options: list[tuple[Term, Mapping[str, Term]]] = []
    for disjunct in disjuncts:
        values: dict[str, Term] = {}
        for part in conjuncts([disjunct]):
            match substitute(part, values):
                case Apply("=", (Symbol(name) as symbol, int() | Symbol() as value)) | Apply(
                    "=", (int() as value, Symbol(name) as symbol)
                ) if symbol.kind != "real" and symbol != value:
                    values = {n: substitute(v, {name: value}) for n, v in values.items()}
                    values[name] = value
        if len(values) < _LEAST_EQUATIONS:
            return None
        options.append((disjunct, values))
    return options


def _disjuncts(condition: Term) -> Iterator[Term]:
    match condition:
        case Apply("or", arguments):
            for argument in arguments:
                yield from _disjuncts(argument)
        case _:
            yield condition


def _narrowed(statement: Statement, chosen: Term, values: Mapping[str, Term]) -> Statement:
    """Return the statement where one part of a disjunction holds, symbols replaced by it.

    A replaced symbol's own bound, to be at least 0, is assumed of what it is.
    """

    def new(term: Term) -> Term:
        return substitute(term, values)

    def shape(sizes: Sequence[Term]) -> tuple[Term, ...]:
        return tuple(map(new, sizes))

    kinds = {symbol.name: symbol.kind for symbol in statement.symbols}
    bounds = [Apply(">=", (v, 0)) for n, v in values.items() if kinds.get(n) == "dimension"]
    assumptions = (*map(new, (chosen, *statement.assumptions)), *bounds)
    return replace(
        statement,
        assumptions=tuple(
            assumption for assumption in dict.fromkeys(assumptions) if assumption is not True
        ),
        operands=tuple(
            replace(operand, shape=shape(operand.shape)) for operand in statement.operands
        ),
        definitions=tuple(
            replace(definition, shape=shape(definition.shape), value=new(definition.value))
            for definition in statement.definitions
        ),
        obligations=tuple(
            Obligation(obligation.text, new(obligation.condition))
            for obligation in statement.obligations
        ),
        region=None if statement.region is None else new(statement.region),
    )
