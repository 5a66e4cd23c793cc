"""Sizes that equations give: whatever fulfils the equations gives them the values said."""

from itertools import product as every

from hypothesis import given, settings
from hypothesis import strategies as st
from tensolog.rules import load_rules
from tensolog.rules.prover.cases.case_split import statements
from tensolog.rules.prover.prove import prove
from tensolog.rules.prover.solve.polynomials import (
    Polynomial,
    constant,
    equals,
    quotient,
    remainder,
    variable,
)
from tensolog.rules.prover.solve.size_facts import sizes_as_multiples, sizes_as_products

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


@given(st.lists(st.permutations(NAMES), min_size=1, max_size=3))
def test_sizes_that_others_divide_are_products_with_them(orders):
    """Of whatever numbers fulfil the equations, with the quotient as the other factor."""
    pairs = [order[:2] for order in orders]
    rests = [remainder(variable(whole), variable(by)) for whole, by in pairs]
    ones = dict.fromkeys(NAMES, 1)
    found = sizes_as_multiples([equals(rest, constant(0)) for rest in rests], ones, NAMES)
    assert found
    for numbers in every(range(1, 5), repeat=len(NAMES)):
        at = dict(zip(NAMES, numbers, strict=True))
        if any(at[whole] % at[by] for whole, by in pairs):
            continue
        factors = {f"{whole} / {by}": at[whole] // at[by] for whole, by in pairs}
        assert all(at[name] == value(whole, at | factors) for name, whole in found.items())
    assert not {name for whole in found.values() for name in whole.variables} & set(found)


def test_what_may_be_0_divides_nothing():
    equation = equals(remainder(variable("a"), variable("b")), constant(0))
    assert set(sizes_as_multiples([equation], {"b": 1}, "ab")) == {"a"}
    assert sizes_as_multiples([equation], {"b": 0}, "ab") == {}
    # the quotient leaves a rest of 1
    rest = equals(quotient(variable("a"), variable("b")) * variable("b"), variable("a") - 1)
    assert sizes_as_multiples([rest], {"b": 1}, "ab") == {}


def test_what_is_divided_by_a_quotient_of_sizes_is_multiplied_by_the_divisor():
    """An image is resized by p / h, where p are its new rows and h those that it had."""
    (rule,) = (rule for rule in load_rules() if rule.name == "ConvertResizeToBlocks")
    wanted = ("r is absent True", "s is absent True", "t half_pixel")
    (statement,) = (s for s in statements(rule) if all(part in s.title for part in wanted))
    assert prove(statement).status == "proved"
