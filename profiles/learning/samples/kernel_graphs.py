"""Measured kernels as graphs of TpuGraphs' tile collection: operands, operator, results.

A configuration of a kernel is how the runtime runs it: its number of threads, and its optimization
level, which decides on blocked layouts. The default, by which times are normalized, is all
optimizations with the fewest threads that were measured.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import numpy as np

from ...kernel import Kernel, TensorSpec, numpy_dtype
from ...kernels.kernel_model import output_shapes
from ...machine import Machine
from ...sessions.session import LEVELS
from .archive import CostGraph
from .features import NAMES, extents, operator_name, quantities

FEATURES = (*NAMES, "constant")
PRIOR_FEATURE = FEATURES.index("bound")
"""The node feature that is a first guess of the time in ns, with one thread."""

FOLDER = "tile/onnxruntime/"
"""Where graphs of measured kernels lie in a data set."""

LEVEL_NAMES = tuple(LEVELS)
"""The optimization levels in the order of their numbers."""

_DEFAULT_LEVEL = "all"

Configuration = tuple[int, str]
"""Threads, and the optimization level of the runtime."""


def opcode(name: str) -> int:
    """Return the opcode of an operator, or of a tensor's role: a checksum of its name."""
    return zlib.crc32(name.encode()) & 0x7FFFFFFF


def graph_of_kernel(
    kernel: Kernel, architecture: str, times_ns: Mapping[Configuration, float], machine: Machine
) -> CostGraph:
    """Return a kernel as a graph, with the time of each configuration, at least 1 ns.

    Nodes are its operands, itself, its results. What a tensor or an operator does not have is -1.
    """
    operands = [spec for spec in kernel.inputs if spec is not None]
    results = [
        TensorSpec(shape[0], tuple(shape[1]))
        for shape in output_shapes(kernel)
        if shape is not None
    ]
    rows = [_tensor_row(spec, "input") for spec in operands]
    rows.append([*quantities(kernel, machine, 1), -1.0])
    rows += [_tensor_row(spec, "output") for spec in results]
    opcodes = [opcode("constant" if spec.constant else "operand") for spec in operands]
    opcodes += [opcode(operator_name(kernel)), *[opcode("result")] * len(results)]
    center = len(operands)
    edges = [(center, number) for number in range(center)]
    edges += [(center + 1 + number, center) for number in range(len(results))]
    configurations = sorted(
        times_ns, key=lambda configuration: (configuration[1] != _DEFAULT_LEVEL, *configuration)
    )
    runtimes = np.array(
        [max(round(times_ns[configuration]), 1) for configuration in configurations], np.int64
    )
    return CostGraph(
        f"{FOLDER}{architecture}_{kernel.hash[:16]}.npz",
        {
            "node_feat": np.array(rows, np.float32),
            "node_opcode": np.array(opcodes, np.int32),
            "edge_index": np.array(edges, np.int32).reshape(-1, 2),
            "config_feat": np.array(
                [[threads, LEVEL_NAMES.index(level)] for threads, level in configurations],
                np.float32,
            ).reshape(-1, 2),
            "config_runtime": runtimes,
            "config_runtime_normalizers": np.repeat(runtimes[:1], len(runtimes)),
        },
    )


def prior_feature_of(graph: CostGraph) -> int | None:
    """Return the node feature with a first guess, of a graph that was made here; else None."""
    is_kernel = graph.collection == "tile" and graph.path.startswith(FOLDER)
    features = graph.arrays["node_feat"].shape[1]
    return PRIOR_FEATURE if is_kernel and features == len(FEATURES) else None


def _tensor_row(spec: TensorSpec, role: str) -> list[float]:
    """Return the features of a tensor: its bytes and extents, where an operator has its own."""
    values = dict.fromkeys(FEATURES, -1.0)
    values["bytes"] = float(spec.size_bytes)
    values["element_bytes"] = float(numpy_dtype(spec.dtype).itemsize)
    values["constant"] = float(spec.constant)
    for axis, size in enumerate(extents(spec.shape)):
        values[f"{role}_{axis}"] = size
    return list(values.values())
