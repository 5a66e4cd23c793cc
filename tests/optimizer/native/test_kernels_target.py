"""The target `onnxruntime-cpu+kernels`: a library beside the model, and none for other targets."""

from itertools import combinations
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from tensolog.catalog.errors import ModelError
from tensolog.optimizer import setting
from tensolog.optimizer.codegen import CompilerError
from tensolog.optimizer.codegen.unit import native_level
from tensolog.optimizer.deadline import OutOfTimeError
from tensolog.optimizer.graph.convert import load_graph
from tensolog.optimizer.native import find_region_kinds as find_kinds
from tensolog.optimizer.native import kernel_selection as plan_kernels
from tensolog.optimizer.native import library
from tensolog.optimizer.native import region_kind_race as kind_race
from tensolog.optimizer.native.fuse_graph import regions
from tensolog.optimizer.native.kernel_trial import KERNEL, OPERATORS
from tensolog.optimizer.native.library import DOMAIN
from tensolog.optimizer.native.loops.kernel_region import Meanings
from tensolog.optimizer.native.region_kinds import Kind, cover
from tensolog.optimizer.native.shapes.constant_shapes import resolve_shapes
from tensolog.optimizer.phases import Phases
from tensolog.optimizer.race.contest import Contest, Plan
from tensolog.optimizer.setting import ALLOWED, KERNELS_TARGET
from tensolog.profiles.races.race import Lap
from tensolog.profiles.sessions.deployed import MODEL, NOTE

import tensolog

from .build import kernels_of, model, needs_compiler, opened

node = helper.make_node


def network(width=16):
    """Two kinds of regions between products of matrices."""
    nodes = [
        node("MatMul", ["x", "w"], ["a"]),
        node("Mish", ["a"], ["b"]),
        node("MatMul", ["b", "w"], ["c"]),
        node("Add", ["c", "x"], ["d"]),
        node("LayerNormalization", ["d", "g"], ["y"], axis=-1),
    ]
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((width, width)), "g": rng.standard_normal(width)}
    arrays = {name: array.astype(np.float32) for name, array in weights.items()}
    return model(nodes, {"x": ["n", width]}, {"y": ["n", width]}, arrays)


def lap(ratio):
    return Lap(1000.0 * ratio, 1.0, ratio, ratio - 0.001, ratio + 0.001, 5)


def interval(ratio, low, high):
    """A lap that took so much of the reference's time, which an interval surrounds."""
    return Lap(1000.0 * ratio, 1.0, ratio, low, high, 5)


@pytest.fixture
def fast_kernels(monkeypatch):
    """Races in which kernels take half the time, but for LayerNormalization tried in the model."""

    def time(self, plans, budget_s, *, phase, **options):
        first, *others = ((ratio_of(plan, phase), plan.name) for plan in plans)
        return {name: lap(ratio) for ratio, name in (first, *sorted(others))}

    def ratio_of(plan, phase):
        names = [n.op_type for n in plan.graph.nodes.values() if n.domain.startswith(DOMAIN)]
        if not names:
            return 1.0
        return 1.2 if phase == "screening" and "LayerNormalization" in names[0] else 0.5

    monkeypatch.setattr(Contest, "time", time)
    monkeypatch.setattr(Contest, "affordable", lambda self, budget_s, rounds: 100)
    laps = {OPERATORS: lap(1.0), KERNEL: lap(0.5)}

    def measured(graph, region, kernels, *_, **__):
        return {kernel.name: laps for kernel in kernels}

    monkeypatch.setattr(kind_race, "measured_forms", measured)
    # The compiler takes as long as the machine lets it: what is cut then is tested elsewhere.
    monkeypatch.setattr(setting, "GRACE_S", 600.0)


def optimized(source=None, **options):
    return tensolog.optimize(
        source or network(), threads=1, budget=0.1, catalog=":memory:", rules=(), **options
    )


def assert_same(path, width=16):
    """Compare what a saved model computes with the network."""
    feeds = {"x": np.random.default_rng(1).standard_normal((5, width)).astype(np.float32)}
    (wanted,) = opened(network(width)).run(None, feeds)
    (result,) = tensolog.open_session(path).run(None, feeds)
    np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)


