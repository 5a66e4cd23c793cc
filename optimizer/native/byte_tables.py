"""Functions of one 8-bit number, computed once for all 256 of them, and looked up while it runs.

A quantized model dequantizes a tensor, applies an activation to it, several operators as an
exporter spells one, and quantizes again: whatever that is, it gives one of 256 results. The runtime
itself computes these, so that they are equal to the bit, even where a kernel's own functions would
round otherwise.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

import numpy as np

from ...catalog.operators.derive import integer_range
from ...profiles.kernel import numpy_dtype
from ...rules import ABSENT
from ..codegen.expressions import C_TYPES, LoweringError
from ..graph.convert import node_proto
from ..graph.graph import Graph
from ..graph.simplify import is_pure
from .grow import MOST_NODES
from .kernel import Kernel, RegionKernel, label_of, region_kernel, shapes_of
from .loops.affine import axis_by_long_axis
from .loops.c_function import function_text, operand
from .loops.element_types import ELEMENTS
from .loops.kernel_region import Meanings, needed_outside
from .loops.merged_loops import Groups
from .quantized.packing import FixedNumbers
from .regions.region_candidates import candidates
from .runtime_answers import answer

GIVEN = frozenset({"int8", "uint8"})
# Elements of a unit, and such that are worth a task.
BLOCK, GRAIN = 4096, 16384
CONVERSIONS = frozenset({"QuantizeLinear", "DequantizeLinear"})


def lookups(meanings: Meanings, allowed: Collection[int]) -> list[RegionKernel]:
    """Find what is a function of one 8-bit tensor, no two of which have a node in common."""
    graph = meanings.graph
    starts = dict.fromkeys(
        value
        for number in meanings.order
        if graph.nodes[number].operator == "DequantizeLinear"
        for value in graph.nodes[number].inputs[:1]
        if graph.dtype(value) in GIVEN and value not in graph.constants
    )
    tables: list[RegionKernel] = []
    free = set(allowed)
    for value in starts:
        nodes = _function(meanings, value, free)
        if nodes:
            with suppress(LoweringError):
                tables.append(_lowered(meanings, value, nodes))
                free -= set(nodes)
    return tables


def _function(meanings: Meanings, value: int, allowed: set[int]) -> tuple[int, ...]:
    """Return the most nodes that depend on one value alone, and give one that is needed outside."""
    graph = meanings.graph
    inside: dict[int, set[int]] = {}  # each node with all that it depends on
    of: dict[int, int] = {}
    waiting = set(graph.users.get(value, ()))
    while waiting:
        number = min(waiting, key=meanings.position.__getitem__)
        waiting.remove(number)
        node = graph.nodes[number]
        numbers = {n for v in node.inputs if (n := _number(graph, v)) is not None}
        constants = {v for n in numbers for v in graph.nodes[n].outputs} | graph.constants.keys()
        read = [v for v in node.inputs if v != ABSENT and v not in constants]
        if not {number, *numbers} <= allowed or any(v != value and v not in of for v in read):
            continue
        if not _is_of_elements(meanings, number, value, constants):
            continue
        inside[number] = {number, *numbers}.union(*(inside[of[v]] for v in read if v in of))
        of[node.outputs[0]] = number
        waiting |= graph.users.get(node.outputs[0], set())
    best: set[int] = set()
    for number, nodes in inside.items():
        closed = set(needed_outside(graph, nodes)) <= set(graph.nodes[number].outputs)
        larger = closed and len(best) < len(nodes) <= MOST_NODES
        if larger and not candidates(meanings).divides_groups(nodes):
            best = nodes
    operators = {graph.nodes[number].op_type for number in best}
    if len(best) < 2 or operators <= CONVERSIONS:
        return ()
    return meanings.in_order(best)


def _number(graph: Graph, value: int) -> int | None:
    """Return the node that makes a number of a constant integer, None where none makes a value."""
    number = graph.producer.get(value)
    if number is None or graph.nodes[number].operator != "DequantizeLinear":
        return None
    operands = [v for v in graph.nodes[number].inputs if v != ABSENT]
    single = all(all(size == 1 for size in graph.shape(v) or ()) for v in operands)
    return number if single and all(v in graph.constants for v in operands) else None


def _is_of_elements(
    meanings: Meanings, number: int, value: int, constants: Collection[int]
) -> bool:
    """Tell whether a node gives for each element what depends on that, and on numbers, alone."""
    graph, node = meanings.graph, meanings.graph.nodes[number]
    numbers = [v for v in node.inputs if v in constants]
    return (
        meanings.kind(number) == "elementwise"
        and len(node.outputs) == 1
        and is_pure(graph, node)
        and graph.shape(node.outputs[0]) == graph.shape(value)
        and graph.dtype(node.outputs[0]) in ELEMENTS
        and all(all(size == 1 for size in graph.shape(v) or ()) for v in numbers)
    )


def _lowered(meanings: Meanings, value: int, nodes: tuple[int, ...]) -> RegionKernel:
    graph = meanings.graph
    shape = meanings.shape(value)
    axes = [axis for axis, size in enumerate(shape) if size != 1]
    if not axes:
        raise LoweringError("no loops")
    (output,) = graph.nodes[nodes[-1]].outputs
    dtype, result_dtype = graph.dtype(value) or "", graph.dtype(output) or ""
    table = FixedNumbers(_results(graph, value, nodes, output), result_dtype, "table")
    numbers = (v for n in nodes for v in graph.nodes[n].inputs if v in graph.constants)
    source = next(numbers, None)
    if source is None:
        raise LoweringError("no constant that its table could stand beside")
    laid = meanings.laid_out(source, table)
    extents = tuple(shape[axis] for axis in axes)
    shapes = shapes_of(
        meanings,
        (value, laid.value),
        extents,
        [(shape, axis_by_long_axis(shape))],
        groups=Groups((0,) * len(axes)),
        output_types=(result_dtype,),
    )
    kernel = Kernel(
        label_of(meanings, nodes),
        _text(dtype, result_dtype),
        shapes,
        (value, laid.value),
        (output,),
        block=BLOCK,
        grain=GRAIN,
        flushes=False,
        is_exact=True,
        packed=(laid,),
    )
    return region_kernel(meanings, nodes, kernel, "table", space=shape)


def _text(dtype: str, result_dtype: str) -> str:
    low, result = (integer_range(dtype) or (0, 0))[0], C_TYPES[result_dtype]
    return function_text(
        [
            f"  const {C_TYPES[dtype]} *restrict x = {operand(0, C_TYPES[dtype])};",
            f"  const {result} *restrict table = {operand(1, result)};",
            f"  {result} *restrict y = ({result} *)c->out[0];",
            f"  const i64 end = LEAST(own->end * {BLOCK}, c->inner);",
            f"  for (i64 j = own->first * {BLOCK}; j < end; j++) y[j] = table[x[j] - ({low})];",
        ]
    )


def _results(graph: Graph, value: int, nodes: tuple[int, ...], output: int) -> bytes:
    """Let the runtime compute the results for all numbers; raises LoweringError where it can't."""
    dtype = graph.dtype(value) or ""
    low, high = integer_range(dtype) or (0, 0)
    constants = {
        graph.names[v]: np.asarray(graph.constant(v)).reshape(())
        for n in nodes
        for v in graph.nodes[n].inputs
        if v in graph.constants
    }
    try:
        results = answer(
            [node_proto(graph, graph.nodes[number]) for number in nodes],
            {graph.names[value]: np.arange(low, high + 1).astype(numpy_dtype(dtype))},
            constants,
            (graph.names[output], graph.dtype(output) or ""),
            graph,
        )
    except Exception as error:  # whatever the runtime raises
        raise LoweringError("a function that the runtime doesn't compute of 256 numbers") from error
    return np.ascontiguousarray(results).tobytes()
