"""Ways to open a plan: found by what the runtime runs, raced, and taken only if worth it."""

from collections import Counter

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tensolog.optimizer.graph.graph import Graph
from tensolog.optimizer.race.contest import ORIGINAL, Contest, Plan
from tensolog.optimizer.race.session_options import (
    FUSIONS,
    alternatives,
    on_one_thread,
    with_execution,
)
from tensolog.optimizer.setting import Setting
from tensolog.profiles.races.race import Lap
from tensolog.profiles.sessions.execution import DEFAULTS, Execution, embedded
from tensolog.profiles.sessions.operators_run import operators_run

import tensolog

WIDTH = 32


def lap(ratio):
    return Lap(1000.0 * ratio, 1.0, ratio, ratio - 0.001, ratio + 0.001, 50)


class Simulated:
    """A contest in which each way to open a model has a given speed."""

    entry_s = 0.01

    def __init__(self, speeds, run=()):
        self.speeds, self.run = speeds, Counter(run)
        self.verified, self.raced = [], []

    def operators_run(self, plan):
        return self.run

    def time_runnable(self, plans, budget_s, *, phase, reference):
        self.raced = plans[1:]
        known = {p.name: self.speeds[p.execution] for p in plans if p.execution in self.speeds}
        return {name: lap(speed / known[reference]) for name, speed in known.items()}

    def verify(self, plan):
        self.verified.append(plan.name)


NO_SKIP = DEFAULTS.without(*FUSIONS["SkipLayerNormalization"])
NO_GELU = DEFAULTS.without(*FUSIONS["BiasGelu"])
RUN = ["SkipLayerNormalization", "BiasGelu", "MatMul"]


@pytest.mark.parametrize(
    ("speeds", "expected"),
    [
        ({DEFAULTS: 1.0, NO_SKIP: 1.0, NO_GELU: 1.0, Execution("basic"): 1.0}, []),
        ({DEFAULTS: 1.0, NO_SKIP: 0.9, NO_GELU: 1.1, Execution("basic"): 0.95}, [NO_SKIP]),
        ({DEFAULTS: 1.0, NO_SKIP: 1.1, NO_GELU: 1.1, Execution("basic"): 0.6},
         [Execution("basic")]),
        ({DEFAULTS: 1.0, NO_SKIP: 0.9, NO_GELU: 0.8, Execution("basic"): 1.2},
         [NO_GELU, NO_SKIP.without(*FUSIONS["BiasGelu"])]),
        # One that the runtime refuses has no lap.
        ({DEFAULTS: 1.0, NO_GELU: 0.8}, [NO_GELU]),
    ],
)  # fmt: skip
def test_what_is_faster_takes_part(speeds, expected):
    contest = Simulated(speeds, RUN)
    plan = Plan(ORIGINAL, Graph(onnx.ModelProto(), []))
    ways = alternatives(contest, [plan], budget_s=1.0)
    settings = [(way.execution.level, set(way.execution.left_out)) for way in ways]
    assert settings == [(execution.level, set(execution.left_out)) for execution in expected]
    assert contest.verified == [way.name for way in ways]
    assert all(way.naive is plan and way.name.startswith(ORIGINAL) for way in ways)


def test_without_time_nothing_is_tried():
    contest = Simulated({DEFAULTS: 1.0, NO_SKIP: 0.5}, RUN)
    assert alternatives(contest, [Plan(ORIGINAL, None)], budget_s=0.0) == []


@pytest.mark.parametrize(("entry_s", "tried"), [(0.01, 3), (0.22, 2), (0.3, 1), (0.4, 0)])
def test_of_large_models_few_ways_are_tried(entry_s, tried):
    contest = Simulated({DEFAULTS: 1.0, NO_SKIP: 0.9, NO_GELU: 0.9, Execution("basic"): 0.9}, RUN)
    contest.entry_s = entry_s
    plan = Plan(ORIGINAL, Graph(onnx.ModelProto(), []))
    alternatives(contest, [plan], budget_s=1.0)
    assert len(contest.raced) == tried


class Tiny(Simulated):
    """A contest of a model of which a round takes so many seconds, for so many threads."""

    def __init__(self, round_s, threads=2, sizes=None):
        super().__init__({})
        self.round_s, self.setting, self.sizes = round_s, Setting(threads=threads), sizes or {}


def test_a_tiny_model_may_have_one_thread():
    plain = Plan(ORIGINAL, None, is_verified=True, lap=lap(1.0))
    way = with_execution(plain, Execution("basic"))
    kernels = Plan("kernels", None, execution=Execution(libraries=("own.so",)), gain_ns=7.0)
    refused = Plan("refused", None, refusal="it differs")
    contest = Tiny(1e-4)
    single = on_one_thread(contest, [plain, way, kernels, refused])
    assert [plan.execution for plan in single] == [
        Execution(threads=1),
        Execution("basic", threads=1),
        Execution(libraries=("own.so",), threads=1),
    ]
    assert [plan.naive for plan in single] == [plain, plain, kernels]
    assert contest.verified == [plan.name for plan in single]
    assert len({plan.name for plan in (plain, way, kernels, *single)}) == 6
    assert single[2].gain_ns == 7.0
    assert all(plan.lap is None and not plan.is_verified for plan in single)


