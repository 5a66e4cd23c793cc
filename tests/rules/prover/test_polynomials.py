"""Polynomials over integers: equal to their expressions, and one form for equal ones."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensolog.rules.prover.normal.context import Context
from tensolog.rules.prover.solve.polynomials import (
    Constraint,
    Opaque,
    Polynomial,
    at_least,
    below,
    choice,
    constant,
    differs,
    equals,
    extreme,
    joined,
    quotient,
    remainder,
    variable,
    within,
)
from tensolog.rules.prover.solve.smt import Solver

from tests.campaigns import examples

NAMES = ("a", "b", "c", "n")
Values = Mapping[str, int]


@dataclass(frozen=True)
class Expression:
    """A polynomial, and the same computed number by number."""

    whole: Polynomial
    value: Callable[[Values], int]


def both(
    build: Callable[[Polynomial, Polynomial], Polynomial],
    compute: Callable[[int, int], int],
) -> Callable[[tuple[Expression, Expression]], Expression]:
    def make(parts: tuple[Expression, Expression]) -> Expression:
        first, second = parts
        return Expression(
            build(first.whole, second.whole), lambda v: compute(first.value(v), second.value(v))
        )

    return make


def named(name: str) -> Expression:
    return Expression(variable(name), lambda v: v[name])


def literal(number: int) -> Expression:
    return Expression(constant(number), lambda _: number)


def by_number(parts: tuple[Expression, int]) -> Expression:
    expression, number = parts
    return Expression(
        quotient(expression.whole, constant(number)), lambda v: expression.value(v) // number
    )


def rest_of(parts: tuple[Expression, int]) -> Expression:
    expression, number = parts
    return Expression(
        remainder(expression.whole, constant(number)), lambda v: expression.value(v) % number
    )


def chosen(parts: tuple[Expression, Expression, Expression]) -> Expression:
    first, second, third = parts
    return Expression(
        choice(at_least(first.whole, 0), second.whole, third.whole),
        lambda v: second.value(v) if first.value(v) >= 0 else third.value(v),
    )


leaves = st.one_of(st.sampled_from(NAMES).map(named), st.integers(-4, 4).map(literal))
divisors = st.integers(-3, 3).filter(bool)


def larger(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    pair = st.tuples(inner, inner)
    return st.one_of(
        pair.map(both(operator.add, operator.add)),
        pair.map(both(operator.sub, operator.sub)),
        pair.map(both(operator.mul, operator.mul)),
        pair.map(both(lambda a, b: extreme("max", a, b), max)),
        pair.map(both(lambda a, b: extreme("min", a, b), min)),
        st.tuples(inner, divisors).map(by_number),
        st.tuples(inner, divisors).map(rest_of),
        st.tuples(inner, inner, inner).map(chosen),
    )


expressions = st.recursive(leaves, larger, max_leaves=8)
values = st.fixed_dictionaries({name: st.integers(-5, 9) for name in NAMES})


def evaluated(whole: Polynomial, point: Values) -> int:
    total = 0
    for monomial, coefficient in whole.terms.items():
        for part in monomial:
            inner = whole.opaque.get(part)
            coefficient *= point[part] if inner is None else applied(inner, point)
        total += coefficient
    return total


def applied(atom: Opaque, point: Values) -> int:
    numbers = [evaluated(argument, point) for argument in atom.arguments]
    if atom.function == "//":
        return numbers[0] // numbers[1]
    if atom.function == "if":
        assert atom.condition is not None
        return numbers[0] if holds(atom.condition, point) else numbers[1]
    return {"min": min, "max": max}[atom.function](numbers)


def holds(condition: Constraint, point: Values) -> bool:
    if condition.kind in ("and", "or"):
        parts = [holds(part, point) for part in condition.parts]
        return all(parts) if condition.kind == "and" else any(parts)
    number = evaluated(condition.whole, point)
    return {"ge": number >= 0, "eq": number == 0, "ne": number != 0}[condition.kind]


@given(expressions, values)
def test_a_polynomial_has_the_value_of_its_expression(
    expression: Expression, point: Values
) -> None:
    assert evaluated(expression.whole, point) == expression.value(point)


@given(expressions)
def test_building_a_polynomial_anew_changes_nothing(expression: Expression) -> None:
    names = {name: variable(name) for name in NAMES}
    through = {name: variable(f"{name}'") for name in NAMES}
    back = {f"{name}'": variable(name) for name in NAMES}
    assert expression.whole.substitute(names) == expression.whole
    assert expression.whole.substitute(through).substitute(back) == expression.whole


@given(expressions, expressions, expressions)
def test_sums_and_products_have_one_form(a: Expression, b: Expression, c: Expression) -> None:
    x, y, z = a.whole, b.whole, c.whole
    assert x + y == y + x
    assert x * y == y * x
    assert (x + y) + z == x + (y + z)
    assert (x * y) * z == x * (y * z)
    assert x * (y + z) == x * y + x * z
    assert x - y == -(y - x)
    assert (x - x).number == 0
    assert extreme("max", x, y) == extreme("max", y, x)


@given(expressions, expressions, values)
def test_substitution_is_evaluation_at_another_place(
    first: Expression, second: Expression, point: Values
) -> None:
    replaced = first.whole.substitute({"a": second.whole})
    assert evaluated(replaced, point) == first.value({**point, "a": second.value(point)})


@given(expressions, st.sampled_from(("a", "b", "n")), st.integers(1, 3), values)
def test_division_with_rest(expression: Expression, name: str, scale: int, point: Values) -> None:
    by = scale * variable(name)
    whole, rest = expression.whole.divided(by)
    assert evaluated(whole * by + rest, point) == expression.value(point)


@given(expressions, values)
def test_what_a_linear_polynomial_says_of_a_variable(expression: Expression, point: Values) -> None:
    value = expression.whole.linear("a")
    if value is not None:
        assert (expression.value(point) == 0) == (point["a"] == evaluated(value, point))


# ---- constraints

RELATIONS: dict[str, tuple[Callable[..., Constraint], Callable[[int, int], bool]]] = {
    ">=": (at_least, operator.ge),
    "<": (below, operator.lt),
    "=": (equals, operator.eq),
    "!=": (differs, operator.ne),
}


@given(st.sampled_from(sorted(RELATIONS)), expressions, expressions, values)
def test_a_constraint_holds_where_its_relation_does(
    relation: str, first: Expression, second: Expression, point: Values
) -> None:
    build, compare = RELATIONS[relation]
    condition = build(first.whole, second.whole)
    expected = compare(first.value(point), second.value(point))
    assert holds(condition, point) == expected
    assert holds(condition.negation, point) != expected
    assert condition.negation.negation == condition
    if condition.truth is not None:
        assert condition.truth == expected


@given(st.lists(st.tuples(st.sampled_from(sorted(RELATIONS)), expressions), max_size=4), values)
def test_joined_constraints(parts: list[tuple[str, Expression]], point: Values) -> None:
    conditions = [RELATIONS[relation][0](expression.whole, 0) for relation, expression in parts]
    truths = [holds(condition, point) for condition in conditions]
    for kind, expected in (("and", all(truths)), ("or", any(truths))):
        whole = joined(kind, conditions)
        assert holds(whole, point) == expected
        assert holds(whole.negation, point) != expected
        assert joined(kind, [whole, *conditions]) == whole
        assert joined(kind, conditions[::-1]) == whole


@given(st.integers(1, 4), expressions, expressions)
def test_a_multiple_says_the_same(scale: int, first: Expression, second: Expression) -> None:
    def same(this: Constraint, that: Constraint) -> bool:
        return this == that or (this.truth is not None and this.truth == that.truth)

    for relation in ("=", "!="):
        build, _ = RELATIONS[relation]
        assert same(
            build(scale * first.whole, scale * second.whole), build(first.whole, second.whole)
        )
        assert same(build(second.whole, first.whole), build(first.whole, second.whole))
    assert same(
        at_least(scale * first.whole, scale * second.whole), at_least(first.whole, second.whole)
    )


# ---- what a context knows of quotients

D, E, G = (variable(name) for name in ("d", "e", "g"))
ROW, J, K = (variable(name) for name in ("i", "j", "k"))


@dataclass(frozen=True)
class Sizes:
    """Indices i < d, j < e and k < 2 d, where g divides d."""

    e: int
    g: int
    q: int
    positions: tuple[float, float, float]

    @property
    def values(self) -> dict[str, int]:
        d = self.g * self.q
        i, j, k = (
            int(part * size) for part, size in zip(self.positions, (d, self.e, 2 * d), strict=True)
        )
        return {"d": d, "e": self.e, "g": self.g, "q": self.q, "i": i, "j": j, "k": k}


fractions = st.floats(0, 1, exclude_max=True)
sizes = st.builds(
    Sizes,
    st.integers(1, 5),
    st.integers(1, 4),
    st.integers(1, 4),
    st.tuples(fractions, fractions, fractions),
)


def digits() -> Context:
    exact = equals(G * quotient(D, G), D)
    ranges = [*within(ROW, D), *within(J, E), *within(K, 2 * D)]
    minimum = {"d": 0, "e": 0, "g": 1, "q": 0, "i": 0, "j": 0, "k": 0}
    context = Context(Solver((exact, *ranges), minimum), frozenset(("d", "e", "g", "q")))
    context.extents.update({"i": D, "j": E, "k": 2 * D})
    return context


group = quotient(D, G)
parts = st.sampled_from(
    (ROW, J, K, D, E, G, E * ROW, E * G, group, constant(1), E * quotient(K, group))
)
sums = st.lists(st.tuples(st.integers(-2, 2), parts), min_size=1, max_size=4).map(
    lambda terms: sum((number * part for number, part in terms), constant(0))
)
DIVISORS = (E, D, group, 2 * G, E * G, 2 * D, E * group, constant(3))


@settings(max_examples=examples(200), deadline=None)
@given(sums, st.sampled_from(DIVISORS), sizes)
def test_a_folded_quotient_has_its_value(
    whole: Polynomial, by: Polynomial, drawn_sizes: Sizes
) -> None:
    rebuilt = quotient(whole, by) + remainder(whole, by)
    folded = digits().fold(rebuilt)
    assert evaluated(folded, drawn_sizes.values) == evaluated(rebuilt, drawn_sizes.values)
    assert digits().fold(folded) == folded


@settings(max_examples=examples(200), deadline=None)
@given(sums, sums, st.sampled_from(DIVISORS), sizes)
def test_a_folded_constraint_says_the_same(
    whole: Polynomial, limit: Polynomial, by: Polynomial, drawn_sizes: Sizes
) -> None:
    for condition in (at_least(quotient(whole, by), limit), below(quotient(whole, by), limit)):
        folded = digits().fold_constraint(condition)
        assert holds(folded, drawn_sizes.values) == holds(condition, drawn_sizes.values), (
            condition,
            folded,
        )


@pytest.mark.parametrize(
    ("whole", "by", "expected"),
    [
        (E * ROW + J, E, ROW),
        (E * ROW - E * D + J, E, ROW - D),
        (E * G - 1 - J, E, G - 1),
        (2 * K, 2 * G, quotient(K, G)),
        (K - D, group, quotient(K, group) - G),
        (E * ROW + J, D, None),
        (ROW + J, E, None),
        (K - E, group, None),
    ],
)
def test_quotients_that_fold(whole: Polynomial, by: Polynomial, expected: object) -> None:
    quotient_ = quotient(whole, by)
    assert digits().fold(quotient_) == (quotient_ if expected is None else expected)
