"""Convolutions of few channels, and of signals, in other forms: against what they stand for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensolog.rules import load_rules

from tests.models.agreement import run

from .derived import RNG, SETTINGS, Net, plan_of
from .pricing import shipped_rules

# --------------------------------------------------------------------------- narrow convolutions


def narrow(
    channels=3, depth=2, taps=(3, 3), size=(7, 6), *, bias=True, relu=False, opset=17, **attributes
):
    net = Net(opset, x=(1, depth, *size))
    operands = [RNG.integers(-3, 4, (channels, depth // attributes.get("group", 1), *taps))]
    operands += [RNG.integers(-3, 4, channels)] if bias else []
    result = net.op("Conv", "x", *operands, **attributes)
    return net.model(net.op("Relu", result) if relu else result)


def price_of_narrow(kernel):
    """A convolution costs as many times as it has taps what nothing else does."""
    return 100.0 * np.prod(kernel.inputs[1].shape[2:]) if kernel.op_type == "Conv" else 1.0


SPLITTING = [rule for rule in load_rules() if rule.name.startswith("SplitNarrowConv")]


def split(model, sizes=None):
    """Search a model and compare the plan with it; whether convolutions were split."""
    result = plan_of(model, price_of_narrow, sizes, rules=SPLITTING, whole=True)
    return any(node.op_type == "Sum" for node in result.graph.node)


@SETTINGS
@given(
    channels=st.integers(1, 3),
    depth=st.integers(1, 3),
    taps=st.lists(st.integers(1, 5), min_size=1, max_size=3).filter(lambda taps: max(taps) > 1),
    data=st.data(),
)
def test_narrow_convolutions_of_any_form(channels, depth, taps, data):
    rank = len(taps)
    axis = taps.index(max(taps))
    strides = [1 if i == axis else data.draw(st.integers(1, 2)) for i in range(rank)]
    dilations = [data.draw(st.integers(1, 2)) for _ in range(rank)]
    pads = [data.draw(st.integers(0, 2)) for _ in range(2 * rank)]
    size = [1 + (k - 1) * d + data.draw(st.integers(0, 3))
            for k, d in zip(taps, dilations, strict=True)]  # fmt: skip
    attributes = {"strides": strides, "dilations": dilations, "pads": pads}
    if data.draw(st.booleans()):
        attributes["kernel_shape"] = taps
    bias, relu = data.draw(st.booleans()), data.draw(st.booleans())
    assert split(narrow(channels, depth, taps, size, bias=bias, relu=relu, **attributes))


@pytest.mark.parametrize(
    "model",
    [
        narrow(strides=[2, 2]),  # most of the shifted parts would be thrown away
        narrow(depth=3, group=3),
        narrow(auto_pad="SAME_UPPER"),
        narrow(taps=(1, 1)),
        narrow(channels=16),  # fills a vector
        narrow(opset=9),
    ],
)
def test_convolutions_that_derivations_do_not_change(model):
    assert not split(model)


def test_narrow_convolutions_of_images_of_any_size():
    model = narrow(size=("h", "w"), pads=[1, 1, 1, 1])
    assert split(model, {"h": 5, "w": 9})


def test_what_is_not_finite_stays_in_reach_of_the_taps():
    model = narrow(pads=[1, 1, 1, 1])
    result = plan_of(model, price_of_narrow, rules=SPLITTING)
    assert any(node.op_type == "Sum" for node in result.graph.node)
    x = RNG.normal(size=(1, 2, 7, 6)).astype(np.float32)
    x[0, 1, 2, 3] = np.inf
    wanted, computed = (run(proto, {"x": x})[0] for proto in (model, result))
    np.testing.assert_array_equal(np.isfinite(computed), np.isfinite(wanted))
    assert not np.isfinite(wanted).all()


# --------------------------------------------------------------------------- signals as images


def price_of_signals(kernel):
    """What is computed of images costs nothing beside what is computed of signals."""
    if kernel.op_type in ("Squeeze", "Unsqueeze"):
        return 1.0
    return 100.0 if any(spec and len(spec.shape) == 3 for spec in kernel.inputs) else 1.0


SIGNALS = (
    "ConvertSignalsToImages",
    "EliminateSqueezeUnsqueeze",
    "EliminateUnsqueezeSqueeze",
    "PushBinaryThroughSqueeze",
    "PushScalarThroughSqueeze",
    "PushUnaryThroughSqueeze",
)


def as_images(model, sizes=None):
    """Search a model and compare the plan with it; its operators, and the plan."""
    rules = [rule for rule in shipped_rules() if rule.name in SIGNALS]
    result = plan_of(model, price_of_signals, sizes, rules=rules)
    return [(node.op_type, len(node.attribute)) for node in result.graph.node], result


@SETTINGS
@given(
    group=st.sampled_from([1, 2, 4]),
    taps=st.integers(1, 4),
    size=st.integers(4, 9),
    attributes=st.fixed_dictionaries(
        {},
        optional={
            "strides": st.integers(1, 2).map(lambda n: [n]),
            "dilations": st.just([1]),
            "pads": st.tuples(st.integers(0, 2), st.integers(0, 2)).map(list),
        },
    ),
    bias=st.booleans(),
)
def test_convolutions_of_signals(group, taps, size, attributes, bias):
    net = Net(17, x=(2, 4, size))
    operands = [RNG.normal(size=(8, 4 // group, taps))] + [RNG.normal(size=8)] * bias
    operators, result = as_images(
        net.model(net.op("Conv", "x", *operands, group=group, **attributes))
    )
    assert [name for name, _ in operators] == ["Unsqueeze", "Conv", "Squeeze"]
    assert [len(initializer.dims) for initializer in result.graph.initializer].count(4) == 1


def test_a_chain_of_signals_stays_an_image():
    """Nothing is taken back and forth between convolutions, activations and sums."""
    net = Net(17, x=(1, 4, 20))
    first = net.op("Conv", "x", RNG.normal(size=(4, 4, 3)), pads=[1, 1])
    gate = net.op("Mul", net.op("Tanh", first), net.op("Sigmoid", first))
    again = net.op("Conv", net.op("Mul", gate, np.float32(0.5)), RNG.normal(size=(4, 4, 1)))
    total = net.op("Relu", net.op("Add", again, first))
    operators, _ = as_images(net.model(total))
    names = [name for name, _ in operators]
    assert (names.count("Unsqueeze"), names.count("Squeeze")) == (1, 1)


def test_what_is_no_signal_between_two_ends_the_image():
    net = Net(17, x=(1, 4, 20))
    first = net.op("Conv", "x", RNG.normal(size=(4, 4, 3)))
    moved = net.op("Mul", first, RNG.normal(size=(4, 1)))  # a factor for each channel
    operators, _ = as_images(net.model(net.op("Conv", moved, RNG.normal(size=(4, 4, 1)))))
    assert [name for name, _ in operators].count("Unsqueeze") == 2


def test_signals_of_any_length():
    net = Net(17, x=(1, 4, "length"))
    operators, _ = as_images(net.model(net.op("Conv", "x", RNG.normal(size=(4, 4, 3)))),
                             {"length": 11})  # fmt: skip
    assert [name for name, _ in operators] == ["Unsqueeze", "Conv", "Squeeze"]


def test_models_of_older_operator_sets_are_not_changed():
    net = Net(11, x=(1, 4, 20))
    operators, _ = as_images(net.model(net.op("Conv", "x", RNG.normal(size=(4, 4, 3)))))
    assert [name for name, _ in operators] == ["Conv"]
