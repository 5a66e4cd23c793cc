"""Kernels over blocks of rows: Row, and what else has vectors, row or column aggregates.

A block of rows goes through all stages while it lies in the cache; what is summed over rows is
added plainly for about 256 rows, then, with what rounding lost, to the sums of a chunk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ...codegen.expressions import LoweringError
from ...native.configurations.fused_configuration import FusedConfiguration, FusedSizes
from ..planning.fusion_plan import FusedOperator
from ..program import memory_pool
from ..program.dag import Node, Program
from .axis_classes import Axis, RowPartition, partition_by_rows
from .launch import (
    DEAR,
    DISTINCT,
    DTYPES,
    FROM,
    Array,
    Function,
    address,
    chunked,
    code,
    contiguous,
    finishes,
    partials,
    prepared,
    prepared_sparse,
    sparse_view,
    start,
)
from .region_kernel import Operand, RegionKernel
from .row_state import schedule
from .row_text import RowText
from .statements import kernel_dtype

# How the work is divided where nothing else is chosen. A block is short, so that its rows are still
# in the first cache when they are read again, beside those fetched ahead.
ROWS = FusedConfiguration(part=1 << 15)
# Rows that are added plainly.
_FLUSH = 256
# Chunks that few entries of a sparse operand are divided into all the same, for so many threads.
_LEAST_CHUNKS = 4
# The partial results of kernels that have none.
_NOTHING = np.zeros((1, 0))


@dataclass(frozen=True, kw_only=True)
class RowKernel(RegionKernel):
    """A region run over the rows of one class of axes."""

    partition: RowPartition
    widest: int
    single: bool
    configuration: FusedConfiguration = ROWS

    def work_sizes(self, threads: int) -> FusedSizes:
        """Return the sizes that configurations depend on."""
        width = 0 if self.single else max(self.widest, self.work // 2)
        return FusedSizes(self.partition.rows * self.work, width, int(bool(self.parts)), threads)

    def call(
        self,
        function: Function,
        arrays: Mapping[int, Array],
        threads: int,
        how: FusedConfiguration,
    ) -> dict[int, Array]:
        """Return the results, and what is reduced over all rows."""
        arguments = list(self.head(how))
        partial = partials(arguments[1], arguments[6]) if arguments[6] else _NOTHING
        arguments[5], arguments[6] = address(partial), partial.shape[1]
        results: dict[int, Array] = {}
        used: list[Array] = []  # until the function is done
        for operand, form in zip(self.operands, self.forms, strict=True):
            if form.result_shape is not None:
                result = memory_pool.empty(form.result_shape, form.dtype)
                arguments += (address(result), 0, 0, 0)
                results[operand.node] = result.T if form.turned else result
                continue
            array = arrays[operand.node]
            if type(array) is np.ndarray and form.suits(array):
                arguments += (address(array), *form.rest)
            else:
                arguments += self._view(operand, array, used)
        busy = self.partition.rows * self.work >= how.run
        start(function, arguments, threads if busy else 1)
        for part in self.parts:
            results[part.node] = self.reduced(part, partial, self.partition.rows)
        return results

    def _view(self, operand: Operand, value: Array, used: list[Array]) -> tuple[int, int, int, int]:
        """Return the view of an operand that needs care; arrays that are made for it are `used`."""
        node = self.program.nodes[operand.node]
        if operand.form == "sparse":
            matrix = prepared_sparse(value, node)
            matrix = matrix.tocsr() if self.partition.axis[node.id] == 0 else matrix.tocsc()
            data, begins, columns, flags = sparse_view(matrix, node.dtype, used)
            return data, begins, columns, flags | (DISTINCT if matrix.has_canonical_format else 0)
        array = prepared(value, node)
        if operand.form == "rows":
            return self._rows(node, array, used)
        if operand.form == "strided":
            if code(array, node):
                array = contiguous(array, kernel_dtype(node))
            used.append(array)
            return address(array), *array.strides, 0
        turned = operand.form == "turned" and array.ndim == 2
        whole = contiguous(array.T if turned else array, kernel_dtype(node))
        used.append(whole)
        return address(whole), 0, 0, 0

    def _rows(self, node: Node, array: Array, used: list[Array]) -> tuple[int, int, int, int]:
        if array.ndim < 2:
            array = array.reshape(-1, 1)
        elif self.partition.axis[node.id] == 1:
            array = array.T
        used.append(array)
        kind = code(array, node)
        row, column = array.strides
        size = array.itemsize
        inner = (column == size or array.shape[1] == 1) and row % size == 0
        if not inner or (array.shape[1] == 1 and row != size and len(array) > 1):
            kind = kind or FROM[kernel_dtype(node)]
        return address(array), row, column, kind

    def head(self, how: FusedConfiguration) -> tuple[int, ...]:
        """Return the arguments of a call before its views, but for where partial results lie."""
        head = self._heads.get(how)
        if head is None:
            head = self._heads[how] = self._head(how)
        return head

    @cached_property
    def _heads(self) -> dict[FusedConfiguration, tuple[int, ...]]:
        return {}

    def _head(self, how: FusedConfiguration) -> tuple[int, ...]:
        rows = self.partition.rows
        widths = (self.widest, max(1, self.work // 2))
        block = 1 if self.single else min(_block(width, how.block) for width in widths)
        total = self.total
        least = max(block, how.part // self.work)
        for node in self._sparse:
            # what is scattered over the columns is made, and added up, for each chunk
            if total >= (columns := node.size // rows):
                most = max(_LEAST_CHUNKS, (node.nnz or 0) // (DEAR * columns))
                least = max(least, -(-rows // most))
        chunks, step = chunked(rows, least, block, total, self.work)
        sizes = (block, max(1, _FLUSH * self.flush_factor // block), *self.sizes[2:])
        return (0, chunks, step, rows, 0, 0, total, 0, *sizes)

    @cached_property
    def forms(self) -> tuple[_Form, ...]:
        """How each operand is taken where it is as most are."""
        return tuple(_form(self.program, self.partition, operand) for operand in self.operands)

    @cached_property
    def work(self) -> int:
        """Elements of a row: of the widest buffer, or stored ones."""
        return max(self.widest, *(self._stored(node) for node in self._sparse), 1)

    @cached_property
    def flush_factor(self) -> int:
        """How many times as rarely as dense rows sparse ones add to a column, 4 at the most."""
        rows = self.partition.rows
        wide = [node.size // rows // max(1, self._stored(node)) for node in self._sparse]
        dense = any(operand.form == "rows" for operand in self.operands) and self.widest > 1
        return 1 if dense else max(1, min([4, *wide]) if wide else 1)

    @property
    def _sparse(self) -> list[Node]:
        return [
            self.program.nodes[operand.node]
            for operand in self.operands
            if operand.form == "sparse"
        ]

    def _stored(self, node: Node) -> int:
        return (node.nnz or 0) // self.partition.rows


@dataclass(frozen=True, slots=True)
class _Form:
    """An operand that lies as most do, in C's order: its shape, type and the rest of its view.

    `result_shape` is that of a result; an operand that needs care has no shape.
    """

    dtype: Any
    shape: tuple[int, ...] | None
    rest: tuple[int, int, int]
    result_shape: tuple[int, ...] | None = None
    turned: bool = False  # the result lies by columns

    def suits(self, array: Array) -> bool:
        """Whether an array is that."""
        flags = array.flags
        return bool(
            array.shape == self.shape
            and array.dtype == self.dtype
            and flags.c_contiguous
            and flags.aligned
        )


def _form(program: Program, part: RowPartition, operand: Operand) -> _Form:
    node = program.nodes[operand.node]
    if operand.form == "result":
        turned = len(node.shape) == 2 and part.axis[node.id] == 1
        shape = node.shape[::-1] if turned else node.shape
        return _Form(DTYPES[node.dtype], None, (0, 0, 0), shape, turned)
    dtype = kernel_dtype(node)
    size = DTYPES[dtype].itemsize
    plain: tuple[int, ...] | None = node.shape if dtype == node.dtype else None
    if operand.form == "rows":
        by_columns = len(node.shape) > 1 and part.axis[node.id] == 1
        wide = node.shape[1] if len(node.shape) > 1 else 1
        return _Form(DTYPES[dtype], None if by_columns else plain, (wide * size, size, 0))
    if operand.form == "strided":
        return _Form(DTYPES[dtype], plain, (node.shape[1] * size, size, 0))
    whole = operand.form == "whole" or (operand.form == "turned" and len(node.shape) < 2)
    return _Form(DTYPES[dtype], plain if whole else None, (0, 0, 0))


def _block(widest: int, numbers: int) -> int:
    """Return the rows of a block of so many numbers: four or more, as products take them, or one.

    One where they are long.
    """
    if widest > 1 << 16:
        return 1
    return min(1024, max(4, numbers // widest // 4 * 4))


def lower_rows(program: Program, operator: FusedOperator, name: str) -> RowKernel:
    """Return the kernel of a region over rows; raise LoweringError where no axis allows one."""
    refusals: list[str] = []
    for seed in _seeds(program, operator):
        try:
            return _lowered(program, operator, name, seed)
        except LoweringError as error:
            refusals.append(str(error))
    raise LoweringError("; ".join(dict.fromkeys(refusals)) or "no input has rows")


def _seeds(program: Program, operator: FusedOperator) -> list[Axis]:
    """Return the axes to run over, the rows of the driver and of the largest inputs first."""
    inputs = sorted(operator.inputs, key=lambda node_id: -program.nodes[node_id].size)
    first = [] if operator.driver is None else [operator.driver]
    order = list(dict.fromkeys([*first, *inputs]))[:4]
    return [
        (node_id, axis)
        for axis in (0, 1)
        for node_id in order
        if axis < len(program.nodes[node_id].shape)
    ]


def _lowered(program: Program, operator: FusedOperator, name: str, seed: Axis) -> RowKernel:
    nodes, inputs = operator.nodes, operator.inputs
    partition = partition_by_rows(program, nodes, inputs, seed)
    if any(not program.nodes[node_id].size for node_id in (*nodes, *inputs)):
        raise LoweringError("an array without elements")
    plan = schedule(program, partition, nodes, operator.outputs)
    if not plan.levels:
        raise LoweringError("nothing runs along the rows")
    for node_id in inputs:
        node = program.nodes[node_id]
        if node.layout != "dense" and partition.state[node_id] != "cell":
            raise LoweringError("a sparse operand that is the same for each row")
    covered = [program.nodes[node_id] for node_id in nodes if not program.nodes[node_id].is_leaf]
    wanted = {
        input_ for node in covered if partition.state[node.id] == "after" for input_ in node.inputs
    }
    results = [node_id for node_id in operator.outputs if partition.state[node_id] == "cell"]
    if any(program.nodes[node_id].layout != "dense" for node_id in results):
        raise LoweringError("rows are written dense")
    if wanted & {node.id for node in covered if partition.state[node.id] == "cell"}:
        raise LoweringError("a cell that is needed after the last row")
    builder = RowText(program, partition, plan, inputs, results)
    text = builder.build(name)
    return RowKernel(
        name=name,
        text=text,
        program=program,
        operands=tuple(builder.operands),
        sizes=tuple(builder.sizes),
        parts=tuple(builder.parts),
        finishes=finishes(program, {part.node: part.reduction for part in builder.parts}),
        before=tuple(node for node in covered if partition.state[node.id] == "before"),
        after=tuple(node for node in covered if partition.state[node.id] == "after"),
        outputs=operator.outputs,
        partition=partition,
        widest=builder.widest,
        single=builder.single,
    )
