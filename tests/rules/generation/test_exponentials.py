"""exp and log keep their laws, each in the residues that decide about it, and have no others."""

import numpy as np
import pytest
from tensolog.rules.generation.candidates import candidate_of
from tensolog.rules.generation.enumeration import Enumeration
from tensolog.rules.generation.leaves import choose_inputs
from tensolog.rules.generation.number_fields import ExponentialRing, OrderedField

RING = ExponentialRing()


def residues(count, seed):
    """Small halves, as operands are."""
    numbers = np.random.default_rng(seed).integers(-40, 40, count)
    return numbers * pow(2, -1, RING.modulus) % RING.modulus


def value(function, *arguments):
    values, defined = RING.apply(function, arguments)
    assert np.all(defined)
    return values


def agree(left, right):
    """Whether residues modulo the first and the second prime are equal."""
    return [bool(np.all(a == b)) for a, b in zip(RING.views(left), RING.views(right), strict=True)]


def test_exp_takes_sums_to_products_and_log_takes_them_back():
    a, b = residues(200, 1), residues(200, 2)
    total, product = value("exp", value("+", a, b)), value("*", value("exp", a), value("exp", b))
    assert agree(total, product) == [True, False]
    assert agree(value("log", product), value("+", a, b)) == [False, True]
    c, d = (np.random.default_rng(n).integers(1, 10**6, 200) for n in (3, 4))
    logs = value("+", value("log", c), value("log", d))
    assert agree(value("log", value("*", c, d)), logs) == [False, True]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (lambda a, b: value("exp", value("*", a, b)), lambda a, b: value("*", a, value("exp", b))),
        (lambda a, b: value("log", value("+", a, b)), lambda a, b: value("log", a)),
        (lambda a, b: value("exp", value("exp", a)), lambda a, b: value("exp", a)),
        (lambda a, b: value("exp", a), lambda a, b: value("+", a, np.asarray(1))),
    ],
)
def test_no_other_law_is_seen(left, right):
    a, b = residues(200, 5) + 41, residues(200, 6) + 1
    assert agree(left(a, b), right(a, b)) == [False, False]


def test_exp_is_positive_and_arithmetic_is_that_of_rationals():
    a = residues(200, 7)
    assert np.all(RING.scaled(value("exp", a)) > 0)
    quotient = value("/", value("*", a, np.asarray(3)), np.asarray(3))
    assert np.array_equal(quotient, a)
    field, small = OrderedField(), np.arange(-5, 6)
    for relation in ("<", "=", ">="):
        both = (arithmetic.compare(relation, small, small[::-1]) for arithmetic in (field, RING))
        assert np.array_equal(*both)


@pytest.mark.parametrize(
    ("operators", "nodes", "law"),
    [
        (("Softmax", "Add"), 2, "Softmax(Add(X, c)) = Softmax(X)"),
        (("Exp", "Add", "Mul"), 3, "Mul(Exp(X), Exp(Y)) = Exp(Add(X, Y))"),
        (("LogSoftmax", "Log", "Softmax"), 2, "Log(Softmax(X)) = LogSoftmax(X)"),
    ],
    ids=["Softmax", "Exp", "Log"],
)
def test_laws_of_exp_are_among_the_candidates(operators, nodes, law):
    pool = choose_inputs(operators, 2)
    enumeration = Enumeration(operators, pool)
    seen = set()
    for size in range(1, nodes + 1):
        for equality in enumeration.grow(size, last=size == nodes).equalities:
            candidate = candidate_of(
                enumeration.applied(equality.e_node), enumeration.term(equality.equal_to), pool
            )
            if candidate is not None:
                seen.add(candidate.text.replace("<axis=0>", "").replace("<axis=1>", ""))
    assert law in seen, [text for text in seen if operators[0] in text][:20]
