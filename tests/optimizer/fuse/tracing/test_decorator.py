"""The decorated function: regions, the cache, explain, plans, and SQL over them."""

import copy
import pickle
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from tensolog.catalog.errors import TensologError
from tensolog.optimizer.fuse.planning.fusion_plan import FusionPlan, PlanCounts
from tensolog.optimizer.fuse.tracing import prepare
from tensolog.optimizer.fuse.tracing.decorator import FuseError
from tensolog.optimizer.fuse.tracing.liveness import live_after
from tensolog.optimizer.fuse.tracing.report import _counted

import tensolog
from tensolog import fuse

X = np.random.default_rng(0).normal(size=(300, 8))
y = np.random.default_rng(1).normal(size=300)


def descend(X: Any, y: Any, w: Any, rate: float, steps: int) -> Any:
    for _ in range(steps):
        w = w - rate * (X.T @ (X @ w - y))
    return w


@pytest.mark.usefixtures("node_by_node")
def test_each_iteration_is_a_region_and_known_from_then_on() -> None:
    fused = fuse(descend)
    np.testing.assert_allclose(
        fused(X, y, np.zeros(8), 1e-3, 10), descend(X, y, np.zeros(8), 1e-3, 10)
    )
    regions = fused._runner().regions
    assert len(regions) == 10
    assert [region.cached for region in regions] == [False] + [True] * 9
    fused(X, y, np.zeros(8), 1e-3, 3)
    assert all(region.cached for region in fused._runner().regions)


@pytest.mark.usefixtures("node_by_node")
def test_a_number_that_changes_becomes_an_input() -> None:
    fused = fuse(descend)
    for rate in (1e-3, 2e-3, 3e-3, 4e-3):
        expected = descend(X, y, np.zeros(8), rate, 2)
        np.testing.assert_allclose(fused(X, y, np.zeros(8), rate, 2), expected)
    assert len(fused._engine.prepared_regions()) == 2


@pytest.mark.usefixtures("node_by_node")
def test_shapes_types_and_layouts_are_structures_of_their_own() -> None:
    fused = fuse(lambda X: (X * 2).sum())
    for array in (X, X[:5], X.astype(np.float32), X.astype(int), X.T):
        assert fused(array) == pytest.approx((array * 2).sum(), rel=1e-4)
    assert len(fused._engine.prepared_regions()) == 5


@pytest.mark.usefixtures("node_by_node")
def test_what_is_never_read_again_is_not_computed() -> None:
    """Q is held by a variable when its sum is asked for, but nobody will want it."""

    @fuse
    def function(X: Any) -> Any:
        Q = X * 2
        total = float(Q.sum())
        if total > 1e9:
            return total
        return -total

    function(X)
    (region,) = function._runner().regions
    assert len(region.prepared.program.outputs) == 1


@pytest.mark.usefixtures("node_by_node")
def test_what_is_read_again_is_computed_with_the_rest() -> None:
    @fuse
    def function(X: Any, y: Any) -> Any:
        Xy = X.T @ y
        scale = float(np.sum(Xy * Xy))
        return Xy / scale

    function(X, y)
    assert [len(region.prepared.program.outputs) for region in function._runner().regions] == [2, 1]


def test_liveness_against_what_a_function_reads() -> None:
    def function(a: Any, b: Any) -> Any:
        c = a + b
        for d in range(3):
            if d:
                a = c
            c = c + a
        return c

    live = live_after(function.__code__)
    last = max(live)
    assert live[last] == frozenset()
    assert live[0] == {"a", "b"}
    assert any(names == {"c", "a"} for names in live.values())


@pytest.mark.parametrize("body", ["locals()", "eval('a')", "vars()"])
def test_liveness_says_nothing_where_variables_are_reflected_on(body: str) -> None:
    names: dict[str, Any] = {}
    exec(f"def function(a):\n    b = a\n    return {body}", names)
    assert live_after(names["function"].__code__) == {}


def test_liveness_says_nothing_where_exceptions_are_handled() -> None:
    def function(a: Any) -> Any:
        b = a
        try:
            return b.x
        except AttributeError:
            return a

    assert live_after(function.__code__) == {}


