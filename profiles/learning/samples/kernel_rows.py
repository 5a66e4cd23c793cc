"""Kernels as rows of numbers, and a first guess of their times: the bound, and a dispatch.

A row is what the operator's specification and operands say (features.NAMES), threads and
optimization level. The guess is what trees correct, so that they need not learn what is known:
twice the work takes twice the time, whatever they were trained on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import onnx

from .archive import CostGraph
from .examples import architecture_of, scaled
from .features import MOST_DIMENSIONS, NAMES
from .kernel_graphs import FEATURES, PRIOR_FEATURE, opcode, prior_feature_of

Array = np.ndarray[Any, Any]

COLUMNS = (*NAMES, "threads", "level")
# What a run of an operator takes that has nothing to do: below it bounds tell nothing.
DISPATCH_NS = 400.0
# The columns by which kernels of an operator are told to be like each other.
TELLING = tuple(
    COLUMNS.index(name)
    for name in (
        *("operations", "input_bytes", "constant_bytes", "output_bytes"),
        *("free_extent", "contracted_extent"),
    )
)
_CONSTANT = FEATURES.index("constant")


@dataclass(frozen=True)
class KernelRows:
    """A kernel under c configurations.

    rows (c, len(COLUMNS)) as float32 and unscaled, -1 for what does not exist; guess (c) and logs
    (c) are logarithms of nanoseconds. `content` is equal for equal kernels of two architectures.
    """

    path: str
    opcode: int
    rows: Array
    guess: Array
    logs: Array
    architecture: str = field(init=False)
    content: tuple[int, bytes] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "architecture", architecture_of(self.path))
        # The bound is the machine's, and may be measured anew.
        sizes = self.rows[:1, : len(NAMES)].copy()
        sizes[:, PRIOR_FEATURE] = 0.0
        object.__setattr__(self, "content", (self.opcode, sizes.tobytes()))

    @property
    def label(self) -> str:
        """Name the kernel for people: "MatMul 32x64 * 64x64"."""
        shapes = []
        for role in ("input", "operand"):
            columns = [COLUMNS.index(f"{role}_{axis}") for axis in range(MOST_DIMENSIONS)]
            sizes = [f"{size:.0f}" for size in self.rows[0, columns] if size >= 0]
            if sizes:
                shapes.append("x".join(sizes))
        return f"{_operators().get(self.opcode, 'operator')} {' * '.join(shapes)}".rstrip()

    @property
    def place(self) -> Array:
        """Its scaled numbers (c, len(COLUMNS)), in which alike kernels lie near each other."""
        return scaled(self.rows)


@cache
def _operators() -> dict[int, str]:
    """Opcode -> operator, as far as ONNX knows them."""
    return {opcode(schema.name): schema.name for schema in onnx.defs.get_all_schemas()}


def kernel_rows(graph: CostGraph, cores: int | None = None) -> KernelRows | None:
    """Describe the graph of a kernel (kernel_graphs.py); None for a graph of anything else.

    More threads than there are `cores` are taken to do no more than these.
    """
    if prior_feature_of(graph) is None:
        return None
    nodes, configurations = graph.arrays["node_feat"], graph.arrays["config_feat"]
    operators = np.flatnonzero(nodes[:, _CONSTANT] < 0)
    if len(operators) != 1 or configurations.shape[1] != 2:
        return None
    (center,) = operators.tolist()
    rows = np.empty((len(configurations), len(COLUMNS)), np.float32)
    rows[:, : len(NAMES)] = nodes[center, : len(NAMES)]
    rows[:, len(NAMES) :] = configurations
    threads = np.clip(configurations[:, 0], 1, cores).astype(np.float64)
    bound = nodes[center, PRIOR_FEATURE].astype(np.float64)
    return KernelRows(
        graph.path,
        int(graph.arrays["node_opcode"][center]),
        rows,
        np.log(bound / threads + DISPATCH_NS),
        np.log(graph.arrays["config_runtime"].astype(np.float64)),
    )
