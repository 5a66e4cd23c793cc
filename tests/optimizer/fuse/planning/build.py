"""Programs for tests: built by hand, with the shapes that NumPy would give, or drawn at random."""

import random
from dataclasses import replace

from tensolog.optimizer.fuse.program.dag import Node, Program

BINARY = {"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Greater"}


class Build:
    """A program node by node; methods return node ids, and shapes follow."""

    def __init__(self):
        self.nodes = []

    def _add(self, op, inputs=(), shape=(), nnz=None, dtype="float64", **attributes):
        layout = "dense" if nnz is None else "csr"
        number = len(self.nodes)
        self.nodes.append(
            Node(number, op, tuple(inputs), attributes, tuple(shape), dtype, nnz, layout)
        )
        return number

    def shape(self, number):
        return self.nodes[number].shape

    def input(self, *shape, nnz=None):
        return self._add("Input", shape=shape, nnz=nnz)

    def number(self, value):
        return self._add("Constant", value=value)

    def op(self, name, *inputs, nnz=None):
        shapes = [self.shape(input_) for input_ in inputs]
        shape = max(shapes, key=lambda s: (len(s), s))
        width = max((s[-1] for s in shapes if s), default=1)
        height = max((s[0] for s in shapes if len(s) == 2), default=1)
        shape = () if not shape else (width,) if len(shape) == 1 else (height, width)
        dtype = "bool" if name in ("Greater", "Less", "Equal") else "float64"
        return self._add(name, inputs, shape, nnz, dtype)

    def reduce(self, op, a, axes=None, keepdims=0):
        shape = self.shape(a)
        axes = tuple(range(len(shape))) if axes is None else axes
        kept = [1 if axis in axes else extent for axis, extent in enumerate(shape)]
        if not keepdims:
            kept = [extent for axis, extent in enumerate(shape) if axis not in axes]
        return self._add(op, [a], kept, axes=axes, keepdims=keepdims)

    def sum(self, a, axis=None, keepdims=0):
        return self.reduce("ReduceSum", a, None if axis is None else (axis,), keepdims)

    def t(self, a):
        node = self.nodes[a]
        return self._add("Transpose", [a], node.shape[::-1], node.nnz, node.dtype, perm=(1, 0))

    def matmul(self, a, b):
        left, right = self.shape(a), self.shape(b)
        assert left[-1] == right[0]
        return self._add("MatMul", [a, b], left[:-1] + right[1:])

    def column(self, a):
        return self._add("Unsqueeze", [a], (*self.shape(a), 1), axes=(1,))

    def program(self, *outputs):
        inputs = tuple(node.id for node in self.nodes if node.op == "Input")
        return Program(tuple(self.nodes), inputs, outputs)


def random_program(source: random.Random, most: int = 9, sparse: bool = True) -> Program:
    """Draw a program of up to `most` operators over matrices, vectors and numbers."""
    build = Build()
    m, n = source.choice([(60, 40), (2000, 30), (500, 500), (40, 3)])
    k = source.choice([1, 3, 8])
    nnz = int(m * n * source.choice([0.02, 0.3]))
    build.input(m, n)
    build.input(m, n, nnz=nnz if sparse and source.random() < 0.5 else None)
    build.input(n)
    build.input(m)
    build.input(n, k)
    build.input(m, 1)
    build.input(m, k)
    build.number(2.0)
    first = len(build.nodes)
    for _ in range(source.randint(2, most)):
        _grow(build, source, first)
    inner = range(first, len(build.nodes))
    read = {input_ for node in build.nodes for input_ in node.inputs}
    outputs = [number for number in inner if number not in read]
    outputs += [number for number in inner if source.random() < 0.05]
    return build.program(*outputs)


def _grow(build: Build, source: random.Random, first: int) -> None:
    """Add an operator that fits, reading late nodes most of the time."""
    count = len(build.nodes)

    def pick(fits):
        fitting = [
            number for number in range(count) if fits(build.shape(number), build.nodes[number])
        ]
        late = [number for number in fitting if number >= first]
        if late and source.random() < 0.75:
            return source.choice(late[-4:])
        return source.choice(fitting) if fitting else None

    kind = source.random()
    if kind < 0.2:
        a = pick(lambda s, _: len(s) > 0)
        sparse = build.nodes[a].nnz
        op = source.choice(["Exp", "Abs", "Sqrt", "Sigmoid", "Neg"])
        build.op(op, a, nnz=sparse if op in ("Abs", "Sqrt", "Neg") else None)
    elif kind < 0.62:
        a = pick(lambda s, _: True)
        shape_a = build.shape(a)
        b = pick(lambda s, _: _fits(shape_a, s))
        op = source.choice(["Mul", "Mul", "Add", "Sub", "Div", "Max", "Greater"])
        first_node, other = build.nodes[a], build.nodes[b]
        if first_node.dtype == "bool" or other.dtype == "bool":
            op = "Mul"
        entries = [node.nnz for node in (first_node, other) if node.nnz is not None]
        shape = build.shape(a) if len(shape_a) >= len(build.shape(b)) else build.shape(b)
        safe = op == "Mul" and entries and max(first_node.size, other.size) == _size(shape)
        build.op(op, a, b, nnz=min(entries) if safe and _at_shape(first_node, other) else None)
    elif kind < 0.8:
        a = pick(lambda s, _: len(s) > 0)
        op = source.choice(["ReduceSum", "ReduceSum", "ReduceMax"])
        axis = source.choice([None, *range(len(build.shape(a)))])
        build.reduce(op, a, None if axis is None else (axis,), source.choice([0, 1]))
    elif kind < 0.84:
        a = pick(lambda s, _: len(s) == 1 and s[0] > 1)
        build.column(a)
    else:
        a = pick(lambda s, _: len(s) > 0)
        first_node = a
        if len(build.shape(a)) == 2 and source.random() < 0.5:
            first_node = build.t(a)
        inner = build.shape(first_node)[-1]
        b = pick(lambda s, _: len(s) > 0 and s[0] == inner)
        if b is not None and first_node is not None:
            build.matmul(first_node, b)


