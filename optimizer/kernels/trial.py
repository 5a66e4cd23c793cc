"""What a kernel costs beside the operators that it replaces: both as models of their own, raced."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ...profiles.execution import Execution
from ...profiles.feeds import random_feeds
from ...profiles.kernel import element_type
from ...profiles.race import Lap, RaceError, race
from ..convert import node_proto
from ..graph import Graph, TensorType
from .library import Library
from .lower import Kernel
from .region import Region

OPERATORS, KERNEL = "operators", "kernel"
# Constants that the operators are given as what they are; larger ones only have a shape.
TELLING_ELEMENTS = 1 << 20


def measured(
    graph: Graph,
    region: Region,
    kernel: Kernel,
    library: Library,
    types: Mapping[int, TensorType],
    *,
    threads: int,
    budget_s: float,
) -> dict[str, Lap] | None:
    """Race a region's operators and its kernel; None where sizes aren't known or one doesn't run.

    `types` are those under the sizes that costs are asked for.
    """
    values = {*region.inputs, *region.outputs}
    if any(not _is_known(types.get(value)) for value in values):
        return None
    nodes = [node_proto(graph, graph.nodes[number]) for number in region.nodes]
    fused = helper.make_node(
        kernel.name,
        [graph.names[value] for value in kernel.inputs],
        [graph.names[value] for value in kernel.outputs],
        domain=library.domain,
    )
    given = {graph.names[v]: types[v] for v in region.inputs if not _is_telling(graph, v)}
    feeds = random_feeds(
        {name: (type_.dtype, tuple(map(int, type_.shape or ()))) for name, type_ in given.items()},
        "normal",
        zlib.crc32(kernel.name.encode()),
    )
    models = {
        OPERATORS: _model(graph, region, region.inputs, nodes, types, None),
        KERNEL: _model(graph, region, kernel.inputs, [fused], types, library.domain),
    }
    try:
        return race(
            models,
            feeds,
            threads=threads,
            budget_s=budget_s,
            reference=OPERATORS,
            executions={KERNEL: Execution(libraries=(library.path,))},
        )
    except RaceError:
        return None


def _model(
    graph: Graph,
    region: Region,
    inputs: tuple[int, ...],
    nodes: list[onnx.NodeProto],
    types: Mapping[int, TensorType],
    domain: str | None,
) -> bytes:
    def info(value: int) -> onnx.ValueInfoProto:
        type_ = types[value]
        return helper.make_tensor_value_info(
            graph.names[value], element_type(type_.dtype), type_.shape
        )

    constants = [
        numpy_helper.from_array(np.asarray(graph.constant(value)), graph.names[value])
        for value in inputs
        if _is_telling(graph, value)
    ]
    proto = helper.make_graph(
        nodes,
        "region",
        [info(value) for value in inputs if not _is_telling(graph, value)],
        [info(value) for value in region.outputs],
        constants,
    )
    opsets = list(graph.base.opset_import)
    if domain is not None:
        opsets.append(helper.make_opsetid(domain, 1))
    model = helper.make_model(proto, opset_imports=opsets, ir_version=graph.base.ir_version)
    return bytes(model.SerializeToString())


def _is_known(type_: TensorType | None) -> bool:
    return (
        type_ is not None
        and type_.shape is not None
        and all(isinstance(size, int) for size in type_.shape)
    )


def _is_telling(graph: Graph, value: int) -> bool:
    constant = graph.constants.get(value)
    if constant is None:
        return False
    count = 1
    for size in constant.type.shape or ():
        count *= int(size)
    return count <= TELLING_ELEMENTS
