"""The e-graph in an optimization: what is promised of any outcome, and the tables it leaves."""

import duckdb
import numpy as np
import pytest
from tensolog.catalog import Catalog
from tensolog.optimizer.phases import FORETOLD
from tensolog.optimizer.setting import OptionError
from tensolog.profiles.learning import kernel_costs
from tensolog.rules import load_rules

import tensolog
from tests.optimizer.builders import model, run, value

RNG = np.random.default_rng(4)


def scaled_products():
    """Products in an order that costs more than it must, and a quotient."""
    return model(
        [
            ("MatMul", ["x", "a"], ["p"]),
            ("MatMul", ["p", "b"], ["q"]),
            ("Div", ["q", "eight"], ["s"]),
            ("Softmax", ["s"], ["y"]),
        ],
        [value("x", [64, 64])],
        [value("y", [64, 4])],
        {
            "a": RNG.standard_normal((64, 512)).astype(np.float32) / 8,
            "b": RNG.standard_normal((512, 4)).astype(np.float32) / 8,
            "eight": np.array(8.0, np.float32),
        },
    )


def test_outputs_stay_and_the_e_graph_is_kept(tmp_path):
    built, kept = scaled_products(), tmp_path / "search.duckdb"
    with Catalog(":memory:") as catalog:
        result = tensolog.optimize(
            built,
            catalog=catalog,
            rules=load_rules(),
            threads=1,
            budget=1.0,
            search="egraph",
            keep=kept,
        )
        x = RNG.standard_normal((64, 64)).astype(np.float32)
        assert np.allclose(run(result.model, {"x": x})[0], run(built, {"x": x})[0], atol=1e-4)
        assert result.explain()
        story_ = result.story("p")
        assert story_.operator == "MatMul" and story_.ways
        assert result.explain(node="p") == story_.text()
    with duckdb.connect(str(kept), read_only=True) as tables:
        counts = [
            tables.execute(f"SELECT count(*) FROM {name}").fetchall()[0][0]
            for name in ("e_node", "e_class", "e_match", "e_plan", "e_choice", "plan", "plan_step")
        ]
        assert all(counts)
        strays = tables.execute(
            "SELECT count(*) FROM e_choice LEFT JOIN e_node USING (node_id, class_id) "
            "WHERE operator IS NULL"
        ).fetchall()
        assert strays == [(0,)]
        raced = tables.execute("SELECT plan, ratio FROM plan WHERE ratio IS NOT NULL").fetchall()
        timed = [(c.candidate, c.ratio) for c in result.candidates if c.ratio is not None]
        assert raced == timed


def test_plans_of_single_gains_are_kept_without_an_e_graph(tmp_path):
    kept = tmp_path / "search.duckdb"
    options = {"threads": 1, "budget": 0.1, "search": "gains", "keep": kept}
    tensolog.optimize(scaled_products(), catalog=":memory:", rules=load_rules(), **options)
    with duckdb.connect(str(kept), read_only=True) as tables:
        names = {
            name for (name,) in tables.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        }
        assert names == {"plan", "plan_step"}
        assert tables.execute("SELECT plan FROM plan").fetchall()[0] == ("original",)


def test_an_unknown_search_is_refused():
    with pytest.raises(OptionError, match="egraph, gains"):
        tensolog.optimize(scaled_products(), catalog=":memory:", search="luck")


def test_what_is_predicted_is_told_and_the_race_decides(monkeypatch):
    monkeypatch.setattr(kernel_costs, "processor_class", lambda: "amd-avx512")
    built, reports = scaled_products(), []
    with Catalog(":memory:") as catalog:
        result = tensolog.optimize(
            built,
            catalog=catalog,
            target="onnxruntime-cpu",
            threads=1,
            budget=0.3,
            costs="predicted",
            progress=lambda phase, done, total, detail: reports.append((phase, detail)),
        )
        summary = result.to_json()
        measured = catalog.connection.execute(
            "SELECT kernel_hash FROM measurement WHERE configuration = 'all'"
        ).fetchall()
        x = RNG.standard_normal((64, 64)).astype(np.float32)
        assert np.allclose(run(result.model, {"x": x})[0], run(built, {"x": x})[0], atol=1e-4)
    assert any(phase == FORETOLD and "x, plan" in detail for phase, detail in reports)
    for kernel in summary["predicted"]:
        assert kernel["least_ns"] < kernel["time_ns"] < kernel["most_ns"]
    assert summary["predicted"] or len(measured) >= 4
    assert ("Predicted and not measured" in result.verdict) == bool(summary["predicted"])


def test_where_nothing_ships_all_is_measured(monkeypatch):
    monkeypatch.setattr(kernel_costs, "processor_class", lambda: "")
    with Catalog(":memory:") as catalog:
        result = tensolog.optimize(
            scaled_products(), catalog=catalog, threads=1, budget=0.0, costs="predicted"
        )
    assert result.to_json()["predicted"] == []
    with pytest.raises(OptionError, match="unknown costs 'guessed'"):
        tensolog.optimize(scaled_products(), costs="guessed")


@pytest.mark.parametrize(("costs", "tells"), [("foretold", True), ("measured", False)])
def test_a_first_gain_is_told_unless_only_measured_costs_are_wanted(costs, tells, monkeypatch):
    monkeypatch.setattr(kernel_costs, "processor_class", lambda: "amd-avx512")
    reports = []
    with Catalog(":memory:") as catalog:
        result = tensolog.optimize(
            scaled_products(),
            catalog=catalog,
            target="onnxruntime-cpu",
            threads=1,
            budget=0.3,
            costs=costs,
            progress=lambda phase, done, total, detail: reports.append((phase, detail)),
        )
    assert any(phase == FORETOLD and "x, plan" in detail for phase, detail in reports) == tells
    assert result.to_json()["predicted"] == []  # nothing was chosen by predictions
