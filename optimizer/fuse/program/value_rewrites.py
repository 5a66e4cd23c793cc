"""What is rewritten before planning: algebra that fusion alone doesn't find.

Each rewrite holds for real numbers, and up to rounding for floating-point ones; NaN and infinities
come out as NumPy's do, but where a product of matrices is reordered or summed: an infinity that
one order meets half-way another may not.

- A product with 1, a quotient by 1, a power of 1, an Identity and a Transpose of a Transpose are
  their operand. A power of 2 or 3 becomes products, one of -1 a Reciprocal.
- A sum of a Transpose sums the operand; a sum of sums along one axis each sums over both; a sum of
  all of A @ B is the product of A's column sums and B's row sums.
- A chain of products of matrices is computed in its cheapest order, by dynamic programming (Cormen
  et al., Introduction to Algorithms, section 15.2), with numbers of stored entries in place of
  extents where an operand is sparse.

A program is built anew, node by node (`Builder`): equal nodes become one, numbers are computed.
The shipped rules (rules/*.rules) speak of ONNX graphs, whose operators may replace NaN by a number
or the other way round where `equal` allows it, and matching them goes through a database; these
few are about values of NumPy, and each is tested against it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .dag import FLOATS, Node, Program
from .evaluate import evaluate
from .numpy_operators import is_commutative


class Builder:
    """Nodes in topological order, each of them once."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._number_of: dict[Hashable, int] = {}

    def add(
        self,
        op: str,
        inputs: Sequence[int],
        shape: tuple[int, ...],
        dtype: str,
        attributes: Mapping[str, Any] | None = None,
        layout: str = "dense",
        nnz: int | None = None,
    ) -> int:
        """Return the node that computes this: an equal one, a number, or a new one."""
        operands = tuple(sorted(inputs)) if is_commutative(op) else tuple(inputs)
        node = Node(
            len(self.nodes), op, operands, dict(attributes or {}), shape, dtype, nnz, layout
        )
        number = self._number(node)
        if number is not None:
            return self.constant(number, dtype)
        return self._put(node)

    def constant(self, value: Any, dtype: str) -> int:
        """Return the node of a number."""
        return self._put(Node(len(self.nodes), "Constant", (), {"value": value}, (), dtype))

    def copy(self, node: Node, inputs: Sequence[int]) -> int:
        """Return a node of another program over inputs of this one."""
        return self.add(
            node.op, inputs, node.shape, node.dtype, node.attributes, node.layout, node.nnz
        )

    def keep(self, node: Node) -> int:
        """Return an Input node of another program, which is like no other."""
        self.nodes.append(replace(node, id=len(self.nodes)))
        return len(self.nodes) - 1

    def number(self, number: int) -> Any:
        """Return the value of a Constant; None of another node."""
        node = self.nodes[number]
        return node.attributes["value"] if node.op == "Constant" else None

    def _put(self, node: Node) -> int:
        attributes = tuple((name, repr(value)) for name, value in sorted(node.attributes.items()))
        key = (node.op, node.inputs, attributes, node.shape, node.dtype, node.layout)
        number = self._number_of.setdefault(key, node.id)
        if number == node.id:
            self.nodes.append(node)
        return number

    def _number(self, node: Node) -> Any:
        """Return the value of a node over numbers only, as NumPy computes it."""
        if node.shape or not node.inputs or node.op == "Call":
            return None
        operands = [self.nodes[number] for number in node.inputs]
        if any(operand.op != "Constant" for operand in operands):
            return None
        with np.errstate(all="ignore"):
            return evaluate(node, [evaluate(operand, []) for operand in operands]).item()

    def program(self, inputs: Sequence[int], outputs: Sequence[int]) -> Program:
        """Return the nodes that the outputs need, and all inputs."""
        needed = set(inputs)
        waiting = list(outputs)
        while waiting:
            number = waiting.pop()
            if number not in needed or self.nodes[number].op == "Input":
                needed.add(number)
                waiting += self.nodes[number].inputs
        place = {node_id: number for number, node_id in enumerate(sorted(needed))}
        nodes = [
            replace(
                self.nodes[number],
                id=place[number],
                inputs=tuple(place[operand] for operand in self.nodes[number].inputs),
            )
            for number in sorted(needed)
        ]
        return Program(
            tuple(nodes),
            tuple(place[number] for number in inputs),
            tuple(place[number] for number in outputs),
        )


Rewrite = Callable[[Builder, Node, Sequence[int]], "int | None"]


def rewrite(program: Program) -> Program:
    """Return a program that computes the same, with inputs and outputs in the same order."""
    return _pass(reorder_products(_pass(program)))


