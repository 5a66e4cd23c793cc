"""Convolutions in an e-graph with what a blocked kernel does beside them: a sum, an activation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...egraph.congruence import NONE
from ...egraph.egraph import EGraph
from ..blocking import Operation
from ..runtime import ACTIVATIONS

# Parameters of activations that a node does not mention.
DEFAULTS = {
    "Clip": (-3.4028235e38, 3.4028235e38),
    "HardSigmoid": (0.2, 0.5),
    "LeakyRelu": (0.01,),
}
# Done on what is in the cache, in no time. What is added is read where the result will be written;
# a kernel that is timed alone must copy it first.
FREE_ACTIVATIONS = {"", "Clip", "HardSigmoid", "HardSwish", "LeakyRelu", "Relu"}


@dataclass(frozen=True)
class Convolution:
    """A class as activation(Conv(image, weights, bias) + summand); classes by number, or NONE.

    `nodes` are the e-nodes that say so, the convolution first.
    """

    nodes: tuple[int, ...]
    image: int
    weights: int
    bias: int
    attributes: Mapping[str, object]
    summand: int = NONE
    activation: str = ""
    parameters: tuple[float, ...] = ()

    @property
    def groups(self) -> int:
        """Into how many groups channels fall."""
        group: Any = self.attributes.get("group", 1)
        return int(group)


def plain_convolution(operation: Operation) -> Convolution:
    """Read a Conv of constant weights."""
    image, weights, *rest = operation.operands
    bias = rest[0] if rest else NONE
    return Convolution((operation.node,), image, weights, bias, operation.attributes)


def activation_of(egraph: EGraph, operation: Operation) -> tuple[str, tuple[float, ...]] | None:
    """The activation that an e-node is, and its parameters; None where they aren't known."""
    name, attributes, operands = operation.name, operation.attributes, operation.operands
    bounds: list[float] = []
    pairs = zip(ACTIVATIONS[name], DEFAULTS.get(name, ()), strict=True)
    for position, (key, default) in enumerate(pairs, 1):
        if position < len(operands) and operands[position] != NONE:  # the bounds of Clip
            constant = egraph.constant(operands[position])
            if constant is None:
                return None
            bounds.append(float(constant.array().reshape(-1)[0]))
        elif name == "Clip" and key not in attributes:
            return None  # a kernel has both bounds, and an infinity would not pass
        else:
            bounds.append(float(attributes.get(key, default)))
    return name, tuple(bounds)


def is_blocked_by_runtime(weights: tuple[int, ...], groups: int, block: int) -> bool:
    """Whether ONNX Runtime's own optimizer would compute a convolution in the blocked layout."""
    m, c = weights[:2]
    if groups == 1:
        return c < block or c % 4 == 0
    if c == 1 and m == groups:
        return m % block == 0
    return c % block == 0 and (m // groups) % block == 0
