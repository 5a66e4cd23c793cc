"""Kernels over cells of one shape, whatever lies between them: Cell and MultiAgg, dense.

Cells are taken in the order of memory, a tile at a time; an operand that doesn't lie there in
that order and type, or that broadcasts, is copied tile by tile.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from ...codegen.expressions import C_TYPES, SUFFIXES, LoweringError, Reduction
from ...codegen.vector_loops import Fold, OverTiles, tile
from ...native.configurations.fused_configuration import FusedConfiguration, FusedSizes
from ..program import memory_pool
from ..program.dag import Node, Program
from .launch import (
    CODES,
    DTYPES,
    FROM,
    HEADER,
    VIEW,
    Array,
    Finish,
    Function,
    address,
    chunked,
    code,
    contiguous,
    finish,
    over_chunks,
    prepared,
    start,
)
from .statements import BITS, declare, kernel_dtype, reduction, statement

# More operands than this don't fit a thread's stack in tiles.
_MOST_INPUTS = 24
# Sums of such cells wait for memory, and for their own last sum where one vector holds it; and how
# many of these have vectors enough for lanes, each of so many bytes.
_LIGHT = frozenset(("Add", "Sub", "Mul", "Div", "Neg", "Abs", "Max", "Min", "Sqrt", "Cast"))
_MOST_LANED, _LANED = 2, 128
# The vectors that each of a fold's takes: the greatest element is one, and whether there was a NaN.
_ACCUMULATORS = {"sum": 1, "max": 2, "min": 2}
# How the work is divided where nothing else is chosen.
CELLS = FusedConfiguration()
cells_chunked = lru_cache(256)(chunked)
# Columns below which broadcasting a vector by copies is cheaper than a loop for each row; common.h
NARROW = 32


@dataclass(frozen=True)
class CellKernel:
    """A region whose cells all have the shape `shape`; `text` defines the function `name`."""

    name: str
    text: str
    nodes: Mapping[int, Node]
    shape: tuple[int, ...]
    inputs: tuple[int, ...]
    cells: tuple[int, ...]
    finishes: tuple[Finish, ...]
    configuration: FusedConfiguration = CELLS

    @property
    def outputs(self) -> tuple[int, ...]:
        """The nodes that a run returns."""
        return (*self.cells, *(finish.node for finish in self.finishes))

    def work_sizes(self, threads: int) -> FusedSizes:
        """Return the sizes that configurations depend on."""
        return FusedSizes(math.prod(self.shape), 0, int(bool(self.finishes)), threads)

    def run(
        self,
        function: Function,
        values: Mapping[int, Array],
        threads: int,
        how: FusedConfiguration = CELLS,
    ) -> dict[int, Array]:
        """Return the outputs for arrays; NumPy's errors for reductions of nothing."""
        count = self._count
        chunks, step = cells_chunked(count, how.part)
        views: list[int] = []
        arrays: list[Array] = []
        turned, width = False, self._width
        for node_id, shape, dtype, whole in self._plain:
            array = values[node_id]
            flags = array.flags
            lies = flags.c_contiguous and flags.aligned
            if not lies or array.shape != shape or array.dtype != dtype:
                node = self.nodes[node_id]
                if node.shape == self.shape or node.size == 1:
                    arrays, turned, width, views = self._spread(values)
                    break
                array = prepared(array, node)
                arrays.append(array)
                views += self._view(array, node, False, *self._rows(False))
                continue
            views += (address(array), *whole)
        columns = len(self.finishes)
        partial = np.empty((chunks, columns)) if columns else None
        sums = 0 if partial is None else address(partial)
        arguments = [0, chunks, step, count, width, sums, columns, 0, *views]
        results: dict[int, Array] = {}
        for node_id, dtype in self._results:
            result = memory_pool.empty(self.shape[::-1] if turned else self.shape, dtype)
            arguments += (address(result), 0, 0, 0)
            results[node_id] = result.T if turned else result
        start(function, arguments, threads if count >= how.run else 1)
        del arrays
        for column, last in enumerate(self.finishes):
            assert partial is not None
            results[last.node] = last.apply(partial[:, column], count)
        return results

    @cached_property
    def _count(self) -> int:
        return math.prod(self.shape)

    @cached_property
    def _width(self) -> int:
        return self._rows(False)[1]

    @cached_property
    def _results(self) -> list[tuple[int, Any]]:
        return [(node_id, DTYPES[self.nodes[node_id].dtype]) for node_id in self.cells]

    @cached_property
    def _plain(self) -> list[tuple[int, tuple[int, ...], Any, tuple[int, int, int]]]:
        """Each input as it is where it lies in C's order: shape, type, the rest of its view."""
        layouts = []
        rows, width = self._rows(False)
        for node_id in self.inputs:
            node = self.nodes[node_id]
            computed = kernel_dtype(node)
            if node.size == 1:
                # a number of another type is converted by NumPy
                shape = node.shape if node.dtype == computed else (-1,)
                layouts.append((node_id, shape, DTYPES[computed], (0, 0, 0)))
                continue
            dtype = DTYPES[node.dtype]
            kind = 0 if node.dtype == computed else CODES[node.dtype]
            strides = _strides(node.shape, dtype.itemsize)
            strides = _broadcast(node.shape, strides, self.shape)
            wide = self.shape[-1]
            rest = self._placed(strides, wide, computed, kind, node.size, rows, width)
            layouts.append((node_id, node.shape, dtype, rest))
        return layouts

    def _spread(self, values: Mapping[int, Array]) -> tuple[list[Array], bool, int, list[int]]:
        """Return arrays of any strides and types, to be held until the kernel is done; whether the
        cells lie by columns, the width of their rows, and the views."""
        arrays = [prepared(values[node_id], self.nodes[node_id]) for node_id in self.inputs]
        turned = self._turned(arrays)
        rows, width = self._rows(turned)
        views: list[int] = []
        for number, node_id in enumerate(self.inputs):
            node = self.nodes[node_id]
            if node.size == 1:
                arrays[number] = contiguous(arrays[number], kernel_dtype(node))
                views += (address(arrays[number]), 0, 0, 0)
            else:
                views += self._view(arrays[number], node, turned, rows, width)
        return arrays, turned, width, views

    def _turned(self, arrays: Sequence[Array]) -> bool:
        """Whether the cells lie by columns; what lies otherwise is copied in tiles."""
        whole = [array for array in arrays if array.shape == self.shape and array.ndim == 2]
        return (
            bool(whole)
            and not any(array.flags.c_contiguous for array in whole)
            and any(array.flags.f_contiguous for array in whole)
        )

    def _rows(self, turned: bool) -> tuple[int, int]:
        shape = self.shape[::-1] if turned else self.shape
        if len(shape) < 2 or shape[1] == 1:
            return 1, math.prod(shape)
        return int(shape[0]), int(shape[1])

    def _view(
        self, array: Array, node: Node, turned: bool, rows: int, width: int
    ) -> tuple[int, int, int, int]:
        same = array.shape == self.shape
        whole = array.size if same and (array.T if turned else array).flags.c_contiguous else 0
        strides = _broadcast(array.shape, array.strides, self.shape)
        wide = self.shape[0 if turned else -1]
        strides = strides[::-1] if turned else strides
        kind, dtype = code(array, node), kernel_dtype(node)
        return address(array), *self._placed(strides, wide, dtype, kind, whole, rows, width)

    def _placed(
        self,
        strides: tuple[int, ...],
        wide: int,
        dtype: str,
        kind: int,
        whole: int,
        rows: int,
        width: int,
    ) -> tuple[int, int, int]:
        """Return a view but for its address; `whole` elements lie in the order of the cells."""
        if whole != math.prod(self.shape):
            kind = kind or FROM[dtype]
        if len(strides) == 2 and rows == 1 and width != wide:
            return 0, strides[0], kind  # one column
        row, column = (0, 0, *strides)[-2:]
        return row, column, kind


