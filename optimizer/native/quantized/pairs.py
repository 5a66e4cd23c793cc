"""Kernels of sums and products of two tensors of 8-bit integers, element by element.

The runtime has QLinearAdd and QLinearMul for them, which round once. Where one operand stays along
a row, as the weights of channels do, these may add up in another order; so the runtime is asked for
the results of all pairs of integers, in the pattern that a model has, and where no formula gives
them, they stay with it. Images have their channels last where convolutions beside them have.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from ...codegen.expressions import LoweringError
from ...graph.graph import Graph
from ..grow import RegionKernel
from ..loops.affine import Affine, Extent, Map, axis_by_axis, loop
from ..loops.cells import Access
from ..loops.kernel_region import Meanings, Region, read_by
from ..loops.loops import Groups, inner_step, merged
from ..loops.lower import MOST_AXES, MOST_LOOPS, Kernel, label, named, shapes_of
from .formulas import formula_of
from .groups import INTEGERS, QUANTIZE, Numbers, dequantized, quantized, sign_flip, sole_user
from .kernel import constant_of, laid
from .packing import Given
from .whole import refuse_real
from .window import LAST, turned

# Elements of a unit, as quantized_pairs.h has them, and such that are worth a task.
BLOCK, GRAIN = 8192, 1 << 15


@dataclass(frozen=True)
class Pair:
    """A sum or product: its nodes, the one that computes, its operands, the integers it gives."""

    nodes: tuple[int, ...]
    number: int
    operator: str
    a: Numbers
    b: Numbers
    y: Numbers


def quantized_pairs(meanings: Meanings, allowed: Collection[int]) -> list[RegionKernel]:
    """Find sums and products of two tensors of integers, no two with a common node."""
    kernels: list[RegionKernel] = []
    free = set(allowed)
    for number in meanings.order:
        try:
            match = _match(meanings.graph, number) if number in free else None
            if match is None or not free.issuperset(match.nodes):
                continue
            kernels.append(_lowered(meanings, match))
        except LoweringError:
            continue
        free -= set(match.nodes)
    return kernels


def _match(graph: Graph, number: int) -> Pair | None:
    node = graph.nodes[number]
    if node.operator not in ("Add", "Mul"):
        return None
    (first, a), (second, b) = (dequantized(graph, value) for value in node.inputs)
    closing = sole_user(graph, node.outputs[0])
    if graph.nodes[closing].operator != QUANTIZE:
        return None
    nodes = (first, second, number, closing)
    return Pair(nodes, number, node.op_type, a, b, quantized(graph, closing))


def _lowered(meanings: Meanings, match: Pair) -> RegionKernel:
    graph = meanings.graph
    a, b, y = match.a, match.b, match.y
    refuse_real(meanings, match.number)
    dtypes = {graph.dtype(operand.value) or "" for operand in (a, b, y)}
    if (
        len(dtypes) != 1
        or not dtypes <= INTEGERS
        or {operand.scale.size for operand in (a, b, y)} != {1}
    ):
        raise LoweringError("several types, or scales")
    if a.value in graph.constants and b.value in graph.constants:
        raise LoweringError("known integers")
    (dtype,) = dtypes
    shape = meanings.shape(y.value)
    if 0 in shape or len(shape) > min(MOST_AXES, MOST_LOOPS):
        raise LoweringError("nothing to compute, or too many axes")
    read_shapes = [meanings.shape(operand.value) for operand in (a, b)]
    flip = sign_flip(dtype)
    told_of = ((float(operand.scale[0]), int(operand.zero[0]) + flip) for operand in (a, b, y))
    formula = formula_of(match.operator, *told_of, _pattern(*read_shapes))
    if formula is None:
        raise LoweringError("the runtime at hand computes something else")
    values = [operand.value for operand in ((b, a) if formula.is_swapped else (a, b))]
    is_image = any((value, LAST) in meanings.packed for value in (*values, y.value))
    order = tuple(range(len(shape)))
    as_read: dict[int, int] = {}
    if is_image and len(shape) in (3, 4):
        order = (0, *range(2, len(shape)), 1)
        for value in (*values, y.value):
            is_whole = meanings.shape(value) == shape and value not in graph.constants
            if is_whole or (value, LAST) in meanings.packed:
                as_read[value] = turned(meanings, value)
    places = [_place(meanings, value, value in as_read, shape, order) for value in values]
    result = as_read.get(y.value, y.value)
    read = [as_read.get(value, value) for value in values]
    inputs = tuple(dict.fromkeys(read))
    extents: tuple[Extent, ...] = tuple(shape[axis] for axis in order)
    natural = axis_by_axis(len(extents))
    sizes = [meanings.shape(value) for value in read]
    known = list(zip([*places, natural], [*sizes, extents], strict=True))
    groups = merged(extents, (), known) if extents else Groups((0,))
    inner = groups.loops(groups.count - 1)
    steps = [inner_step(place, size, inner) for place, size in known[:2]]
    if set(steps) - {0, 1} or not extents:
        raise LoweringError("elements that don't lie side by side")
    told_numbers = (formula.first, formula.second, formula.fixed, int(y.zero[0]) + flip)
    numbers = Given(np.array(told_numbers, np.float32).tobytes(), "float32")
    source = constant_of(graph, match.nodes)
    given = laid(meanings, source, numbers, "pairs", "float32")
    shapes = shapes_of(
        meanings,
        (*inputs, given),
        extents,
        ((meanings.shape(result), natural),),
        accesses=[Access(value, place, dtype) for value, place in zip(read, places, strict=True)],
        groups=groups,
        made=(dtype,),
    )
    operands = [inputs.index(value) for value in read]
    told = f"{int(match.operator == 'Add')}, {flip}, {steps[0]}, {steps[1]}"
    text = [
        "static void NAME(i64 *given) {",
        "  const task *own = (const task *)given;",
        "  const call *c = own->whole;",
        f"  const float *t = (const float *)c->in[{len(inputs)}];",
        "  const pairs g = {t[0], t[1], t[2], t[3]};",
        f"  pairs_task(own, {told}, &g, (const uint8_t *)c->in[{operands[0]}], "
        f"(const uint8_t *)c->in[{operands[1]}], (uint8_t *)c->out[0]);",
        "}",
    ]
    kernel = Kernel(
        "",
        label(["Quantized", match.operator]),
        "\n".join(text),
        shapes,
        (*inputs, given),
        (result,),
        block=BLOCK,
        grain=GRAIN,
        support="quantized_pairs.h",
        flushes=False,
        is_exact=True,
        packed=((given, source, numbers),),
        turned=tuple(as_read.items()),
    )
    region = Region(match.nodes, read_by(graph, match.nodes), (y.value,), shape, sort="integers")
    return RegionKernel(region, named(kernel))


def _place(
    meanings: Meanings,
    value: int,
    is_turned: bool,
    shape: tuple[Extent, ...],
    order: tuple[int, ...],
) -> Map:
    """Return where an operand is read by the loops, which are the result's axes in an order."""
    operand_shape = meanings.shape(value)
    behind = len(shape) - len(operand_shape)
    if any(size not in (1, shape[behind + axis]) for axis, size in enumerate(operand_shape)):
        raise LoweringError("operands that don't fit")
    places = [
        Affine() if size == 1 else loop(order.index(behind + axis))
        for axis, size in enumerate(operand_shape)
    ]
    return tuple(places[axis] for axis in order) if is_turned else tuple(places)


def _pattern(a: tuple[Extent, ...], b: tuple[Extent, ...]) -> str:
    """Tell which of two operands stays along a row of the result: "first", "second" or ""."""
    rank = max(len(a), len(b))
    pairs = zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True)
    last = next(
        ((first, other) for first, other in reversed(list(pairs)) if (first, other) != (1, 1)),
        (2, 2),
    )
    return "first" if last[0] == 1 else "second" if last[1] == 1 else ""
