"""Kernels of products of two matrices of 8-bit integers that both change, as in attention.

    Q(MatMul(DQ(X), DQ(Y)))   =   round((sum of (X - x) (Y - y)) * scale(X) scale(Y) / scale(Z)) + z

The runtime makes QLinearMatMul of that, whose formula is that of constant weights. Transpositions
of integers before and behind it belong to the kernel, which reads and writes matrices where they
lie.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial

import numpy as np

from ....catalog.operators.derive import integer_range
from ...codegen.expressions import LoweringError
from ...graph.graph import Graph
from ..kernel import (
    Kernel,
    RegionKernel,
    disjoint_kernels,
    label,
    region_kernel,
    shapes_of,
)
from ..loops.affine import Affine, Extent, Map, loop
from ..loops.c_function import function_text, initializer, operand
from ..loops.cells import Access
from ..loops.kernel_region import Meanings
from ..regions.region_candidates import IntegerOperator, candidates
from .groups import DEQUANTIZE, Group, group_of, sign_flip
from .packing import FixedNumbers
from .quantized_products import constant_of, looked_up, rounded

# Products and sums that are worth a task.
GRAIN = 1 << 17


def matrix_products(
    meanings: Meanings, allowed: Collection[int], functions: Collection[RegionKernel] = ()
) -> list[RegionKernel]:
    """Find products of two matrices of integers, no two with a common node.

    Where one of `functions`, which are looked up, reads the result alone, it belongs to it.
    """
    by_operand = {function.kernel.inputs[0]: function for function in functions}
    operators = candidates(meanings).integer_operators("multiplies_matrices")

    def attempts(number: int, free: set[int]) -> Iterator[Callable[[], RegionKernel]]:
        if free.issuperset(operators[number].nodes):
            group = group_of(meanings.graph, operators[number])
            for function in (by_operand.get(group.y.value), None):
                yield partial(_lowered, meanings, group, function, free)

    return disjoint_kernels(operators, allowed, attempts)


def _lowered(
    meanings: Meanings, group: Group, function: RegionKernel | None, free: Collection[int]
) -> RegionKernel:
    graph = meanings.graph
    x, w = group.x, group.w
    left, right = meanings.shape(x.value), meanings.shape(w.value)
    shape = meanings.shape(group.y.value)
    rank = len(shape)
    if min(len(left), len(right)) < 2 or left[-1] != right[-2] or 0 in (*shape, left[-1]):
        raise LoweringError("no rows, or no columns")
    extents: tuple[Extent, ...] = (*shape, left[-1])
    batch = tuple(range(rank - 2))
    rows, columns, depth = rank - 2, rank - 1, rank
    x_value, x_place, x_nodes = _read(
        meanings, x.value, (*batch, rows, depth), extents, group, free
    )
    w_value, w_place, w_nodes = _read(
        meanings, w.value, (*batch, depth, columns), extents, group, free
    )
    result, nodes = group.y.value, [*group.nodes, *x_nodes, *w_nodes]
    limits = integer_range(graph.dtype(result) or "") or (0, 0)
    # rows become unsigned, columns signed
    flips = [sign_flip(graph.dtype(x.value)), 128 - sign_flip(graph.dtype(w.value))]
    source = constant_of(graph, nodes)
    packed = [meanings.laid_out(source, _numbers(group, limits, flips))]
    if function is not None:
        result = looked_up(graph, result, function)
        nodes += function.region.nodes
        packed += function.kernel.packed
    moved, place, behind = _written(meanings, result, (*batch, rows, columns), free)
    inputs = tuple(dict.fromkeys((x_value, w_value, *(constant.value for constant in packed))))
    shapes = shapes_of(
        meanings,
        inputs,
        extents,
        [(meanings.shape(moved), place)],
        accesses=[
            Access(value, read_at, graph.dtype(value) or "")
            for value, read_at in ((x_value, x_place), (w_value, w_place))
        ],
        output_types=(graph.dtype(moved) or "",),
    )
    ending = rounded(limits)
    if function is not None:
        ending["table"] = operand(inputs.index(function.kernel.inputs[1]), "uint8_t")
    first, other = (operand(inputs.index(value), "uint8_t") for value in (x_value, w_value))
    computing = [graph.nodes[n] for n in nodes if graph.nodes[n].operator != DEQUANTIZE]
    kernel = Kernel(
        label(["Both", *(node.op_type for node in computing)]),
        function_text(
            [
                f"  const float *t = {operand(inputs.index(packed[0].value))};",
                f"  const matrices g = {{{flips[0]}, (uint8_t)t[3], {flips[1]}, "
                "(int32_t)t[4], t[5]};",
                f"  ending e = {initializer(ending)};",
                f"  matrices_task(own, &g, &e, {first}, {other}, (uint8_t *)c->out[0]);",
            ]
        ),
        shapes,
        inputs,
        (moved,),
        grain=GRAIN,
        arrange="arrange_matrices",
        support="quantized.h quantized_matrices.h",
        flushes=False,
        is_exact=True,
        packed=tuple(packed),
    )
    return region_kernel(meanings, meanings.in_order({*nodes, *behind}), kernel, "integers")


def _numbers(group: Group, limits: tuple[int, int], flips: list[int]) -> FixedNumbers:
    """Return what differs between products of the same sizes, as the text reads it."""
    low, high = limits
    zero = int(group.y.zero[0])
    scale = (group.x.scale * group.w.scale) / group.y.scale
    if not np.isfinite(scale).all():
        raise LoweringError("scales beyond float32")
    of_rows, of_columns = int(group.x.zero[0]) + flips[0], int(group.w.zero[0]) - flips[1]
    numbers = (low - zero, high - zero, zero, of_rows, of_columns, scale[0])
    return FixedNumbers.of(numbers, "numbers")


def _read(
    meanings: Meanings,
    value: int,
    loops: tuple[int, ...],
    extents: tuple[Extent, ...],
    group: Group,
    free: Collection[int],
) -> tuple[int, Map, tuple[int, ...]]:
    """Return where a matrix is read by the loops, and the transpositions before it."""
    graph = meanings.graph
    shape = meanings.shape(value)
    loops = loops[len(loops) - len(shape) :]
    sizes = [extents[number] for number in loops]
    if any(size not in (1, extent) for size, extent in zip(shape, sizes, strict=True)):
        raise LoweringError("matrices that don't fit")
    place = [
        Affine() if size == 1 and extent != 1 else loop(number)
        for size, extent, number in zip(shape, sizes, loops, strict=True)
    ]
    nodes: list[int] = []
    turns = candidates(meanings).turned_integers
    readers = set(group.nodes)
    while (
        not graph.is_pinned(value)
        and graph.users.get(value, set()) <= readers
        and value in turns
        and set(turns[value].nodes) <= set(free)
    ):
        turn = turns[value]
        value = turn.operands[0].value
        readers |= set(turn.nodes)
        turned = list(place)
        for axis, old in enumerate(_order(graph, turn)):
            turned[old] = place[axis]
        place, nodes = turned, [*nodes, *turn.nodes]
    return value, tuple(place), tuple(nodes)


def _order(graph: Graph, turn: IntegerOperator) -> tuple[int, ...]:
    """Return which axis before is each of those behind a transposition."""
    order: tuple[int, ...] = graph.attribute(turn.number, "perm")  # type: ignore[assignment]
    return order


def _written(
    meanings: Meanings, value: int, loops: tuple[int, ...], free: Collection[int]
) -> tuple[int, Map, tuple[int, ...]]:
    """Return the result, which loop each of its axes is, and a transposition that it includes."""
    graph = meanings.graph
    whole = tuple(map(loop, loops))
    behind = candidates(meanings).turns_after.get(value)
    if behind is None or not set(behind.nodes) <= set(free):
        return value, whole, ()
    order = _order(graph, behind)
    if order[-1] != len(loops) - 1:
        return value, whole, ()
    return behind.result.value, tuple(whole[axis] for axis in order), behind.nodes
