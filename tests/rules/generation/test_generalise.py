"""Variables told apart: as many as the equality has in NumPy, and no more."""

import numpy as np
import pytest
from tensolog.rules.generation.candidates import Candidate, Generalising, candidate_of
from tensolog.rules.generation.enumeration import Enumeration
from tensolog.rules.generation.instances import Instances
from tensolog.rules.generation.leaves import choose_inputs
from tensolog.rules.generation.terms import Apply, Operation, renamed, variables

from .oracle import compute, random_values

X, Y, Z = choose_inputs(("Add",), 3)[:3]


def general_candidates(operators, nodes):
    pool = choose_inputs(operators, 1)
    enumeration = Enumeration(operators, pool)
    generalising = Generalising(pool, 0, enumeration.arithmetic)
    for size in range(1, nodes + 1):
        for equality in enumeration.grow(size, last=size == nodes).equalities:
            candidate = candidate_of(
                enumeration.applied(equality.e_node), enumeration.term(equality.equal_to), pool
            )
            if candidate is not None:
                yield candidate, generalising.general(candidate)


@pytest.mark.parametrize(
    "operators", [("Concat", "Relu"), ("Add", "Sub"), ("Mul", "Relu"), ("Max", "Neg")], ids="-".join
)
def test_what_is_told_apart_is_equal_in_numpy(operators):
    rng = np.random.default_rng(3)
    grown = 0
    for candidate, general in general_candidates(operators, 2):
        grown += general.variables > candidate.variables
        for assignment in (0, 1, 0, 1):
            values = random_values(variables(general.left), rng, assignment)
            np.testing.assert_array_equal(
                compute(general.left, values), compute(general.right, values), general.text
            )
    assert bool(grown) == (operators in (("Concat", "Relu"), ("Add", "Sub")))


def test_a_law_of_three_is_seen_with_one_variable():
    by_left = {str(general.left): general for _, general in general_candidates(("Concat",), 2)}
    law = by_left["Concat<axis=0>(Concat<axis=0>(X, X1), X2)"]
    assert str(law.right) == "Concat<axis=0>(X, Concat<axis=0>(X1, X2))"


def test_what_needs_its_variable_twice_keeps_it():
    for candidate, general in general_candidates(("Mul", "Relu"), 2):
        if candidate.text == "Relu(Mul(X, X)) = Mul(X, X)":
            assert general == candidate
            return
    pytest.fail("a square is never negative")


def add(left, right, *, commutes=False):
    return Apply(Operation("Add", (0, 1), commutative=commutes), (left, right))


@pytest.mark.parametrize("commutes", [False, True])
def test_an_instance_has_terms_for_the_variables_of_what_holds(commutes):
    relu = Apply(Operation("Relu", (0,)), (Y,))
    law = Candidate(
        add(X, add(Y, Z, commutes=commutes)), add(add(X, Y, commutes=commutes), Z), True
    )
    holding = Instances()
    holding.add(law)
    for names in ({}, {X: relu}, {X: relu, Z: relu}, {Y: add(Z, Z), Z: X}):
        left, right = renamed(law.left, names), renamed(law.right, names)
        assert holding.general(Candidate(left, right, True)) == law
        assert holding.general(Candidate(right, left, True)) == law
    turned = add(add(Y, X, commutes=commutes), Z)
    assert (holding.general(Candidate(law.left, turned, True)) == law) == commutes
    assert holding.general(Candidate(law.left, add(add(X, X), Z), True)) is None


def test_what_repeats_no_variable_comes_first():
    law = Candidate(add(X, add(Y, Z)), add(add(X, Y), Z), True)
    instance = Candidate(add(X, add(X, X)), add(add(X, X), X), True)
    assert law.repeats == 0
    assert instance.repeats == 4
    assert law.rank < instance.rank
