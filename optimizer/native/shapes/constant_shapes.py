"""Shapes said at once: what a model computes from its sizes, written as constants where it can be.

An exporter writes out how each shape is computed. Where the sizes that a Reshape or an Expand is
told are those that its operand has already, constants say the same: [batch, tokens, 12, 64] is
[0, 0, 12, 64] of [batch, tokens, 768]. Numbers that are known become constants. So regions of
kernels aren't kept apart by shapes, and nothing computes them. Nor are they by copies: a Cast to
the type that a value has already goes, as between the softmax of an attention and its product.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ....rules import ABSENT
from ...graph.fold import FOLD_LIMIT
from ...graph.graph import Graph
from ...graph.infer import infer_types
from ...match.rewrite import Step, clean
from ..loops.affine import Extent
from .shapes import Followed
from .size_elements import Element, Elements

REASON = "sizes that operands have already"
COPIED = "copies of what is there already"


def resolve_shapes(graph: Graph) -> list[Step]:
    """Infer the types of a graph, its shapes by all that is known of sizes, and say them at once.

    Copies go. The graph changes in place. Returns what was done.
    """
    graph.types = infer_types(graph)
    copies = _drop_copies(graph)
    done = [Step("drop copies", (), copies, 0, True, COPIED)] if copies else []
    return [*done, *_resolved(graph)]


def _drop_copies(graph: Graph) -> int:
    """Remove what gives its operand as it is, but for outputs of the model; return how many."""
    dropped = 0
    for number in graph.order():
        node = graph.nodes[number]
        if node.domain or node.op_type not in ("Cast", "Identity") or node.inputs[0] == ABSENT:
            continue
        dtype, (copy,) = graph.dtype(node.inputs[0]), node.outputs
        if dtype is None or dtype != graph.dtype(copy) or graph.is_pinned(copy):
            continue
        graph.replace_uses(copy, node.inputs[0])
        graph.remove_node(number)
        dropped += 1
    return dropped


def _resolved(graph: Graph) -> list[Step]:
    if all(_is_static(type_.shape) for type_ in graph.types.values()):
        return []
    followed = Followed(graph)
    changed = 0
    for number in graph.order():
        node = graph.nodes[number]
        has_target = node.op_type in ("Reshape", "Expand") and node.domain == ""
        if has_target and node.inputs[1] not in graph.constants:
            target = _target(graph, followed, number)
            if target is not None:
                _tell(graph, number, target)
                changed += 1
            continue
        numbers = followed.elements.get(node.outputs[0]) if node.outputs else None
        if numbers is not None and all(isinstance(number, int) for number in numbers):
            changed += _fix(graph, number, numbers)
    if not changed:
        return []
    steps = clean(graph, FOLD_LIMIT)
    types = dict(graph.types)
    graph.types = infer_types(graph)
    Followed(graph)
    for value, type_ in types.items():
        graph.types.setdefault(value, type_)
    return [Step("propagate shapes", (), 0, 0, True, f"{changed} shapes: {REASON}"), *steps]


def _is_static(shape: tuple[Extent, ...] | None) -> bool:
    return shape is not None and all(isinstance(size, int) for size in shape)


def _target(graph: Graph, followed: Followed, number: int) -> list[int] | None:
    """Return the shape that a Reshape or an Expand can be told, None where it must be computed."""
    node = graph.nodes[number]
    operand_shape, wanted = followed.shape(node.inputs[0]), followed.of(node.inputs[1])
    if operand_shape is None or wanted is None:
        return None
    if node.op_type == "Expand":
        shift = len(wanted) - len(operand_shape)
        return _each_size(wanted, [1] * shift + list(operand_shape)[max(0, -shift) :], 1)
    if graph.attribute(number, "allowzero") and 0 in wanted:
        return None
    result = followed.shape(node.outputs[0]) or ()
    if len(result) != len(wanted):
        return None
    sizes = [
        size if isinstance(size, int) else result_size
        for size, result_size in zip(wanted, result, strict=True)
    ]
    target_sizes = _each_size(sizes, operand_shape, 0)
    if target_sizes is not None:
        return target_sizes
    # one of them is what remains, where nothing else does already
    open_ = [
        i
        for i, size in enumerate(sizes)
        if not isinstance(size, int) and (i >= len(operand_shape) or operand_shape[i] != size)
    ]
    if len(open_) != 1 or -1 in sizes:
        return None
    sizes[open_[0]] = -1
    target_sizes = _each_size(sizes, operand_shape, 0)
    # beside an axis of no elements, what remains is not known
    return target_sizes if target_sizes is not None and 0 not in target_sizes else None


def _each_size(
    wanted: Sequence[Element], operand_shape: Sequence[Extent], same: int
) -> list[int] | None:
    """Return numbers for sizes: `same` where the operand has that size in this place."""
    target_sizes: list[int] = []
    for i, size in enumerate(wanted):
        if isinstance(size, int) and not isinstance(size, bool):
            target_sizes.append(size)
        elif size is not None and i < len(operand_shape) and operand_shape[i] == size:
            target_sizes.append(same)
        else:
            return None
    return target_sizes


def _tell(graph: Graph, number: int, target: list[int]) -> None:
    """Let a node read its shape from a constant."""
    node = graph.nodes[number]
    shape = graph.add_constant(np.array(target, np.int64), f"{graph.names[node.inputs[1]]}.told")
    attributes = {name: value for name, value in node.attributes.items() if name != "allowzero"}
    graph.remove_node(number)
    changed = replace(node, inputs=(node.inputs[0], shape), attributes=attributes, proto=None)
    graph.put_node(number, changed)


def _fix(graph: Graph, number: int, numbers: Elements) -> bool:
    """Put known numbers in the place of a node that computes them; False where they don't fit."""
    (value,) = graph.nodes[number].outputs
    type_ = graph.types.get(value)
    if (
        type_ is None
        or type_.shape is None
        or len(numbers) != math.prod(map(_integer, type_.shape))
    ):
        return False
    graph.remove_node(number)
    array = np.array(numbers, type_.dtype).reshape(tuple(map(_integer, type_.shape)))
    graph.set_constant(value, graph.shelve(array))
    return True


def _integer(size: Extent) -> int:
    return size if isinstance(size, int) else -1
