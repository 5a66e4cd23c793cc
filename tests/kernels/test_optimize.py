"""The target `onnxruntime-cpu+kernels`: a library beside the model, and none for other targets."""

import numpy as np
import onnx
import pytest
from onnx import helper
from tensolog.optimizer.codegen import CompilerError
from tensolog.optimizer.contest import Contest
from tensolog.optimizer.kernels import candidates, library
from tensolog.optimizer.kernels.library import DOMAIN
from tensolog.optimizer.kernels.trial import KERNEL, OPERATORS
from tensolog.optimizer.setting import KERNELS_TARGET
from tensolog.profiles.race import Lap

import tensolog
from tests.kernels.build import kernels_of, model, needs_compiler, opened

node = helper.make_node


def network():
    """Two kinds of regions between products of matrices."""
    nodes = [
        node("MatMul", ["x", "w"], ["a"]),
        node("Mish", ["a"], ["b"]),
        node("MatMul", ["b", "w"], ["c"]),
        node("Add", ["c", "x"], ["d"]),
        node("LayerNormalization", ["d", "g"], ["y"], axis=-1),
    ]
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((16, 16)), "g": rng.standard_normal(16)}
    arrays = {name: array.astype(np.float32) for name, array in weights.items()}
    return model(nodes, {"x": ["n", 16]}, {"y": ["n", 16]}, arrays)


def lap(ratio):
    return Lap(1000.0 * ratio, 1.0, ratio, ratio - 0.001, ratio + 0.001, 5)


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
    alone = {OPERATORS: lap(1.0), KERNEL: lap(0.5)}
    monkeypatch.setattr(candidates, "measured", lambda *_, **__: alone)


def optimized(**options):
    return tensolog.optimize(
        network(), threads=1, budget=0.1, catalog=":memory:", rules=(), **options
    )


@needs_compiler
def test_what_helps_is_fused_and_the_library_lies_beside_the_model(fast_kernels, tmp_path):
    result = optimized(target=KERNELS_TARGET)
    assert result.chosen == "kernels"
    path = tmp_path / "fast.onnx"
    result.save(path)
    (name,) = result.libraries
    assert {entry.name for entry in tmp_path.iterdir()} == {"fast.onnx", name}
    proto = onnx.load(path)
    assert [one.split("_")[0] for one in kernels_of(proto)] == ["Mish"]
    onnx.checker.check_model(proto)
    feeds = {"x": np.random.default_rng(1).standard_normal((5, 16)).astype(np.float32)}
    (wanted,) = opened(network()).run(None, feeds)
    (given,) = tensolog.open_session(path).run(None, feeds)
    np.testing.assert_allclose(given, wanted, rtol=1e-5, atol=1e-5)
    steps = [step for step in result.plan if step.rule == "FuseKernel"]
    fused, *left = steps
    assert fused.accepted and fused.nodes == ("Mish(b)",)
    assert {one.reason for one in left} == {"no help in the model: 1.200 of its time"}


@needs_compiler
def test_a_kernel_that_the_compiler_refuses_is_left_out(fast_kernels, monkeypatch):
    build = candidates.build

    def picky(kernels, **options):
        if any("LayerNormalization" in one.name for one in kernels):
            raise CompilerError("cc refuses generated code")
        return build(kernels, **options)

    monkeypatch.setattr(candidates, "build", picky)
    result = optimized(target=KERNELS_TARGET)
    assert result.chosen == "kernels"
    assert [one.split("_")[0] for one in kernels_of(result.model)] == ["Mish"]


@pytest.mark.parametrize("options", [{}, {"target": "onnx"}, {"allow": ("exact",)}])
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
def test_a_kernel_that_computes_something_else_is_refused(fast_kernels, monkeypatch):
    build = candidates.build

    def wrong(kernels, **options):
        changed = [one.__class__(**{**vars(one), "text": spoiled(one.text)}) for one in kernels]
        return build(changed, **options)

    def spoiled(text):
        assert "q0[j] = " in text
        return text.replace("q0[j] = ", "q0[j] = 0.01f + ")

    monkeypatch.setattr(candidates, "build", wrong)
    result = optimized(target=KERNELS_TARGET)
    assert result.chosen == "original"
    (refused,) = (one for one in result.candidates if one.candidate == "kernels")
    assert "is off by" in refused.verdict
