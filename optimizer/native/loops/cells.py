"""What a region computes in one place of its loops: a graph of cells, from the specifications.

Following an output back through the nodes, each value is asked for at a linear function of the
loops (affine.py): so slices, transpositions and concatenations cost nothing but another place that
is read. What is the same for a whole row of the innermost loops is a row's cell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ....catalog.operators.expand import Definition, Expansion
from ....catalog.terms.comparisons import COMPARISONS
from ....catalog.terms.index_notation import (
    Apply,
    Read,
    Reduce,
    Select,
    Symbol,
    Term,
    Variable,
    is_integer,
)
from ...codegen.expressions import LoweringError
from ...graph.graph import TensorType
from .affine import Affine, Extent, Map, Ranges, index_of, loop, loops_of
from .kernel_region import Meanings, Region

# Primitives that take much longer than a load or a store.
SLOW = frozenset(
    {
        "exp",
        "exp_below",
        "expm1",
        "log",
        "log1p",
        "tanh",
        "sigmoid",
        "softplus",
        "erf",
        "pow",
        "sin",
        "cos",
    }
    | {"tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "fmod", "mod"}
)
SLOW_COST, QUICK_COST = 10.0, 0.3
# Constants of which rows are picked: a larger one is drawn anew to try a kernel alone.
MOST_TABLE_BYTES = 4 << 20
_PREDICATES = {"isnan", "is_positive_inf", "is_negative_inf"}
_BOOLEAN = frozenset(COMPARISONS) | {"and", "or", "xor", "not"} | _PREDICATES


@dataclass(frozen=True)
class Access:
    """A place that is read: an input of the region, and the index of each of its axes."""

    value: int
    map: Map
    dtype: str


@dataclass(frozen=True)
class Pick:
    """An index that is read, counted from the end where it is below zero.

    It lies in `value` at `map`, and names one of `size` elements along `axis` of `table`.
    """

    value: int
    map: Map
    dtype: str
    size: Extent
    table: int
    axis: int


@dataclass(frozen=True)
class Reduction:
    """A row's cells made one: sum, prod, max or min of the cell `body`."""

    kind: str
    body: int


@dataclass(frozen=True)
class Cell:
    """A load, a reduction's result, or `term` over other cells, which it reads as "c<number>".

    `level` counts the reductions that have to be done before; `row` says that it is the same along
    the innermost loops. `cost` is that of computing it anew, a load being 1.
    """

    term: Term
    operands: tuple[int, ...] = ()
    access: int = -1
    reduction: int = -1
    level: int = 0
    row: bool = False
    boolean: bool = False
    cost: float = 1.0

    @property
    def dtype(self) -> str:
        """The type that it is computed in."""
        return "bool" if self.boolean else "float32"


@dataclass(frozen=True)
class _Frame:
    """A definition in evaluation: whose, and where its indices stand."""

    node: int
    expansion: Expansion
    indices: Mapping[Variable, Affine]


