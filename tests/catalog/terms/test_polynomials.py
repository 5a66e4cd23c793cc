"""Polynomials of sizes: equal to their expressions at all values, and one form for equal ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensolog.catalog.terms.index_notation import Apply, Symbol, Term, Variable
from tensolog.catalog.terms.polynomials import Polynomial, linear

NAMES = ("a", "b", "c")
monomials = st.lists(st.sampled_from(NAMES), max_size=3).map(lambda names: tuple(sorted(names)))
coefficients = st.integers(-6, 6).filter(bool)
polynomials = st.dictionaries(monomials, coefficients, max_size=4).map(Polynomial)
values = st.fixed_dictionaries({name: st.integers(-5, 5) for name in NAMES})


def constant(value: int) -> Polynomial[str]:
    return Polynomial({(): value} if value else {})


def variable(name: str) -> Polynomial[str]:
    return Polynomial({(name,): 1})


def evaluated(whole: Polynomial[str], point: dict[str, int]) -> int:
    return eval(str(whole), {}, point)


@given(polynomials, polynomials, st.integers(-3, 3), values)
def test_arithmetic_is_that_of_the_values(left, right, number, point):
    first, other = evaluated(left, point), evaluated(right, point)
    assert evaluated(left + right, point) == first + other
    assert evaluated(left - right, point) == first - other
    assert evaluated(left * right, point) == first * other
    assert evaluated(number - left * number + 1, point) == number - first * number + 1


@given(polynomials, polynomials, polynomials)
def test_equal_polynomials_have_one_form(left, right, other):
    assert (left + right) * other == other * right + other * left
    assert hash((left + right) - right) == hash(left)
    assert ((left + right) - right).terms == left.terms
    assert all((left * right).terms.values())


@given(polynomials, st.sampled_from(NAMES), st.integers(1, 3), values)
def test_division_by_one_monomial(whole, name, scale, point):
    by = variable(name) * scale
    quotient, rest = whole.divided(by)
    assert quotient * by + rest == whole
    assert all(name not in monomial or count % scale for monomial, count in rest.terms.items())


def test_what_has_several_terms_divides_nothing_at_once():
    by = variable("a") + 1
    assert (variable("a") * 2).divided(by) == (constant(0), variable("a") * 2)


@given(polynomials, polynomials.filter(lambda whole: bool(whole.terms)))
def test_a_product_is_divided_by_its_factors(left, right):
    assert (left * right).exact_quotient(right) == left


@given(polynomials, polynomials)
def test_what_is_called_a_quotient_is_one(whole, divisor):
    quotient = whole.exact_quotient(divisor)
    if quotient is not None:
        assert quotient * divisor == whole


@given(polynomials, polynomials, values)
def test_unknowns_are_replaced(whole, value, point):
    replaced = whole.replaced(lambda name: value if name == "a" else variable(name))
    assert evaluated(replaced, point) == evaluated(whole, {**point, "a": evaluated(value, point)})


def test_what_it_is():
    a, b = variable("a"), variable("b")
    assert (a * b * 4 + b * 6 - 3).content == 2
    assert (a * b * 4 + b * 6 - 3).constant == -3
    assert (a - a).number == 0 and constant(7).number == 7 and (a + 1).number is None
    assert a.unknown == "a" and (a * 2).unknown is None and (a * b).unknown is None
    assert (a * 2 - b + 1).coefficients == {"a": 2, "b": -1}
    assert (a * b).coefficients is None


def test_it_is_written_for_readers():
    a, b = variable("a"), variable("b")
    assert str(constant(0)) == "0"
    assert str(1 - a * b * 2) == "1 - 2*a*b"
    assert str(b - a - 4) == "b - a - 4"
    assert str(-a) == "-a"
    assert (a * b * 2 + 1).spelled(str.upper, times=" * ") == "2 * A * B + 1"


ROW, COLUMN = Variable("i", 1), Variable("j", 2)


@pytest.mark.parametrize(
    ("term", "coefficients", "offset"),
    [
        (5, {}, 5),
        (Apply("+", (Apply("*", (ROW, 3)), Apply("-", (COLUMN, 2)))), {ROW: 3, COLUMN: 1}, -2),
        (Apply("*", (Apply("+", (2, 2)), Apply("neg", (COLUMN,)))), {COLUMN: -4}, 0),
        (Apply("-", (Apply("+", (ROW, 1)), ROW)), {}, 1),
    ],
)
def test_indices_that_are_sums_of_multiples(term, coefficients, offset):
    whole = linear(term)
    assert whole is not None
    assert (whole.coefficients, whole.constant) == (coefficients, offset)


@pytest.mark.parametrize(
    "term",
    [
        True,
        1.5,
        Symbol("n"),
        Apply("*", (ROW, COLUMN)),
        Apply("//", (ROW, 2)),
        Apply("max", (ROW, 0)),
    ],
)
def test_other_indices_are_none(term: Term):
    assert linear(term) is None
