"""What is put before a kernel: it changes nothing of what the kernel computes."""

import numpy as np
import onnx
import pytest
from tensolog.profiles.kernel import Kernel, TensorSpec
from tensolog.profiles.kernel_model import build_model
from tensolog.profiles.preceded import preceded
from tensolog.profiles.session import AS_WRITTEN, open_session
from tensolog.profiles.timing import SessionRunner

F, D, L, B = "float32", "float64", "int64", "bool"


def kernel(op_type, *specs, opset=17, **attributes):
    return Kernel("", op_type, opset, tuple(attributes.items()), tuple(specs))


KERNELS = [
    kernel("Mul", TensorSpec(F, (3, 5)), TensorSpec(F, (5,))),
    kernel("MatMul", TensorSpec(F, (4, 6)), TensorSpec(F, (6, 2), constant=True)),
    kernel("Gather", TensorSpec(D, (7, 3)), TensorSpec(L, (4,)), axis=0),
    kernel("Where", TensorSpec(B, (3,)), TensorSpec(F, (2, 3)), TensorSpec(F, (3,))),
    kernel("Softmax", TensorSpec(F, (2, 9)), axis=-1),
    kernel("Reshape", TensorSpec(F, (2, 6)), TensorSpec(L, (2,), constant=True, value=(3, 4))),
    kernel("Add", TensorSpec(F, ()), TensorSpec(F, (0, 3))),
]


def ran(model, feeds):
    session = open_session(model, threads=2, execution=AS_WRITTEN)
    wanted = {entry.name for entry in session.get_inputs()}
    return session.run(None, {name: array for name, array in feeds.items() if name in wanted})


@pytest.mark.parametrize("each", KERNELS, ids=lambda each: each.op_type)
@pytest.mark.parametrize("copies", [1, 3])
def test_kernels_compute_the_same(each, copies):
    model, feeds = build_model(each, copies)
    given = preceded(model, feeds, 2)
    alone, behind = ran(model, feeds), ran(given.whole, given.feeds)
    assert len(alone) == len(behind) == copies
    for one, other in zip(alone, behind, strict=True):
        np.testing.assert_array_equal(one, other)
    assert ran(given.before, given.feeds) == [0.0]


def test_what_comes_before_is_the_same_in_both():
    """So that what it takes can be taken off; the kernel itself is in one of them alone."""
    given = preceded(*build_model(KERNELS[0], 2), 2)
    before, whole = map(onnx.load_model_from_string, (given.before, given.whole))
    assert whole.graph.node[: len(before.graph.node)] == before.graph.node[:]
    assert [node.op_type for node in whole.graph.node[len(before.graph.node) :]] == ["Mul", "Mul"]
    written = {name for node in before.graph.node for name in node.output}
    assert all(name in written for node in whole.graph.node[-2:] for name in node.input)


def test_inputs_that_not_all_threads_write_are_left_as_they_are():
    assert preceded(*build_model(kernel("Not", TensorSpec(B, (4,)))), 2) is None


@pytest.mark.parametrize("each", [*KERNELS, kernel("Not", TensorSpec(B, (4,)))])
def test_kernels_are_timed_behind_it(each):
    assert SessionRunner(2, AS_WRITTEN.level).prepare(each)() > 0
