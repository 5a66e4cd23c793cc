"""Which form of a convolution goes into a plan, what is said of others, and what if it rounds."""

import dataclasses

import numpy as np
import pytest
from onnx import helper
from tensolog.optimizer import setting
from tensolog.optimizer.codegen.unit import native_level
from tensolog.optimizer.native import kernel_plans as candidates
from tensolog.optimizer.native import kernel_selection as plan_kernels
from tensolog.optimizer.native import region_kind_race as kind_race
from tensolog.optimizer.native.kernel_trial import KERNEL, OPERATORS
from tensolog.optimizer.native.library import DOMAIN
from tensolog.optimizer.native.region_kinds import CONVERT
from tensolog.optimizer.race.contest import Contest
from tensolog.optimizer.setting import KERNELS_TARGET
from tensolog.profiles.races.race import Lap

import tensolog
from tests.optimizer.layouts.networks import has_blocks

from .build import kernels_of, model, needs_compiler, opened

pytestmark = [
    needs_compiler,
    pytest.mark.skipif(not has_blocks(), reason="the runtime has no blocked kernels"),
]
SMALL, LARGE = "minimal filtering 2x2 of 3x3", "minimal filtering 4x4 of 3x3"
node = helper.make_node


def network():
    """Two convolutions of one shape and one of another, with what follows them, and a mean."""
    rng = np.random.default_rng(0)
    weights = {"v": (32, 16, 3, 3), "w": (32, 32, 3, 3), "u": (32, 32, 3, 3)}
    arrays = {n: (rng.standard_normal(s) / 17).astype(np.float32) for n, s in weights.items()}
    padded = {"pads": [1, 1, 1, 1]}
    nodes = [
        node("Conv", ["x", "v"], ["a"], name="first", **padded),
        node("Relu", ["a"], ["b"], name="relu"),
        node("Conv", ["b", "w"], ["c"], name="second", **padded),
        node("Mish", ["c"], ["d"], name="mish"),
        node("Conv", ["d", "u"], ["e"], name="third", **padded),
        node("GlobalAveragePool", ["e"], ["f"], name="mean"),
        node("Mish", ["f"], ["y"], name="last"),
    ]
    shapes = {"x": [1, 16, 12, 12]}, {"y": [1, 32, 1, 1]}
    return model(nodes, *shapes, arrays)


def lap(ratio):
    return Lap(1000.0 * ratio, 1.0, ratio, ratio - 0.001, ratio + 0.001, 5)


def stage(monkeypatch, time, ratios, otherwise):
    """Let `time` race plans; alone, forms take what `ratios` say, and `otherwise` the rest."""

    def measured(graph, region, kernels, *_, **__):
        laps = {kernel.name: lap(ratios.get(kernel.form, otherwise)) for kernel in kernels}
        return {
            name: {OPERATORS: lap(1.0), KERNEL: kernel_lap} for name, kernel_lap in laps.items()
        }

    monkeypatch.setattr(Contest, "time", time)
    monkeypatch.setattr(Contest, "affordable", lambda self, budget_s, rounds: 100)
    monkeypatch.setattr(Contest, "seats", 100)  # whatever memory this process holds
    monkeypatch.setattr(kind_race, "measured_forms", measured)
    monkeypatch.setattr(candidates, "PLAIN", native_level())  # compiled for this processor alone
    monkeypatch.setattr(setting, "GRACE_S", 600.0)  # however busy the machine is


@pytest.fixture
def raced(monkeypatch):
    """Races in which a form takes what this says, and a plan less the more kernels it has."""
    ratios = {SMALL: 0.6, LARGE: 0.4}

    def time(self, plans, budget_s, **options):
        def ratio(plan):
            used = sum(n.domain.startswith(DOMAIN) for n in plan.graph.nodes.values())
            return 1.0 - 0.1 * used

        first, *others = ((ratio(plan), plan.name) for plan in plans)
        return {name: lap(taken) for taken, name in (first, *sorted(others))}

    # what follows a convolution alone gains less than what includes it
    stage(monkeypatch, time, ratios, otherwise=0.7)
    return ratios


def optimized():
    return tensolog.optimize(
        network(), target=KERNELS_TARGET, threads=1, budget=0.1, catalog=":memory:", rules=()
    )


def converted(result, accepted=True):
    """The forms in a plan, by the node that they are of; or those that are not in it."""
    steps = [step for step in result.plan if step.rule == CONVERT and step.accepted == accepted]
    return {step.nodes[0]: step.reason.partition(",")[0].partition(": ")[0] for step in steps}


