"""Windows that are longer than the padded data: what ONNX Runtime makes of them.

A convolution is refused. Pools of whole windows round -1/2 to 0, so that what lacks less than a
stride gives one element and what lacks more gives none; the specification describes neither.
With ceil_mode both say the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument
from tensolog.catalog.operators import ShapeError, specification

from .backend_cases import agree
from .random_nodes import Node
from .test_onnxruntime import runtime

POOLS = ("MaxPool", "AveragePool", "LpPool")


def pool(op_type: str, size: int, kernel: int, stride: int, **attributes: Any) -> Node:
    data = np.arange(1, size + 1, dtype=np.float32).reshape(1, 1, size)
    return Node(op_type, [data], {"kernel_shape": [kernel], "strides": [stride], **attributes})


def specified(node: Node) -> Any:
    spec = specification("", node.op_type, node.opset)
    assert spec is not None
    return spec.evaluate(node.inputs, node.attributes)


@pytest.mark.parametrize("op_type", POOLS)
@pytest.mark.parametrize(
    ("size", "kernel", "stride", "result_size"),
    [(2, 3, 2, 1), (2, 4, 3, 1), (2, 3, 1, 0), (2, 4, 2, 0)],
)
def test_whole_windows_without_room_are_not_described(
    op_type: str, size: int, kernel: int, stride: int, result_size: int
) -> None:
    node = pool(op_type, size, kernel, stride)
    (result,) = runtime(node)
    assert result.shape == (1, 1, result_size)
    with pytest.raises(ShapeError, match="room"):
        specified(node)


@pytest.mark.parametrize("op_type", POOLS)
@pytest.mark.parametrize(("size", "kernel", "stride"), [(2, 3, 2), (2, 4, 3), (1, 3, 3), (3, 4, 2)])
def test_windows_rounded_up_need_no_room(op_type: str, size: int, kernel: int, stride: int) -> None:
    node = pool(op_type, size, kernel, stride, ceil_mode=1)
    (wanted,), (got,) = runtime(node), specified(node)
    assert agree(got, wanted, 1e-5, 1e-5)


@pytest.mark.parametrize("auto_pad", ["NOTSET", "VALID"])
def test_convolutions_without_room_are_refused(auto_pad: str) -> None:
    operands = [np.ones((1, 1, 2), np.float32), np.ones((1, 1, 3), np.float32)]
    node = Node("Conv", operands, {"strides": [2], "auto_pad": auto_pad})
    with pytest.raises(InvalidArgument, match="Invalid input shape"):
        runtime(node)
    with pytest.raises(ShapeError, match="room"):
        specified(node)


@pytest.mark.parametrize("op_type", [*POOLS, "Conv"])
def test_padding_makes_room(op_type: str) -> None:
    node = pool(op_type, 2, 3, 2, pads=[1, 0])
    if op_type == "Conv":
        node.inputs.append(np.ones((1, 1, 3), np.float32))
    (wanted,), (got,) = runtime(node), specified(node)
    assert wanted.shape == (1, 1, 1)
    assert agree(got, wanted, 1e-5, 1e-5)
