"""Nodes say what they are made of: the same as their fields do, in specifications and in rules."""

from collections import Counter
from dataclasses import fields, is_dataclass

import pytest
from tensolog.catalog.operators.definition import functions, texts
from tensolog.catalog.operators.syntax import expressions
from tensolog.catalog.terms.syntax_tree import (
    Binary,
    Call,
    ListOf,
    Literal,
    Name,
    Place,
    mentions,
    replace_names,
    walk,
)
from tensolog.rules import load_rules

# Together they have every node: choices, slices, splices, comprehensions and reductions.
OPERATORS = ("Conv", "Concat", "Split", "Reshape", "Gather", "Resize", "MaxPool", "Einsum", "Pad")


def by_fields(part):
    """The names in the fields of a tree, as often as they stand there."""
    if isinstance(part, Name):
        return Counter([part.text])
    if isinstance(part, tuple | list) and not isinstance(part, Place):
        return sum(map(by_fields, part), Counter())
    if is_dataclass(part):
        return sum((by_fields(getattr(part, field.name)) for field in fields(part)), Counter())
    return Counter()


def names(expression):
    return Counter(part.text for part in walk(expression) if isinstance(part, Name))


def rebuilt(expression):
    return expression.with_parts(rebuilt)


def test_specifications_are_walked_through_and_rebuilt_whole():
    statements = [*functions().values(), *(text for name in OPERATORS for text in texts(name))]
    kinds = set()
    for statement in statements:
        said = list(expressions(statement))
        assert sum(map(names, said), Counter()) == by_fields(statement), statement.name
        assert [rebuilt(expression) for expression in said] == said
        kinds |= {type(part).__name__ for expression in said for part in walk(expression)}
    assert kinds >= {"Choice", "Slice", "Splice", "Comprehension", "Reduction", "Index", "Unary"}


def test_rules_are_walked_through_and_rebuilt_whole():
    conditions = [condition for rule in load_rules() for condition in rule.given]
    assert len(conditions) > 100
    for condition in conditions:
        assert names(condition) == by_fields(condition)
        assert rebuilt(condition) == condition


def test_trees_are_equal_wherever_they_are_written():
    here, there = Name("a", Place("x.ops", 1, 2)), Name("a", Place("y.ops", 3, 4))
    assert here == there and hash(here) == hash(there) and repr(here) == repr(there)
    assert Call("f", (here,)) == Call("f", (there,)) != Call("g", (there,))


def test_names_are_replaced_wherever_they_stand():
    inner = Call("f", (Name("a"), ListOf((Name("b"), Literal(2)))))
    known = {"a": Name("b"), "b": Literal(1)}
    replaced = replace_names(Binary("+", inner, Name("c")), known)
    assert replaced == Binary(
        "+", Call("f", (Name("b"), ListOf((Literal(1), Literal(2))))), Name("c")
    )
    assert mentions(inner, "b") and not mentions(inner, "c")


@pytest.mark.parametrize("depth", [5_000])
def test_a_deep_tree_is_walked_through(depth):
    tree = Name("x")
    for _ in range(depth):
        tree = Binary("+", tree, Literal(1))
    assert sum(isinstance(part, Name) for part in walk(tree)) == 1
