"""What follows a convolution element by element, and can be done where its result is made.

The runtime's own convolutions end in few activations. A kernel's may end in any: a gate (SiLU,
Mish), and what is added or multiplied after it, computed by the operators' specifications.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from ....rules import ABSENT
from ...codegen.expressions import LoweringError, expression, literal
from ..loops.kernel_region import Meanings
from ..regions.region_candidates import candidates

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
    parameters: tuple[float, ...] = attributes.get("activation_params") or ()  # type: ignore[assignment]
    bounds_by_activation = {"": (-np.inf, np.inf), "Relu": (0.0, np.inf), "Clip": tuple(parameters)}
    bounds = bounds_by_activation.get(str(attributes.get("activation", "")))
    return None if end.nodes or bounds is None else (float(bounds[0]), float(bounds[1]))


def end_of(
    meanings: Meanings, number: int, allowed: Collection[int], most_reads: int = MOST_READS
) -> End:
    """Return all that follows a convolution and gives one value; nothing where that isn't so.

    What may follow at all is derived by finishing.dl.
    """
    graph, derived = meanings.graph, candidates(meanings)
    (value,) = graph.nodes[number].outputs
    following = derived.following(number)
    names: dict[int, str] = {value: "t"}
    nodes: list[int] = []
    lines: list[str] = []
    reads: list[int] = []
    best = End((), value)
    for user in sorted(following, key=derived.position.__getitem__):
        makers = {graph.producer.get(read) for read in graph.nodes[user].reads}
        if user not in allowed or not makers & following <= set(nodes):
            continue
        reads_with = list(reads)
        try:
            text = _text(meanings, user, names, reads_with)
        except LoweringError:
            continue
        if len(reads_with) > most_reads:
            continue
        reads = reads_with
        nodes.append(user)
        (result,) = graph.nodes[user].outputs
        names[result] = f"t{len(nodes)}"
        lines.append(f"const float t{len(nodes)} = {text};")
        inside = {number, *nodes}
        read_later = [v for v in names if graph.is_pinned(v) or graph.users.get(v, set()) - inside]
        if read_later == [result]:
            best = End(tuple(nodes), result, (*lines, f"t = {names[result]};"), tuple(reads))
        if len(nodes) == MOST_NODES:
            break
    return best


def _text(meanings: Meanings, number: int, names: dict[int, str], reads: list[int]) -> str:
    """Return a node's result in C, of numbers that are known, and of others.

    Tensors that are read beside these are added to `reads`.
    """
    graph, node = meanings.graph, meanings.graph.nodes[number]
    if node.operator == GATE:
        alpha = graph.attributes(number).get("alpha", GATE_ALPHA)
        operand = names[node.inputs[0]]
        factor = literal(float(np.float32(alpha)))  # type: ignore[arg-type]
        return f"{operand} * sigmoid_32({factor} * {operand})"
    expansion = meanings.of(number)
    operands: dict[str, str | float | bool] = {}
    for declared, value in zip(expansion.inputs, node.inputs, strict=False):
        if declared is None or value == ABSENT:
            continue
        scalar = meanings.scalar(value)
        if value in names:
            operands[declared.name] = names[value]
        elif scalar is not None:
            operands[declared.name] = scalar
        else:
            if value not in reads:
                reads.append(value)
            operands[declared.name] = f"more{reads.index(value)}[at]"
    return expression(expansion.outputs[0].value, "float32", operands)
