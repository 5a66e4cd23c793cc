"""Kernels over the stored entries of a sparse matrix: Outer, and Cell where zeros stay zeros.

A node that has both the rows and the columns of the driver is computed at its stored entries
alone: elementwise, or, of a product U V, as the inner product of a row of U and a column of V.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from ...codegen.expressions import LoweringError
from ...native.configurations.fused_configuration import FusedConfiguration, FusedSizes
from ..planning.fusion_plan import FusedOperator
from ..program.dag import Node, Program
from .axis_classes import Classes, State, node_states
from .entry_text import EntryText
from .launch import (
    DEAR,
    Array,
    Function,
    address,
    chunked,
    contiguous,
    finishes,
    partials,
    prepared,
    prepared_sparse,
    sparse_view,
    start,
)
from .region_kernel import Operand, RegionKernel
from .statements import MOVES, kernel_dtype

# How the work is divided where nothing else is chosen: an entry takes longer than a cell.
ENTRIES = FusedConfiguration(run=1 << 14)
# Forms of operands that are written.
_RESULTS = frozenset(["entries", "rows", "matrix_rows"])


@dataclass(frozen=True, kw_only=True)
class EntryKernel(RegionKernel):
    """A region run over the stored entries of `driver`."""

    driver: int
    built: EntryText
    meets: bool  # two sparse operands: SciPy stores no 0 of theirs
    configuration: FusedConfiguration = ENTRIES

    @cached_property
    def widest(self) -> int:
        """The most columns of a product."""
        return max([1, *self.built.widths.values()])

    def work_sizes(self, threads: int) -> FusedSizes:
        """Return the sizes that configurations depend on: how many threads run may be chosen."""
        return FusedSizes(self.program.nodes[self.driver].nnz or 0, 0, 1, threads)

    def call(
        self,
        function: Function,
        arrays: Mapping[int, Array],
        threads: int,
        how: FusedConfiguration,
    ) -> dict[int, Array]:
        """Return the values at entries, and what is reduced over them."""
        driver = self.program.nodes[self.driver]
        sparse = prepared_sparse(arrays[driver.id], driver)
        matrix = _canonical(sparse.tocsr(), sparse)
        rows, columns = matrix.shape
        nnz = len(matrix.data)
        chunks, step = _cut(rows, nnz, self.widest, self.total)
        partial = partials(chunks, self.total)
        head = (0, chunks, step, rows, columns, address(partial), partial.shape[1], 0)
        used: list[Array] = []  # until the function is done
        arguments = [*head, *self.sizes, *sparse_view(matrix, driver.dtype, used)]
        results: dict[int, Array] = {}
        for operand in self.operands:
            if operand.form in _RESULTS:
                result = results[operand.node] = self._result(operand, matrix)
                arguments += (address(result), 0, 0, 0)
            else:
                arguments += (*self._view(operand, arrays[operand.node], matrix, used), 0)
        start(function, arguments, threads if nnz >= how.run else 1)
        for operand in self.operands:
            if operand.form in _RESULTS:
                results[operand.node] = self._shaped(operand, results[operand.node], matrix)
        for part in self.parts:
            results[part.node] = self.reduced(part, partial, rows * columns)
        return results

    def _result(self, operand: Operand, matrix: Array) -> Array:
        width = self.built.widths.get(operand.node, 1)
        size = matrix.nnz if operand.form == "entries" else matrix.shape[0] * width
        return np.zeros(size, self.program.nodes[operand.node].dtype)

    def _view(
        self, operand: Operand, value: Array, matrix: Array, used: list[Array]
    ) -> tuple[int, int, int]:
        """Return the view of an operand but for its type; the array that it shows is `used`."""
        node, turned = self.program.nodes[operand.node], self.built.turned(operand.node)
        if operand.form == "sparse":
            used.append(_aligned(value, matrix, turned))
            return address(used[-1]), 0, 0
        value = prepared(value, node)
        if operand.form == "cells":
            spread = value.T if turned else value
            if value.dtype.name != kernel_dtype(node) or not value.flags.aligned:
                spread = contiguous(spread, kernel_dtype(node))
            used.append(spread)
            return address(spread), *spread.strides
        is_factor = operand.form == "factor"
        spread = self.built.by_rows(node.id, value) if is_factor else value.reshape(-1)
        used.append(contiguous(spread, kernel_dtype(node)))
        return address(used[-1]), 0, 0

    def _shaped(self, operand: Operand, result: Array, matrix: Array) -> Array:
        node = self.program.nodes[operand.node]
        turned = self.built.turned(node.id)
        if operand.form != "entries":
            return result.reshape(node.shape[::-1]).T if turned else result.reshape(node.shape)
        sparse = type(matrix)((result, matrix.indices, matrix.indptr), shape=matrix.shape)
        sparse.has_canonical_format = True  # as the driver's: SciPy needn't look through it
        if self.meets:
            sparse = sparse.copy()  # the pattern is the driver's
            sparse.eliminate_zeros()
        if turned:
            sparse = sparse.T
        return sparse.toarray() if node.layout == "dense" else sparse.asformat(node.layout)


@lru_cache(256)
def _cut(rows: int, nnz: int, widest: int, total: int) -> tuple[int, int]:
    """Return the chunks of a run, and the rows of one but the last, as `chunked` does."""
    least = max(1, (rows << 14) // max(1, nnz))
    # partial results that are made and added up cost more than what comes to them one by one
    least = max(least, -(-rows // max(1, nnz * widest // (DEAR * max(1, total)))))
    return chunked(rows, least, 1, total)


def _canonical(matrix: Array, source: Array) -> Array:
    """Return a matrix by rows without duplicates or unused places; what was given stays."""
    unused = len(matrix.data) > matrix.indptr[-1]
    if matrix.has_canonical_format and not unused:
        return matrix
    matrix = matrix.copy() if matrix is source else matrix
    matrix.sum_duplicates()
    if unused:
        matrix.prune()
    return matrix


def _aligned(other: Array, matrix: Array, turned: bool) -> Array:
    """Return another sparse matrix's values at the stored entries of `matrix`."""
    other = other.T if turned else other
    other = _canonical(other.tocsr(), other)
    same = other.nnz == matrix.nnz and (
        other.indptr is matrix.indptr or np.array_equal(other.indptr, matrix.indptr)
    )
    if same and (other.indices is matrix.indices or np.array_equal(other.indices, matrix.indices)):
        return contiguous(other.data, other.dtype.name)
    if not other.nnz:
        return np.zeros(matrix.nnz, other.dtype)
    wanted, present = _keys(matrix), _keys(other)
    place = np.minimum(np.searchsorted(present, wanted), len(present) - 1)
    values = np.where(present[place] == wanted, other.data[place], 0)
    return contiguous(values, other.dtype.name)


