"""How axes are written: in all ways the same case, or a choice."""

from __future__ import annotations

from itertools import permutations, product

import pytest
from tensolog.catalog.terms.index_notation import Symbol, apply
from tensolog.rules.language.functions import UnknownError
from tensolog.rules.language.parser import parse_rules
from tensolog.rules.prover.cases import case_split
from tensolog.rules.prover.cases.axis_notation import NotationMattersError, Notations, equivalent
from tensolog.rules.prover.cases.case_split import statements

from .instance_cases import Everything


def rule(text):
    (parsed,) = parse_rules(
        "rule EliminateIt\n  tags always\n" + text + "\n  equal rounding\n", "t"
    )
    return parsed


def contents(rule_, told_axes=()):
    """What all cases say, where it is a choice how those that are told are written."""
    return {case_split._content(s) for s in case_split._combined(rule_, 0, told_axes, [])}


SAME = [
    "match\n Y = Softmax<axis=i>(X)\n Z = Concat<axis=j>(Y, Y)\n"
    " rewrite\n C = Concat<axis=j>(X, X)\n Z = Softmax<axis=i>(C)",
    "given axis(i, X) = axis(j, X)\n match\n Y = Softmax<axis=i>(X)\n Z = LogSoftmax<axis=j>(Y)\n"
    " rewrite\n S = Softmax<axis=j>(X)\n Z = Log(Softmax<axis=i>(S))",
    "given dim(X, i) = 1\n match\n Y = Gather<axis=i>(X, I)\n rewrite\n Y = Gather<axis=i>(X, I)",
    "match\n Y = Flatten<axis=i>(X)\n rewrite\n Y = Reshape(X, shape(Y))",
]


@pytest.mark.parametrize("text", SAME)
def test_cases_in_all_ways_to_write_axes_are_those_in_one(text):
    """The oracle: every way to write every axis is a choice."""
    rule_ = rule(f"opset >= 13\n {text}")
    assert contents(rule_) == contents(rule_, Everything())
    assert not any("sign of" in s.title for s in statements(rule_))


MATTERS = [
    # the number itself is calculated with
    "match\n Y = Softmax<axis=i>(X)\n rewrite\n S = Softmax<axis=i>(X)\n Y = Mul(S, i * i)",
    # compared with a number
    "given i = -1\n match\n Y = Softmax<axis=i>(X)\n rewrite\n Y = Softmax<axis=i>(X)",
    # another axis where the rank is another
    "match\n Y = Softmax<axis=i>(X)\n"
    " rewrite\n U = Unsqueeze(X, [0])\n Y = Squeeze(Softmax<axis=i>(U), [0])",
    # handed on as data
    "given l const int64\n match\n Y = ReduceSum<keepdims=1>(X, l)\n Z = Add(l, l)\n"
    " rewrite\n Y = ReduceSum<keepdims=1>(X, l)\n Z = Mul(l, 2)",
]


@pytest.mark.parametrize("text", MATTERS)
def test_what_depends_on_how_axes_are_written_is_a_choice(text):
    case_statements = statements(rule(f"opset >= 13\n {text}"))
    assert any("sign of" in s.title for s in case_statements)


def test_lists_that_go_with_axes_change_places_with_them():
    ways = Notations()
    ways.add_axes("a", (0, 1), 3)
    ways.add_beside("a", "pads", ("p0", "p1", "q0", "q1"))
    others = {(way["a"], way["pads"]) for way in ways.others({"a"})}
    assert ((1, 0), ("p1", "p0", "q1", "q0")) in others
    assert ((-3, 1), ("p0", "p1", "q0", "q1")) in others
    assert (
        len(others) == len(list(permutations(range(2)))) * len(list(product((0, 1), repeat=2))) - 1
    )


def test_a_list_goes_with_the_axes_of_one_node_only():
    ways = Notations()
    ways.add_axes("a", (0, 1), 3)
    ways.add_axes("b", (0, 1), 3)
    ways.add_beside("a", "starts", ("s0", "s1"))
    with pytest.raises(NotationMattersError):
        ways.add_beside("b", "starts", ("s0", "s1"))


def test_what_is_known_in_one_way_only_differs():
    ways = Notations()
    ways.add("i", (1, -1))

    def known_from_the_front(way):
        if way.get("i", 1) < 0:
            raise UnknownError
        return 0

    with pytest.raises(NotationMattersError):
        ways.require_same(frozenset("i"), known_from_the_front)
    ways.require_same(frozenset("i"), lambda way: way.get("i", 1) % 2)


def test_sums_and_conditions_are_alike_in_any_order_and_nothing_else_is():
    n, m = Symbol("n", "dimension"), Symbol("m", "dimension")
    assert equivalent(apply("+", n, apply("+", m, 1)), apply("+", apply("+", 1, m), n))
    both = [apply("=", n, 1), apply(">", m, 2)]
    assert equivalent(apply("and", *both), apply("and", *reversed(both)))
    assert not equivalent(apply("-", n, m), apply("-", m, n))
    assert not equivalent((n, m), (m, n))
