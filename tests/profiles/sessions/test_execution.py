"""How a model is opened travels in its metadata, and ONNX Runtime does what it says."""

import gc
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from tensolog.profiles.machine import cores
from tensolog.profiles.sessions.execution import (
    DEFAULTS,
    LEFT_OUT,
    LEVELS,
    METADATA_KEY,
    RUNTIME_KEY,
    Execution,
    ExecutionError,
    embed,
    embedded,
)
from tensolog.profiles.sessions.session import open_session

import tensolog

WIDTH = 16
WITHOUT_SKIP = DEFAULTS.without("SkipLayerNormFusion")


def residual():
    """A sum and its normalization, which ONNX Runtime fuses at levels above basic."""
    ones = numpy_helper.from_array(np.ones(WIDTH, dtype=np.float32), "ones")
    graph = helper.make_graph(
        [
            helper.make_node("Add", ["a", "b"], ["s"]),
            helper.make_node("LayerNormalization", ["s", "ones", "ones"], ["y"], axis=-1),
        ],
        "residual",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 8, WIDTH]) for name in "ab"],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, WIDTH])],
        [ones],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def operators(execution, folder):
    path = folder / "optimized.onnx"
    model = residual().SerializeToString()
    open_session(model, threads=1, execution=execution, optimized_path=path)
    return [node.op_type for node in onnx.load(path).graph.node]


def test_levels_and_transformers_left_out_reach_the_runtime(tmp_path):
    parts, fused = ["Add", "LayerNormalization"], ["SkipLayerNormalization"]
    assert operators(DEFAULTS, tmp_path) == fused
    assert operators(Execution("extended"), tmp_path) == fused
    assert operators(Execution("basic"), tmp_path) == parts
    assert operators(Execution("disabled"), tmp_path) == parts
    assert operators(WITHOUT_SKIP, tmp_path) == parts
    assert operators(DEFAULTS.without("GeluFusionL2"), tmp_path) == fused
    assert operators(WITHOUT_SKIP.without("GeluFusionL2"), tmp_path) == parts


words = st.text(st.characters(codec="utf-8"), max_size=20)
executions = st.builds(
    Execution,
    st.sampled_from(sorted(LEVELS)),
    st.dictionaries(words, words, max_size=3).map(lambda entries: tuple(entries.items())),
    st.lists(st.from_regex(r"[a-z]{1,8}\.so", fullmatch=True), max_size=2).map(tuple),
)


@given(executions, executions)
def test_what_is_embedded_is_read_back(first, second):
    model = residual()
    model.metadata_props.add(key="author", value="somebody")
    for execution in (first, second):
        embed(model, execution)
        assert embedded(model) == execution
        assert embedded(model.SerializeToString()) == execution
    embed(model, DEFAULTS)
    assert [entry.key for entry in model.metadata_props] == ["author"]


@given(st.binary(max_size=64))
def test_the_walk_over_a_file_ends_on_anything(data):
    assert embedded(data) == DEFAULTS


def test_a_configuration_that_the_model_had_stays(tmp_path):
    model = residual()
    configuration = json.dumps({"session_options": {"intra_op_num_threads": 3}})
    model.metadata_props.add(key=RUNTIME_KEY, value=configuration)
    embed(model, Execution("basic"))
    embed(model, DEFAULTS)
    assert [(entry.key, entry.value) for entry in model.metadata_props] == [
        (RUNTIME_KEY, configuration)
    ]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"level": 3, "options": {}, "libraries": []}'])
def test_metadata_that_can_not_be_used_is_refused_and_replaced(text):
    model = residual()
    model.metadata_props.add(key=METADATA_KEY, value=text)
    with pytest.raises(ExecutionError):
        embedded(model)
    embed(model, Execution("basic"))
    assert embedded(model) == Execution("basic")


def test_a_result_opens_as_it_was_measured(tmp_path):
    import onnxruntime

    model, path, seen = residual(), tmp_path / "model.onnx", tmp_path / "seen.onnx"
    for execution, count in ((WITHOUT_SKIP, 2), (Execution("basic"), 2), (DEFAULTS, 1)):
        embed(model, execution)
        onnx.save(model, path)
        options = onnxruntime.SessionOptions()
        options.optimized_model_filepath = str(seen)
        session = tensolog.open_session(path, options=options)
        assert len(onnx.load(seen).graph.node) == count
        assert [entry.name for entry in session.get_outputs()] == ["y"]


def test_options_of_ones_own_hold_where_a_model_asks_for_nothing(tmp_path):
    import onnxruntime

    path, seen = tmp_path / "model.onnx", tmp_path / "seen.onnx"
    onnx.save(residual(), path)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = LEVELS["basic"]
    options.optimized_model_filepath = str(seen)
    tensolog.open_session(path, options=options)
    assert len(onnx.load(seen).graph.node) == 2


