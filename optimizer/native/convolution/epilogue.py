"""What follows a convolution element by element, and can be done where its result is made.

The runtime's own convolutions end in few activations. A kernel's may end in any: a gate (SiLU,
Mish), and what is added or multiplied after it, computed by the operators' specifications.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from ....rules import ABSENT
from ...codegen.expressions import LoweringError, expression
from ..loops.kernel_region import Meanings

# Nodes of an end, and other tensors that it reads, at most.
MOST_NODES, MOST_READS = 12, 2
# x * sigmoid(alpha * x), as the runtime names it, and alpha where a node doesn't say it.
GATE, GATE_ALPHA = "com.microsoft:QuickGelu", 1.702


@dataclass(frozen=True)
class End:
    """Nodes behind a convolution, the value that they give, and how: statements that change t.

    `reads` are tensors of the result's shape, whose elements the statements call more0[at] and so
    on.
    """

    nodes: tuple[int, ...]
    output: int
    text: tuple[str, ...] = ()
    reads: tuple[int, ...] = ()


def bounds_of(attributes: dict[str, object], end: End) -> tuple[float, float] | None:
    """Return the bounds that a convolution ends in; None where it ends in something else."""
    given: tuple[float, ...] = attributes.get("activation_params") or ()  # type: ignore[assignment]
    bounds_by_activation = {"": (-np.inf, np.inf), "Relu": (0.0, np.inf), "Clip": tuple(given)}
    bounds = bounds_by_activation.get(str(attributes.get("activation", "")))
    return None if end.nodes or bounds is None else (float(bounds[0]), float(bounds[1]))


def literal(number: float) -> str:
    """Return a number of float32 as C has it."""
    if np.isinf(number):
        return "-INFINITY" if number < 0 else "INFINITY"
    return f"{number.hex()}f"


def end_of(
    meanings: Meanings, number: int, allowed: Collection[int], most_reads: int = MOST_READS
) -> End:
    """Return all that follows a convolution and gives one value; nothing where that isn't so."""
    graph = meanings.graph
    (value,) = graph.nodes[number].outputs
    names: dict[int, str] = {value: "t"}
    nodes: list[int] = []
    lines: list[str] = []
    reads: list[int] = []
    best = End((), value)
    while len(nodes) < MOST_NODES:
        inside = {number, *nodes}
        following = {user for made in names for user in graph.users.get(made, ())}
        for user in sorted(following - inside):
            added_reads = list(reads)
            text = _text(meanings, user, names, added_reads, value) if user in allowed else None
            if text is not None and len(added_reads) <= most_reads:
                break
        else:
            return best
        reads = added_reads
        nodes.append(user)
        (made,) = graph.nodes[user].outputs
        names[made] = f"t{len(nodes)}"
        lines.append(f"const float t{len(nodes)} = {text};")
        inside.add(user)
        read_elsewhere = [
            v for v in names if graph.is_pinned(v) or graph.users.get(v, set()) - inside
        ]
        if read_elsewhere == [made]:
            best = End(tuple(nodes), made, (*lines, f"t = {names[made]};"), tuple(reads))
    return best


def _text(
    meanings: Meanings, number: int, names: dict[int, str], reads: list[int], like: int
) -> str | None:
    """Return a node's result in C, None where it isn't one number of those known, and of others.

    Tensors that are read beside these are added to `reads`.
    """
    graph, node = meanings.graph, meanings.graph.nodes[number]
    if node.operator == GATE and node.inputs[0] in names:
        alpha = graph.attributes(number).get("alpha", GATE_ALPHA)
        argument = names[node.inputs[0]]
        return f"{argument} * sigmoid_32({float(np.float32(alpha)).hex()}f * {argument})"  # type: ignore[arg-type]
    if meanings.kind(number) != "elementwise" or len(node.outputs) != 1:
        return None
    if graph.dtype(node.outputs[0]) != "float32":
        return None
    try:
        shape = meanings.shape(like)
        expansion = meanings.of(number)
        if meanings.shape(node.outputs[0]) != shape or expansion.locals:
            return None
        told: dict[str, str | float | bool] = {}
        for declared, value in zip(expansion.inputs, node.inputs, strict=False):
            if declared is None or value == ABSENT:
                continue
            number_ = meanings.scalar(value)
            if value in names:
                told[declared.name] = names[value]
            elif number_ is not None:
                told[declared.name] = number_
            elif graph.dtype(value) == "float32" and meanings.shape(value) == shape:
                if value not in reads:
                    reads.append(value)
                told[declared.name] = f"more{reads.index(value)}[at]"
            else:
                return None
        return expression(expansion.outputs[0].value, "float32", told)
    except (LoweringError, KeyError):
        return None