def _size(shape):
    count = 1
    for extent in shape:
        count *= extent
    return count


def _at_shape(first, other):
    """Whether a sparse operand has the shape of the result."""
    shape = first.shape if len(first.shape) >= len(other.shape) else other.shape
    return any(node.nnz is not None and node.shape == shape for node in (first, other))


def _fits(left, right):
    short, long = sorted([left, right], key=len)
    pairs = zip(short[::-1], long[::-1], strict=False)
    return all(a == b or 1 in (a, b) for a, b in pairs)


def shared_program(source: random.Random, most: int = 7) -> Program:
    """Draw a program in which most is read several times: margins, weights, products, sums."""
    build = Build()
    m, n = source.choice([(60, 40), (2000, 30), (5000, 4)])
    x, v = build.input(m, n), build.input(n)
    pool = [build.input(m), build.matmul(x, v)]
    if source.random() < 0.3:
        y, _ = build.input(m, n), build.input(m, 1)
        pool = [x, y, build.op("Mul", x, build.input(m, 1))]
    for _ in range(source.randint(2, most)):
        op = source.choice(["Mul", "Add", "Exp", "Erf", "Abs", "Sub"])
        a = source.choice(pool[-4:])
        pool.append(
            build.op(op, a, *([] if op in ("Exp", "Erf", "Abs") else [source.choice(pool)]))
        )
    outputs = [pool[-1]] if source.random() < 0.3 else []
    for _ in range(source.randint(1, 4)):
        a = source.choice(pool[1:])
        if source.random() < 0.5:
            outputs.append(build.sum(a))
        elif len(build.shape(a)) == 1:
            outputs.append(build.matmul(build.t(x), a))
        else:
            outputs.append(build.matmul(a, v))
    return build.program(*outputs)


def layered_program(source: random.Random, most: int = 3) -> Program:
    """Draw a program whose products feed products, forwards and transposed, with cells between."""
    build = Build()
    m, n = source.choice([(60, 40), (400, 8), (2000, 24)])
    x = build.input(m, n)
    pool = [x]
    for _ in range(source.randint(1, most)):
        a = source.choice(pool[-2:])
        product = build.matmul(a, build.input(build.shape(a)[1], source.choice([2, 8, 40])))
        pool.append(product)
        if source.random() < 0.7:
            pool.append(build.op(source.choice(["Exp", "Sigmoid", "Abs"]), product))
        if source.random() < 0.4:
            pool.append(build.op("Mul", pool[-1], product))
    outputs = []
    for _ in range(source.randint(1, 3)):
        a = source.choice(pool[1:])
        kind = source.random()
        if kind < 0.3:
            outputs.append(build.sum(a))
        elif kind < 0.5:
            outputs.append(build.sum(a, 0))
        else:
            outputs.append(build.matmul(build.t(source.choice(pool)), a))
    return build.program(*outputs)


def row_program(source: random.Random, shape, most: int = 12) -> Program:
    """Draw cells of a shape in float32, and what their rows come to, which cells read again."""
    build = Build()
    rows, columns = shape
    pool = [build.input(rows, columns), build.input(rows, columns)]
    small = [build.input(columns), build.input(rows, 1), build.number(2.0)]
    first = len(build.nodes)
    for _ in range(source.randint(4, most)):
        kind, a = source.random(), source.choice(pool[-4:])
        if kind < 0.25:
            pool.append(build.op(source.choice(["Exp", "Abs", "Sigmoid", "Neg"]), a))
        elif kind < 0.75:
            b = source.choice([*pool[-5:], *small])
            pool.append(build.op(source.choice(["Mul", "Add", "Sub", "Max"]), a, b))
        else:
            small.append(build.reduce(source.choice(["ReduceSum", "ReduceMax"]), a, (1,), 1))
    read = {input_ for node in build.nodes for input_ in node.inputs}
    inner = range(first, len(build.nodes))
    outputs = [number for number in inner if number not in read or source.random() < 0.08]
    program = build.program(*outputs)
    return replace(program, nodes=tuple(replace(node, dtype="float32") for node in program.nodes))
