"""Kernels of loops over steps whose states are computed element by element, or row by row.

A selective scan has h = a h + b for each step, channel and state, and a sum over states; the
runtime goes through memory for each operator of each step. Here a row, of a channel, say, passes
all steps before the next one begins. What is computed of all steps beforehand element by element
belongs to the kernel, as long as nothing else reads it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ...codegen.expressions import LoweringError
from ..grow import MOST_NODES, RegionKernel
from ..loops.affine import Extent, Map, loop
from ..loops.cells import Access
from ..loops.kernel_region import Meanings, Region, read_by
from ..loops.loops import Groups, inner_step, merged
from ..loops.lower import (
    GRAIN,
    MOST_ACCESSES,
    MOST_AXES,
    MOST_LOOPS,
    MOST_OPERANDS,
    Kernel,
    flushes,
    label,
    named,
    shapes_of,
)
from ..regions.region_facts import MOVES, is_slow
from .operators import LOOPS, of_operator, short_loop
from .step_cells import TIME, StepCells
from .stepped_products import has_products, stepped_products
from .steps import Steps, written_out
from .text import COLUMNS, State, StepWriter

# Numbers of a row at most, where something is reduced along it; and of all its states and scratch.
MOST_ROW, MOST_HELD = 4096, 24576


def recurrences(meanings: Meanings, allowed: Collection[int]) -> list[RegionKernel]:
    """Find loops, written out or not, with what is computed for them alone; no two overlap."""
    graph = meanings.graph
    free = set(allowed)
    recurrence_kernels: list[RegionKernel] = []
    for number in meanings.order:
        if number in free and graph.nodes[number].operator in LOOPS:
            try:
                short = short_loop(graph, number)
                grown = of_operator(_grown(short.meanings, short.steps, free), short, graph)
            except LoweringError:
                continue
            free -= set(grown.region.nodes)
            recurrence_kernels.append(grown)
    for number in meanings.order:
        if number not in free or graph.nodes[number].operator != "Concat":
            continue
        try:
            steps = written_out(graph, [number], free)
            grown = _grown(meanings, steps, free)
        except LoweringError:
            continue
        free -= set(grown.region.nodes)
        recurrence_kernels.append(grown)
    return recurrence_kernels


def _grown(meanings: Meanings, steps: Steps, allowed: set[int]) -> RegionKernel:
    """Return the region of a loop and of what is computed for all its steps beforehand."""
    graph = meanings.graph
    if has_products(graph, steps):
        return stepped_products(meanings, steps)
    best = _lowered(meanings, steps, ())
    loops = len(best.kernel.shapes.extents)
    before: set[int] = set()
    refused: set[int] = set()
    while len(before) < MOST_NODES:
        inside = steps.nodes | before
        read = {moving.source for moving in steps.moving.values()}
        read |= {value for number in before for value in graph.nodes[number].inputs}
        makers = {graph.producer[value] for value in read if value in graph.producer}
        open_ = sorted((makers & allowed) - inside - refused)
        if not open_:
            break
        number = open_[-1]
        try:
            _refuse_unless_before(meanings, number, inside, loops)
            best = _lowered(meanings, steps, before | {number})
            before.add(number)
            refused.clear()
        except LoweringError:
            refused.add(number)
    return best


def _refuse_unless_before(meanings: Meanings, number: int, inside: set[int], loops: int) -> None:
    """Raise LoweringError for what others read, or what would be slow number by number."""
    graph = meanings.graph
    node = graph.nodes[number]
    if any(graph.is_pinned(v) or graph.users.get(v, set()) - inside for v in node.outputs):
        raise LoweringError("what others read")
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


def _over(meanings: Meanings, steps: Steps, before: Collection[int], reduced: int) -> RegionKernel:
    graph = meanings.graph
    made_states = [state for _, state in steps.states.values()]
    shapes = [meanings.shape(value) for value in made_states]
    space = max(shapes, key=lambda shape: sum(size != 1 for size in shape))
    axes = tuple(axis for axis, size in enumerate(space) if size != 1)
    if not axes or len(axes) + 1 > MOST_LOOPS or reduced > len(space):
        raise LoweringError("no loops, or too many")
    if reduced and not set(axes) & set(range(len(space) - reduced, len(space))):
        raise LoweringError("a reduction over one element")
    step_outputs = tuple(
        dict.fromkeys((*made_states, *(stacked.value for stacked in steps.stacked)))
    )
    inside = tuple(sorted(steps.body | set(before)))
    region = Region(inside, read_by(graph, inside), step_outputs, space, reduced)
    extents: tuple[Extent, ...] = (steps.count, *(space[axis] for axis in axes))
    cells = StepCells(meanings, region, axes, extents, steps.moving, steps.states)

    accesses = [access for access in cells.accesses if access.value not in steps.states]
    accesses += [access for access in cells.accesses if access.value in steps.states]
    results = list(dict.fromkeys(steps.last))
    given = [*step_outputs, *results, *(stacked.result for stacked in steps.stacked)]
    if any(
        dtype != "float32" for dtype in (*map(graph.dtype, given), *(a.dtype for a in accesses))
    ):
        raise LoweringError("numbers of other types")
    if {access.value for access in accesses if access.value in steps.states} != set(steps.states):
        raise LoweringError("a state that isn't read")
    first_state = len(accesses) - len(steps.states)
    read = accesses[:first_state]
    states: list[State] = []
    placed = list(dict.fromkeys(made_states))
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
    return _found(meanings, steps, before, cells, accesses, read, states, results)


def _found(
    meanings: Meanings,
    steps: Steps,
    before: Collection[int],
    cells: StepCells,
    accesses: list[Access],
    read: list[Access],
    states: list[State],
    results: list[int],
) -> RegionKernel:
    graph = meanings.graph
    extents = cells.ranges.extents
    outputs = (*(row.result for row in steps.stacked), *results)
    places: list[Map] = []
    for row in steps.stacked:
        natural = list(cells.natural(row.value))
        natural[row.axis] = loop(TIME)
        places.append(tuple(natural))
    places += [cells.natural(value) for value in results]
    known = [(access.map, meanings.shape(access.value)) for access in read]
    known += [(place, meanings.shape(v)) for place, v in zip(places, outputs, strict=True)]
    reduced = cells.inner if cells.region.reduced else frozenset()
    groups = _apart(merged(extents, reduced, known))
    inner = groups.loops(groups.count - 1)
    inputs = tuple(dict.fromkeys(access.value for access in read))
    if len(inputs) > MOST_OPERANDS or len(read) > MOST_ACCESSES or len(outputs) > MOST_OPERANDS:
        raise LoweringError("too many operands")
    if any(len(meanings.shape(value)) > MOST_AXES for value in (*inputs, *outputs)):
        raise LoweringError("too many axes")
    strides = [inner_step(access.map, meanings.shape(access.value), inner) for access in accesses]
    for access in read[len(accesses) - len(states) :]:
        inner_step(access.map, meanings.shape(access.value), inner)
    stacked = [cells.region.outputs.index(row.value) for row in steps.stacked]
    writer = StepWriter(
        "NAME",
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
    placed = tuple((meanings.shape(v), place) for v, place in zip(outputs, places, strict=True))
    shapes = shapes_of(meanings, inputs, extents, placed, accesses=read, groups=groups)
    nodes = tuple(number for number in meanings.order if number in steps.nodes | set(before))
    body = sorted(steps.body | set(before))
    cost = sum(cells.cells[output].cost for output in cells.outputs)
    kernel = Kernel(
        "",
        "Steps" + label([graph.nodes[number].op_type for number in body]),
        text,
        shapes,
        inputs,
        outputs,
        grain=max(1024, int(GRAIN / max(1.0, cost / 4))),
        arrange="arrange_steps",
        columns=(0 if writer.reduces else COLUMNS,),
        flushes=flushes(meanings, body),
    )
    region = Region(nodes, read_by(graph, nodes), outputs, meanings.shape(outputs[0]), sort="steps")
    return RegionKernel(region, named(kernel))


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


def _apart(groups: Groups) -> Groups:
    """Keep the loop over steps apart from the next one."""
    if len(groups.of) > 1 and groups.of[1] == groups.of[0]:
        return Groups((0, *(group + 1 for group in groups.of[1:])))
    return groups
