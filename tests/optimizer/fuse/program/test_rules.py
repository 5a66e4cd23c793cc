"""Rules of the rule base on programs: the same values, less work, and only what is proved."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tensolog.optimizer.fuse.program import evaluate
from tensolog.optimizer.fuse.program import rule_rewrites as rules
from tensolog.optimizer.fuse.program.dag import Program
from tensolog.optimizer.fuse.program.rule_rewrites import graph_of, program_of
from tensolog.optimizer.fuse.tracing import prepare, region_engine
from tensolog.rules import load_rules
from tensolog.rules.gate.ledger import ledger

from tensolog import fuse
from tests.optimizer.fuse.compare import compare
from tests.optimizer.fuse.random_programs import random_case

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(40, 30)), RNG.normal(size=(30, 20))
w, v = A[:, 0].copy(), B[:, 0].copy()


@pytest.fixture(autouse=True)
def all_rules_that_suit(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Apply them whatever the ledger says, which has tests of its own, and run node by node."""
    described = rules.described(load_rules())
    monkeypatch.setattr(rules, "usable", lambda: described)

    def prepared(program: Program, options: prepare.Options) -> prepare.Prepared:
        after, rules = prepare.rewritten(program)
        return prepare.Prepared(program, after, options, rules, refusal="a test")

    monkeypatch.setattr(region_engine, "prepare", prepared)
    yield


@pytest.mark.parametrize(
    ("function", "inputs", "rules"),
    [
        (lambda A: np.negative(-A).sum(axis=0), [A], ["EliminateNegPair"]),
        (lambda A: ~(~(A > 0)), [A], ["EliminateNotPair"]),
        (lambda A: A + (-A.mean(axis=0)), [A], ["ConvertAddNegToSub"]),
        (lambda A: (abs(A) * abs(A)).sum(), [A], ["EliminateAbsBeforeSquare"]),
        (lambda A: A[1:][2:].sum(axis=1), [A], ["JoinSlices"]),
        (lambda A: A.reshape(-1).reshape(30, 40) * 2, [A], ["JoinReshapes"]),
        (lambda A: np.concatenate([A, A * 2], axis=1)[:, :30] + 1, [A], ["EliminateSliceOfConcat"]),
        (lambda A: np.squeeze(A.sum(axis=1, keepdims=True)), [A], ["FoldSqueezeIntoReduce"]),
        (lambda A, B: A @ B + (A + 1) @ B, [A, B], ["MergeAddedMatMulsSharingRight"]),
        (lambda A, B: (A @ B)[1:3].sum(), [A, B], ["PushSliceThroughMatMul"]),
        (lambda A, w, v: A.T @ (w * (A @ v)), [A, w, v], []),
        (lambda A, B: (A * A).sum() + B.max(), [A, B], []),
    ],
)
def test_which_rules_are_applied(function: Any, inputs: list[Any], rules: list[str]) -> None:
    fused = fuse(function)
    compare(function, fused, inputs)
    (region,) = fused._runner().regions
    assert list(region.prepared.rules) == rules
    assert all(f"rewritten by {name}" in fused.explain() for name in rules[:1])
    if rules:
        assert fused.sql("SELECT rule FROM region_rule ORDER BY position").fetchall() == [
            (name,) for name in rules
        ]


@pytest.mark.parametrize("seed", range(60))
def test_random_programs(seed: int) -> None:
    """As programs, through the graph and back, and by the rules."""
    case = random_case(seed)
    function = case.function()
    fused = fuse(function)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compare(function, fused, list(case.inputs.values()))
    for region in fused._runner().regions:
        program = prepare.rewrite(region.prepared.traced)
        again = program_of(graph_of(program), program)
        assert sorted(node.op for node in again.nodes) == sorted(node.op for node in program.nodes)


def test_special_values_stand_where_numpy_has_them() -> None:
    special = A.copy()
    special[:5, 0] = [np.nan, np.inf, -np.inf, 0.0, -0.0]
    for function in (
        lambda X: 1 / np.negative(-X),
        lambda X: 1 / (0.0 - X),
        lambda X: 1 / (X + 0.0),
        lambda X: 1 / -(X - X),
        lambda X: (~(X < 0), ~(X >= 0), ~((X > 0) & (X < 1))),
        lambda X: 1 / (X + (-X)),
        lambda X: 1 / (-X * -X),
        lambda X: np.where(X[:, :1] < X, X, X[:, :1]),
    ):
        compare(function, fuse(function), [special])


def test_slices_of_either_sign_survive_the_graph() -> None:
    def function(X: Any) -> Any:
        views = X[::-1], X[3:0:-2], X[:, ::-3], X[5:2], X[None, 2], X[-3:-1, 1:]
        return tuple(view * 1 for view in views)

    fused = fuse(function)
    fused(A)
    (region,) = fused._runner().regions
    program = region.prepared.traced
    again = program_of(graph_of(program), program)
    for left, right in zip(evaluate.run(again, [A]), function(A), strict=True):
        np.testing.assert_array_equal(left, right)


def test_a_rule_without_a_proof_is_not_applied(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(rules, "cache_path", lambda: tmp_path)
    monkeypatch.setattr(ledger, "admitted", lambda rules: tuple(rules)[:3])
    rules.usable.cache_clear()
    usable_rules = rules.usable()
    assert {match.rule.name for match in usable_rules} <= {rule.name for rule in load_rules()[:3]}
    rules.usable.cache_clear()
    monkeypatch.setattr(ledger, "admitted", lambda rules: ())
    assert rules.usable() == usable_rules  # as kept on disk, by what it depends on
    rules.usable.cache_clear()