@needs_compiler
def test_regions_are_rows_with_what_became_of_them(fast_kernels):
    result = optimized()
    rows = result.catalog.sql("SELECT kernel, outcome, computes, nodes FROM plan_region").fetchall()
    outcomes = {kernel.split("_")[0]: (outcome, computes) for kernel, outcome, computes, _ in rows}
    assert outcomes["Mish"] == ("chosen", "b = Mish(a)")
    outcome, computes = outcomes["AddLayerNormalization"]
    assert outcome == "no gain in the model" and computes.startswith("d = Add(c, x); y = Layer")
    assert all(nodes for *_, nodes in rows)
    bounds = result.catalog.sql(
        "SELECT kernel, node, literal FROM plan_region_bound"
        " JOIN plan_region USING (plan_id, region)"
    ).fetchall()
    beside = {(kernel.split("_")[0], node, literal) for kernel, node, literal in bounds}
    assert ("Mish", "MatMul(a)", "expressible(n)") in beside
    assert ("Mish", "MatMul(c)", "expressible(n)") in beside


@needs_compiler
def test_what_helps_is_fused_and_the_library_lies_beside_the_model(fast_kernels, tmp_path):
    result = optimized()  # the target is kernels where nobody says another
    assert result.chosen == "kernels"
    assert result.target["chosen"] == KERNELS_TARGET and not result.target["advice"]
    path = tmp_path / "fast.onnx"
    result.save(path)
    (name,) = result.libraries
    assert {entry.name for entry in path.iterdir()} == {MODEL, NOTE, name}
    proto = onnx.load(path / MODEL)
    assert [name.split("_")[0] for name in kernels_of(proto)] == ["Mish"]
    onnx.checker.check_model(proto)
    assert_same(path)
    steps = [step for step in result.plan if step.rule == "FuseKernel"]
    fused, *left = steps
    assert fused.accepted and fused.nodes == ("Mish(b)",)
    assert {step.reason for step in left} == {"no help in the model: 1.200 of its time"}


@needs_compiler
def test_large_weights_lie_beside_a_model_that_has_a_library_there(fast_kernels, tmp_path):
    result = optimized(network(160), target=KERNELS_TARGET)
    path = tmp_path / "fast"
    written = {entry.name for entry in result.save(path)}
    assert written == {MODEL, f"{MODEL}.data", NOTE, *result.libraries}
    assert written == {entry.name for entry in path.iterdir()}
    proto = onnx.load(path / MODEL, load_external_data=False)
    (weight,) = (
        initializer
        for initializer in proto.graph.initializer
        if initializer.data_location == initializer.EXTERNAL
    )
    place = {entry.key: entry.value for entry in weight.external_data}
    assert (place["location"], int(place["offset"]) % 4096) == (f"{MODEL}.data", 0)
    assert_same(path, 160)
    assert all(
        initializer.data_location == initializer.DEFAULT
        for initializer in result.model.graph.initializer
    )


@needs_compiler
def test_weights_of_the_model_that_was_read_are_not_replaced(fast_kernels, tmp_path):
    source, data = tmp_path / "model.onnx", tmp_path / "weights.onnx"
    onnx.save(network(160), source, save_as_external_data=True, location=data.name)
    result = optimized(source, target=KERNELS_TARGET)
    assert result.chosen == "kernels"
    before = source.read_bytes(), data.read_bytes()
    for path in (source, data):
        with pytest.raises(ModelError, match="write to another name"):
            result.save(path)
    assert (source.read_bytes(), data.read_bytes()) == before
    result.save(tmp_path / "fast")
    assert_same(tmp_path / "fast", 160)


def test_a_model_with_weights_beside_it_is_replaced_in_its_form(tmp_path):
    source = tmp_path / "model.onnx"
    onnx.save(network(160), source, save_as_external_data=True, location="model.onnx.data")
    optimized(source, portable=True).save(source)
    assert {entry.name for entry in tmp_path.iterdir()} == {"model.onnx", "model.onnx.data"}
    assert_same(source, 160)


