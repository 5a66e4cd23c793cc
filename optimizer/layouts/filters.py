"""Weights as blocked kernels read them, computed when a plan is written out.

In an e-graph such weights are an operator over the model's own, known before the model runs; only
those of the plan that is taken out are computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .layout import Layout

Array = np.ndarray[Any, Any]
# The domain of the operators; none is left in a plan.
FILTERS = "tensolog.storage"
# Filters over blocks of outputs and inputs, over blocks of outputs alone, those of a transposed
# convolution as outputs side by side, and numbers per channel.
DENSE, OUTER, VECTOR = "DenseFilter", "OuterFilter", "ChannelVector"
TRANSPOSED = "TransposedFilter"


def computed(kind: str, array: Array, attributes: Mapping[str, Any]) -> Array:
    """Compute one of the operators above; attributes are those that `dense` and others take."""
    block = int(attributes["block"])
    outputs = Layout(tuple(attributes["outputs"]), block)
    if kind == DENSE:
        inputs = Layout(tuple(attributes["inputs"]), block)
        return dense(array, outputs, inputs)
    if kind == TRANSPOSED:
        c, m, h, w = array.shape
        inputs = Layout(tuple(attributes["inputs"]), block)
        return dense(array.transpose(2, 3, 1, 0).reshape(h * w * m, c, 1, 1), outputs, inputs)
    if kind == OUTER:
        return outer(array, outputs)
    assert kind == VECTOR, kind
    shape: Sequence[int] = attributes["shape"]
    numbers = np.tile(array.reshape(-1), outputs.channels // array.size)
    return placed(numbers, outputs, 0).reshape(shape)


def dense(weights: Array, outputs: Layout, inputs: Layout) -> Array:
    """Order filters [m, c, h, w] as (block of m, block of c, h, w, c of the block, m of it).

    Of a grouped convolution, c are the channels of one group, which blocks must fill.
    """
    whole = placed(placed(weights, outputs, 0), inputs, 1)
    m, c, h, w = whole.shape
    b = outputs.block
    parts = whole.reshape(m // b, b, c // b, b, h, w)
    return np.ascontiguousarray(parts.transpose(0, 2, 4, 5, 3, 1)).reshape(m, c, h, w)


def outer(weights: Array, outputs: Layout) -> Array:
    """Order filters [m, c, h, w] as (block of m, c, h, w, m of the block)."""
    whole = placed(weights, outputs, 0)
    m, c, h, w = whole.shape
    parts = whole.reshape(m // outputs.block, outputs.block, c, h, w)
    return np.ascontiguousarray(parts.transpose(0, 2, 3, 4, 1)).reshape(m, c, h, w)


def placed(array: Array, layout: Layout, axis: int) -> Array:
    """Put channels along an axis in their places; what is beside them is 0."""
    if layout.is_full:
        return array
    shape = list(array.shape)
    shape[axis] = layout.width
    whole = np.zeros(shape, array.dtype)
    whole[(slice(None),) * axis + (layout.places,)] = array
    return whole
