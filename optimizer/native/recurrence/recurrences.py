"""Kernels of loops over steps whose states are computed element by element, or row by row.

A selective scan has h = a h + b for each step, channel and state, and a sum over states; the
runtime goes through memory for each operator of each step. Here a row, of a channel, say, passes
all steps before the next one begins. What is computed of all steps beforehand element by element
belongs to the kernel, as long as nothing else reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial

from ...codegen.expressions import LoweringError
from ..grow import with_makers
from ..kernel import (
    GRAIN,
    Kernel,
    RegionKernel,
    disjoint_kernels,
    flushes,
    label_of,
    region_kernel,
    shapes_of,
)
from ..loops.affine import Extent, Map, loop
from ..loops.cells import Access
from ..loops.kernel_region import Meanings, Region, read_by
from ..loops.merged_loops import Groups, inner_step, merged
from ..regions.region_facts import MOVES, is_slow
from .loop_operators import LOOPS, of_operator, short_loop
from .step_cells import TIME, StepCells
from .step_text import COLUMNS, State, StepWriter
from .stepped_products import has_products, stepped_products
from .steps import Steps, written_out

# Numbers of a row at most, where something is reduced along it; and of all its states and scratch.
MOST_ROW, MOST_HELD = 4096, 24576


def recurrences(meanings: Meanings, allowed: Collection[int]) -> list[RegionKernel]:
    """Find loops, written out or not, with what is computed for them alone; no two overlap."""
    graph = meanings.graph

    def operators(number: int, free: set[int]) -> Iterator[Callable[[], RegionKernel]]:
        if graph.nodes[number].operator in LOOPS:
            short = short_loop(graph, number)
            yield lambda: of_operator(_grown(short.meanings, short.steps, free), short, graph)

    def written(number: int, free: set[int]) -> Iterator[Callable[[], RegionKernel]]:
        if graph.nodes[number].operator == "Concat":
            yield partial(_grown, meanings, written_out(graph, [number], free), free)

    kernels = disjoint_kernels(meanings.order, allowed, operators)
    free = set(allowed).difference(*(kernel.region.nodes for kernel in kernels))
    return [*kernels, *disjoint_kernels(meanings.order, free, written)]


def _grown(meanings: Meanings, steps: Steps, allowed: set[int]) -> RegionKernel:
    """Return the region of a loop and of what is computed for all its steps beforehand."""
    graph = meanings.graph
    if has_products(graph, steps):
        return stepped_products(meanings, steps)
    loops = 1 + sum(size != 1 for size in _space(meanings, steps))

    def read(before: Collection[int]) -> Iterator[int]:
        yield from (moving.source for moving in steps.moving.values())
        for number in before:
            yield from graph.nodes[number].inputs

    def lower(before: tuple[int, ...]) -> RegionKernel:
        for number in before:
            _refuse_unless_before(meanings, number, loops)
        return _lowered(meanings, steps, before)

    return with_makers(meanings, steps.nodes, read, allowed, lower)


def _refuse_unless_before(meanings: Meanings, number: int, loops: int) -> None:
    """Raise LoweringError for what would be slow number by number, or is none."""
    node = meanings.graph.nodes[number]
    if node.op_type in MOVES:
        return
    if meanings.kind(number) != "elementwise" or not meanings.is_full(number):
        raise LoweringError("not element by element")
    if (
        is_slow(meanings, number)
        and sum(size != 1 for size in meanings.shape(node.outputs[0])) < loops
    ):
        raise LoweringError("a slow function of single numbers")


def _lowered(meanings: Meanings, steps: Steps, before: Collection[int]) -> RegionKernel:
    """Return the region with a kernel; over rows that are reduced where steps reduce some."""
    failure: LoweringError | None = None
    for reduced in (0, 1, 2):
        try:
            return _over(meanings, steps, before, reduced)
        except LoweringError as error:
            failure = error
    assert failure is not None
    raise failure


def _space(meanings: Meanings, steps: Steps) -> tuple[Extent, ...]:
    """Return the shape of the largest state, by its axes."""
    shapes = [meanings.shape(state) for _, state in steps.states.values()]
    return max(shapes, key=lambda shape: sum(size != 1 for size in shape))


def _over(meanings: Meanings, steps: Steps, before: Collection[int], reduced: int) -> RegionKernel:
    graph = meanings.graph
    state_values = [state for _, state in steps.states.values()]
    space = _space(meanings, steps)
    axes = tuple(axis for axis, size in enumerate(space) if size != 1)
    if not axes or reduced > len(space):
        raise LoweringError("no loops")
    if reduced and not set(axes) & set(range(len(space) - reduced, len(space))):
        raise LoweringError("a reduction over one element")
    step_outputs = tuple(
        dict.fromkeys((*state_values, *(stacked.value for stacked in steps.stacked)))
    )
    inside = tuple(sorted(steps.body | set(before)))
    region = Region(inside, read_by(graph, inside), step_outputs, space, reduced)
    extents: tuple[Extent, ...] = (steps.count, *(space[axis] for axis in axes))
    cells = StepCells(meanings, region, axes, extents, steps.moving, steps.states)

    accesses = [access for access in cells.accesses if access.value not in steps.states]
    accesses += [access for access in cells.accesses if access.value in steps.states]
    results = list(dict.fromkeys(steps.last))
    values = [*step_outputs, *results, *(stacked.result for stacked in steps.stacked)]
    if any(
        dtype != "float32" for dtype in (*map(graph.dtype, values), *(a.dtype for a in accesses))
    ):
        raise LoweringError("numbers of other types")
    if {access.value for access in accesses if access.value in steps.states} != set(steps.states):
        raise LoweringError("a state that isn't read")
    first_state = len(accesses) - len(steps.states)
    read = accesses[:first_state]
    states: list[State] = []
    placed = list(dict.fromkeys(state_values))
    for number, access in enumerate(accesses[first_state:], first_state):
        begin, state = steps.states[access.value]
        output = placed.index(state)
        fill = meanings.uniform(begin)
        if fill is None:
            if meanings.shape(begin) != meanings.shape(access.value):
                raise LoweringError("a state that begins with another shape")
            read.append(Access(begin, access.map, access.dtype))
        is_row = cells.cells[cells.outputs[output]].row
        last = next((value for value, of in steps.last.items() if of == state), None)
        states.append(
            State(
                number,
                output,
                None if fill is not None else len(read) - 1,
                0,
                fill or 0.0,
                is_row,
                None if last is None else len(steps.stacked) + results.index(last),
            )
        )
    return _with_text(meanings, steps, before, cells, accesses, read, states, results)


def _with_text(
    meanings: Meanings,
    steps: Steps,
    before: Collection[int],
    cells: StepCells,
    accesses: list[Access],
    read: list[Access],
    states: list[State],
    results: list[int],
) -> RegionKernel:
    extents = cells.ranges.extents
    outputs = (*(row.result for row in steps.stacked), *results)
    places: list[Map] = []
    for row in steps.stacked:
        natural = list(cells.natural(row.value))
        natural[row.axis] = loop(TIME)
        places.append(tuple(natural))
    places += [cells.natural(value) for value in results]
    mapped_shapes = [(access.map, meanings.shape(access.value)) for access in read]
    mapped_shapes += [(place, meanings.shape(v)) for place, v in zip(places, outputs, strict=True)]
    reduced = cells.inner if cells.region.reduced else frozenset()
    groups = _with_steps_alone(merged(extents, reduced, mapped_shapes))
    inner = groups.loops(groups.count - 1)
    inputs = tuple(dict.fromkeys(access.value for access in read))
    strides = [inner_step(access.map, meanings.shape(access.value), inner) for access in accesses]
    for access in read[len(accesses) - len(states) :]:
        inner_step(access.map, meanings.shape(access.value), inner)
    stacked = [cells.region.outputs.index(row.value) for row in steps.stacked]
    writer = StepWriter(
        [cells],
        [(0, None)],
        accesses,
        inputs,
        strides,
        groups,
        extents,
        ("float32",) * len(cells.outputs),
        states=[
            state
            if state.access is None
            else replace(state, operand=inputs.index(read[state.access].value))
            for state in states
        ],
        stacked=stacked,
        whole=_whole(cells, groups),
    )
    text = writer.text()
    if writer.whole * (2 * len(states) + len(writer.kept)) > MOST_HELD:
        raise LoweringError("states that don't stay in the cache")
    placed = [(meanings.shape(v), place) for v, place in zip(outputs, places, strict=True)]
    shapes = shapes_of(meanings, inputs, extents, placed, accesses=read, groups=groups)
    body = sorted(steps.body | set(before))
    cost = sum(cells.cells[output].cost for output in cells.outputs)
    kernel = Kernel(
        f"Steps{label_of(meanings, body)}",
        text,
        shapes,
        inputs,
        outputs,
        grain=max(1024, int(GRAIN / max(1.0, cost / 4))),
        arrange="arrange_steps",
        columns=(0 if writer.reduces else COLUMNS,),
        flushes=flushes(meanings, body),
    )
    return region_kernel(meanings, meanings.in_order(steps.nodes | set(before)), kernel, "steps")


def _whole(cells: StepCells, groups: Groups) -> int:
    """Return the numbers of a row that states have room for."""
    if not cells.reductions:
        return COLUMNS
    size = 1
    for number in groups.loops(groups.count - 1):
        extent = cells.ranges.extents[number]
        if not isinstance(extent, int):
            raise LoweringError("a row of unknown size")
        size *= extent
    if size > MOST_ROW:
        raise LoweringError("a row that doesn't stay in the cache")
    return (size + 15) // 16 * 16


def _with_steps_alone(groups: Groups) -> Groups:
    """Keep the loop over steps apart from the next one."""
    if len(groups.of) > 1 and groups.of[1] == groups.of[0]:
        return Groups((0, *(group + 1 for group in groups.of[1:])))
    return groups
