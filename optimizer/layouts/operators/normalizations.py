"""Normalization by known statistics in blocks: a convolution of one weight a channel.

Where it follows a convolution, rules fold it into that one's filters. Where it stands before one,
as in networks that normalize first (Huang et al., Densely connected convolutional networks, CVPR
2017), channels stay in their blocks so, and the activation that follows is in the same pass.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...egraph.egraph import EGraph
from ...graph.graph import constant_of
from ..blocking import Operation
from .convolution_epilogues import Convolution

# Of BatchNormalization, where a node does not say it.
EPSILON = 1e-5


def normalizations(egraph: EGraph, operations: Iterable[Operation]) -> dict[int, Convolution]:
    """E-node -> the convolution that it is, for those whose statistics are all known."""
    forms: dict[int, Convolution] = {}
    for operation in operations:
        if operation.name == "BatchNormalization" and len(operation.outputs) == 1:
            form = _as_convolution(egraph, operation)
            if form is not None:
                forms[operation.node] = form
    return forms


def _as_convolution(egraph: EGraph, operation: Operation) -> Convolution | None:
    norm_attributes = operation.attributes
    if norm_attributes.get("training_mode", 0) or not norm_attributes.get("spatial", 1):
        return None
    image, *rest = operation.operands
    constants = [egraph.constant(value) for value in rest]
    arrays = [constant.array() for constant in constants if constant is not None]
    if len(arrays) != 4 or any(array.dtype != np.float32 or array.ndim != 1 for array in arrays):
        return None
    scale, shift, mean, variance = (array.astype(np.float64) for array in arrays)
    epsilon = float(norm_attributes.get("epsilon", EPSILON))
    weights = scale / np.sqrt(variance + epsilon)
    channels = len(weights)
    parts = {
        "weights": weights.reshape(channels, 1, 1, 1),
        "bias": shift - mean * weights,
    }
    classes = [
        egraph.leaf(constant_of(array.astype(np.float32)), (operation.node, name))
        for name, array in parts.items()
    ]
    attributes = {"group": channels, "kernel_shape": (1, 1)}
    return Convolution((operation.node,), image, classes[0], classes[1], attributes)