@pytest.mark.parametrize(
    ("key", "asked", "set_to"),
    [
        ("session.force_spinning_stop", None, "1"),
        ("session.force_spinning_stop", "0", "0"),
        ("session.force_spinning_stop", "1", "1"),
        ("session.intra_op.spin_duration_us", None, "10"),
        ("session.intra_op.spin_duration_us", "500", "500"),
    ],
)
def test_threads_beside_other_sessions_rest_soon_unless_options_say_otherwise(
    key, asked, set_to, tmp_path
):
    path = tmp_path / "model.onnx"
    onnx.save(residual(), path)
    beside = tensolog.open_session(path, options=threaded(cores()))
    options = threaded(cores())
    if asked is not None:
        options.add_session_config_entry(key, asked)
    session = tensolog.open_session(path, options=options)
    assert session.get_session_options().get_session_config_entry(key) == set_to
    del beside


def threaded(count):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = count
    return options


def test_threads_of_a_session_alone_spin_in_a_run(tmp_path):
    """To wake them several times in a run makes a tiny one half as fast."""
    path = tmp_path / "model.onnx"
    onnx.save(residual(), path)
    gc.collect()
    session = tensolog.open_session(path, options=threaded(cores()))
    with pytest.raises(RuntimeError):
        session.get_session_options().get_session_config_entry("session.intra_op.spin_duration_us")


def test_a_model_says_how_many_threads_it_is_to_have_unless_options_do(tmp_path):
    model, path = residual(), tmp_path / "model.onnx"
    embed(model, Execution(threads=1))
    onnx.save(model, path)
    assert embedded(path) == Execution(threads=1)
    session = tensolog.open_session(path)
    assert session.get_session_options().intra_op_num_threads == 1
    session = tensolog.open_session(path, options=threaded(2))
    assert session.get_session_options().intra_op_num_threads == 2


@pytest.mark.parametrize("threads", [-1, 1.5, "2"])
def test_what_is_no_number_of_threads_is_refused(threads):
    values = {**Execution().to_json(), "threads": threads}
    with pytest.raises(ExecutionError, match="threads"):
        Execution.of_json(values)


def test_what_was_written_before_threads_could_be_told_is_read():
    values = Execution("basic").to_json()
    del values["threads"]
    assert Execution.of_json(values) == Execution("basic")


def test_libraries_outside_of_the_folder_are_refused(tmp_path):
    model, path = residual(), tmp_path / "model.onnx"
    for library in ("/elsewhere/own.so", "../own.so"):
        embed(model, Execution(libraries=(library,)))
        onnx.save(model, path)
        with pytest.raises(ExecutionError, match=r"own\.so"):
            tensolog.open_session(path)


_AS_THE_RUNTIME_READS_IT = """
import json, sys
import numpy as np
import onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
session.run(None, {name: np.zeros((1, 8, 16), dtype=np.float32) for name in "ab"})
with open(session.end_profiling()) as file:
    events = json.load(file)
print(len({event["args"]["node_index"] for event in events if event.get("cat") == "Node"}))
"""


@pytest.mark.parametrize(("level", "nodes"), [("basic", 2), ("disabled", 2), ("extended", 1)])
def test_the_runtime_reads_the_level_where_it_is_told_to(tmp_path, level, nodes):
    model, path = residual(), tmp_path / "model.onnx"
    embed(model, Execution(level))
    for entry in model.metadata_props:
        if entry.key == RUNTIME_KEY:
            value = json.loads(entry.value)
            value["session_options"]["enable_profiling"] = 1  # it then tells what it runs
            entry.value = json.dumps(value)
    onnx.save(model, path)
    done = subprocess.run(
        [sys.executable, "-c", _AS_THE_RUNTIME_READS_IT, str(path)],
        env={**os.environ, "ORT_LOAD_CONFIG_FROM_MODEL": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) == nodes


def test_words_for_people():
    assert DEFAULTS.describe() == "defaults" and DEFAULTS.is_default
    execution = Execution("basic", (("session.x", "1"),), ("own.so",)).without("GeluFusionL2")
    assert execution.describe() == "level basic, without GeluFusionL2, session.x=1, with own.so"
    assert dict(execution.options)[LEFT_OUT] == "GeluFusionL2"
    with pytest.raises(ExecutionError, match="unknown level"):
        Execution("most")


def test_libraries_beside_a_model_are_named_by_whole_paths(tmp_path, monkeypatch):
    """A bare name would be looked for among the system's own libraries."""
    registered = []

    class Options:
        graph_optimization_level = None

        def register_custom_ops_library(self, path):
            registered.append(path)

    monkeypatch.chdir(tmp_path)
    Execution(libraries=(Path("own.so"),)).apply(Options(), Path("model.onnx").parent)
    assert registered == [str(tmp_path / "own.so")]
