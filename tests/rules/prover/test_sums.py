"""Guarded sums of products: simplifying keeps the value, and doing it twice changes nothing."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st
from tensolog.rules.prover.normal.arithmetic import guarded, plus, tidy, times
from tensolog.rules.prover.normal.context import Context
from tensolog.rules.prover.normal.simplify import simplified
from tensolog.rules.prover.normal.sums import Place, Product, canonical, scaled
from tensolog.rules.prover.solve.polynomials import (
    Constraint,
    Polynomial,
    at_least,
    below,
    constant,
    equals,
    quotient,
    remainder,
    variable,
    within,
)
from tensolog.rules.prover.solve.smt import Solver

from tests.campaigns import examples

from .test_polynomials import evaluated, holds

M, N = variable("m"), variable("n")
# The indices at which both sides are read.
ROW, J = variable("i"), variable("j")
K, L = variable("k"), variable("l")
SIZES = st.fixed_dictionaries({"m": st.integers(0, 3), "n": st.integers(0, 3)})
OUTER = st.fixed_dictionaries({"i": st.integers(0, 4), "j": st.integers(0, 4)})
EXTENTS = {"k": M, "l": N, "h": M * N}


def context() -> Context:
    minimum = dict.fromkeys(("m", "n", "i", "j"), 0)
    context_ = Context(Solver((), minimum), frozenset(("m", "n")))
    context_.extents.update(EXTENTS)
    return context_


indices = st.sampled_from((ROW, J, K, L, ROW + J, K + ROW, K - L, K + L, constant(1), M, N - 1 - K))
places = st.one_of(
    st.builds(lambda a, b: Place("A", (a, b)), indices, indices),
    st.builds(lambda a: Place("b", (a,)), indices),
    st.just(Place("c")),
    st.builds(lambda a: Place("#INT", (a,)), st.sampled_from((M, N, ROW, K))),
)
guards = st.one_of(
    st.builds(at_least, indices, indices),
    st.builds(below, indices, indices),
    st.builds(equals, indices, indices),
)


@st.composite
def products(draw: st.DrawFn) -> Product:
    factors: dict[Place, Fraction] = {}
    for place in draw(st.lists(places, max_size=3)):
        factors[place] = Fraction(draw(st.integers(1, 2)))
    bound_names = draw(st.sampled_from(((), ("k",), ("l",), ("k", "l"))))
    bare = Product(draw(st.integers(-3, 3)), (), draw(st.lists(guards, max_size=2)), factors)
    if not {"k", "l"} & bare.variables <= set(bound_names):
        bound_names = ("k", "l")
    ranges = [part for name in bound_names for part in within(variable(name), EXTENTS[name])]
    return Product(bare.coefficient, bound_names, [*bare.guards, *ranges], bare.factors)


def element(seed: int, place: Place, point: Mapping[str, int]) -> Fraction:
    """Return a number for an element: the same for equal indices, any of a few."""
    numbers = [evaluated(index, point) for index in place.indices]
    if place.head == "#INT":
        return Fraction(numbers[0])
    return Fraction(random.Random(f"{seed} {place.head} {numbers}").randint(-3, 3))


def value(whole: Sequence[Product], point: Mapping[str, int], seed: int) -> Fraction:
    """Return the sum's value, by trying every number of which a bound index is capable."""
    total = Fraction(0)
    for product in whole:
        # the sizes above are at most 3, so that no index is beyond 9
        for numbers in itertools.product(range(-2, 11), repeat=len(product.bound)):
            here = {**point, **dict(zip(product.bound, numbers, strict=True))}
            if all(holds(guard, here) for guard in product.guards):
                term = product.coefficient
                for place, exponent in product.factors.items():
                    term *= element(seed, place, here) ** int(exponent)
                total += term
    return total


def text(whole: Sequence[Product]) -> list[str]:
    return sorted(f"{product.coefficient} {canonical(product)}" for product in whole)


@settings(max_examples=examples(60), deadline=None)
@given(products(), SIZES, OUTER, st.integers(0, 99))
def test_a_simplified_product_has_its_value(
    product: Product, sizes: dict[str, int], outer: dict[str, int], seed: int
) -> None:
    point, here = {**sizes, **outer}, context()
    once = simplified(product, here)
    assert value([product], point, seed) == value([] if once is None else [once], point, seed)
    if once is not None:
        twice = simplified(once, here)
        assert twice is not None
        assert text([twice]) == text([once])


@settings(max_examples=examples(40), deadline=None)
@given(products(), products(), SIZES, OUTER, st.integers(0, 99))
def test_sums_and_products_have_their_values(
    first: Product, second: Product, sizes: dict[str, int], outer: dict[str, int], seed: int
) -> None:
    point, here = {**sizes, **outer}, context()
    a, b = value([first], point, seed), value([second], point, seed)
    assert value(plus([first], [second]), point, seed) == a + b
    assert value(scaled([first], -2), point, seed) == -2 * a
    condition = at_least(ROW, J)
    kept = guarded([first], [condition], here)
    assert value(kept, point, seed) == (a if holds(condition, point) else 0)
    if len(first.bound) + len(second.bound) < 3:
        assert value(times([first], [second], here), point, seed) == a * b


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(products(), max_size=3), st.randoms(use_true_random=False))
def test_the_order_of_terms_and_the_names_of_indices_say_nothing(
    whole: list[Product], chance: random.Random
) -> None:
    here = context()
    mixed = [here.renamed(product) for product in whole]
    chance.shuffle(mixed)
    assert text(tidy(mixed, here)) == text(tidy(whole, here))


def by_rows(whole: Polynomial, names: Sequence[Constraint]) -> Product:
    row, column = quotient(whole, N), remainder(whole, N)
    return Product(1, ("h",), names, {Place("A", (row, column)): Fraction(1)})


@settings(max_examples=examples(30), deadline=None)
@given(SIZES, st.integers(0, 99))
def test_an_index_of_which_digits_are_read_is_split(sizes: dict[str, int], seed: int) -> None:
    index = variable("h")
    product = by_rows(index, within(index, EXTENTS["h"]))
    split = simplified(product, context())
    assert split is not None
    assert len(split.bound) == 2
    if sizes["n"]:  # else the index has no value, and its digits can't be computed
        assert value([product], sizes, seed) == value([split], sizes, seed)
