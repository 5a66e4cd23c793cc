"""Questions are put with products as functions first; what that can't tell is asked in full."""

from tensolog.rules.prover.solve.polynomials import (
    at_least,
    constant,
    differs,
    equals,
    quotient,
    variable,
)
from tensolog.rules.prover.solve.smt import Solver

A, B, C, D = map(variable, "abcd")
SIZES = dict.fromkeys("abcd", 1)


def asked(condition, *assumptions):
    """Return what is said of a condition, and how often * and div were computed."""
    solver = Solver(assumptions, SIZES)
    said = solver.valid("the condition follows", condition)
    return said, [("*@" in query.script or "div@" in query.script) for query in solver.queries]


def test_equal_products_are_seen_without_computing_them():
    equations = equals(A * B * C, A * D), equals(quotient(A * D, B) * B, A * D)
    assert asked(equals(quotient(A * B * C, B) * B, A * B * C), *equations) == ("unsat", [True])


def test_what_needs_the_values_of_products_is_computed():
    assert asked(at_least(A * B, A), at_least(B, 2)) == ("unsat", [False])
    assert asked(equals(B, 3), equals(A * B, 6), equals(A, 2)) == ("unsat", [False])


def test_what_is_false_stays_false():
    assert asked(equals(A * B, A * C))[0] == "sat"
    assert asked(differs(A * B, constant(6)))[0] == "sat"
    assert asked(equals(quotient(A, B) * B, A))[0] == "sat"


def test_a_script_of_functions_is_one_that_a_solver_reads():
    from tensolog.rules.prover.solve.recheck import ask_z3

    solver = Solver((equals(A * B * C, A * D),), SIZES)
    solver.valid("the condition follows", equals(quotient(A * B * C, B), quotient(A * D, B)))
    (query,) = solver.queries
    assert "(declare-fun *@3 (Int Int Int) Int)" in query.script
    assert ask_z3(query.script)[0] == "unsat"
