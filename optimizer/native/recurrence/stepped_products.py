"""Loops over steps that multiply by constant matrices: cells of GRUs, LSTMs, and others.

A step is a few products, and in stages between them what is elementwise. What one of these makes
stays in a buffer of the task, all of it for some rows of the batch, before the next one begins; a
state has two, that of the step before and that of this one.

    for each step:   stage 0, its products, stage 1, its products, ...
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from ....rules import ABSENT
from ...codegen.expressions import LoweringError, literal
from ...codegen.vector_loops import simd_loop
from ...graph.graph import Graph
from ..kernel import Kernel, RegionKernel, Shapes, flushes, label_of, region_kernel, shapes_of
from ..loops.affine import Affine, Extent, Map, loop, loops_of
from ..loops.c_function import access_base, function_text, operand
from ..loops.cells import Access
from ..loops.kernel_region import LaidOut, Meanings, Region, read_by
from ..loops.merged_loops import Groups, inner_step
from ..loops.row_text import RowWriter
from ..product.matrix_products import row_bias
from ..product.panels import PANEL, Panels, sizes_of
from ..regions.region_facts import MOVES
from .step_cells import TIME, StepCells
from .steps import Steps

PRODUCTS = frozenset({"MatMul", "Gemm"})
# The loops of a kernel: steps, rows of the batch, and one for each width of rows.
ROWS, WIDTHS = 1, 2
# Numbers of a row of all buffers at most: a task has several rows of them in the second cache.
MOST_NUMBERS = 1 << 16
# Products and sums that are worth a task.
GRAIN = 1 << 18


@dataclass(frozen=True)
class Product:
    """A product of a step: rows, a constant matrix, what is added to each row, the result.

    The matrix is [depth, width], or that transposed; `bias` is empty where nothing is added.
    """

    node: int
    left: int
    matrix: int
    is_transposed: bool
    depth: int
    width: int
    bias: tuple[int, ...]
    result: int


@dataclass(frozen=True)
class Target:
    """What a stage computes: a value, and where it puts the rows of it, as C text has it."""

    value: int
    buffer: str
    width: int
    offset: int = 0


def has_products(graph: Graph, steps: Steps) -> bool:
    """Tell whether a step of a loop multiplies by a constant matrix."""
    return any(_is_product(graph, number) for number in steps.body)


def _is_product(graph: Graph, number: int) -> bool:
    node = graph.nodes[number]
    if node.operator not in PRODUCTS or node.inputs[1] not in graph.constants:
        return False
    return len(graph.shape(node.inputs[1]) or ()) == 2


def stepped_products(meanings: Meanings, steps: Steps) -> RegionKernel:
    """Return the region of a loop whose steps have products; LoweringError where there is none."""
    return _Stepped(meanings, steps).region_kernel()


@dataclass
class _Buffers:
    """The buffers of a task's rows, one after another: names with widths."""

    widths: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, width: int) -> str:
        self.widths.setdefault(name, width)
        return name

    @property
    def numbers(self) -> int:
        """Numbers of a row of all of them."""
        return sum((width + 15) // 16 * 16 for width in self.widths.values())


class _Stepped:
    """A loop in the making: its products, stages and buffers, then its text."""

    def __init__(self, meanings: Meanings, steps: Steps) -> None:
        self.meanings, self.graph, self.steps = meanings, meanings.graph, steps
        self.products = {
            number: self._product(number)
            for number in self.graph.order()
            if number in steps.body and _is_product(self.graph, number)
        }
        self.of_result = {product.result: product for product in self.products.values()}
        self.levels: dict[int, int] = {}
        self.buffers = _Buffers()
        self.states_after = tuple(dict.fromkeys(state for _, state in steps.states.values()))
        self.results = list(dict.fromkeys(steps.last))
        self.outputs = (*(stack.result for stack in steps.stacked), *self.results)
        self.rows: Extent = 1
        self.widths: list[int] = []
        self.inputs: list[int] = []
        self.accesses: list[Access] = []
        self.packed: list[LaidOut] = []

    # ------------------------------------------------------------------------------ shapes

    def _product(self, number: int) -> Product:
        graph, node = self.graph, self.graph.nodes[number]
        left, matrix = node.inputs[:2]
        transposed = False
        if node.op_type == "Gemm":
            plain = graph.attribute(number, "alpha") == graph.attribute(number, "beta") == 1.0
            if not plain or graph.attribute(number, "transA"):
                raise LoweringError("a Gemm that is more than a product")
            transposed = bool(graph.attribute(number, "transB"))
        if any(graph.dtype(value) != "float32" for value in (left, matrix, node.outputs[0])):
            raise LoweringError("numbers of other types")
        depth, width = sizes_of(graph.constants[matrix].type, transposed)
        bias = row_bias(self.meanings, number, width)
        return Product(number, left, matrix, transposed, depth, width, bias, node.outputs[0])

    def _row_of(self, value: int) -> int:
        """Return the length of a value's rows, of which there is one for each of the batch."""
        shape = self.meanings.shape(value)
        if not shape or not isinstance(shape[-1], int) or shape[-1] < 2:
            raise LoweringError("rows of unknown length, or of one number")
        several = [size for size in shape[:-1] if size != 1]
        if len(several) > 1:
            raise LoweringError("rows of several axes")
        rows = several[0] if several else 1
        if self.rows not in (1, rows):
            raise LoweringError("several batches")
        self.rows = rows
        return shape[-1]

    def _level(self, value: int) -> int:
        """Return how many products a value of a step is behind."""
        if value not in self.levels:
            self.levels[value] = 0
            number = self.graph.producer.get(value)
            if (
                number in self.steps.body
                and value not in self.steps.states
                and value not in self.steps.moving
            ):
                node = self.graph.nodes[number]
                behind = max(
                    (self._level(input_) for input_ in node.inputs if input_ != ABSENT), default=0
                )
                self.levels[value] = behind + (number in self.products)
        return self.levels[value]

    # ------------------------------------------------------------------------------ stages

    def _targets(self) -> dict[int, list[Target]]:
        """Return what is computed in each stage, behind so many products."""
        targets_of: dict[int, list[Target]] = {}

        def add(level: int, value: int, buffer: str, offset: int = 0) -> None:
            targets_of.setdefault(level, []).append(
                Target(value, buffer, self._row_of(value), offset)
            )

        for product in self.products.values():
            self.buffers.add(f"P{product.node}", product.width)
            if product.left in self.steps.states:
                continue
            pieces, offset = self._pieces(product.left), 0
            self.buffers.add(f"L{product.left}", product.depth)
            for piece in pieces:
                add(self._level(product.left), piece, f"L{product.left}", offset)
                offset += self._row_of(piece)
        kept = [value for value in values_of(self.graph, self.steps.body) if self._is_kept(value)]
        for value in kept:
            self.buffers.add(f"K{value}", self._row_of(value))
            add(self._level(value), value, f"K{value}")
        self.kept = set(kept)
        for value in self.states_after:
            self.buffers.add(f"S{value}a", self._row_of(value))
            self.buffers.add(f"S{value}b", self._row_of(value))
            add(self._level(value), value, f"s{value}")
        for number, stack in enumerate(self.steps.stacked):
            add(self._level(stack.value), stack.value, f"o{number}")
        if self.buffers.numbers > MOST_NUMBERS:
            raise LoweringError("rows that don't stay in the cache")
        return {level: list(dict.fromkeys(targets)) for level, targets in targets_of.items()}

    def _pieces(self, value: int) -> tuple[int, ...]:
        """Return what a value is put together of along its rows."""
        number = self.graph.producer.get(value)
        if number not in self.steps.body or self.graph.nodes[number].op_type != "Concat":
            return (value,)
        rank = len(self.meanings.shape(value))
        if self.graph.attribute(number, "axis") not in (-1, rank - 1):
            return (value,)
        return self.graph.nodes[number].inputs

    def _is_kept(self, value: int) -> bool:
        """Tell whether a later stage reads what this one computes."""
        number = self.graph.producer[value]
        if number in self.products or self.graph.nodes[number].op_type in MOVES:
            return False
        readers = self.graph.users.get(value, set()) & self.steps.body - self.products.keys()
        return any(
            self._level(output) > self._level(value)
            for reader in readers
            for output in self.graph.nodes[reader].outputs
        )

    def _inside(self, values: Sequence[int], level: int) -> tuple[int, ...]:
        """Return the nodes that lead to values from what is known when a stage begins."""
        inside: set[int] = set()
        waiting = list(values)
        while waiting:
            value = waiting.pop()
            number = self.graph.producer.get(value)
            is_known = value in self.steps.states or value in self.steps.moving
            is_kept = value in self.kept and self._level(value) < level
            if number not in self.steps.body or number in self.products or is_known or is_kept:
                continue
            if number not in inside:
                inside.add(number)
                waiting += [value for value in self.graph.nodes[number].inputs if value != ABSENT]
        return tuple(number for number in self.graph.order() if number in inside)

    # -------------------------------------------------------------------------------- text

    def region_kernel(self) -> RegionKernel:
        targets = self._targets()
        steps = self.steps
        lines: list[str] = []
        cost = 0
        for level in sorted({*targets, *(self._level(p.left) for p in self.products.values())}):
            by_width: dict[int, list[Target]] = {}
            for target in targets.get(level, ()):
                by_width.setdefault(target.width, []).append(target)
            for width, some in by_width.items():
                lines += self._stage(level, width, some)
            for product in self.products.values():
                if self._level(product.left) == level:
                    lines += self._multiplied(product)
                    cost += product.depth * product.width
        begun = self._begun()
        finished = self._finished()
        shapes = self._shapes()
        text = [*self._opening(), *begun, *self._turning(), *lines, "    }", *finished, "  }"]
        body = sorted(steps.body)
        kernel = Kernel(
            f"Steps{label_of(self.meanings, body)}",
            function_text(text),
            shapes,
            tuple(self.inputs),
            self.outputs,
            grain=max(1, GRAIN // max(1, cost)),
            arrange="arrange_stepped",
            columns=(self.buffers.numbers + PANEL,),
            support="product.h stepped.h",
            flushes=flushes(self.meanings, body),
            packed=tuple(self.packed),
        )
        return region_kernel(self.meanings, self.meanings.in_order(steps.nodes), kernel, "steps")

    def _opening(self) -> list[str]:
        lines = [
            f"  const i64 steps = c->extent[{TIME}], all = c->extent[{ROWS}];",
            "  float *S = (float *)own->scratch, *free = S + c->block * PRODUCT_PANEL;",
        ]
        for name, width in self.buffers.widths.items():
            lines += [
                f"  float *{name} = free;",
                f"  free += c->block * {(width + 15) // 16 * 16};",
            ]
        return [
            *lines,
            "  for (i64 unit = own->first; unit < own->end; unit++) {",
            "    const i64 first = unit * c->block, rows = LEAST(c->block, all - first);",
        ]

    def _begun(self) -> list[str]:
        lines = []
        begun = dict.fromkeys(self.steps.states.values())
        if len(begun) > len(self.states_after):
            raise LoweringError("a state that begins with two values")
        for begin, state in begun:
            width = self._row_of(state)
            fill = self.meanings.uniform(begin)
            source = literal(fill or 0.0)
            if fill is None:
                if self._row_of(begin) != width:
                    raise LoweringError("a state that begins with another shape")
                source = f"({self._base(begin, self._natural(begin))})[j]"
            lines += [
                f"    for (i64 r = 0; r < rows; r++) for (i64 j = 0; j < {width}; j++)",
                f"      S{state}a[r * {width} + j] = {source};",
            ]
        return lines

    def _turning(self) -> list[str]:
        lines = ["    for (i64 t = 0; t < steps; t++) {"]
        for state in self.states_after:
            lines += [
                f"      const float *restrict h{state} = t & 1 ? S{state}b : S{state}a;",
                f"      float *restrict s{state} = t & 1 ? S{state}a : S{state}b;",
            ]
        return lines

    def _finished(self) -> list[str]:
        lines = []
        for k, value in enumerate(self.results, len(self.steps.stacked)):
            state = self.steps.last[value]
            width = self._row_of(state)
            lines += [
                "    for (i64 r = 0; r < rows; r++)",
                f"      memcpy((float *)c->out[{k}] + (first + r) * c->place[{k}][{ROWS}],",
                f"             (steps & 1 ? S{state}b : S{state}a) + r * {width}, "
                f"sizeof(float) * {width});",
            ]
        return lines

    def _multiplied(self, product: Product) -> list[str]:
        depth, width = product.depth, product.width
        laid = self.meanings.laid_out(product.matrix, Panels(product.is_transposed))
        if laid not in self.packed:
            self.packed.append(laid)
        left = f"L{product.left}"
        if product.left in self.steps.states:
            left = f"h{self.steps.states[product.left][1]}"
        bias = "NULL"
        if product.bias:
            bias = operand(self._operand(product.bias[0]))
        matrix = operand(self._operand(laid.value))
        return [
            f"      stepped_product({left}, {depth}, rows, {matrix}, {bias}, {width}, {depth}, S, "
            f"P{product.node});"
        ]

    def _stage(self, level: int, width: int, targets: Sequence[Target]) -> list[str]:
        values = tuple(dict.fromkeys(target.value for target in targets))
        inside = self._inside(values, level)
        space = self.meanings.shape(values[0])
        region = Region(inside, read_by(self.graph, inside), values, space)
        axes = tuple(axis for axis, size in enumerate(space) if size != 1)
        extents: tuple[Extent, ...] = (self.steps.count, *(space[axis] for axis in axes))
        cells = StepCells(
            self.meanings, region, axes, extents, self.steps.moving, self.steps.states
        )
        if cells.reductions or len(axes) > 2:
            raise LoweringError("a step that reduces rows")
        row, column = (len(axes) - 1 if len(axes) > 1 else None), len(axes)
        names, strides = [], []
        for access in cells.accesses:
            if access.dtype != "float32":
                raise LoweringError("numbers of other types")
            pointer, step = self._pointer(access.value, access.map, row, column, width)
            names.append(pointer)
            strides.append(step)
        writer = RowWriter(
            [cells],
            [(0, None)],
            list(cells.accesses),
            [],
            strides,
            Groups(tuple(range(len(extents)))),
            extents,
        )
        rows, body, texts = writer.cell_texts(cells)
        lines = ["      for (i64 r = 0; r < rows; r++) {"]
        lines += [
            f"        const float *restrict p{number} = {name};"
            for number, name in enumerate(names)
        ]
        stores = []
        for number, target in enumerate(targets):
            lines.append(f"        float *restrict q{number} = {self._place(target)};")
            stores.append(f"q{number}[j] = {texts[values.index(target.value)]};")
        lines += [f"    {line}" for line in rows]
        return [
            *lines,
            *simd_loop("j", "0", str(width), [*body, *stores], [], "        "),
            "      }",
        ]

    def _place(self, target: Target) -> str:
        """Return where a stage puts a row."""
        if target.buffer.startswith("o"):
            number = int(target.buffer[1:])
            return (
                f"(float *)c->out[{number}] + t * c->place[{number}][{TIME}] "
                f"+ (first + r) * c->place[{number}][{ROWS}]"
            )
        wide = self.buffers.widths.get(target.buffer, target.width)
        return f"{target.buffer} + r * {wide} + {target.offset}"

    def _pointer(
        self, value: int, place: Map, row: int | None, column: int, width: int
    ) -> tuple[str, int]:
        """Return where the row of a value begins, and how far its numbers are apart."""
        buffer = None
        if value in self.steps.states:
            buffer = f"h{self.steps.states[value][1]}"
        elif value in self.of_result:
            buffer = f"P{self.of_result[value].node}"
        elif value in self.kept:
            buffer = f"K{value}"
        if buffer is not None:
            return self._in_buffer(buffer, value, place, row, column)
        if self.graph.producer.get(value) in self.steps.body:
            raise LoweringError("a value of a step that no stage keeps")
        loops = {0: TIME, column: WIDTHS + self._wide(width)}
        if row is not None:
            loops[row] = ROWS
        renamed = tuple(
            Affine(tuple(sorted((loops[n], c) for n, c in index.terms)), index.offset)
            for index in place
        )
        step = inner_step(place, self.meanings.shape(value), (column,))
        return self._base(value, renamed), step

    def _in_buffer(
        self, buffer: str, value: int, place: Map, row: int | None, column: int
    ) -> tuple[str, int]:
        shape = self.meanings.shape(value)
        offset, step, stride = 0, 0, 1
        for size, index in zip(reversed(shape), reversed(place), strict=True):
            is_last = stride == 1 or size != 1
            if row is not None and row in index.loops:
                if index != loop(row):
                    raise LoweringError("rows of another batch")
            elif index.loops - {column}:
                raise LoweringError("other steps of a buffer")
            elif is_last:
                offset += index.offset * stride
                step += index.coefficient(column) * stride
            stride *= size if isinstance(size, int) else 0
        if not 0 <= offset < shape[-1]:  # type: ignore[operator]
            raise LoweringError("a row of another one of the batch")
        return f"{buffer} + r * {shape[-1]} + {offset}", step

    # ---------------------------------------------------------------------------- operands

    def _operand(self, value: int) -> int:
        if value not in self.inputs:
            self.inputs.append(value)
        return self.inputs.index(value)

    def _wide(self, width: int) -> int:
        if width not in self.widths:
            self.widths.append(width)
        return self.widths.index(width)

    def _base(self, value: int, place: Map) -> str:
        """Return where the row of an operand begins in a step."""
        self._operand(value)
        access = Access(value, place, self.graph.dtype(value) or "")
        if access not in self.accesses:
            self.accesses.append(access)
        number = self.accesses.index(access)
        text = access_base(number, access, self.inputs)
        loops = loops_of(place)
        text += f" + t * c->stride[{number}][{TIME}]" if TIME in loops else ""
        return text + (f" + (first + r) * c->stride[{number}][{ROWS}]" if ROWS in loops else "")

    def _natural(self, value: int) -> Map:
        """Return the place of a value of rows, by the kernel's loops."""
        shape = self.meanings.shape(value)
        wide = loop(WIDTHS + self._wide(self._row_of(value)))
        return (*(Affine() if size == 1 else loop(ROWS) for size in shape[:-1]), wide)

    def _shapes(self) -> Shapes:
        graph = self.graph
        places = []
        for stack in self.steps.stacked:
            natural = list(self._natural(stack.value))
            natural[stack.axis] = loop(TIME)
            places.append((self.meanings.shape(stack.result), tuple(natural)))
        places += [(self.meanings.shape(value), self._natural(value)) for value in self.results]
        extents: tuple[Extent, ...] = (self.steps.count, self.rows, *self.widths)
        if any(graph.dtype(value) != "float32" for value in (*self.inputs, *self.outputs)):
            raise LoweringError("numbers of other types")
        return shapes_of(self.meanings, self.inputs, extents, places, accesses=self.accesses)


def values_of(graph: Graph, nodes: Collection[int]) -> list[int]:
    """Return what nodes make, in order."""
    return [value for n in graph.order() if n in nodes for value in graph.nodes[n].outputs]
