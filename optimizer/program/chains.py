"""Chains of products of matrices in their cheapest order, by dynamic programming.

Source: Cormen et al., Introduction to Algorithms, section 15.2; with numbers of stored entries in
place of extents where an operand is sparse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .dag import Node, Program
from .rebuild import Builder


@dataclass(frozen=True)
class _Factor:
    """An operand of a chain: a matrix of rows x columns with so many entries."""

    at: int
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
    return builder.program([new[at] for at in program.inputs], [new[at] for at in program.outputs])


def _is_product(program: Program, node: Node) -> bool:
    return (
        node.op == "MatMul"
        and len(node.shape) <= 2
        and node.layout == "dense"
        and node.dtype in ("float32", "float64")
        and all(1 <= len(program.nodes[at].shape) <= 2 for at in node.inputs)
    )


def _inner_products(program: Program) -> frozenset[int]:
    """Return the products that only another product reads, and is a matrix or a vector there."""
    found = set()
    for node in program.nodes:
        if not _is_product(program, node) or node.id in program.outputs or not node.shape:
            continue
        readers = program.consumers[node.id]
        if len(readers) == 1 and _is_product(program, program.nodes[readers[0]]):
            reader = program.nodes[readers[0]]
            if reader.inputs.count(node.id) == 1:
                found.add(node.id)
    return frozenset(found)


def _cheapest(
    builder: Builder, program: Program, node: Node, inner: frozenset[int], new: Sequence[int]
) -> int:
    chain = _chain(program, node, inner)
    vectors = [at for at in chain[1:-1] if len(program.nodes[at].shape) == 1]
    if len(chain) < 3 or vectors:
        return builder.copy(node, [new[at] for at in node.inputs])
    factors = [_factor(program.nodes[at], at, first=at == chain[0]) for at in chain]
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
    found: list[int] = []
    for operand in node.inputs:
        if operand in inner:
            found += _chain(program, program.nodes[operand], inner)
        else:
            found.append(operand)
    return found


def _factor(node: Node, at: int, first: bool) -> _Factor:
    if len(node.shape) == 1:
        rows, columns = (1, node.shape[0]) if first else (node.shape[0], 1)
    else:
        rows, columns = node.shape
    entries = float(rows * columns if node.nnz is None else node.nnz)
    return _Factor(at, rows, columns, entries)


def _splits(factors: Sequence[_Factor]) -> dict[tuple[int, int], int]:
    """Return where to split each part of the chain; a product costs 2 flops an entry and column."""
    count = len(factors)
    cost = {(at, at): 0.0 for at in range(count)}
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
