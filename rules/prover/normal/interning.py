"""Interning: an expression inside of something that isn't linear becomes a tensor of its own.

Its parameters are the parts of its indices and guards that are made of outer indices. Where an
expression can be shown to be equal to an interned one at some arguments, it is that tensor there:
the arguments are those that make two like products read the same places, permuted and shifted
ones among them. What stays apart though it is equal only costs completeness.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ..solve.polynomials import (
    ZERO,
    Constraint,
    Opaque,
    Polynomial,
    compared,
    joined,
    rebuilt,
    variable,
)
from .arithmetic import definition
from .coefficients import require_same_elements, require_same_family
from .context import Context, Interned, UndecidedError, parameter
from .elimination import eliminated
from .equality import require_equal
from .sums import Place, Product, Sum, canonical, combined, multiplied, substituted

_MOST_CANDIDATES = 24


class _Parameters:
    """Replaces what is made of outer indices by parameters; `arguments` are what they stand for."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.arguments: list[Polynomial] = []
        self.shifts: list[Polynomial] = []
        self.numbers: dict[str, int] = {}

    def product(self, product: Product) -> Product:
        inner = frozenset(product.bound)
        names = {name: variable(f"%{number}") for number, name in enumerate(product.bound)}
        factors = [
            (Place(place.head, tuple(self.polynomial(i, inner) for i in place.indices)), exponent)
            for place, exponent in sorted(product.factors.items(), key=lambda f: f[0].head)
        ]
        return Product(
            product.coefficient,
            product.bound,
            [self.constraint(guard, inner) for guard in product.guards],
            multiplied(factors),
        ).substitute(names)

    def constraint(self, whole: Constraint, inner: frozenset[str]) -> Constraint:
        if whole.kind in ("and", "or"):
            return joined(whole.kind, [self.constraint(part, inner) for part in whole.parts])
        return compared(whole.kind, self.polynomial(whole.whole, inner))

    def polynomial(self, whole: Polynomial, inner: frozenset[str]) -> Polynomial:
        outer = whole.variables - inner - self.context.symbols
        if not outer:
            return whole
        inside, outside, rest = ZERO, ZERO, ZERO
        for monomial, coefficient in whole.terms.items():
            part = Polynomial({monomial: coefficient}, whole.opaque)
            names = part.variables
            if names & outer and names & inner:
                inside = inside + part.map(self._atom(inner))
            elif names & outer:
                outside = outside + part
            elif names & inner:
                inside = inside + part
            else:
                rest = rest + part
        if outside.terms:
            sign = 1 if next(iter(outside.terms.values())) > 0 else -1
            inside = inside + sign * self._parameter(outside * sign, rest * sign)
            return inside
        return inside + rest

    def _atom(self, inner: frozenset[str]) -> Callable[[str, Opaque | None], Polynomial]:
        def replace(name: str, atom: Opaque | None) -> Polynomial:
            if atom is None:
                if name in inner or name in self.context.symbols:
                    return variable(name)
                return self._parameter(variable(name), ZERO)
            return rebuilt(
                atom, lambda p: self.polynomial(p, inner), lambda c: self.constraint(c, inner)
            )

        return replace

    def _parameter(self, outside: Polynomial, rest: Polynomial) -> Polynomial:
        number = self.numbers.get(outside.text)
        if number is None:
            number = self.numbers[outside.text] = len(self.arguments)
            self.arguments.append(outside + rest)
            self.shifts.append(rest)
        return variable(parameter(number)) - self.shifts[number] + rest


def _shape(product: Product) -> tuple[str, int, str]:
    heads = sorted(f"{place.head}^{e}" for place, e in product.factors.items())
    return (" ".join(heads), len(product.bound), str(product.coefficient))


def abstracted(whole: Sum, context: Context) -> Place | Fraction:
    """Return a sum without outer guards as a number or as the place that it is equal to."""
    whole = combined(whole)
    if not whole:
        return Fraction(0)
    if len(whole) == 1 and whole[0].plain:
        factors = list(whole[0].factors.items())
        if not factors:
            return whole[0].coefficient
        if whole[0].coefficient == 1 and len(factors) == 1 and factors[0][1] == 1:
            return factors[0][0]
    return interned("sum", whole, context)


def interned(kind: str, products: Sum, context: Context) -> Place:
    """Return the place of an interned expression; see Virtual for the kinds."""
    parameters = _Parameters(context)
    ordered = sorted(products, key=lambda product: (*_shape(product), product.text))
    body = tuple(parameters.product(product) for product in ordered)
    arguments = tuple(parameters.arguments)
    key = f"{kind} {len(arguments)} " + " + ".join(
        sorted(f"{product.coefficient} {canonical(product)}" for product in body)
    )
    if key in context.keys:
        return Place(context.keys[key], arguments)
    signature = _signature(kind, body)
    for entry in list(context.interned.values()):
        if entry.kind == kind and _signature(kind, entry.body) == signature:
            place = _same(entry, body, parameters, context)
            if place is not None:
                return place
    # no tensor has such a name
    head = f"{_LETTER[kind]}#{len(context.interned)}"
    context.interned[head] = Interned(head, kind, len(arguments), body, tuple(parameters.shifts))
    context.keys[key] = head
    return Place(head, arguments)


_LETTER = {"sum": "V", "max": "Max", "most": "Most", "least": "Least", "prod": "Prod", "any": "Any"}