@needs_compiler
@pytest.mark.parametrize("everywhere", [True, False])
def test_a_kernel_that_the_compiler_refuses_is_left_out(everywhere, fast_kernels, monkeypatch):
    build = find_kinds.build

    def picky(kernels, *, levels, **options):
        refuses = everywhere or levels != (native_level(),)
        if refuses and any("LayerNormalization" in kernel.name for kernel in kernels):
            raise CompilerError("cc refuses generated code")
        return build(kernels, levels=levels, **options)

    monkeypatch.setattr(find_kinds, "build", picky)
    monkeypatch.setattr(plan_kernels.Fusing, "_race_in_model", lambda *_: None)
    result = optimized(target=KERNELS_TARGET)
    assert result.chosen == "kernels"
    assert [name.split("_")[0] for name in kernels_of(result.model)] == ["Mish"]
    reasons = {
        step.reason for step in result.plan if step.rule == "FuseKernel" and not step.accepted
    }
    assert "the compiler refuses it" in reasons


@pytest.mark.parametrize(
    "options",
    [{"target": "onnxruntime-cpu"}, {"portable": True}, {"target": "onnx"}, {"allow": ("exact",)}],
)
def test_without_the_target_or_rounding_there_is_no_native_code(fast_kernels, options):
    if "allow" in options:
        options = {**options, "target": KERNELS_TARGET}
    result = optimized(**options)
    assert not result.libraries
    assert not kernels_of(result.model)


def test_the_target_needs_a_compiler_and_says_which(monkeypatch):
    monkeypatch.setattr(library, "find_compiler", lambda: None)
    with pytest.raises(CompilerError, match="gcc or clang, or pip install"):
        optimized(target=KERNELS_TARGET)


@needs_compiler
def test_kernels_are_compiled_for_every_processor_once_they_have_won(fast_kernels, monkeypatch):
    build, asked = find_kinds.build, []

    def counted(kernels, *, levels):
        asked.append((len(kernels), levels))
        return build(kernels, levels=levels)

    monkeypatch.setattr(find_kinds, "build", counted)
    result = optimized(target=KERNELS_TARGET)
    *raced, (count, levels) = asked
    assert {levels for _, levels in raced} == {(native_level(),)}
    assert (count, levels) == (1, None)  # of what the winner has, and no more
    (domain,) = {node.domain for node in result.model.graph.node if node.domain.startswith(DOMAIN)}
    (library,) = result.libraries.values()
    assert domain.encode() in library
    assert [e.domain for e in result.model.opset_import if e.domain.startswith(DOMAIN)] == [domain]


@needs_compiler
def test_without_time_for_other_processors_those_kernels_go_along_that_raced(
    fast_kernels, monkeypatch, tmp_path
):
    build = find_kinds.build

    def slow(kernels, *, levels):
        if levels is None:
            raise OutOfTimeError
        return build(kernels, levels=levels)

    monkeypatch.setattr(find_kinds, "build", slow)
    result = optimized(target=KERNELS_TARGET)
    assert result.chosen == "kernels"
    sentence = "Its kernels run on processors with AVX"
    assert (sentence in result.verdict) == (native_level() != "plain")
    assert "compiling kernels for other processors (cut after 0 s)" in result.verdict
    result.save(tmp_path / "fast")
    assert_same(tmp_path / "fast")


@needs_compiler
@pytest.mark.parametrize("delivered_alone", [False, True])
def test_a_kernel_that_computes_something_else_is_refused(
    delivered_alone, fast_kernels, monkeypatch
):
    build = find_kinds.build

    def wrong(kernels, *, levels):
        if delivered_alone and levels == (native_level(),):
            return build(kernels, levels=levels)
        changed = [
            kernel.__class__(**{**vars(kernel), "text": spoiled(kernel.text)}) for kernel in kernels
        ]
        return build(changed, levels=levels)

    def spoiled(text):
        assert "q0[j] = " in text
        return text.replace("q0[j] = ", "q0[j] = 0.01f + ")

    monkeypatch.setattr(find_kinds, "build", wrong)
    result = optimized(target=KERNELS_TARGET)
    assert result.chosen == "original"
    (refused,) = (candidate for candidate in result.candidates if candidate.candidate == "kernels")
    assert "is off by" in refused.verdict


