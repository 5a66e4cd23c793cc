"""Lookups in several tables as one: the same rows, whatever the indices, or left alone."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import TensorProto
from onnx.helper import np_dtype_to_tensor_dtype, tensor_dtype_to_np_dtype
from tensolog.optimizer.graph.convert import load_graph, to_model
from tensolog.optimizer.graph.infer import infer_types
from tensolog.optimizer.rewrites import merge_lookups as lookups
from tensolog.optimizer.rewrites.merge_lookups import MERGED, PASS, merge_lookups
from tensolog.rules import load_rules, select_rules

from tests.campaigns import examples

from ..builders import INT64, model, run, value

INT32 = TensorProto.INT32
WIDTH = 5
ROW_BYTES = 4 * WIDTH


def bags(
    rows,
    *,
    width=WIDTH,
    count=3,
    batch="batch",
    reduction="ReduceSum",
    dtype=INT64,
    opset=17,
    tables=None,
    concat_axis=1,
    element=np.float32,
):
    """Dense features and bags of looked-up rows, joined; `tables[i]` is the table of lookup i."""
    rng = np.random.default_rng(7)
    which = list(range(len(rows))) if tables is None else tables
    constants = {f"t{i}": rng.normal(size=(n, width)).astype(element)
                 for i, n in enumerate(rows)}  # fmt: skip
    by_input = (reduction == "ReduceSum" and opset >= 13) or opset >= 18
    constants["axes"] = np.array([1])
    nodes, parts = [], ["dense"]
    for i, table in enumerate(which):
        nodes.append(("Gather", [f"t{table}", f"ids{i}"], [f"g{i}"]))
        if reduction:
            attributes = {"keepdims": 0} if by_input else {"keepdims": 0, "axes": [1]}
            reads = [f"g{i}", "axes"] if by_input else [f"g{i}"]
            nodes.append(node(reduction, reads, [f"b{i}"], **attributes))
        parts.append(f"b{i}" if reduction else f"g{i}")
    nodes.append(node("Concat", parts, ["y"], axis=concat_axis))
    shape = [batch, count] if reduction else [batch]
    code = np_dtype_to_tensor_dtype(np.dtype(element))
    inputs = [value("dense", [batch, width], code)]
    inputs += [value(f"ids{i}", shape, dtype) for i in range(len(which))]
    if not by_input:
        del constants["axes"]
    return model(nodes, inputs, [value("y", ["n", "m"], code)], constants, opset=opset)


def node(*arguments, **attributes):
    from onnx import helper

    return helper.make_node(*arguments, **attributes)


def merged(built, without=()):
    graph = load_graph(built)
    graph.types = infer_types(graph)
    allow = ("exact", "rounding")
    rules = select_rules(load_rules(), opset=graph.opset(), target="onnxruntime-cpu", allow=allow)
    steps = merge_lookups(graph, [rule for rule in rules if rule.name not in without])
    return to_model(graph), steps


def feeds(built, rows, batch, seed, tables=None):
    rng = np.random.default_rng(seed)
    which = list(range(len(rows))) if tables is None else tables
    arrays = {}
    for entry in built.graph.input:
        shape = [dim.dim_value or batch for dim in entry.type.tensor_type.shape.dim]
        if entry.name == "dense":
            element = tensor_dtype_to_np_dtype(entry.type.tensor_type.elem_type)
            arrays["dense"] = rng.normal(size=shape).astype(element)
        else:
            size = rows[which[int(entry.name[3:])]]
            kind = np.int32 if entry.type.tensor_type.elem_type == INT32 else np.int64
            arrays[entry.name] = rng.integers(-size, size, shape).astype(kind)
    return arrays


@settings(max_examples=examples(40), deadline=None)
@given(
    rows=st.lists(st.integers(1, 9), min_size=3, max_size=6),
    count=st.integers(1, 4),
    batch=st.integers(1, 4),
    reduction=st.sampled_from(["ReduceSum", "ReduceMean", "ReduceMax", ""]),
    dtype=st.sampled_from([INT64, INT32]),
    opset=st.sampled_from([11, 13, 17, 18]),
    element=st.sampled_from([np.float32, np.float32, np.float64, np.float16]),
    seed=st.integers(0, 99),
)
def test_the_same_rows_are_found(rows, count, batch, reduction, dtype, opset, element, seed):
    built = bags(rows, count=count, reduction=reduction, dtype=dtype, opset=opset, element=element)
    changed, steps = merged(built)
    assert len({step.rule for step in steps} & set(MERGED)) == 1
    assert sum(n.op_type == "Gather" for n in changed.graph.node) == 1
    feed_arrays = feeds(built, rows, batch, seed)
    for level in ("ORT_DISABLE_ALL", "ORT_ENABLE_ALL"):
        (ours,), (theirs,) = run(changed, feed_arrays, level), run(built, feed_arrays)
        assert ours.dtype == theirs.dtype
        close = 1e-6 if element is not np.float16 else 4e-3  # of which two are added at a time
        np.testing.assert_allclose(ours, theirs, rtol=close, atol=close)


@settings(max_examples=examples(40), deadline=None)
@given(
    rows=st.lists(st.integers(1, 9), min_size=6, max_size=12),
    repeats=st.lists(st.integers(0, 5), max_size=3),
    most_rows=st.integers(10, 40),
    reduction=st.sampled_from(["ReduceSum", ""]),
    opset=st.sampled_from([11, 17]),
    seed=st.integers(0, 99),
)
def test_tables_too_large_for_one_become_several(rows, repeats, most_rows, reduction, opset, seed):
    tables = [*range(len(rows)), *repeats]
    built = bags(rows, reduction=reduction, opset=opset, tables=tables)
    with patch.object(lookups, "MOST_TABLE_BYTES", most_rows * ROW_BYTES):
        changed, steps = merged(built)
    assume(steps)
    written = [tensor.dims for tensor in changed.graph.initializer if tensor.name.startswith(PASS)]
    written = [dims[0] for dims in written if len(dims) == 2 and dims[1] == WIDTH]
    assert max(written, default=0) <= most_rows  # none where lookups are in one table
    assert sum(n.op_type == "Gather" for n in changed.graph.node) < len(tables)
    feed_arrays = feeds(built, rows, 3, seed, tables)
    for level in ("ORT_DISABLE_ALL", "ORT_ENABLE_ALL"):
        (ours,), (theirs,) = run(changed, feed_arrays, level), run(built, feed_arrays)
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6)


def test_a_large_table_among_others_stays():
    rows = [3, 3, 3, 30, 4, 4, 4, 2]
    with patch.object(lookups, "MOST_TABLE_BYTES", 14 * ROW_BYTES):
        changed, _ = merged(bags(rows))
    tables = {n.input[0] for n in changed.graph.node if n.op_type == "Gather"}
    sizes = {tensor.name: (*tensor.dims, 0)[0] for tensor in changed.graph.initializer}
    assert sorted(sizes[table] for table in tables) == [9, 14, 30]


def test_only_so_much_is_written_anew():
    with (
        patch.object(lookups, "MOST_TABLE_BYTES", 9 * ROW_BYTES),
        patch.object(lookups, "MOST_BYTES", 17 * ROW_BYTES),
    ):
        changed, _ = merged(bags([3] * 6))
    assert sum(n.op_type == "Gather" for n in changed.graph.node) == 4


@pytest.mark.parametrize("most_rows", [15, 9])
@pytest.mark.parametrize("index", [4, -5, 2**31, -(2**31)])
def test_an_index_beyond_its_table_is_refused_as_before(index, most_rows):
    rows = [4, 5, 6] if most_rows == 15 else [4, 2, 3, 4, 2, 3]
    built = bags(rows)
    with patch.object(lookups, "MOST_TABLE_BYTES", most_rows * ROW_BYTES):
        changed, steps = merged(built)
    assert steps
    feed_arrays = feeds(built, rows, 2, 3)
    feed_arrays["ids0"][1, 1] = index
    for proto in (built, changed):
        with pytest.raises(Exception, match="indices element out of data bounds"):
            run(proto, feed_arrays)


def test_a_table_that_is_looked_up_twice_is_there_once():
    rows, tables = [4, 6], [0, 1, 0, 0]
    built = bags(rows, tables=tables)
    changed, _ = merged(built)
    feed_arrays = feeds(built, rows, 3, 5, tables)
    np.testing.assert_allclose(run(changed, feed_arrays)[0], run(built, feed_arrays)[0], rtol=1e-6)
    sizes = [tuple(tensor.dims) for tensor in changed.graph.initializer]
    assert (10, 5) in sizes and (4, 5) not in sizes


@pytest.mark.parametrize(
    "change",
    [
        {"rows": [4, 5]},  # too few
        {"concat_axis": 0},
        {"opset": 10},
        {"reduction": "ReduceL2"},
        {"count": "lookups"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_lookups_of_other_forms_are_not_changed(change):
    options = {"rows": [4, 5, 6], **change}
    _, steps = merged(bags(options.pop("rows"), **options))
    assert steps == []


def test_what_others_read_stays():
    built = bags([4, 5, 6])
    built.graph.output.append(value("g1", ["a", "b", "c"]))
    _, steps = merged(built)
    assert steps == []


def test_without_a_rule_lookups_stay():
    """A rule without a proof licenses no step: each of those that are needed, one at a time."""
    built = bags([4, 5, 6])
    _, steps = merged(built)
    feed_arrays = feeds(built, [4, 5, 6], 3, 1)
    for name in {step.rule for step in steps} & {rule.name for rule in load_rules()}:
        changed, others = merged(built, without={name})
        assert name not in {step.rule for step in others}
        np.testing.assert_allclose(
            run(changed, feed_arrays)[0], run(built, feed_arrays)[0], rtol=1e-6
        )
