"""A model that is forgotten leaves the catalog as if it had never been there."""

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import numpy_helper
from tensolog.catalog import Catalog, CatalogError
from tensolog.catalog.onnx.reader import read_model, store_model
from tensolog.catalog.onnx.writer import build_model, skeleton_model
from tensolog.catalog.store.constants import load_constant
from tensolog.catalog.store.deletion import forget_model

from tests.campaigns import examples
from tests.catalog.onnx.test_lossless import models, same

PLANNED = {
    "plan_step": "$1, 0, 'Rule', ['a'], 1, 0, 1.0, 0.5, true, 'why'",
    "plan_candidate": "$1, 'original', 1, 1.0, 1.0, 0.1, 1.0, 0.9, 1.1, 9, 'kept'",
    "plan_deviation": "$1, 'original', 'normal', 'y', 0.0, 0.0, 0.0, 0.1, true",
    "plan_rule": "$1, 'Rule', 2, 3, 1, 0.5, 1.0, ''",
    "plan_region": "$1, 0, 'original', 'cells', 'K', 'y = Relu(x)', ['a'], 'chosen', '', 2.0, 1.0",
    "plan_region_bound": "$1, 0, 'b', 'feeds(p, n)', 'joins(p, n) :- feeds(p, n)', 'why'",
}


def contents(catalog):
    """Every row of every table but those of operators."""
    tables = catalog.sql(
        "SELECT table_name FROM duckdb_tables() "
        "WHERE NOT internal AND table_name NOT LIKE 'operator%'"
    ).fetchall()
    return {name: catalog.sql(f"FROM {name} ORDER BY ALL").fetchall() for (name,) in tables}


def add_plan(catalog, model_id, result_id=None):
    plan_id = catalog.reserve("plan_sequence", 1)
    catalog.connection.execute(
        "INSERT INTO plan VALUES ($1, $2, $3, NULL, 'onnx', 1, '{}', 'original', now()::TIMESTAMP)",
        [plan_id, model_id, result_id],
    )
    for table, row in PLANNED.items():
        catalog.connection.execute(f"INSERT INTO {table} VALUES ({row})", [plan_id])


def with_weight(model, seed, count=1 << 15):
    """A copy with an initializer of 128 KiB, which lies beside the catalog."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    array = np.random.default_rng(seed).standard_normal(count, np.float32)
    copy.graph.initializer.append(numpy_helper.from_array(array, "w"))
    return copy


@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(stays=models(), goes=models(), first=st.booleans())
def test_what_stays_is_what_would_be_there(stays, goes, first, catalog):
    empty = contents(catalog)
    gone = read_model(catalog, goes) if first else None
    kept = read_model(catalog, stays)
    add_plan(catalog, kept)
    without = contents(catalog)
    if gone is None:
        gone = read_model(catalog, goes)
    add_plan(catalog, gone)
    forgotten = forget_model(catalog, gone)
    assert (forgotten.model_id, forgotten.plans) == (gone, 1)
    assert first or contents(catalog) == without
    assert same(build_model(catalog, kept), stays)
    forget_model(catalog, kept)
    assert contents(catalog) == empty


def test_what_was_made_from_it_stays(catalog, relu):
    first = read_model(catalog, with_weight(relu, 1))
    second = store_model(catalog, skeleton_model(catalog, first), parent_model_id=first)
    add_plan(catalog, first, second)
    forgotten = forget_model(catalog, first)
    assert (forgotten.nodes, forgotten.plans, forgotten.constants) == (1, 1, 0)
    assert build_model(catalog, second) == with_weight(relu, 1)
    parents = catalog.sql(f"SELECT parent_model_id FROM model WHERE model_id = {second}")
    assert parents.fetchall() == [(None,)]
    third = store_model(catalog, skeleton_model(catalog, second), parent_model_id=second)
    add_plan(catalog, second, third)
    assert forget_model(catalog, third).plans == 0
    plans = catalog.sql(f"SELECT model_id, result_model_id FROM plan WHERE model_id = {second}")
    assert plans.fetchall() == [(second, None)]
    assert forget_model(catalog, second).size_bytes == 4 << 15


def test_the_file_of_large_constants_goes_with_the_last_one(relu, tmp_path):
    beside = tmp_path / "c.duckdb.constants"
    with Catalog(tmp_path / "c.duckdb") as catalog:
        first, second = (read_model(catalog, with_weight(relu, seed)) for seed in (1, 2))
        forget_model(catalog, first)
        assert beside.exists() and build_model(catalog, second) == with_weight(relu, 2)
        with catalog.transaction():
            forget_model(catalog, second)
            assert beside.exists()  # the caller may still go back
        third = read_model(catalog, with_weight(relu, 2))
        loaded = load_constant(
            catalog, catalog.sql("SELECT constant_hash FROM constant").fetchall()[0][0]
        )
        forget_model(catalog, third)
        assert not beside.exists()
        assert (
            loaded.sum() == numpy_helper.to_array(with_weight(relu, 2).graph.initializer[0]).sum()
        )
        fourth = read_model(catalog, with_weight(relu, 2))
    with Catalog(tmp_path / "c.duckdb", read_only=True) as catalog:
        assert build_model(catalog, fourth) == with_weight(relu, 2)


def test_space_is_used_again(relu, tmp_path):
    path, sizes = tmp_path / "c.duckdb", []
    relu.graph.node[0].output[0] = "x0"
    for i in range(3000):
        relu.graph.node.add(op_type="Relu", input=[f"x{i}"], output=[f"x{i + 1}"])
    relu.graph.output[0].name = "x3000"
    for _ in range(5):
        with Catalog(path) as catalog:
            forget_model(catalog, read_model(catalog, relu))
        sizes.append(path.stat().st_size)
    assert sizes[-1] <= sizes[1], sizes


def test_refusals_change_nothing(relu, tmp_path, monkeypatch):
    with Catalog(tmp_path / "c.duckdb") as catalog:
        model_id = read_model(catalog, with_weight(relu, 1))
        add_plan(catalog, model_id)
        before = contents(catalog)
        with pytest.raises(CatalogError, match=f"has no model {model_id + 1}: "):
            forget_model(catalog, model_id + 1)
        monkeypatch.setattr("tensolog.catalog.store.deletion._remove_constants", interrupt)
        with pytest.raises(KeyboardInterrupt):
            forget_model(catalog, model_id)
        assert contents(catalog) == before
        assert build_model(catalog, model_id) == with_weight(relu, 1)
    with (
        Catalog(tmp_path / "c.duckdb", read_only=True) as catalog,
        pytest.raises(CatalogError, match="reading only"),
    ):
        forget_model(catalog, model_id)


def interrupt(_):
    raise KeyboardInterrupt