def test_the_fastest_form_of_each_convolution_goes_into_the_plan(raced, tmp_path):
    result = optimized()
    assert result.chosen == "kernels in blocks"
    assert converted(result) == {"first": LARGE, "second": LARGE, "third": LARGE}
    assert converted(result, accepted=False) == dict.fromkeys(("first", "second", "third"), SMALL)
    conversion = next(
        step for step in result.plan if step.rule == CONVERT and step.nodes[0] == "first"
    )
    assert conversion.nodes == ("first", "relu")
    assert (conversion.cost_before_ns, conversion.cost_after_ns) == (1000.0, 400.0)
    left = next(step for step in result.plan if step.rule == CONVERT and not step.accepted)
    assert left.reason == (f"{SMALL}: 1.0 µs -> 0.6 µs, less gain than {LARGE}: 1.0 µs -> 0.4 µs")
    assert f"{LARGE}, 1.0 µs -> 0.4 µs" in result.explain()
    assert f"less gain than {LARGE}" in result.explain(node="second")
    result.save(tmp_path / "fast.onnx")
    image = np.random.default_rng(1).standard_normal((1, 16, 12, 12)).astype(np.float32)
    (computed,) = tensolog.open_session(tmp_path / "fast.onnx").run(None, {"x": image})
    (wanted,) = opened(network()).run(None, {"x": image})
    np.testing.assert_allclose(computed, wanted, rtol=1e-4, atol=1e-5)


def test_a_form_that_is_no_faster_stays_out_and_says_so(raced):
    raced[LARGE] = 1.1
    result = optimized()
    assert set(converted(result).values()) == {SMALL}
    reasons = {step.reason for step in result.plan if step.rule == CONVERT and not step.accepted}
    assert reasons == {f"{LARGE}: no faster alone: 1.0 µs -> 1.1 µs"}


@pytest.mark.parametrize(("large", "others"), [(0.4, False), (0.9, True)])
def test_other_plans_get_kernels_where_convolutions_gain_least(raced, large, others):
    raced[LARGE], raced[SMALL] = large, 1.0
    names = {candidate.candidate for candidate in optimized().candidates}
    assert {"kernels in blocks", "convolutions in blocks"} <= names
    assert ("kernels" in names) == others


def test_without_a_form_that_gains_the_plan_in_blocks_has_other_kernels(raced):
    raced[LARGE] = raced[SMALL] = 1.0
    result = optimized()
    raced_ = {candidate.candidate for candidate in result.candidates}
    assert "kernels in blocks" in raced_ and "convolutions in blocks" not in raced_
    names = {name.partition("_")[0] for name in kernels_of(result.model)}
    assert "Mish" in names and not any(name.startswith("Conv") for name in names)
    assert not converted(result)


@dataclasses.dataclass(frozen=True)
class Wrong:
    """Filters laid out for a form, off by a tenth."""

    laying: object

    def lay(self, array):
        return self.laying.lay(array) * np.float32(1.1)


def spoiled(kernel):
    assert kernel.packed
    wrong = tuple((value, source, Wrong(laying)) for value, source, laying in kernel.packed)
    return dataclasses.replace(kernel, packed=wrong)


@pytest.mark.parametrize("broken", [(LARGE,), (LARGE, SMALL)])
def test_where_a_form_rounds_too_much_the_next_one_is_tried(raced, monkeypatch, broken):
    supply = plan_kernels.supply

    def rounding(graph, kernels):
        supply(graph, [spoiled(kernel) if kernel.form in broken else kernel for kernel in kernels])

    monkeypatch.setattr(plan_kernels, "supply", rounding)
    monkeypatch.setattr(kind_race, "supply", rounding)
    result = optimized()
    refused = {
        candidate.candidate for candidate in result.candidates if "is off by" in candidate.verdict
    }
    names = ["kernels in blocks", "kernels in blocks, rounding less"]
    assert set(names[: len(broken)]) <= refused
    assert result.chosen not in refused
    if broken == (LARGE,):
        assert set(converted(result).values()) == {SMALL}
        left = converted(result, accepted=False)
        assert set(left.values()) == {LARGE}
        reasons = {
            step.reason for step in result.plan if step.rule == CONVERT and not step.accepted
        }
        assert all(
            reason.endswith(f"in favour of {SMALL}, which rounds less") for reason in reasons
        )
    else:
        assert not converted(result)