def _pass(program: Program) -> Program:
    builder = Builder()
    new: list[int] = []
    for node in program.nodes:
        if node.op == "Input":
            new.append(builder.keep(node))
            continue
        inputs = [new[operand] for operand in node.inputs]
        if node.op == "Constant":
            new.append(builder.constant(node.attributes["value"], node.dtype))
            continue
        replacement = None
        for attempt in _REWRITES.get(node.op, ()):
            replacement = attempt(builder, node, inputs)
            if replacement is not None:
                break
        new.append(builder.copy(node, inputs) if replacement is None else replacement)
    return builder.program(
        [new[number] for number in program.inputs], [new[number] for number in program.outputs]
    )


def _eliminate_identity(builder: Builder, node: Node, inputs: Sequence[int]) -> int | None:
    return inputs[0] if _alike(builder.nodes[inputs[0]], node) else None


def _alike(operand: Node, node: Node) -> bool:
    return (operand.shape, operand.dtype, operand.layout) == (node.shape, node.dtype, node.layout)


def _eliminate_one(builder: Builder, node: Node, inputs: Sequence[int]) -> int | None:
    """x * 1, x / 1 and x ** 1 are x."""
    sides = [(0, 1), (1, 0)] if node.op == "Mul" else [(0, 1)]
    for operand, other in sides:
        if builder.number(inputs[other]) == 1 and _alike(builder.nodes[inputs[operand]], node):
            return inputs[operand]
    return None


def _convert_power(builder: Builder, node: Node, inputs: Sequence[int]) -> int | None:
    """x ** 2 is x * x, x ** 3 is x * x * x, x ** -1 is 1 / x; of floating-point numbers.

    Of sparse ones it isn't: SciPy keeps the zeros stored in x in a power, and none in a product.
    """
    exponent = builder.number(inputs[1])
    base = builder.nodes[inputs[0]]
    if exponent not in (2, 3, -1) or base.shape != node.shape or base.layout != "dense":
        return None
    if node.dtype not in FLOATS:
        return None
    if exponent == -1:
        return _like(builder, node, "Reciprocal", inputs[0])
    square = _like(builder, node, "Mul", inputs[0], inputs[0])
    return square if exponent == 2 else _like(builder, node, "Mul", square, inputs[0])


def _like(builder: Builder, node: Node, op: str, *inputs: int) -> int:
    return builder.add(op, inputs, node.shape, node.dtype, None, node.layout, node.nnz)


def _eliminate_transposes(builder: Builder, node: Node, inputs: Sequence[int]) -> int | None:
    inner = builder.nodes[inputs[0]]
    if inner.op != "Transpose":
        return None
    both = tuple(inner.attributes["perm"][axis] for axis in node.attributes["perm"])
    return inner.inputs[0] if both == tuple(range(len(both))) else None


def _sum_without_transpose(builder: Builder, node: Node, inputs: Sequence[int]) -> int | None:
    inner = builder.nodes[inputs[0]]
    if inner.op != "Transpose" or node.attributes["keepdims"]:
        return None
    axes = tuple(sorted(inner.attributes["perm"][axis] for axis in node.attributes["axes"]))
    rest = [axis for axis in inner.attributes["perm"] if axis not in axes]
    if rest != sorted(rest):
        return None
    attributes = {"axes": axes, "keepdims": 0}
    return builder.add("ReduceSum", inner.inputs, node.shape, node.dtype, attributes)


def _join_sums(builder: Builder, node: Node, inputs: Sequence[int]) -> int | None:
    """The sum of everything of a sum along one axis is the sum of everything."""
    inner = builder.nodes[inputs[0]]
    if inner.op != "ReduceSum" or node.shape or inner.dtype != node.dtype:
        return None
    operand = builder.nodes[inner.inputs[0]]
    attributes = {"axes": tuple(range(len(operand.shape))), "keepdims": 0}
    return builder.add("ReduceSum", inner.inputs, node.shape, node.dtype, attributes)


def _sum_of_product(builder: Builder, node: Node, inputs: Sequence[int]) -> int | None:
    """sum(A @ B) is the product of A's column sums and B's row sums: linear in the operands."""
    inner = builder.nodes[inputs[0]]
    if inner.op != "MatMul" or node.shape or len(inner.shape) != 2 or inner.layout != "dense":
        return None
    left, right = (builder.nodes[number] for number in inner.inputs)
    if len(left.shape) != 2 or len(right.shape) != 2 or node.dtype not in FLOATS:
        return None
    sums = [
        builder.add(
            "ReduceSum",
            (operand.id,),
            (left.shape[1],),
            node.dtype,
            {"axes": (axis,), "keepdims": 0},
        )
        for operand, axis in ((left, 0), (right, 1))
    ]
    return builder.add("MatMul", sums, (), node.dtype)


