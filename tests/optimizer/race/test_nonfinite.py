"""NaN and infinities come out as the original gives them, unless finite_math is allowed."""

import numpy as np
import pytest
from onnx import numpy_helper, parser
from tensolog.optimizer.race.verify import Verifier, failures
from tensolog.optimizer.setting import CLASSES, FINITE_MATH
from tensolog.profiles.sessions.feeds import NONFINITE, random_feeds

import tensolog
from tests.optimizer.builders import run

RNG = np.random.default_rng(0)


def model(text, **weights):
    proto = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    proto.graph.initializer.extend(numpy_helper.from_array(w, name) for name, w in weights.items())
    return proto


def square():
    return RNG.standard_normal((32, 32)).astype(np.float32)


def maximum():
    """Where(x > 0, x, 0) is 0 of NaN, as Max and Relu are not."""
    return model(
        "g (float[64, 32] x) => (float[64, 32] y) {"
        "c = Greater(x, z) a = Where(c, x, z) b = Identity(a) y = Neg(b) }",
        z=np.zeros((), np.float32),
    )


def products():
    """Of an infinity, (X A) B is NaN where X (A B) is infinite."""
    text = "g (float[64, 32] x) => (float[64, 32] y) { a = MatMul(x, w) y = MatMul(a, v) }"
    return model(text, w=square(), v=square())


def rules_of(result, accepted=True):
    return {step.rule for step in result.plan if step.accepted is accepted}


def optimized(source, *allow):
    return tensolog.optimize(
        source, target="onnxruntime-cpu", threads=1, budget=0.3, allow=allow, catalog=":memory:"
    )


def test_a_rule_that_loses_nan_is_left_out_and_said():
    result = optimized(maximum(), *CLASSES)
    refused = [step for step in result.plan if step.rule == "FuseMax"]
    assert refused and not any(step.accepted for step in refused)
    assert FINITE_MATH in refused[0].reason and "FuseMax had a place" in result.verdict
    assert "FuseMax" in rules_of(optimized(maximum(), *CLASSES, FINITE_MATH))


def test_a_plan_that_loses_infinities_is_refused():
    original = products()
    weights = [numpy_helper.to_array(initializer) for initializer in original.graph.initializer]
    merged = model(
        "g (float[64, 32] x) => (float[64, 32] y) { y = MatMul(x, w) }", w=np.matmul(*weights)
    )
    feeds = {
        name: random_feeds({"x": ("float32", (64, 32))}, name, 1) for name in ("normal", *NONFINITE)
    }
    verifier = Verifier(original.SerializeToString(), feeds, threads=1)
    deviations = verifier.deviations("merged", merged.SerializeToString())
    verifier.close()
    assert [deviation.distribution for deviation in deviations if not deviation.within] == [
        "infinite"
    ]
    (failure,) = failures(deviations)
    assert "NaN or infinite where the original is not" in failure and FINITE_MATH in failure


@pytest.mark.parametrize("source", [maximum, products])
@pytest.mark.parametrize("distribution", NONFINITE)
def test_results_give_what_the_original_does(source, distribution):
    original = source()
    feeds = random_feeds({"x": ("float32", (64, 32))}, distribution, 7)
    before, after = (run(proto, feeds) for proto in (original, optimized(original, *CLASSES).model))
    for first, other in zip(before, after, strict=True):
        np.testing.assert_allclose(first, other, rtol=1e-4, atol=1e-4)
