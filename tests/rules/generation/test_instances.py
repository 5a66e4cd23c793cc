"""What is an instance of what: the index against trying all; shapes as rules declare them."""

import pytest
from tensolog.rules import parse_rules
from tensolog.rules.generation import instances
from tensolog.rules.generation.candidates import Candidate, candidate_of, in_order
from tensolog.rules.generation.enumeration import Enumeration
from tensolog.rules.generation.instances import Instances, fits_all, have_sorts
from tensolog.rules.generation.leaves import choose_inputs, sort_of
from tensolog.rules.generation.terms import Apply, Operation, Variable


def candidates(operators, nodes):
    pool = choose_inputs(operators, 2)
    enumeration = Enumeration(operators, pool)
    drawn = []
    for size in range(1, nodes + 1):
        for equality in enumeration.grow(size, last=size == nodes).equalities:
            term, other = enumeration.applied(equality.e_node), enumeration.term(equality.equal_to)
            drawn.append(candidate_of(term, other, pool))
    return in_order(candidate for candidate in drawn if candidate is not None)


def is_instance_of_any(candidate, laws):
    pairs = [(candidate.left, candidate.right), (candidate.right, candidate.left)]
    return any(
        next(instances._matches(law.right, right, names), None) is not None
        for law in laws
        for left, right in pairs
        for names in instances._matches(law.left, left, {})
    )


@pytest.mark.parametrize(
    "operators", [("Concat", "Relu"), ("Add", "Mul"), ("MatMul", "Transpose")], ids="-".join
)
def test_the_index_finds_what_trying_all_finds(operators):
    laws, are_instances, seen = Instances(), [], []
    for candidate in candidates(operators, 2):
        are_instances.append(laws.instance(candidate) is not None)
        assert are_instances[-1] == is_instance_of_any(candidate, seen)
        laws.add(candidate)
        seen.append(candidate)
    assert any(are_instances) and not all(are_instances)


X, Y = (Variable(name, sort_of("float32", (0, 1))) for name in "XY")
ROW = Variable("Z", sort_of("float32", (1,)))
OTHER = Variable("U", sort_of("float32", (1, 0)))
BATCHES = tuple(Variable(name, sort_of("float32", (2, 0, 1))) for name in "BC")
ADD = Operation("Add", (0, 1))
LAW = Candidate(Apply(ADD, (X, Y)), Apply(ADD, (Y, X)), True)


def rule(conditions):
    text = f"""# ReorderAdd computes Add(Y, X) in the place of Add(X, Y).
rule ReorderAdd
  tags    explore
  source  [generated]
  opset   >= 14
  given   {conditions}
  match
    R = Add(X, Y)
  rewrite
    R = Add(Y, X)
  equal   rounding
"""
    return parse_rules(text, "by_hand.rules")[0]


@pytest.mark.parametrize(
    ("conditions", "fit"),
    [
        ("X float, Y float", {"matrices", "two sizes", "a row", "batches"}),
        ("X [m, n] float, Y [m, n] float", {"matrices"}),
        ("X [m, n] float, Y [p, q] float", {"matrices", "two sizes"}),
        ("X [*s] float, Y [*s] float", {"matrices", "batches"}),
        ("X [*b, m, n] float, Y [*b, m, n] float", {"matrices", "batches"}),
        ("X [*b, m, n] float, Y [n] float", {"a row"}),
        ("X [m, 1] float, Y float", set()),
        ("X [b, m, n] float, Y [*s] float", {"batches"}),
    ],
)
def test_an_instance_fits_where_its_operands_have_the_declared_shapes(conditions, fit):
    first, second = BATCHES
    operands = {
        "matrices": {X: X, Y: Y},
        "two sizes": {X: X, Y: OTHER},
        "a row": {X: X, Y: ROW},
        "batches": {X: first, Y: second},
    }
    assert {name for name, some in operands.items() if fits_all(rule(conditions), LAW, some)} == fit


def test_what_states_a_condition_is_for_an_e_graph():
    plain = rule("X [m, n] float, Y [m, n] float")
    conditional = rule("X [m, n] float, Y [m, n] float,\n          m > 1")
    assert fits_all(plain, LAW, {X: X, Y: Y})
    assert not fits_all(conditional, LAW, {X: X, Y: Y})


def test_sorts_are_element_types_and_sizes():
    assert have_sorts({X: Y, Y: Apply(ADD, (X, X))})
    assert not have_sorts({X: OTHER})
    assert not have_sorts({X: Variable("I", sort_of("int64", (0, 1)))})