def wide_network(convolves=False):
    """A product with a large enough matrix, and a kind of region before it."""
    arrays = {"w": np.eye(64, dtype=np.float32), "k": np.ones((3, 3, 1, 1), np.float32)}
    if convolves:
        nodes = [node("Conv", ["x", "k"], ["a"]), node("Mish", ["a"], ["b"])]
    else:
        nodes = [node("Mish", ["x"], ["b"])]
    nodes += [node("ReduceMax", ["b"], ["m"], keepdims=1), node("Sub", ["b", "m"], ["c"])]
    nodes += [node("MatMul", ["c", "w"], ["y"])]
    used = {name: array for name, array in arrays.items() if name == "w" or convolves}
    return model(nodes, {"x": [1, 3, 8, 64]}, {"y": [1, 3, 8, 64]}, used, opset=18)


def optimized_wide_network(convolves=False):
    return tensolog.optimize(
        wide_network(convolves),
        target=KERNELS_TARGET,
        threads=1,
        budget=0.1,
        catalog=":memory:",
        rules=(),
        allow=ALLOWED,
    )


@needs_compiler
def test_a_plan_without_products_races_beside_the_one_with_them(fast_kernels):
    result = optimized_wide_network()
    raced = {candidate.candidate for candidate in result.candidates}
    assert {"kernels", "kernels without products"} <= raced
    assert result.chosen in raced - {"original"}


@needs_compiler
@pytest.mark.parametrize(
    ("alone", "races"),
    [
        (interval(1.08, 1.01, 1.2), True),  # another race alone might have been below 1.05
        (interval(1.08, 1.06, 1.2), False),
        (interval(1.3, 1.01, 1.5), False),
    ],
)
def test_plans_with_what_a_race_alone_leaves_open_race_beside_those_without(
    alone, races, fast_kernels, monkeypatch
):
    def measured(graph, region, kernels, *_, **__):
        return {
            kernel.name: {
                OPERATORS: lap(1.0),
                KERNEL: alone if "MatMul" in kernel.name else lap(0.5),
            }
            for kernel in kernels
        }

    monkeypatch.setattr(kind_race, "measured_forms", measured)
    # On a busy machine there may be no time for them.
    monkeypatch.setattr(plan_kernels.Fusing, "_further", lambda *_: 2)
    result = optimized_wide_network()
    raced = {candidate.candidate for candidate in result.candidates}
    assert "kernels" in raced
    assert ("kernels, undecided ones too" in raced) == races
    rows = result.catalog.sql("SELECT kernel, outcome FROM plan_region").fetchall()
    outcomes = {outcome for kernel, outcome in rows if kernel.startswith("MatMul")}
    assert bool(outcomes & {"chosen", "plan lost"}) == races


@needs_compiler
def test_kernels_that_are_no_faster_alone_are_told_where_no_plan_has_any(fast_kernels, monkeypatch):
    slow = {OPERATORS: lap(1.0), KERNEL: lap(1.4)}
    monkeypatch.setattr(
        kind_race,
        "measured_forms",
        lambda graph, region, kernels, *_, **__: {kernel.name: slow for kernel in kernels},
    )
    result = optimized(target=KERNELS_TARGET)
    assert result.chosen == "original"
    sentence = "The runtime's own operators stay where a kernel is no faster alone"
    assert sentence in result.verdict and "1.0 µs -> 1.4 µs" in result.verdict


@needs_compiler
def test_largest_elements_are_left_to_the_runtime_where_nan_counts(fast_kernels):
    options = {"target": KERNELS_TARGET, "threads": 1, "budget": 0.1, "catalog": ":memory:"}
    result = tensolog.optimize(wide_network(), rules=(), **options)
    assert result.chosen != "original"
    operators = [node.op_type for node in result.model.graph.node]
    assert "ReduceMax" in operators and not any("_ReduceMax" in operator for operator in operators)


@needs_compiler
@pytest.mark.parametrize("convolves", [False, True])
def test_where_sessions_open_slowly_only_what_adjoins_convolutions_is_tried(
    convolves, fast_kernels, monkeypatch
):
    tried = []
    screened = plan_kernels.Fusing._race_in_model

    def remember(self, kinds, budget_s):
        tried.extend(kind.name.split("_")[0] for kind in kinds)
        screened(self, kinds, budget_s)

    monkeypatch.setattr(plan_kernels.Fusing, "_race_in_model", remember)
    monkeypatch.setattr(Contest, "entry_s", 100.0)
    optimized_wide_network(convolves)
    assert tried == (["MishReduceMaxSub"] if convolves else [])


