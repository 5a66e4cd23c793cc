"""ONNX's own loops, Scan and Loop, as steps: three of them are written out, and are told from that.

How many there are may be known when the model runs alone, as the size of an axis that a Scan goes
through.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from ...codegen.expressions import LoweringError
from ...graph.branches import trips_of, write_out
from ...graph.graph import Graph
from ...graph.infer import infer_types
from ..kernel import Kernel, RegionKernel
from ..loops.affine import Extent
from ..loops.kernel_region import LaidOut, Meanings
from ..regions.region_candidates import candidates
from .steps import LEAST_STEPS, Moving, Steps, written_out

LOOPS = frozenset({"Scan", "Loop"})


@dataclass(frozen=True)
class ShortLoop:
    """A loop operator, the node `number`, in a graph where some of its steps are written out.

    `outputs` are the operator's by the values that these steps make.
    """

    number: int
    meanings: Meanings
    steps: Steps
    outputs: dict[int, int]


def short_loop(graph: Graph, number: int) -> ShortLoop:
    """Return the steps of a loop operator; raise LoweringError where no kernel has them."""
    node = graph.nodes[number]
    if any(proto.name == "scan_output_directions" for proto in node.attributes.values()):
        raise LoweringError("results in the opposite order")
    count = _count(graph, number)
    short = graph.copy()
    outputs = {
        short.new_value(graph.names[value], graph.types.get(value)): value
        for value in node.outputs
        if value >= 0
    }
    of = {value: inner for inner, value in outputs.items()}
    new_outputs = tuple(of.get(value, value) for value in node.outputs)
    nodes_before = set(short.nodes)
    short.nodes[number] = replace(node, outputs=new_outputs, proto=None)
    for value, copied in of.items():
        del short.producer[value]
        short.producer[copied] = number
    try:
        write_out(short, number, LEAST_STEPS)
    except ValueError as error:
        raise LoweringError(str(error)) from error
    _without_identities(short, set(short.nodes) - nodes_before, outputs)
    short.types = infer_types(short) | {
        copied: graph.types[value] for copied, value in outputs.items() if value in graph.types
    }
    meanings = Meanings(short)
    concats = [
        number
        for number in short.order()
        if number not in nodes_before and short.nodes[number].operator == "Concat"
    ]
    concats = [number for number in concats if short.nodes[number].outputs[0] in outputs]
    if not concats:
        raise LoweringError("a loop that gives nothing of each step")
    computable = candidates(meanings).computable
    steps = written_out(short, concats, computable)
    steps.count = count
    steps.moving = {
        value: _all_steps(short, moving, count) for value, moving in steps.moving.items()
    }
    passed = {}
    for value, state in steps.last.items():
        for user in short.users[value] - steps.nodes:
            reader = short.nodes[user]
            if reader.operator != "Identity" or reader.outputs[0] not in outputs:
                raise LoweringError("a state that is read elsewhere")
            passed[reader.outputs[0]] = state
            steps.nodes.add(user)
    steps.last = passed
    if not _needed(short, outputs) - nodes_before <= steps.nodes:
        raise LoweringError("results that steps alone don't give")
    return ShortLoop(number, meanings, steps, outputs)


def of_operator(of_steps: RegionKernel, loop: ShortLoop, graph: Graph) -> RegionKernel:
    """Return the region of a loop's steps as one of the operator itself."""
    kernel = _carried(of_steps.kernel, loop.meanings.graph, graph)
    outputs = tuple(loop.outputs[value] for value in kernel.outputs)
    before = [number for number in of_steps.region.nodes if number not in loop.steps.nodes]
    nodes = (*before, loop.number)
    inner_values = {value for number in nodes for value in graph.nodes[number].outputs}
    read = dict.fromkeys(value for number in nodes for value in graph.nodes[number].reads)
    inputs = tuple(value for value in read if value not in inner_values)
    region = replace(of_steps.region, nodes=nodes, inputs=inputs, outputs=outputs)
    return RegionKernel(region, replace(kernel, outputs=outputs))


def _without_identities(graph: Graph, nodes: Collection[int], outputs: Collection[int]) -> None:
    """Take Identities out that a body has, as exporters end one in: but what gives an output."""
    for number in sorted(nodes):
        node = graph.nodes[number]
        if node.operator == "Identity" and node.outputs[0] not in outputs:
            graph.replace_uses(node.outputs[0], node.inputs[0])
            graph.remove_node(number)


def _carried(kernel: Kernel, short: Graph, graph: Graph) -> Kernel:
    """Return a kernel of a graph of some steps as one of the model's.

    It brings constants that a body has of its own, and such as are laid out for it.
    """
    model_values, laid_out = len(graph.names), {constant.value for constant in kernel.packed}
    of: dict[int, int] = {}

    def carried(value: int) -> int:
        if value < model_values:
            return value
        constant = short.constants.get(value)
        if constant is None and value not in laid_out:
            raise LoweringError("what a body computes before its steps")
        if value not in of:
            of[value] = graph.new_value(short.names[value], short.types.get(value))
            if constant is not None:
                graph.set_constant(of[value], constant)
        return of[value]

    packed = tuple(
        LaidOut(carried(value), carried(source), how) for value, source, how in kernel.packed
    )
    return replace(kernel, inputs=tuple(map(carried, kernel.inputs)), packed=packed)


def _count(graph: Graph, number: int) -> Extent:
    """How many steps there are, a number or the name of a dimension."""
    count = trips_of(graph, number)
    if count is not None:
        if count < 1:
            raise LoweringError("a loop of no steps")
        return count
    node = graph.nodes[number]
    if node.operator != "Scan":
        raise LoweringError("a loop that may end early")
    taken = int(node.attributes["num_scan_inputs"].i)
    axes = node.attributes.get("scan_input_axes")
    shape = graph.shape(node.inputs[-taken]) if taken else None
    if shape is None:
        raise LoweringError("steps along an axis that isn't known")
    return shape[0 if axes is None else axes.ints[0]]


def _needed(graph: Graph, values: Iterable[int]) -> set[int]:
    """Return the nodes that values are made by, and what these read."""
    needed: set[int] = set()
    waiting = [graph.producer[value] for value in values if value in graph.producer]
    while waiting:
        number = waiting.pop()
        if number not in needed:
            needed.add(number)
            reads = graph.nodes[number].reads
            waiting += [graph.producer[value] for value in reads if value in graph.producer]
    return needed


def _all_steps(graph: Graph, moving: Moving, count: Extent) -> Moving:
    """Return the place that moves through all steps, of one that does through a few."""
    size = (graph.shape(moving.source) or ())[moving.axis]
    if moving.step == -1 and moving.first == LEAST_STEPS - 1:
        if not isinstance(count, int):
            raise LoweringError("a loop backwards of unknown length")
        return replace(moving, first=count - 1)
    if moving.step != 1 or moving.first != 0 or size != count:
        raise LoweringError("places that aren't those of all steps")
    return moving