def _keys(matrix: Array) -> Array:
    rows = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))
    return rows * matrix.shape[1] + matrix.indices


def lower_entries(program: Program, operator: FusedOperator, name: str) -> EntryKernel:
    """Return the kernel of a region over a sparse driver's entries; raise LoweringError."""
    driver = operator.driver
    if driver is None or program.nodes[driver].layout == "dense":
        raise LoweringError("no sparse driver")
    covered = [
        program.nodes[node_id] for node_id in operator.nodes if not program.nodes[node_id].is_leaf
    ]
    classes = Classes(program)
    for node in covered:
        classes.add(node)
    rows, columns = classes.find((driver, 0)), classes.find((driver, 1))
    if rows == columns:
        raise LoweringError("rows and columns of the driver run together")
    axes: dict[int, tuple[int | None, int | None]] = {}
    for node_id in [*operator.inputs, *operator.nodes]:
        axis_classes = [
            classes.find((node_id, axis)) for axis in range(len(program.nodes[node_id].shape))
        ]
        if len(axis_classes) > 2 or axis_classes.count(rows) > 1 or axis_classes.count(columns) > 1:
            raise LoweringError(f"%{node_id} has its axes twice along the driver's")
        axes[node_id] = (
            axis_classes.index(rows) if rows in axis_classes else None,
            axis_classes.index(columns) if columns in axis_classes else None,
        )
    states = _states(program, operator.inputs, covered, axes)
    built = EntryText(program, axes, states, driver, operator.outputs)
    text = built.build(name, [node for node in covered if states[node.id] in ("cell", "aggregate")])
    return EntryKernel(
        name=name,
        text=text,
        program=program,
        operands=tuple(built.operands),
        sizes=tuple(built.sizes),
        parts=tuple(built.parts),
        finishes=finishes(program, {part.node: part.reduction for part in built.parts}),
        before=tuple(node for node in covered if states[node.id] == "before"),
        after=tuple(node for node in covered if states[node.id] == "after"),
        outputs=operator.outputs,
        driver=driver,
        built=built,
        meets=any(_of_two_sparse(program, node) for node in covered),
    )


def _of_two_sparse(program: Program, node: Node) -> bool:
    return sum(program.nodes[input_].layout != "dense" for input_ in node.inputs) > 1


def _states(
    program: Program,
    inputs: Sequence[int],
    covered: Sequence[Node],
    axes: Mapping[int, tuple[int | None, int | None]],
) -> dict[int, State]:
    """Say what each node is to a kernel over entries: a cell has both of the driver's axes."""
    cells = {number for number, both in axes.items() if None not in both}
    for node in covered:
        if node.id in cells and not (
            node.is_elementwise or node.op in MOVES or node.op == "MatMul"
        ):
            raise LoweringError(f"{node.op} is no operator of a kernel over entries")

    def sums(node: Node) -> bool:
        reduces = node.op == "MatMul" or (node.op.startswith("Reduce") and node.dtype != "bool")
        return reduces and node.id not in cells and not cells.isdisjoint(node.inputs)

    numbers = [node.id for node in covered]
    return node_states(program, inputs, numbers, cells, sums, ("entries", "single entries"))