@pytest.mark.parametrize("contest", [Tiny(1e-2), Tiny(1e-4, threads=1), Tiny(1e-4, sizes={"n": 1})])
def test_models_that_are_or_may_become_larger_keep_their_threads(contest):
    assert on_one_thread(contest, [Plan(ORIGINAL, None)]) == []


def scalar(value):
    return np.array(value, dtype=np.float32)


def nodes_for(operator):
    """Nodes that ONNX Runtime's full level fuses into an operator, and their constants."""
    node = helper.make_node
    ones, square = np.ones(WIDTH, np.float32), np.ones((WIDTH, WIDTH), np.float32)
    gelu = [
        node("Div", ["b", "root"], ["d"]), node("Erf", ["d"], ["e"]),
        node("Add", ["e", "one"], ["f"]), node("Mul", ["b", "f"], ["g"]),
        node("Mul", ["g", "half"], ["y"]),
    ]  # fmt: skip
    conv = node("Conv", ["image", "filter"], ["c"], pads=[1, 1, 1, 1])
    filters = np.ones((WIDTH, WIDTH, 3, 3), np.float32)
    return {
        "SkipLayerNormalization": (
            [node("Add", ["x", "x2"], ["s"]),
             node("LayerNormalization", ["s", "ones", "ones"], ["y"], axis=-1)],
            {"ones": ones}),
        "BiasGelu": (
            [node("Add", ["x", "ones"], ["b"]), *gelu],
            {"ones": ones, "root": scalar(2**0.5), "one": scalar(1), "half": scalar(0.5)}),
        "Gemm": (
            [node("MatMul", ["x", "w"], ["a"]), node("Add", ["a", "ones"], ["y"])],
            {"w": square, "ones": ones}),
        "QuickGelu": (
            [node("Sigmoid", ["x"], ["s"]), node("Mul", ["x", "s"], ["y"])], {}),
        "FusedMatMul": (
            [node("Transpose", ["x2"], ["t"], perm=[0, 2, 1]), node("MatMul", ["x", "t"], ["y"])],
            {}),
        "FusedGemm": (
            [node("Gemm", ["m", "w"], ["g"]), node("Relu", ["g"], ["y"])], {"w": square}),
        "FusedConv": (
            [conv, node("Sigmoid", ["c"], ["y"])], {"filter": filters[:, :, :1, :1].copy()}),
        "ReorderInput": ([conv, node("Relu", ["c"], ["y"])], {"filter": filters}),
    }[operator]  # fmt: skip


def model_for(operator):
    nodes, constants = nodes_for(operator)
    read = {name for node in nodes for name in node.input}
    shapes = {"x": [1, 8, WIDTH], "x2": [1, 8, WIDTH], "m": [8, WIDTH], "image": [1, WIDTH, 8, 8]}
    graph = helper.make_graph(
        nodes,
        operator,
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
         for name, shape in shapes.items() if name in read],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    feeds = {
        name: np.ones(shape, dtype=np.float32) for name, shape in shapes.items() if name in read
    }
    return model.SerializeToString(), feeds


@pytest.mark.parametrize(
    "operator",
    ["BiasGelu", "FusedConv", "FusedGemm", "FusedMatMul", "Gemm", "QuickGelu", "ReorderInput",
     "SkipLayerNormalization"],
)  # fmt: skip
def test_transformers_left_out_leave_no_such_operator(operator):
    model, feeds = model_for(operator)
    # In the blocked layout a convolution takes its activation in without another name.
    before = DEFAULTS if operator == "ReorderInput" else DEFAULTS.without("NchwcTransformer")
    if operator not in operators_run(model, feeds, threads=1, execution=before):
        pytest.skip("this release or processor fuses nothing here")
    without = before.without(*FUSIONS[operator])
    assert operator not in operators_run(model, feeds, threads=1, execution=without)


def test_a_result_says_how_to_open_it(tmp_path, monkeypatch):
    """The race is decided by us: what wins is written, recorded and told."""
    path, out = tmp_path / "model.onnx", tmp_path / "fast.onnx"
    path.write_bytes(model_for("SkipLayerNormalization")[0])

    def time(self, plans, budget_s, *, phase, reference=ORIGINAL, **options):
        speed = {p.name: 0.5 if p.execution == NO_SKIP else 1.0 for p in plans}
        return {name: lap(value / speed[reference]) for name, value in speed.items()}

    monkeypatch.setattr(Contest, "time", time)
    monkeypatch.setattr(Contest, "entry_s", 1e-6)  # however slow the machine is
    result = tensolog.optimize(path, threads=1, budget=5, rules=(), catalog=":memory:")
    assert result.execution == NO_SKIP
    result.save(out)
    assert embedded(out) == NO_SKIP
    assert [node.op_type for node in onnx.load(out).graph.node] == ["Add", "LayerNormalization"]
    assert result.to_json()["execution"] == NO_SKIP.to_json()
    assert "tensolog.open_session" in result.verdict and "SkipLayerNormFusion" in result.verdict
    tensolog.open_session(out)

    # Standard operators alone are promised for any runtime: how this one opens them is no plan.
    kept = tensolog.optimize(
        path, target="onnx", threads=1, budget=0.2, rules=(), catalog=":memory:"
    )
    assert kept.execution.is_default and kept.chosen == ORIGINAL