def kind_of(name, nodes, gain_ns, sorts):
    """A kind of one region that was measured."""
    candidate = SimpleNamespace(
        kernel=SimpleNamespace(name=name, skips=False, packed=(), form="", turned=()),
        region=SimpleNamespace(nodes=tuple(nodes)),
    )
    laps = {OPERATORS: lap(1.0), KERNEL: lap(1.0 - gain_ns / 1000)}
    return Kind([candidate], sorts=set(sorts), alone=laps)


def test_kinds_of_one_sort_come_before_those_that_gain_more():
    large = kind_of("large", {1, 2, 3}, 300, {0})
    parts = [kind_of("left", {1, 2}, 100, {1}), kind_of("right", {3, 4}, 150, {1})]
    separate = kind_of("apart", {5}, 100, {0})
    kinds = [separate, large, *parts]
    assert [kind.name for kind in cover(kinds)] == ["large", "apart"]
    assert [kind.name for kind in cover(kinds, 1)] == ["right", "left", "apart"]
    assert cover([], 1) == []


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sets(st.integers(0, 6), min_size=1), st.integers(-20, 300)), max_size=8)
)
def test_kinds_that_fit_together_gain_most(drawn):
    kinds = [kind_of(str(n), nodes, gain_ns, {0}) for n, (nodes, gain_ns) in enumerate(drawn)]
    chosen = cover(kinds)
    assert sum(len(kind.nodes) for kind in chosen) == len(set().union(*(k.nodes for k in chosen)))
    subsets = (s for size in range(len(kinds) + 1) for s in combinations(kinds, size))
    fitting = (
        s for s in subsets if all(a.nodes.isdisjoint(b.nodes) for a, b in combinations(s, 2))
    )
    most_ns = max(sum(kind.gain_ns for kind in subset) for subset in fitting)
    gained_ns = sum(max(0.0, kind.gain_ns) for kind in chosen)
    assert gained_ns == pytest.approx(most_ns, abs=1e-6)
    taken = set().union(*(kind.nodes for kind in chosen))
    assert all(kind in chosen or kind.nodes & taken for kind in kinds)


def mish_after(operators):
    """Mish behind some operators, as a plan that has to take 10 us for each."""
    nodes = [
        node(op_type, [f"x{i}"], [f"x{i + 1}"]) for i, op_type in enumerate([*operators, "Mish"])
    ]
    last = f"x{len(nodes)}"
    graph = load_graph(model(nodes, {"x0": [4, 64]}, {last: [4, 64]}))
    return Plan("+".join(operators), graph, predicted_ns=1e4 * (len(operators) + 1))


@needs_compiler
def test_kernels_go_into_another_plan_where_that_promises_more():
    base, shorter, longer = (mish_after(["Round"] * count) for count in (2, 1, 3))
    bare = Plan("bare", shorter.graph)
    placed = []
    candidate_files = SimpleNamespace(place_file=lambda path, name: placed.append(name))
    fusing = plan_kernels.Fusing(base, None, candidate_files, Phases(None), None)
    fusing.graph = base.graph.copy()
    resolve_shapes(fusing.graph)
    candidates = regions(Meanings(fusing.graph), fusing.graph.nodes)
    fusing.kinds = [Kind(candidates, alone={OPERATORS: lap(1.0), KERNEL: lap(0.5)})]
    fusing.library = find_kinds.compiled(fusing.kinds, (native_level(),))
    assert fusing.carried([base, shorter], 0.98) is None  # nothing has proved good
    fusing.chosen = fusing.kinds
    assert fusing.carried([base, longer, bare], 0.98) is None
    plan = fusing.carried([base, longer, shorter, bare], 0.98)
    assert plan.name == "kernels on Round"
    operators = {node.op_type.split("_")[0] for node in plan.graph.nodes.values()}
    assert operators == {"Round", "Mish"}
    assert [str(path) for path in plan.execution.libraries] == placed