class Cells:
    """The cells of a region in one part of its innermost loop."""

    def __init__(
        self,
        meanings: Meanings,
        region: Region,
        axes: tuple[int, ...],
        ranges: Ranges,
        *,
        sequential: frozenset[int] = frozenset(),
        picks: bool = False,
    ) -> None:
        """`axes` are those of the space that are loops, in order; others have one element.

        Loops that are `sequential` are no axes of outputs: each step of them makes these anew.
        Indices are read where it `picks`.
        """
        self._may_pick = picks
        self.sequential = sequential
        self.meanings = meanings
        self.region = region
        self.ranges = ranges
        self.axes = axes
        self.accesses: list[Access] = []
        self.picks: list[Pick] = []
        self.reductions: list[Reduction] = []
        self.cells: list[Cell] = []
        self.inner = (
            frozenset(n for n, axis in enumerate(axes) if axis in region.over)
            if region.reduced
            else frozenset({len(axes) - 1})
        )
        self._inside = frozenset(region.nodes)
        self._terms: dict[object, Term] = {}
        self._bodies: dict[Term, int] = {}
        self._numbers: dict[object, int] = {}
        self.outputs = tuple(self._output(value) for value in region.outputs)

    # ------------------------------------------------------------------------------- places

    def natural(self, value: int) -> Map:
        """Give the place where an output's elements are computed: axes are loops in their order.

        All loops, or those alone over which nothing is reduced.
        """
        shape = self.meanings.shape(value)
        kept = [number for number in range(len(self.axes)) if number not in self.sequential]
        if sum(size != 1 for size in shape) != len(kept):
            kept = [number for number in kept if number not in self.inner]
        loop_numbers = iter(kept)
        place: list[Affine] = []
        for size in shape:
            number = None if size == 1 else next(loop_numbers, -1)
            if number is not None and (number < 0 or self.ranges.extents[number] != size):
                raise LoweringError("an output of another shape than the kernel's loops")
            place.append(Affine() if number is None else loop(number))
        return tuple(place)

    def _output(self, value: int) -> int:
        place = self.natural(value)
        missing = set(range(len(self.axes))) - loops_of(place) - self.sequential
        if missing and not (self.region.reduced and missing == self.inner):
            raise LoweringError("an output that lacks some of the kernel's loops")
        term = self._value(value, place)
        cell = self._numbered(term, boolean=False)
        if self.cells[cell].row and not missing:
            # the same value all along the row: still a cell of each place
            key = ("along", cell)
            if key not in self._numbers:
                self._numbers[key] = len(self.cells)
                self.cells.append(Cell(Read(f"c{cell}", ()), (cell,), level=self.cells[cell].level))
            return self._numbers[key]
        if missing and not self.cells[cell].row:
            raise LoweringError("an output that lacks the loop along which it changes")
        return cell

    # --------------------------------------------------------------------------------- values

    def _value(self, value: int, place: Map) -> Term:
        """Return a value at a place: a number, or a read of a cell."""
        number = self.meanings.scalar(value)
        if number is not None:
            return number
        key = (value, place)
        if key not in self._terms:
            producer = self.meanings.graph.producer.get(value)
            if producer is None or producer not in self._inside:
                self._terms[key] = self._load(value, place)
            else:
                node = self.meanings.graph.nodes[producer]
                expansion = self.meanings.of(producer)
                definition = expansion.outputs[node.outputs.index(value)]
                boolean = self.meanings.graph.dtype(value) == "bool"
                self._terms[key] = self._defined(producer, expansion, definition, place, boolean)
        return self._terms[key]

    def _load(self, value: int, place: Map) -> Term:
        dtype = self.meanings.graph.dtype(value) or ""
        access = Access(value, place, dtype)
        if access not in self.accesses:
            self.accesses.append(access)
        number = self.accesses.index(access)
        row = not loops_of(place) & self.inner
        return self._add(Cell(0, access=number, row=row, boolean=dtype == "bool"))

    def _defined(
        self, node: int, expansion: Expansion, definition: Definition, place: Map, boolean: bool
    ) -> Term:
        indices = dict(zip(definition.indices, place, strict=True))
        frame = _Frame(node, expansion, indices)
        if expansion.locals:
            self._resolve(definition.value, frame)  # what is reduced on the way is known below
        term = self._resolve(definition.value, frame)
        if isinstance(term, int | float):
            return term
        return Read(f"c{self._numbered(term, boolean)}", ())

    def _resolve(self, term: Term, frame: _Frame) -> Term:
        """Return a term over cells and numbers."""
        match term:
            case bool() | int() | float():
                return term
            case Symbol(name):
                return Read(f"size {name}", ())
            case Read(tensor, indices):
                place = tuple(
                    self._index(index, axis, tensor, frame) for axis, index in enumerate(indices)
                )
                return self._read(tensor, place, frame)
            case Reduce():
                return self._reduce(term, frame)
            case Apply(function, (left, right)) if (
                function in COMPARISONS and is_integer(left) and is_integer(right)
            ):
                first, other = (index_of(t, frame.indices, self.ranges) for t in (left, right))
                return self.ranges.compare(function, first, other)
            case Apply(function, arguments):
                body = self._quicker(
                    Apply(
                        function, tuple(self._resolve(argument, frame) for argument in arguments)
                    ),
                    frame,
                )
                shared = self._bodies.get(body)
                return body if shared is None else Read(f"c{shared}", ())
            case Select(condition, then, otherwise):
                chosen = self._resolve(condition, frame)
                if isinstance(chosen, bool):
                    return self._resolve(then if chosen else otherwise, frame)
                return Select(chosen, self._resolve(then, frame), self._resolve(otherwise, frame))
            case _:
                raise LoweringError(f"{term} as a number")

    def _index(self, term: Term, axis: int, tensor: str, frame: _Frame) -> Affine:
        """Return an index of `tensor` along an axis, which may be one that is read itself."""
        match term:
            case Select(
                Apply("<", (Read() as read, 0)), Apply("+", (Read() as again, size)), Read() as last
            ) if read == again == last and isinstance(size, int | Symbol):
                return self._picked(read, size, axis, tensor, frame)
        return index_of(term, frame.indices, self.ranges)

    def _picked(
        self, read: Read, extent: int | Symbol, axis: int, tensor: str, frame: _Frame
    ) -> Affine:
        """Return what an index that is read is: a number, or as good as a loop of its own."""
        graph, size = self.meanings.graph, extent.name if isinstance(extent, Symbol) else extent
        value, table = (self._operand(name, frame) for name in (read.tensor, tensor))
        constant = graph.constant(value) if graph.shape(value) == () else None
        if constant is not None and isinstance(size, int) and -size <= int(constant) < size:
            return Affine((), int(constant) % size)
        if not self._may_pick or graph.producer.get(value) in self._inside:
            raise LoweringError("an index that is read")
        if table in graph.constants and _is_large(graph.constants[table].type):
            raise LoweringError("rows of a large constant: to try that takes longer than it gains")
        place = tuple(index_of(index, frame.indices, self.ranges) for index in read.indices)
        along = loops_of(place)
        if along & self.inner or any(number >= len(self.axes) for number in along):
            raise LoweringError("an index that changes along a row")
        pick = Pick(value, place, graph.dtype(value) or "", size, table, axis)
        if pick not in self.picks:
            self.picks.append(pick)
            self.ranges = replace(self.ranges, picked=(*self.ranges.picked, size))
        return loop(len(self.axes) + self.picks.index(pick))

    def _quicker(self, term: Apply, frame: _Frame) -> Term:
        """Return a term that differs in rounding alone: a cube without pow, a row's inverse.

        What is divided by a row's root, or by the mass of a softmax, is multiplied by the inverse:
        the one lies between 1e-23 and 1e19, the other is at least 1, or else both give the same.
        """
        match term:
            case Apply("pow", (base, int() | float() as exponent)) if exponent == 3:
                return Apply("*", (Apply("*", (base, base)), base))
            case Apply("exp", (less,)) if self._is_below_largest(less):
                return Apply("exp_below", (less,))
            case Apply("/", (numerator, divisor)) if not isinstance(numerator, int | float):
                softmax = self.meanings.graph.nodes[frame.node].op_type == "Softmax"
                number = self._row_of(divisor)
                if number is None:
                    return term
                root = self.cells[number].term
                if softmax or (isinstance(root, Apply) and root.function == "sqrt"):
                    divided = Apply("/", (1.0, Read(f"c{number}", ())))
                    inverse = self._numbered(divided, boolean=False)
                    return Apply("*", (numerator, Read(f"c{inverse}", ())))
        return term

    def _is_below_largest(self, term: Term) -> bool:
        """Tell whether a resolved term is an element less the largest of its row."""
        if isinstance(term, Read) and (read := _operands(term)):
            term = self.cells[read[0]].term
        match term:
            case Apply("-", (Read() as element, Read() as top)):
                operands = [*_operands(element), *_operands(top)]
            case _:
                return False
        number = self.cells[operands[1]].reduction if len(operands) == 2 else -1
        return number >= 0 and self.reductions[number] == Reduction("max", operands[0])

    def _row_of(self, term: Term) -> int | None:
        """Return the cell that a resolved term is, if it is the same all along the row."""
        operands = _operands(term)
        if not operands or not all(self.cells[operand].row for operand in operands):
            return None
        return self._numbered(term, boolean=False)

    def _read(self, tensor: str, place: Map, frame: _Frame) -> Term:
        for local in frame.expansion.locals:
            if local.name == tensor:
                key = (frame.node, tensor, place)
                if key not in self._terms:
                    self._terms[key] = self._defined(
                        frame.node, frame.expansion, local, place, boolean=False
                    )
                return self._terms[key]
        return self._value(self._operand(tensor, frame), place)

    def _operand(self, tensor: str, frame: _Frame) -> int:
        """Return the value that a node's specification calls `tensor`."""
        for position, declared in enumerate(frame.expansion.inputs):
            if declared is not None and declared.name == tensor:
                return self.meanings.graph.nodes[frame.node].inputs[position]
        raise LoweringError(f"{tensor} is no input")

    def _reduce(self, term: Reduce, frame: _Frame) -> Term:
        if term.condition is not True or term.kind not in ("sum", "prod", "max", "min"):
            raise LoweringError(f"{term.kind} under a condition")
        if loops_of(tuple(frame.indices.values())) & self.inner:
            raise LoweringError("a reduction that depends on where in the row it is")
        if (self.ranges.first, self.ranges.end) != (0, None):
            raise LoweringError("a reduction over a row of several parts")
        indices = dict(frame.indices)
        unbound = sorted(self.inner)
        for variable, extent in zip(term.variables, term.extents, strict=True):
            size = extent.name if isinstance(extent, Symbol) else extent
            if size == 1:
                indices[variable] = Affine()
            elif unbound and self.ranges.extents[unbound[0]] == size:
                indices[variable] = loop(unbound.pop(0))
            else:
                raise LoweringError("a reduction over something else than the row")
        if unbound or not self.region.reduced:
            raise LoweringError("a reduction over a part of the row")
        body = self._resolve(term.body, _Frame(frame.node, frame.expansion, indices))
        cell = self._numbered(body, boolean=False)
        if self.cells[cell].row:
            raise LoweringError("a reduction of what is the same all along the row")
        if not isinstance(body, Read):
            self._bodies[body] = cell
        reduction = Reduction(term.kind, cell)
        if reduction not in self.reductions:
            self.reductions.append(reduction)
        number = self.reductions.index(reduction)
        level = self.cells[cell].level + 1
        return self._add(Cell(0, reduction=number, level=level, row=True))

    # ---------------------------------------------------------------------------------- cells

    def _add(self, cell: Cell) -> Read:
        if cell not in self._numbers:
            self._numbers[cell] = len(self.cells)
            self.cells.append(cell)
        return Read(f"c{self._numbers[cell]}", ())

    def _numbered(self, term: Term, boolean: bool) -> int:
        """Return the number of the cell that a resolved term is."""
        if isinstance(term, Read) and term.tensor.startswith("c"):
            return int(term.tensor[1:])
        operands = tuple(sorted(set(_operands(term))))
        cells = [self.cells[operand] for operand in operands]
        read = self._add(
            Cell(
                term,
                operands,
                level=max((cell.level for cell in cells), default=0),
                row=all(cell.row for cell in cells),
                boolean=boolean or (isinstance(term, Apply) and term.function in _BOOLEAN),
                cost=_cost(term) + sum(cell.cost for cell in cells if not cell.row),
            )
        )
        return int(read.tensor[1:])


def _is_large(type_: TensorType) -> bool:
    return (type_.size_bytes or 0) > MOST_TABLE_BYTES


def _operands(term: Term) -> list[int]:
    match term:
        case Read(tensor, _):
            return [int(tensor[1:])] if tensor.startswith("c") else []
        case Apply(_, arguments):
            return [operand for argument in arguments for operand in _operands(argument)]
        case Select(condition, then, otherwise):
            return [operand for part in (condition, then, otherwise) for operand in _operands(part)]
        case _:
            return []


def _cost(term: Term) -> float:
    match term:
        case Apply(function, arguments):
            operator_cost = SLOW_COST if function in SLOW else QUICK_COST
            return operator_cost + sum(map(_cost, arguments))
        case Select(condition, then, otherwise):
            return QUICK_COST + _cost(condition) + _cost(then) + _cost(otherwise)
        case _:
            return 0.0
