"""Products of several operands with one constant matrix, made one product of all their rows.

What a recurrence does to its inputs at each step, or a model to several inputs alike, multiplies
few rows at a time by a matrix that is read again each time; with so few rows, reading it is what
takes the time. How many products there are no rule can say, and merging two by two may not pay
where all together do, so this is a derivation of its own:

    A1 W, ..., Ak W   =   the parts of rows of (A1 .. Ak) W

Only products none of which waits for another are merged. No row's result depends on another row, so
NaN and infinities stay where they are. tests/optimizer/test_one_matrix.py compares both sides; like
any plan, it is compared with the original's outputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from onnx import helper

from ..rules import ABSENT
from .graph.graph import Graph, Node, TensorType
from .graph.maker import Maker
from .match.rewrite import Step

NAME = "MergeProductsOfOneMatrix"
SUMMARY = "multiplies the rows of several operands by one matrix at once"
# With more rows, reading the matrix is no longer what takes the time; above so many merges, each of
# which sorts the graph anew, the others are left.
MOST_ROWS, MOST_MERGES = 16, 100
_FIRST_OPSET, _COUNTING_OPSET = 13, 18  # Split takes its sizes as an input; is told their number


@dataclass(frozen=True)
class Product:
    """A product of some rows with a matrix; `kind` is what products have to have in common."""

    number: int
    kind: tuple[object, ...]
    rows: int | str


def merge_products(graph: Graph, types: Mapping[int, TensorType]) -> list[Step]:
    """Merge products of few rows with the same constant matrix, in place.

    `types` are those under the sizes that costs are asked for: they say how many rows are few.
    """
    if graph.opset() < _FIRST_OPSET:
        return []
    steps: list[Step] = []
    joined: dict[tuple[int, ...], int] = {}
    counts = Counter(product.kind for product in _products(graph, types))
    for kind in (kind for kind, count in counts.items() if count > 1):
        alike = [product for product in _products(graph, types) if product.kind == kind]
        for products in _independent(graph, alike):
            if len(products) > 1 and len(steps) < MOST_MERGES:
                steps.append(_merge(graph, products, joined))
    return steps


def _products(graph: Graph, types: Mapping[int, TensorType]) -> list[Product]:
    found = (_product(graph, number, types) for number in graph.nodes)
    return [product for product in found if product is not None]


def _product(graph: Graph, number: int, types: Mapping[int, TensorType]) -> Product | None:
    """The product that a node is; None where it is none, or one that can't be merged."""
    node = graph.nodes[number]
    if node.operator not in ("MatMul", "Gemm") or node.inputs[1] not in graph.constants:
        return None
    rows, matrix = node.inputs[:2]
    shape, bound = graph.shape(rows), types.get(rows)
    if rows in graph.constants or shape is None or len(shape) < 2 or bound is None:
        return None
    if len(graph.shape(matrix) or ()) != 2 or bound.shape is None or len(bound.shape) != len(shape):
        return None
    if any(not isinstance(size, int) for size in bound.shape):
        return None
    if not 0 < prod(int(size) for size in bound.shape[:-1]) <= MOST_ROWS:
        return None
    form: tuple[object, ...] = ()
    if node.operator == "Gemm":
        bias = node.inputs[2] if len(node.inputs) > 2 else ABSENT
        if graph.attribute(number, "transA") or not _is_row(graph, bias):
            return None
        form = (bias, *sorted(graph.attributes(number).items()))
    own = shape[0] if len(shape) == 2 else _count(shape[:-1])
    if own is None:
        return None
    # Parts whose sizes are not known yet have to be equal.
    free = own if isinstance(own, str) else ""
    return Product(number, (node.operator, matrix, graph.dtype(rows), form, free), own)


def _count(shape: Sequence[int | str]) -> int | None:
    """Multiply sizes; None where one is not known yet."""
    return prod(map(int, shape)) if all(isinstance(size, int) for size in shape) else None


def _is_row(graph: Graph, bias: int) -> bool:
    """Tell whether what a Gemm adds is the same for each row, and known."""
    if bias == ABSENT:
        return True
    shape = graph.shape(bias) if bias in graph.constants else None
    return shape is not None and all(size == 1 for size in shape[:-1])


def _independent(graph: Graph, products: Sequence[Product]) -> list[list[Product]]:
    """Sort products by how many of them come one after the other before each."""
    by_node = {product.number: product for product in products}
    before: dict[int, int] = {}
    levels: dict[int, list[Product]] = {}
    for number in graph.order():
        node = graph.nodes[number]
        depth = max((before.get(value, 0) for value in node.reads), default=0)
        if number in by_node:
            levels.setdefault(depth, []).append(by_node[number])
            depth += 1
        before.update(dict.fromkeys(node.outputs, depth))
    return [levels[depth] for depth in sorted(levels)]


def _merge(graph: Graph, products: Sequence[Product], joined: dict[tuple[int, ...], int]) -> Step:
    """Put one product in the place of several; `joined` has the rows that were joined before."""
    made = Maker(graph, NAME)
    names = tuple(graph.node_name(product.number) for product in products)
    nodes = [graph.nodes[product.number] for product in products]
    operands = tuple(node.inputs[0] for node in nodes)
    if operands not in joined:
        depth = _depth(graph, products[0].number)
        rows = [_flat(made, value, depth) for value in operands]
        joined[operands] = made.node("Concat", rows, axis=0)
    first = nodes[0]
    for product in products:
        graph.remove_node(product.number)
    inputs = (joined[operands], *first.inputs[1:])
    whole = made.add(Node(first.op_type, "", inputs, (), first.attributes))
    parts = [n.outputs[0] if _is_flat(graph, n.inputs[0]) else made.value("Split") for n in nodes]
    made.give(_split(made, whole, products), tuple(parts))
    for node, part in zip(nodes, parts, strict=True):
        if part != node.outputs[0]:
            lead = [int(size) for size in (graph.shape(node.inputs[0]) or ())[:-1]]
            target = made.constant(np.array([*lead, -1], np.int64))
            made.give(Node("Reshape", "", (part, target), (), {}), node.outputs)
    reason = f"{len(products)} products with {graph.names[first.inputs[1]]}"
    return Step(NAME, names, len(nodes), made.count, True, reason, "rounding", SUMMARY)


def _split(made: Maker, whole: int, products: Sequence[Product]) -> Node:
    """Return what cuts the rows of a product into those of several."""
    known = [product.rows for product in products if isinstance(product.rows, int)]
    attributes = {"axis": 0}
    sizes = (made.constant(np.array(known, np.int64)),) if known else ()
    if not known and made.graph.opset() >= _COUNTING_OPSET:
        attributes["num_outputs"] = len(products)
    protos = {name: helper.make_attribute(name, value) for name, value in attributes.items()}
    return Node("Split", "", (whole, *sizes), (), protos)


def _depth(graph: Graph, number: int) -> int:
    """Give the length of a product's rows."""
    stored = graph.shape(graph.nodes[number].inputs[1]) or ()
    turned = graph.op_type(number) == "Gemm" and graph.attribute(number, "transB")
    return int(stored[1 if turned else 0])


def _is_flat(graph: Graph, value: int) -> bool:
    return len(graph.shape(value) or ()) == 2


def _flat(made: Maker, value: int, depth: int) -> int:
    """Return rows as a matrix."""
    if _is_flat(made.graph, value):
        return value
    return made.node("Reshape", (value, made.constant(np.array([-1, depth], np.int64))))