def test_a_module_that_calls_keeps_its_variables() -> None:
    """The caller's variables are none of a fused function's business."""
    code = (
        "import numpy as np, tensolog\n"
        "kept = np.ones(3)\n"
        "f = tensolog.fuse(lambda x: float((x + 1).sum()))\n"
        "print(f(kept), kept.sum())\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout.split() == ["6.0", "3.0"]


@pytest.fixture
def planned() -> Any:
    fused = fuse(lambda X, y, w: X.T @ (y * (X @ w)))
    fused(X, y, np.ones(8))
    return fused


def test_explain_shows_operators_and_kernels(planned: Any) -> None:
    text = planned.explain()
    assert "float64 300x8" in text
    assert "MatMul" in text
    assert "by NumPy at once" not in text


def test_the_plan_covers_the_program(planned: Any) -> None:
    (plan,) = planned.plans
    assert planned.plan is plan
    assert plan.heuristic == "cost"


def test_sql_over_plans(planned: Any) -> None:
    rows = planned.sql(
        "SELECT op, count(*) FROM program_node WHERE op = 'MatMul' GROUP BY op"
    ).fetchall()
    assert rows == [("MatMul", 2)]
    names = {row[0] for row in planned.sql("SHOW TABLES").fetchall()}
    assert {"region", "program_node", "fusion_operator", "fusion_memo"} <= names
    assert planned.sql("SELECT rule FROM region_rule").fetchall() == []  # none, but a table
    types = dict(planned.sql("SELECT column_name, column_type FROM (DESCRIBE region)").fetchall())
    assert types["refusal"] == "VARCHAR" and types["cost_s"] == "DOUBLE"
    assert planned.sql("SELECT count(DISTINCT region_id) FROM region").fetchall() == [(1,)]


def test_the_search_is_told_of_in_words_and_as_a_row(planned: Any) -> None:
    counts = planned.plan.counts
    assert f"the cheapest plan of {counts.space}: " in planned.explain()
    assert f"({counts.costed} costed, {counts.bounds} bounds)" in planned.explain()
    (row,) = planned.sql("SELECT heuristic, plans, costed, bounds, bound_s FROM region").fetchall()
    assert row[:4] == ("cost", counts.space, counts.costed, counts.bounds)
    assert row[4] == pytest.approx(planned.plan.cost_s)
    by_rule = fuse(heuristic="all")(lambda X: (X * 2).sum())
    by_rule(np.ones((30, 4)))
    assert "planned by the heuristic all: " in by_rule.explain()


def test_any_number_of_plans_can_be_told_of() -> None:
    plan = FusionPlan((), 1.0, "cost", counts=PlanCounts(1 << 70, 30, (1 << 70) - 30), bound_s=1.0)
    assert plan.summary() == (
        "the cheapest plan of 2^70: 1000000.0 µs estimated (30 costed, 0 bounds)"
    )
    short = replace(plan, bound_s=0.5)
    assert "none takes less than 500000.0 µs" in short.summary()
    assert _counted(plan)[2] == 2.0**70
    assert _counted(replace(plan, counts=PlanCounts(1 << 5000)))[2] == 2.0**1023


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("selec 1", 'syntax error at or near "selec"'),
        ("SELECT * FROM regions", "regions does not exist"),
        ("SELECT colour FROM region", '"colour" not found'),
        ("", "returns no rows"),
    ],
)
def test_what_is_no_query_is_told_with_the_tables(planned: Any, query: str, reason: str) -> None:
    with pytest.raises(TensologError) as caught:
        planned.sql(query)
    message = str(caught.value)
    assert reason in message and "program_node" in message and "\n" not in message


def test_explain_says_what_was_left_to_numpy() -> None:
    fused = fuse(lambda X: np.sort(X, axis=0) + 1j)
    with pytest.raises(FuseError, match="wasn't called yet"):
        fused.explain()
    fused(X)
    text = fused.explain()
    assert "sort: by NumPy at once" in text
    assert "complex" in text
    with pytest.raises(FuseError, match="nothing was planned"):
        _ = fused.plan


@pytest.mark.parametrize("heuristic", ["cost", "all", "no_redundancy", "none"])
def test_heuristics_agree(heuristic: Any) -> None:
    def function(X: Any, y: Any) -> Any:
        Z = X * y[:, None]
        return Z.sum(axis=0), (Z * X).sum(), X.T @ (Z - X.mean(axis=1, keepdims=True))

    results = fuse(heuristic=heuristic)(function)(X, y)
    for left, right in zip(results, function(X, y), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-10, atol=1e-10)


def test_an_unknown_heuristic_is_refused() -> None:
    with pytest.raises(FuseError, match="is none of cost"):
        fuse(heuristic="best")  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "options",
    [
        *[{"threads": 0}, {"threads": 1.5}],
        *[{"memory": 0}, {"memory": -1e9}, {"memory": float("nan")}, {"memory": "8 GB"}],
    ],
)
def test_options_without_a_meaning_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(FuseError, match=f"{next(iter(options))}="):
        fuse(**options)


