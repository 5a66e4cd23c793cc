"""Kernels of sums and products of two tensors of 8-bit integers, element by element.

The runtime has QLinearAdd and QLinearMul for them, which round once. Where one operand stays along
a row, as the weights of channels do, these may add up in another order; so the runtime is asked for
the results of all pairs of integers, in the pattern that a model has, and where no formula gives
them, they stay with it. Images have their channels last where convolutions beside them have.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from ...codegen.expressions import LoweringError
from ..kernel import Kernel, RegionKernel, region_kernel, shapes_of, whole_kernels
from ..loops.affine import Affine, Extent, Map, axis_by_axis, loop
from ..loops.c_function import function_text, operand
from ..loops.cells import Access
from ..loops.kernel_region import Meanings
from ..loops.merged_loops import Groups, inner_step, merged
from ..regions.region_candidates import IntegerOperator, candidates
from .formulas import formula_of
from .groups import numbers_of, sign_flip
from .packing import FixedNumbers
from .quantized_products import constant_of
from .window import LAST, turned

# Elements of a unit, as quantized_pairs.h has them, and such that are worth a task.
BLOCK, GRAIN = 8192, 1 << 15


def quantized_pairs(meanings: Meanings, allowed: Collection[int]) -> list[RegionKernel]:
    """Find sums and products of two tensors of integers, no two with a common node."""
    matches = candidates(meanings).integer_operators("integer_pair")
    return whole_kernels(matches, allowed, partial(_lowered, meanings))


def _lowered(meanings: Meanings, pair: IntegerOperator) -> RegionKernel:
    graph = meanings.graph
    operator = graph.nodes[pair.number].op_type
    a, b, y = (numbers_of(graph, integers) for integers in (*pair.operands, pair.result))
    dtype = graph.dtype(y.value) or ""
    shape = meanings.shape(y.value)
    if 0 in shape:
        raise LoweringError("nothing to compute")
    read_shapes = [meanings.shape(numbers.value) for numbers in (a, b)]
    flip = sign_flip(dtype)
    quantizations = ((float(of.scale[0]), int(of.zero[0]) + flip) for of in (a, b, y))
    formula = formula_of(operator, *quantizations, _pattern(*read_shapes))
    if formula is None:
        raise LoweringError("the runtime at hand computes something else")
    values = [of.value for of in ((b, a) if formula.is_swapped else (a, b))]
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
    mapped_shapes = list(zip([*places, natural], [*sizes, extents], strict=True))
    groups = merged(extents, (), mapped_shapes) if extents else Groups((0,))
    inner = groups.loops(groups.count - 1)
    steps = [inner_step(place, size, inner) for place, size in mapped_shapes[:2]]
    if set(steps) - {0, 1} or not extents:
        raise LoweringError("elements that don't lie side by side")
    zero = int(y.zero[0]) + flip
    numbers = FixedNumbers.of((formula.first, formula.second, formula.fixed, zero), "pairs")
    packed_numbers = meanings.laid_out(constant_of(graph, pair.nodes), numbers)
    shapes = shapes_of(
        meanings,
        (*inputs, packed_numbers.value),
        extents,
        [(meanings.shape(result), natural)],
        accesses=[Access(value, place, dtype) for value, place in zip(read, places, strict=True)],
        groups=groups,
        output_types=(dtype,),
    )
    first, other = (operand(inputs.index(value), "uint8_t") for value in read)
    how = f"{int(operator == 'Add')}, {flip}, {steps[0]}, {steps[1]}"
    kernel = Kernel(
        f"Quantized{operator}",
        function_text(
            [
                f"  const float *t = {operand(len(inputs))};",
                "  const pairs g = {t[0], t[1], t[2], t[3]};",
                f"  pairs_task(own, {how}, &g, {first}, {other}, (uint8_t *)c->out[0]);",
            ]
        ),
        shapes,
        (*inputs, packed_numbers.value),
        (result,),
        block=BLOCK,
        grain=GRAIN,
        support="quantized_pairs.h",
        flushes=False,
        is_exact=True,
        packed=(packed_numbers,),
        turned=tuple(as_read.items()),
    )
    return region_kernel(meanings, pair.nodes, kernel, "integers", outputs=(y.value,))


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
