"""Guarded sums of products: the normal form of an element of a tensor.

A sum is a list of products. A product is

coefficient * SUM over bound indices, where guards hold, of PROD place ^ exponent

with a rational coefficient and rational exponents. A place is a head at integer indices: an element
of an operand, a scalar, INT[p] (an integer as an element), N[q] (a known positive number under a
power that isn't rational), or an interned expression (interning.py); exp(X) is the head of the
exponential of X. Relational sum-products of this kind are those of SPORES (Wang et al., VLDB 2020,
section 3), with guards for index arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from ..solve.polynomials import Constraint, Polynomial, variable


class Place:
    """A head at indices."""

    __slots__ = ("head", "indices", "text")

    def __init__(self, head: str, indices: tuple[Polynomial, ...] = ()) -> None:
        self.head = head
        self.indices = indices
        self.text = f"{head}[{', '.join(index.text for index in indices)}]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return self.text

    @property
    def variables(self) -> frozenset[str]:
        """Return the names of all variables."""
        return frozenset().union(*(index.variables for index in self.indices))

    def substitute(self, replacements: Mapping[str, Polynomial]) -> Place:
        """Return the place with variables replaced."""
        return Place(self.head, tuple(index.substitute(replacements) for index in self.indices))


class Product:
    """One term of a sum; immutable."""

    __slots__ = ("bound", "coefficient", "factors", "guards", "text")

    def __init__(
        self,
        coefficient: Fraction | int,
        bound: Iterable[str] = (),
        guards: Iterable[Constraint] = (),
        factors: Mapping[Place, Fraction] | None = None,
    ) -> None:
        self.coefficient = Fraction(coefficient)
        self.bound = tuple(bound)
        flat = {part for guard in guards for part in guard.conjuncts()}
        self.guards = tuple(sorted(flat, key=lambda guard: guard.text))
        kept = {p: e for p, e in (factors or {}).items() if e}
        self.factors: dict[Place, Fraction] = {
            place: kept[place] for place in sorted(kept, key=lambda place: place.text)
        }
        powers = " ".join(f"{p.text}^{e}" if e != 1 else p.text for p, e in self.factors.items())
        guard = " & ".join(guard.text for guard in self.guards)
        self.text = f"{self.coefficient} SUM({', '.join(self.bound)} : {guard}) {powers}"

    def __repr__(self) -> str:
        return self.text

    @property
    def plain(self) -> bool:
        """Whether nothing is summed and nothing guarded."""
        return not self.bound and not self.guards

    @property
    def variables(self) -> frozenset[str]:
        """Return the names of all variables, bound ones included."""
        names: set[str] = set(self.bound)
        for guard in self.guards:
            names |= guard.variables
        for place in self.factors:
            names |= place.variables
        return frozenset(names)

    def scaled(self, by: Fraction | int) -> Product:
        """Return the product times a number."""
        return Product(self.coefficient * by, self.bound, self.guards, self.factors)

    def substitute(self, replacements: Mapping[str, Polynomial]) -> Product:
        """Return the product with variables replaced; those bound may only become variables."""
        bound = []
        for name in self.bound:
            new = replacements[name].variable if name in replacements else name
            assert new is not None
            bound.append(new)
        return Product(
            self.coefficient,
            bound,
            [guard.substitute(replacements) for guard in self.guards],
            multiplied((place.substitute(replacements), e) for place, e in self.factors.items()),
        )

    def outer_guards(self) -> list[Constraint]:
        """Return the guards that say nothing of the bound indices."""
        bound_names = set(self.bound)
        return [guard for guard in self.guards if guard.variables.isdisjoint(bound_names)]

    def without(self, guards: Iterable[Constraint]) -> Product:
        """Return the product with fewer guards."""
        dropped = set(guards)
        kept = [guard for guard in self.guards if guard not in dropped]
        return Product(self.coefficient, self.bound, kept, self.factors)


Sum = Sequence[Product]


def separated(product: Product) -> list[Product]:
    """Return products whose product this is: sums over indices that share nothing, each apart.

    What isn't summed over comes first, with the coefficient.
    """
    groups: list[set[str]] = []
    for names in (*(g.variables for g in product.guards), *(p.variables for p in product.factors)):
        part_names = set(names.intersection(product.bound))
        joined = [group for group in groups if not group.isdisjoint(part_names)]
        groups = [group for group in groups if group.isdisjoint(part_names)]
        if part_names:
            groups.append(part_names.union(*joined))
    groups += [{name} for name in product.bound if not any(name in group for group in groups)]
    bound_names = set(product.bound)
    products = [
        Product(
            product.coefficient,
            (),
            product.outer_guards(),
            {p: e for p, e in product.factors.items() if bound_names.isdisjoint(p.variables)},
        )
    ]
    for group in sorted(groups, key=min):
        products.append(
            Product(
                1,
                [name for name in product.bound if name in group],
                [guard for guard in product.guards if not group.isdisjoint(guard.variables)],
                {p: e for p, e in product.factors.items() if not group.isdisjoint(p.variables)},
            )
        )
    return products


def multiplied(factors: Iterable[tuple[Place, Fraction]]) -> dict[Place, Fraction]:
    """Return a product of powers, equal places joined."""
    whole: dict[Place, Fraction] = {}
    for place, exponent in factors:
        whole[place] = whole.get(place, Fraction(0)) + exponent
    return whole


def number(value: Fraction | int) -> list[Product]:
    """Return a known number."""
    return [Product(value)] if value else []


def single(place: Place, exponent: Fraction | int = 1) -> list[Product]:
    """Return a power of one place."""
    return [Product(1, (), (), {place: Fraction(exponent)})]


def scaled(whole: Sum, by: Fraction | int) -> list[Product]:
    """Return a sum times a number."""
    return [product.scaled(by) for product in whole] if by else []


def substituted(whole: Sum, replacements: Mapping[str, Polynomial]) -> list[Product]:
    """Return a sum with variables replaced."""
    return [product.substitute(replacements) for product in whole]


def known_number(whole: Sum) -> Fraction | None:
    """Return the value of a sum that is a number."""
    if not whole:
        return Fraction(0)
    if len(whole) == 1 and whole[0].plain and not whole[0].factors:
        return whole[0].coefficient
    return None


def canonical(product: Product) -> str:
    """Return a text that is the same for products that differ in the names of bound indices.

    Different texts may still be the same product; no two products of one text differ.
    """
    order: dict[str, Polynomial] = {}
    bound_names = set(product.bound)

    def note(names: Iterable[str]) -> None:
        for name in sorted(names):
            if name in bound_names and name not in order:
                order[name] = variable(f"%{len(order)}")

    if bound_names:
        for place in sorted(product.factors, key=lambda p: (p.head, len(p.text), p.text)):
            for index in place.indices:
                note(index.variables)
        note(bound_names)
        product = product.substitute(order)
    guards = " & ".join(guard.text for guard in product.guards)
    powers = " ".join(f"{p.text}^{e}" for p, e in product.factors.items())
    return f"{len(product.bound)}:{guards}:{powers}"


def combined(whole: Sum) -> list[Product]:
    """Return a sum with like products joined."""
    by_text: dict[str, Product] = {}
    for product in whole:
        text = canonical(product)
        like = by_text.get(text)
        if like is not None:
            product = Product(
                like.coefficient + product.coefficient, like.bound, like.guards, like.factors
            )
        by_text[text] = product
    return [product for product in by_text.values() if product.coefficient]


def function_of(place: Place) -> str | None:
    """Return the name of the function of one argument that a head applies to another."""
    name, bracket, rest = place.head.partition("(")
    if not bracket or not rest.endswith(")") or ";" in rest or rest.startswith("C:"):
        return None
    return name


def argument_of(place: Place) -> Place:
    """Return the place to which the function of a head is applied."""
    return Place(place.head.partition("(")[2][:-1], place.indices)
