"""Statements that are others with terms put for symbols, and those that only look so."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tensolog.catalog.operators.expand import Definition
from tensolog.catalog.terms.index_notation import Read, Reduce, Symbol, Variable, apply
from tensolog.rules.language.parser import parse_rules
from tensolog.rules.prover.cases import case_split
from tensolog.rules.prover.cases.case_split import statements
from tensolog.rules.prover.cases.subsumption import is_instance
from tensolog.rules.prover.prove import prove
from tensolog.rules.prover.statement import Equation, Obligation, Operand, Statement

POOL = """
rule EliminateIt
  tags    always
  opset   >= 19
  given   X [n, c, h] float32
  match
    Y = AveragePool<kernel_shape=[2], *a>(X)
  rewrite
    Y = Neg(AveragePool<kernel_shape=[2], *a>(Neg(X)))
  equal   rounding
"""


def all_statements(monkeypatch):
    """Those of all cases, by the words and flags of each."""
    (rule,) = parse_rules(POOL, "t")
    monkeypatch.setattr(case_split, "is_instance", lambda *_: False)
    return {s.title.partition(": ")[2]: s for s in statements(rule)}


def test_a_word_for_pads_is_what_pads_say(monkeypatch):
    statements_by_name = all_statements(monkeypatch)
    general = {name: s for name, s in statements_by_name.items() if "NOTSET" in name}
    assert general and len(statements_by_name) > len(general)
    for word in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        for name, statement in general.items():
            special = statements_by_name.get(name.replace("NOTSET", word))
            if special is None:
                continue  # without pads, whether they count says nothing: it was there before
            assert is_instance(special, statement)
            assert not is_instance(statement, special)
            assert {prove(special).status, prove(statement).status} == {"proved"}


def test_flags_are_no_particular_cases_of_each_other(monkeypatch):
    statements_by_name = all_statements(monkeypatch)
    for name, statement in statements_by_name.items():
        other = statements_by_name.get(
            name.replace("count_include_pad 1", "count_include_pad 0"), statement
        )
        assert statement is other or not (
            is_instance(statement, other) or is_instance(other, statement)
        )


@pytest.mark.parametrize("left_out", ["assumptions", "obligations"])
def test_what_is_assumed_and_owed_counts(monkeypatch, left_out):
    statements_by_name = all_statements(monkeypatch)
    name = next(title for title in statements_by_name if "NOTSET" in title)
    general, special = (
        statements_by_name[name],
        statements_by_name[name.replace("NOTSET", "SAME_UPPER")],
    )
    if left_out == "assumptions":  # less is known than the other statement asks for
        assert not is_instance(replace(special, assumptions=()), general)
    else:
        more = Obligation("more", apply(">", special.symbols[0], 7))
        assert not is_instance(replace(special, obligations=(more,)), general)


def test_no_index_is_put_for_a_symbol():
    """The sum of X[p] over t at any p says nothing of the sum of X[t]."""
    n, p = Symbol("n", "dimension"), Symbol("p", "integer")
    t, i = Variable("t", 1), Variable("i", 2)

    def summed(index):
        value = Reduce("sum", (t,), (n,), True, Read("X", (index,)))
        return Statement(
            title="",
            symbols=(n, p) if index == p else (n,),
            assumptions=(),
            operands=(Operand("X", (n,)),),
            definitions=(Definition("Y", (n,), (i,), value), Definition("Z", (n,), (i,), value)),
            source=frozenset("Y"),
            obligations=(),
            equations=(Equation("Y", "Y", "Z"),),
        )

    assert not is_instance(summed(t), summed(p))
    assert is_instance(summed(3), summed(p))
