"""Sizes that equations give: whatever fulfils the equations gives them the values said."""

from itertools import product as every

from hypothesis import given, settings
from hypothesis import strategies as st
from tensolog.rules.prover.solve.polynomials import Polynomial, constant, equals, variable
from tensolog.rules.prover.solve.size_facts import sizes_as_products

from tests.campaigns import examples

NAMES = ("a", "b", "c", "s")


@st.composite
def products(draw):
    whole = constant(draw(st.sampled_from([1, 1, 1, 2])))
    for name in draw(st.lists(st.sampled_from(NAMES), max_size=3)):
        whole = whole * variable(name)
    return whole


def value(whole: Polynomial, point: dict[str, int]) -> int:
    polynomials = {name: constant(number) for name, number in point.items()}
    number = whole.substitute(polynomials).number
    assert number is not None
    return number


@settings(max_examples=examples(150))
@given(
    st.lists(st.tuples(products(), products()), min_size=1, max_size=3),
    st.fixed_dictionaries({name: st.sampled_from([0, 1]) for name in NAMES}),
)
def test_what_equations_give_holds_wherever_they_do(pairs, minimum):
    size_products = sizes_as_products(
        [equals(first, second) for first, second in pairs], minimum, NAMES
    )
    for numbers in every(range(4), repeat=len(NAMES)):
        point = dict(zip(NAMES, numbers, strict=True))
        if any(point[name] < least for name, least in minimum.items()):
            continue
        if all(value(first, point) == value(second, point) for first, second in pairs):
            assert all(point[name] == value(whole, point) for name, whole in size_products.items())
    assert not {name for whole in size_products.values() for name in whole.variables} & set(
        size_products
    )


def test_a_factor_is_taken_off_only_where_it_is_above_0():
    a, b, s = map(variable, "abs")
    equation = equals(a * b, a * s)
    assert {
        name: whole.text for name, whole in sizes_as_products([equation], {"a": 1}, "abs").items()
    } == {"s": "b"}
    assert sizes_as_products([equation], {"a": 0}, "abs") == {}