def _signature(kind: str, body: Sequence[Product]) -> tuple[tuple[str, bool], ...]:
    """Return what is the same of equal expressions, but for windows of one element."""
    sums = kind in ("sum", "prod")  # there, what doesn't depend on an index is a count
    return tuple(sorted({(_shape(product)[0], sums or bool(product.bound)) for product in body}))


def _same(
    entry: Interned, body: Sequence[Product], parameters: _Parameters, context: Context
) -> Place | None:
    here = {parameter(number): index for number, index in enumerate(parameters.arguments)}
    new = substituted(body, here)
    names = frozenset().union(*(index.variables for index in parameters.arguments))
    under = context.ranges(names)
    for arguments in _candidates(entry, body, parameters, context):
        there = {parameter(number): index for number, index in enumerate(arguments)}
        old = substituted([context.renamed(product) for product in entry.body], there)
        mine = [context.renamed(product) for product in new]
        if _read_disjoint(_Reads.of(mine, context), _Reads.of(old, context)):
            continue
        try:
            if entry.kind == "sum":
                require_equal(mine, old, context, "two subexpressions are one", under)
            elif entry.kind == "prod":
                require_same_family(mine, old, context, "two subexpressions are one", under)
            else:
                require_same_elements(mine, old, context, "two subexpressions are one", under)
        except UndecidedError:
            continue
        return Place(entry.head, arguments)
    return None


@dataclass(frozen=True)
class _Reads:
    """The elements that a sum is made of; `summed`: besides those that it sums over."""

    places: frozenset[str]
    summed: bool

    @staticmethod
    def of(whole: Sum, context: Context) -> _Reads:
        """Return what a sum reads, in what is interned too."""
        texts: set[str] = set()
        summed = False
        waiting = list(whole)
        while waiting:
            product = waiting.pop()
            summed = summed or bool(product.bound)
            for place in product.factors if not product.bound else ():
                head = place.head.rpartition("(")[2].rstrip(")")
                if ";" in head or "|" in head:
                    summed = True
                    continue
                inner = Place(head, place.indices)
                if head in context.interned:
                    waiting += definition(inner, context)
                elif not head.startswith(("C:", "N:")):
                    texts.add(inner.text)
        return _Reads(frozenset(texts), summed)


def _read_disjoint(left: _Reads, right: _Reads) -> bool:
    """Whether two expressions read different elements: they are hardly ever equal then.

    It isn't worth a question. Where elements are summed over, one of those may be what the other
    expression reads: it isn't if each reads as many besides.
    """
    alike = len(left.places) == len(right.places) or not (left.summed or right.summed)
    return alike and left.places != right.places


def _candidates(
    entry: Interned, body: Sequence[Product], parameters: _Parameters, context: Context
) -> Iterable[tuple[Polynomial, ...]]:
    """Yield arguments at which the interned expression may be equal to the new one."""
    seen: set[tuple[Polynomial, ...]] = set()
    here = {parameter(number): index for number, index in enumerate(parameters.arguments)}
    for arguments in _aligned(entry, body, context):
        candidate = tuple(argument.substitute(here) for argument in arguments)
        if candidate not in seen:
            seen.add(candidate)
            yield candidate
    if len(parameters.arguments) != entry.arity:
        return
    for order in itertools.permutations(range(entry.arity)):
        plain = tuple(parameters.arguments[number] for number in order)
        shifted = tuple(
            parameters.arguments[number] - parameters.shifts[number] + shift
            for number, shift in zip(order, entry.shifts, strict=True)
        )
        for candidate in (plain, shifted):
            if candidate not in seen and len(seen) < _MOST_CANDIDATES:
                seen.add(candidate)
                yield candidate


def _aligned(
    entry: Interned, body: Sequence[Product], context: Context
) -> Iterable[tuple[Polynomial, ...]]:
    """Yield the arguments, as polynomials over the new parameters, that align like products."""
    old_names = {parameter(number): variable(f"?{number}") for number in range(entry.arity)}
    olds = substituted(entry.body, old_names)
    for new_product in body:
        for old_product in olds:
            if _shape(new_product)[:2] != _shape(old_product)[:2]:
                continue
            values: dict[str, Polynomial] = {}
            mine, theirs = _determined(new_product, context), _determined(old_product, context)
            for a in mine:
                for b in theirs:
                    for difference in (a - b, a + b):
                        unknowns = [n for n in difference.variables if n.startswith("?")]
                        if len(unknowns) != 1 or any(
                            n.startswith("u@") for n in difference.variables
                        ):
                            continue
                        value = difference.linear(unknowns[0])
                        if value is not None:
                            values.setdefault(unknowns[0], value)
            if len(values) == entry.arity:
                yield tuple(values[f"?{number}"] for number in range(entry.arity))


def _determined(product: Product, context: Context) -> list[Polynomial]:
    """Return what is 0 of the coordinates of a product's places once bound indices are solved."""
    equations = []
    ordered = sorted(product.factors.items(), key=lambda f: (f[0].head, f[1], f[0].text))
    for position, (place, _) in enumerate(ordered):
        for axis, index in enumerate(place.indices):
            equations.append(variable(f"u@{position}.{axis}") - index)
    system = eliminated(product.bound, equations, (), context)
    return [c.whole for c in system.constraints if c.kind == "eq"]