def _strides(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Return the strides in bytes of an array in C's order."""
    byte_strides = []
    for extent in reversed(shape):
        byte_strides.append(size)
        size *= extent
    return tuple(reversed(byte_strides))


def _broadcast(
    shape: tuple[int, ...], strides: tuple[int, ...], among: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the strides of an array that is broadcast to a shape: 0 where it is repeated."""
    byte_strides = [0 if extent == 1 else step for extent, step in zip(shape, strides, strict=True)]
    return (*[0] * (len(among) - len(byte_strides)), *byte_strides)


def lower_cells(
    program: Program, name: str, nodes: Sequence[int], inputs: Sequence[int], outputs: Sequence[int]
) -> CellKernel:
    """Return the kernel of a region; raise LoweringError where its cells have several shapes."""
    table = {node_id: program.nodes[node_id] for node_id in [*inputs, *nodes]}
    constants = {node_id for node_id, node in table.items() if node.op == "Constant"}
    reductions = [table[node_id] for node_id in nodes if _reduces(table[node_id])]
    elementwise = [
        table[node_id]
        for node_id in nodes
        if table[node_id].is_elementwise and not table[node_id].is_leaf
    ]
    if len(reductions) + len(elementwise) + len(
        [node_id for node_id in nodes if node_id in constants]
    ) < len(nodes):
        raise LoweringError("it isn't one value for each element, and sums of those")
    if not elementwise and not reductions:
        raise LoweringError("a region without cells")
    shape = elementwise[0].shape if elementwise else table[reductions[0].inputs[0]].shape
    used = {operand for node in (*elementwise, *reductions) for operand in node.inputs}
    arrays = [node_id for node_id in inputs if node_id in used and node_id not in constants]
    _check(program, elementwise, reductions, arrays, shape, outputs)
    folds = [Fold(_reduction(program, node)) for node in reductions]
    lines = _text(program, name, arrays, elementwise, folds, outputs)
    return CellKernel(
        name,
        "\n".join(lines),
        table,
        shape,
        tuple(arrays),
        tuple(node.id for node in elementwise if node.id in outputs),
        tuple(finish(program, fold.reduction) for fold in folds),
    )


def _reduces(node: Node) -> bool:
    """Whether a node is a reduction, or a product of two vectors: a sum of cells' products."""
    return node.op.startswith("Reduce") or (node.op == "MatMul" and not node.shape)


def _reduction(program: Program, node: Node) -> Reduction:
    if node.op != "MatMul":
        return reduction(program, node)
    if node.dtype not in SUFFIXES:
        raise LoweringError(f"MatMul (%{node.id}) of {node.dtype}")
    left, right = node.inputs
    return Reduction(node.id, "sum", f"v{left} * v{right}", node.dtype)


def _check(
    program: Program,
    elementwise: Sequence[Node],
    reductions: Sequence[Node],
    arrays: Sequence[int],
    shape: tuple[int, ...],
    outputs: Sequence[int],
) -> None:
    if len(shape) > 2 or len(arrays) > _MOST_INPUTS:
        raise LoweringError("more axes or operands than a kernel over cells takes")
    reduced = {node.id for node in reductions}
    for node in elementwise:
        if node.shape != shape or reduced & set(node.inputs):
            raise LoweringError("cells of several shapes")
    for node in reductions:
        operands = [program.nodes[input_] for input_ in node.inputs]
        if (
            any(operand.shape != shape or operand.id in reduced for operand in operands)
            or node.size != 1
        ):
            raise LoweringError("a reduction to more than one number")
        if node.id not in outputs:
            raise LoweringError("a reduction inside of a kernel over cells")
    for node_id in arrays:
        node = program.nodes[node_id]
        if node.layout != "dense":
            raise LoweringError("a sparse operand")
        if node.shape != shape and node.size != 1 and (len(shape) < 2 or shape[1] >= NARROW):
            raise LoweringError("a vector beside wide rows")


def _text(
    program: Program,
    name: str,
    arrays: Sequence[int],
    elementwise: Sequence[Node],
    folds: Sequence[Fold],
    outputs: Sequence[int],
) -> list[str]:
    lines = [f"static void {name}(i64 *a) {{"]
    loads: list[str] = []
    tiles: list[str] = []
    place = HEADER
    for node_id in arrays:
        node = program.nodes[node_id]
        dtype = kernel_dtype(node)
        kind, bits = C_TYPES[dtype], BITS[dtype]
        lines.append(f"  const view *in{node_id} = (const view *)(a + {place});")
        place += VIEW
        if node.size == 1:
            lines.append(f"  const {kind} x{node_id} = *(const {kind} *)in{node_id}->data;")
            loads.append(declare(node, f"x{node_id}"))
            continue
        lines.append(f"  {kind} b{node_id}[TILE + NARROW] __attribute__((aligned(64)));")
        lines.append(f"  row_over_{bits}(in{node_id}, a[4], b{node_id});")
        read = f"cells_{bits}(in{node_id}, a[4], at, n, b{node_id})"
        tiles.append(f"const {kind} *restrict x{node_id} = {read};")
        loads.append(declare(node, f"x{node_id}[j]"))
    stores: list[str] = []
    for node in elementwise:
        if node.id in outputs:
            kind = C_TYPES[kernel_dtype(node)]
            lines.append(f"  {kind} *o{node.id} = ({kind} *)a[{place}];")
            tiles.append(f"{kind} *restrict y{node.id} = o{node.id} + at;")
            stores.append(f"y{node.id}[j] = v{node.id};")
            place += VIEW
    body = [*loads, *(statement(program, node) for node in elementwise), *stores]
    lanes = fold_lanes(elementwise, folds, stores)
    lines.append(f"  const i64 tile = {_tile(program, arrays) if lanes else 'TILE'};")
    wholes = [OverTiles(fold, "t") for fold in folds]
    inside = [
        *(whole.declare() for whole in wholes),
        "for (i64 at = chunk * a[2]; at < end; at += tile) {",
        "  const i64 n = LEAST(tile, end - at);",
        *(f"  {line}" for line in tiles),
        *tile("j", "0", "n", body, wholes, "  ", lanes),
        "}",
    ]
    for column, whole in enumerate(wholes):
        inside.append(f"((double *)a[5])[chunk * a[6] + {column}] = {whole.value};")
    return [*lines, *over_chunks("end", inside), "}"]


def fold_lanes(elementwise: Sequence[Node], folds: Sequence[Fold], stores: Sequence[str]) -> str:
    """Return how many results a fold has side by side; "" where the compiler's one vector does."""
    light = all(node.op in _LIGHT for node in elementwise)
    accumulators = sum(_ACCUMULATORS.get(fold.reduction.kind, _MOST_LANED + 1) for fold in folds)
    if not folds or accumulators > _MOST_LANED or stores or not light:
        return ""
    return str(_LANED // int(max(DTYPES[fold.reduction.dtype].itemsize for fold in folds)))


def _tile(program: Program, arrays: Sequence[int]) -> str:
    """Return the cells of a step with lanes: more of them where no operand is copied to a tile."""
    copied = " | ".join(
        f"in{node_id}->type" for node_id in arrays if program.nodes[node_id].size != 1
    )
    return f"{copied} ? TILE : 4 * TILE" if copied else "TILE"
