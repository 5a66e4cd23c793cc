"""What kernels cost beside the operators that they replace: models of their own, raced."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, geometric_mean

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ...profiles.kernel import element_type
from ...profiles.races.race import Lap, RaceError, race
from ...profiles.sessions.execution import Execution
from ...profiles.sessions.feeds import random_feeds
from ..graph.convert import node_proto, tensor_proto
from ..graph.graph import Graph, Node, TensorType
from .embed import channels_last, turning
from .kernel import Kernel
from .library import Library
from .loops.kernel_region import Region

OPERATORS, KERNEL = "operators", "kernel"
# Constants that the operators are given as what they are; larger ones only have a shape.
TELLING_ELEMENTS = 1 << 20
# Models with larger constants are written to files, where that can be done.
MOST_INLINE_BYTES = 32 << 20

Placer = Callable[[str, onnx.ModelProto], Path]


def measured_forms(
    graph: Graph,
    region: Region,
    kernels: Sequence[Kernel],
    library: Library,
    types: Mapping[int, TensorType],
    *,
    threads: int,
    budget_s: float,
    place: Placer | None = None,
) -> dict[str, dict[str, Lap]]:
    """Race a region's operators and several kernels for it, all of one library, in one race.

    By the kernels' names, the laps of the operators and of that kernel; none of a kernel that
    doesn't run, nor of any where sizes aren't known. `types` are those under the sizes that costs
    are asked for. `place` writes a model whose large constants lie elsewhere to a file.
    """
    asked = {value for kernel in kernels for value in kernel.inputs}
    if any(not _is_known(types.get(value)) for value in {*region.inputs, *region.outputs}):
        return {}
    turned = dict(turned for kernel in kernels for turned in kernel.turned)
    types = {**types, **{turned[image]: channels_last(types[image]) for image in turned}}
    inputs = tuple(turned.get(value, value) for value in region.inputs)
    outputs = tuple(turned.get(value, value) for value in region.outputs)
    laid_out = {value for kernel in kernels for packed in kernel.packed for value in packed[:2]}
    constants = {
        value for value in {*inputs, *asked} if value in laid_out or _is_telling(graph, value)
    }
    input_types = {graph.names[value]: types[value] for value in inputs if value not in constants}
    feeds = random_feeds(
        {
            name: (type_.dtype, tuple(map(int, type_.shape or ())))
            for name, type_ in input_types.items()
        },
        "normal",
        zlib.crc32(kernels[0].name.encode()),
    )
    feeds.update(_indices(graph, kernels[0], input_types, types))
    nodes = [node_proto(graph, node) for node in _between(graph, region, turned)]
    models = {OPERATORS: _model(graph, inputs, outputs, nodes, types, constants, "", place)}
    for kernel in kernels:
        fused = helper.make_node(
            kernel.name,
            [graph.names[value] for value in kernel.inputs],
            [graph.names[value] for value in kernel.outputs],
            domain=library.domain,
        )
        models[kernel.name] = _model(
            graph, kernel.inputs, outputs, [fused], types, constants, library.domain, place
        )
    opened = Execution(libraries=(library.path,))
    while len(models) > 1:
        try:
            laps = race(
                models,
                feeds,
                threads=threads,
                budget_s=budget_s,
                reference=OPERATORS,
                executions=dict.fromkeys(set(models) - {OPERATORS}, opened),
            )
        except RaceError as error:
            if error.model not in models or error.model == OPERATORS:
                return {}
            del models[error.model]
            continue
        operator_lap = laps.pop(OPERATORS)
        return {name: {OPERATORS: operator_lap, KERNEL: lap} for name, lap in laps.items()}
    return {}


def joined(openings: Sequence[Mapping[str, Lap]]) -> dict[str, Lap]:
    """Return the laps of the same models in several races as one of each.

    Where a session's memory lies makes a kernel faster or slower as long as it lives: races of
    sessions that are opened anew tell, and the interval spans those of all.
    """
    return {
        name: Lap(
            fmean(laps[name].median_ns for laps in openings),
            max(laps[name].spread_ns for laps in openings),
            geometric_mean(laps[name].ratio for laps in openings),
            min(laps[name].ratio_low for laps in openings),
            max(laps[name].ratio_high for laps in openings),
            sum(laps[name].samples for laps in openings),
        )
        for name in openings[0]
    }


def _indices(
    graph: Graph,
    kernel: Kernel,
    input_types: Mapping[str, TensorType],
    types: Mapping[int, TensorType],
) -> dict[str, np.ndarray]:
    """Draw the indices that a kernel is given anywhere along what they index."""
    counts: dict[int, int] = {}
    for value, indexed, axis in kernel.drawn:
        count = int((types[indexed].shape or ())[axis])
        counts[value] = min(counts.get(value, count), count)
    random = np.random.default_rng(0)
    indices = {}
    for value, count in counts.items():
        name, type_ = graph.names[value], types[value]
        if name in input_types:
            drawn = random.integers(0, max(1, count), tuple(map(int, type_.shape or ())))
            indices[name] = drawn.astype(type_.dtype)
    return indices


def _between(graph: Graph, region: Region, turned: Mapping[int, int]) -> Iterator[Node]:
    """Yield a region's nodes, between those that turn images as its kernel has them.

    The runtime has the channels of such images last as well, and takes these turns away.
    """
    for image in region.inputs:
        if image in turned:
            yield turning(graph, turned[image], image, back=True)
    yield from (graph.nodes[number] for number in region.nodes)
    for image in region.outputs:
        if image in turned:
            yield turning(graph, image, turned[image])


def _model(
    graph: Graph,
    inputs: tuple[int, ...],
    outputs: tuple[int, ...],
    nodes: list[onnx.NodeProto],
    types: Mapping[int, TensorType],
    constant_values: Collection[int],
    domain: str,
    place: Placer | None,
) -> bytes | Path:
    def info(value: int) -> onnx.ValueInfoProto:
        type_ = types[value]
        return helper.make_tensor_value_info(
            graph.names[value], element_type(type_.dtype), type_.shape
        )

    drawn = [value for value in inputs if value in constant_values]
    size_bytes = sum(types[value].size_bytes or 0 for value in drawn)
    written = place is not None and size_bytes > MOST_INLINE_BYTES
    constants = [
        tensor_proto(graph.names[value], graph.constants[value])
        if written
        else numpy_helper.from_array(np.asarray(graph.constant(value)), graph.names[value])
        for value in drawn
    ]
    proto = helper.make_graph(
        nodes,
        "region",
        [info(value) for value in inputs if value not in constant_values],
        [info(value) for value in outputs],
        constants,
    )
    opsets = list(graph.base.opset_import)
    if domain:
        opsets.append(helper.make_opsetid(domain, 1))
    model = helper.make_model(proto, opset_imports=opsets, ir_version=graph.base.ir_version)
    if place is not None and written:
        return place(f"kernel {nodes[0].op_type}" if domain else OPERATORS, model)
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
