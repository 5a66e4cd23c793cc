"""What is rewritten before planning: algebra that fusion alone doesn't find.

Each rewrite holds for real numbers, and up to rounding for floating-point ones; NaN and infinities
come out as NumPy's do, but where a product of matrices is reordered or summed: an infinity that
one order meets half-way another may not.

- A product with 1, a quotient by 1, a power of 1, an Identity and a Transpose of a Transpose are
  their operand. A power of 2 or 3 becomes products, one of -1 a Reciprocal.
- A sum of a Transpose sums the operand; a sum of sums along one axis each sums over both; a sum of
  all of A @ B is the product of A's column sums and B's row sums.
- A chain of products of matrices is computed in its cheapest order (chains.py).

The shipped rules (rules/*.rules) speak of ONNX graphs, whose operators may replace NaN by a number
or the other way round where `equal` allows it, and matching them goes through a database; these
few are about values of NumPy, and each is tested against it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .chains import reorder_products
from .dag import Node, Program
from .rebuild import Builder

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
        found = None
        for attempt in _REWRITES.get(node.op, ()):
            found = attempt(builder, node, inputs)
            if found is not None:
                break
        new.append(builder.copy(node, inputs) if found is None else found)
    return builder.program([new[at] for at in program.inputs], [new[at] for at in program.outputs])


def _eliminate_identity(builder: Builder, node: Node, inputs: Sequence[int]) -> int | None:
    return inputs[0] if _alike(builder.nodes[inputs[0]], node) else None


def _alike(operand: Node, node: Node) -> bool:
    return (operand.shape, operand.dtype, operand.layout) == (node.shape, node.dtype, node.layout)


def _eliminate_one(builder: Builder, node: Node, inputs: Sequence[int]) -> int | None:
    """x * 1, x / 1 and x ** 1 are x."""
    sides = [(0, 1), (1, 0)] if node.op == "Mul" else [(0, 1)]
    for operand, one in sides:
        if builder.number(inputs[one]) == 1 and _alike(builder.nodes[inputs[operand]], node):
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
    if node.dtype not in ("float32", "float64"):
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
    left, right = (builder.nodes[at] for at in inner.inputs)
    if len(left.shape) != 2 or len(right.shape) != 2 or node.dtype not in ("float32", "float64"):
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