def test_the_name_is_part_of_the_package() -> None:
    assert "fuse" in dir(tensolog)
    assert fuse(descend).__name__ == "descend"


@fuse
def halves(x: Any) -> Any:
    return np.exp(x) / 2


class Model:
    scale = 3.0

    @fuse
    def step(self, x: Any) -> Any:
        return np.exp(x) * self.scale


def test_processes_get_it_by_its_name() -> None:
    halves(X)
    assert pickle.loads(pickle.dumps(halves)) is halves
    assert copy.deepcopy({"step": halves})["step"] is halves
    with pytest.raises((AttributeError, pickle.PicklingError)):
        pickle.dumps(fuse(lambda x: x))


def test_a_method_tells_of_its_calls() -> None:
    model = Model()
    np.testing.assert_allclose(model.step(X), np.exp(X) * 3)
    assert model.step.explain() == Model.step.explain()
    assert model.step.plan is Model.step.plan
    assert not hasattr(model.step, "nothing")


def test_small_arrays_are_left_to_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """By cost alone, and by shapes alone: so results don't depend on what was called before."""
    monkeypatch.setattr(prepare, "TRACING_S", 50e-6)

    def function(x: Any, y: Any) -> Any:
        return x * np.exp(y) - x.sum()

    large = np.tile(X, (400, 1))
    fused = fuse(function)
    np.testing.assert_array_equal(fused(X[0], y[:8]), function(X[0], y[:8]))
    assert fused.kernels == 0
    assert "NumPy is done sooner" in fused.explain()
    fused(large, y[:8])
    assert fused.kernels > 0
    planned = fuse(heuristic="all")(function)
    planned(X[0], y[:8])
    assert planned.kernels > 0


def test_small_sparse_arrays_are_left_to_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "TRACING_S", 30e-6)
    seen = []

    @fuse
    def function(s: Any, x: Any) -> Any:
        seen.append(type(s))
        return s.T @ (x * (s @ x))

    small = sp.random_array((50, 50), density=0.1, format="csr", rng=np.random.default_rng(0))
    x = np.linspace(-1, 1, 50)
    # Another format is another kind of call, and so are many more entries; SciPy answers for lil.
    for kind in (small, small, small * 2, small.tocsc(), small.tocsc(), small.tolil()):
        np.testing.assert_allclose(function(kind, x), kind.T @ (x * (kind @ x)), rtol=1e-9)
    assert [issubclass(kind, sp.sparray) for kind in seen] == [
        False,
        True,
        True,
        False,
        True,
        False,
    ]

    @fuse
    def product(s: Any, u: Any, v: Any) -> Any:
        seen.append(type(s))
        return s.multiply(np.log(u @ v.T + 1e-15)).sum()

    seen.clear()
    large = sp.random_array((1000, 1000), density=0.02, format="csr", rng=np.random.default_rng(0))
    for _ in range(3):
        product(large, np.ones((1000, 20)), np.ones((1000, 20)))
    assert not any(issubclass(kind, sp.sparray) for kind in seen)
    assert product.kernels > 0


def test_what_needs_no_tracing_is_called_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "TRACING_S", 50e-6)
    seen = []

    @fuse
    def function(x: Any, power: int = 2, *, scale: Any = None) -> Any:
        seen.append(type(x))
        return x**power if scale is None else x**power * scale

    for _ in range(3):
        np.testing.assert_array_equal(function(X, 3), X**3)
    assert [kind is np.ndarray for kind in seen] == [False, True, True]
    assert "NumPy is done sooner" in function.explain()
    seen.clear()
    # Each is another kind of call: of numbers only the type counts, of switches the value.
    for arguments in ((X[:5], 3), (X, 2), (X.astype(np.float32), 3)):
        np.testing.assert_array_equal(function(*arguments), arguments[0] ** arguments[1])
    function(X, 3, scale=0.5)
    function(X, 3, scale=0.25)
    assert [kind is np.ndarray for kind in seen] == [False, False, False, False, True]
    seen.clear()
    large = np.tile(X, (400, 1))
    for _ in range(2):
        np.testing.assert_allclose(function(large, 3), large**3)
    function(X, 3, scale=[1.0] * 8)  # a list may hold anything
    assert [kind is np.ndarray for kind in seen] == [False, False, False]
