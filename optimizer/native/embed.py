"""A kernel in a graph: the nodes of a region replaced by one of the library's operators."""

from __future__ import annotations

import onnx
from onnx import helper

from ..graph.convert import type_proto
from ..graph.graph import Graph, Node, TensorType
from .kernel import Kernel

RULE = "FuseKernel"
# The domain of kernels whose library isn't built yet.
PENDING = "tensolog.kernels"


def place(graph: Graph, nodes: tuple[int, ...], kernel: Kernel) -> bool:
    """Put a kernel in the place of nodes; False, and nothing changed, where that made a cycle.

    The operator's domain is that of the library, which isn't known yet: see `embed`. Images that it
    has with their channels last are turned where others read them otherwise; between two such
    kernels nothing is.
    """
    removed: dict[int, Node] = {}
    added: list[int] = []

    def remove(number: int) -> None:
        removed[number] = graph.nodes[number]
        graph.remove_node(number)

    for number in nodes:
        remove(number)
    for image, operand in kernel.turned:
        if operand in kernel.inputs and operand not in graph.producer:
            added.append(graph.add_node(turning(graph, image, operand)))
        elif operand in kernel.outputs and operand in graph.producer:
            remove(graph.producer[operand])
    added.append(
        graph.add_node(Node(kernel.name, PENDING, kernel.inputs, kernel.outputs, {}, rule=RULE))
    )
    for image, operand in kernel.turned:
        is_read = bool(graph.users.get(image)) or graph.is_pinned(image)
        maker = graph.producer.get(image)
        if operand in kernel.outputs and is_read:
            added.append(graph.add_node(turning(graph, operand, image, back=True)))
        elif operand in kernel.inputs and not is_read and maker in graph.users.get(operand, ()):
            assert maker is not None
            remove(maker)
    try:
        graph.order()
    except ValueError:
        for number in reversed(added):
            graph.remove_node(number)
        for number, node in removed.items():
            graph.put_node(number, node)
        return False
    return True


def channels_last(type_: TensorType) -> TensorType:
    """Give the type of an image with its channels last."""
    first, channels, *sizes = type_.shape or ()
    return TensorType(type_.dtype, (first, *sizes, channels))


def turning(graph: Graph, source: int, result: int, *, back: bool = False) -> Node:
    """Return the node that puts the channels of an image last, or `back` behind the batch."""
    rank = len(graph.shape(source) or ())
    order = [0, rank - 1, *range(1, rank - 1)] if back else [0, *range(2, rank), 1]
    perm = helper.make_attribute("perm", order)
    return Node("Transpose", "", (source,), (result,), {"perm": perm}, rule=RULE)


def embed(graph: Graph, domain: str, old: str = PENDING) -> Graph:
    """Return the graph with its kernels' operators in a library's domain, instead of an old one."""
    bound = graph.copy()
    for number, node in list(bound.nodes.items()):
        if node.domain == old:
            bound.nodes[number] = Node(
                node.op_type, domain, node.inputs, node.outputs, {}, rule=node.rule
            )
    bound.base = onnx.ModelProto()
    bound.base.CopyFrom(graph.base)
    imports = [entry for entry in bound.base.opset_import if entry.domain != old]
    del bound.base.opset_import[:]
    bound.base.opset_import.extend(imports)
    bound.base.opset_import.add(domain=domain, version=1)
    _declare(bound, domain)
    return bound


def _declare(graph: Graph, domain: str) -> None:
    """Declare the types of the kernels' outputs: the runtime infers none for foreign operators."""
    info = graph.base.graph.value_info
    declared = {entry.name for entry in (*info, *graph.base.graph.output)}
    for node in graph.nodes.values():
        if node.domain != domain:
            continue
        for value in node.outputs:
            name, type_ = graph.names[value], graph.types.get(value)
            if name not in declared and type_ is not None:
                info.append(onnx.ValueInfoProto(name=name, type=type_proto(type_)))