_REWRITES: Mapping[str, tuple[Rewrite, ...]] = {
    "Identity": (_eliminate_identity,),
    "Mul": (_eliminate_one,),
    "Div": (_eliminate_one,),
    "Pow": (_eliminate_one, _convert_power),
    "Transpose": (_eliminate_transposes,),
    "ReduceSum": (_sum_without_transpose, _join_sums, _sum_of_product),
}


@dataclass(frozen=True)
class _Factor:
    """An operand of a chain: a matrix of rows x columns with so many entries."""

    node: int
    rows: int
    columns: int
    entries: float


def reorder_products(program: Program) -> Program:
    """Return the program with each chain of products that nothing else reads reordered."""
    inner = _inner_products(program)
    builder = Builder()
    new: list[int] = []
    for node in program.nodes:
        if node.op == "Input":
            new.append(builder.keep(node))
        elif node.op == "Constant":
            new.append(builder.constant(node.attributes["value"], node.dtype))
        elif node.op == "MatMul" and node.id not in inner and _is_product(program, node):
            new.append(_cheapest(builder, program, node, inner, new))
        else:
            # An inner product is built too; where the order changes nobody reads it any more.
            new.append(builder.copy(node, [new[operand] for operand in node.inputs]))
    return builder.program(
        [new[number] for number in program.inputs], [new[number] for number in program.outputs]
    )


def _is_product(program: Program, node: Node) -> bool:
    return (
        node.op == "MatMul"
        and len(node.shape) <= 2
        and node.layout == "dense"
        and node.dtype in FLOATS
        and all(1 <= len(program.nodes[number].shape) <= 2 for number in node.inputs)
    )


def _inner_products(program: Program) -> frozenset[int]:
    """Return the products that only another product reads, and is a matrix or a vector there."""
    inner = set()
    for node in program.nodes:
        if not _is_product(program, node) or node.id in program.outputs or not node.shape:
            continue
        readers = program.consumers[node.id]
        if len(readers) == 1 and _is_product(program, program.nodes[readers[0]]):
            reader = program.nodes[readers[0]]
            if reader.inputs.count(node.id) == 1:
                inner.add(node.id)
    return frozenset(inner)


def _cheapest(
    builder: Builder, program: Program, node: Node, inner: frozenset[int], new: Sequence[int]
) -> int:
    chain = _chain(program, node, inner)
    vectors = [number for number in chain[1:-1] if len(program.nodes[number].shape) == 1]
    if len(chain) < 3 or vectors:
        return builder.copy(node, [new[number] for number in node.inputs])
    factors = [_factor(program.nodes[number], number, first=number == chain[0]) for number in chain]
    split = _splits(factors)

    def build(low: int, high: int) -> int:
        if low == high:
            return new[chain[low]]
        middle = split[low, high]
        left, right = build(low, middle), build(middle + 1, high)
        a, b = builder.nodes[left].shape, builder.nodes[right].shape
        shape = (*a[:-1], *(b[1:] if len(b) > 1 else ()))
        return builder.add("MatMul", (left, right), shape, node.dtype)

    return build(0, len(chain) - 1)


def _chain(program: Program, node: Node, inner: frozenset[int]) -> list[int]:
    operands: list[int] = []
    for operand in node.inputs:
        if operand in inner:
            operands += _chain(program, program.nodes[operand], inner)
        else:
            operands.append(operand)
    return operands


def _factor(node: Node, number: int, first: bool) -> _Factor:
    if len(node.shape) == 1:
        rows, columns = (1, node.shape[0]) if first else (node.shape[0], 1)
    else:
        rows, columns = node.shape
    entries = float(rows * columns if node.nnz is None else node.nnz)
    return _Factor(number, rows, columns, entries)


def _splits(factors: Sequence[_Factor]) -> dict[tuple[int, int], int]:
    """Return where to split each part of the chain; a product costs 2 flops an entry and column."""
    count = len(factors)
    cost = {(i, i): 0.0 for i in range(count)}
    split: dict[tuple[int, int], int] = {}
    for length in range(2, count + 1):
        for low in range(count - length + 1):
            high = low + length - 1
            best = float("inf")
            for middle in range(low, high):
                rows, width = factors[low].rows, factors[middle].columns
                columns = factors[high].columns
                work = 2.0 * rows * width * columns
                if middle == low:
                    work = min(work, 2.0 * factors[low].entries * columns)
                if middle + 1 == high:
                    work = min(work, 2.0 * factors[high].entries * rows)
                # What an intermediate costs to write and read again decides between equals.
                total = cost[low, middle] + cost[middle + 1, high] + work + rows * columns
                if total < best:
                    best, split[low, high] = total, middle
            cost[low, high] = best
    return split
