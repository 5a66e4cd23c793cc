"""Rotary position embeddings as the runtime's one kernel.

    x cos + (-x2, x1) sin,  x = (x1, x2),   is RotaryEmbedding(x, 0, cos[:, :r], sin[:, :r])

where both tables hold the same in either half (Su et al., RoFormer, arXiv 2104.09864, section
3.4.2, in the spelling of Hugging Face's Llama). A rule can't say that a table's halves are equal:
those of a constant are compared, those of a computed one come of the same value by their spelling.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...graph.graph import constant_of
from ..congruence import NONE
from .derivation import Derivation, Giver

RULE, HEADS = "FuseRotaryEmbedding", "FuseRotaryEmbeddingOfHeads"
SUMMARY = "rotates pairs of channels by tables in one pass"
HEADS_SUMMARY = (
    "rotates pairs of channels where heads lie side by side, before they are taken apart"
)
KERNEL = "com.microsoft:RotaryEmbedding"
# What is done element by element to a table of equal halves, and leaves them equal.
UNARY = ("Cos", "Sin", "Cast", "Identity")


def fuse_rotary(derivation: Derivation) -> None:
    """State all rotations of an e-graph as the kernel."""
    halves: dict[int, int | None] = {}
    for class_, total in list(derivation.every("Add")):
        for straight, turned in (total.operands[:2], total.operands[1::-1]):
            for rotation in _rotations(derivation, straight, turned):
                _state(derivation, class_, total, rotation, halves)
                break
    derivation.unite_pairs()
    for class_, kernel in list(derivation.every(KERNEL)):
        _before_heads(derivation, class_, kernel)
    derivation.unite_pairs()


def _rotations(
    derivation: Derivation, straight: int, turned: int
) -> Iterator[tuple[int, int, int, tuple[int, ...]]]:
    """(x, table of cosines, table of sines, e-nodes) of x cos + turned(x) sin."""
    for product in derivation.givers(turned, "Mul"):
        for half, sines in (product.operands, product.operands[::-1]):
            for x, nodes in _turned(derivation, half):
                for other in derivation.givers(straight, "Mul"):
                    if x in other.operands:
                        a, b = other.operands
                        cosines = b if a == x else a
                        yield x, cosines, sines, (*nodes, product.node, other.node)


def _turned(derivation: Derivation, class_: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """What a class is the halves of, the second one negated and first."""
    for joined in derivation.givers(class_, "Concat"):
        shape = derivation.shape(class_)
        if shape is None or len(joined.operands) != 2 or not _is_last(joined, len(shape)):
            continue
        for negated in derivation.givers(joined.operands[0], "Neg"):
            second, first = negated.operands[0], joined.operands[1]
            for x, node in _parts(derivation, first, second):
                yield x, (node, negated.node, joined.node)


def _is_last(giver: Giver, rank: int) -> bool:
    return giver.attributes.get("axis", 0) in (-1, rank - 1)


def _parts(derivation: Derivation, first: int, second: int) -> Iterator[tuple[int, int]]:
    """What two classes are the first and the second half of, along the last axis."""
    for split in derivation.givers(first, "Split"):
        outputs = derivation.egraph.columns.outputs(split.node)
        shapes = derivation.shape(first), derivation.shape(second)
        if outputs != (first, second) or shapes[0] is None or shapes[0] != shapes[1]:
            continue
        if _is_last(split, len(shapes[0])):
            yield split.operands[0], split.node
    for low in derivation.givers(first, "Slice"):
        x = low.operands[0]
        width = _width(derivation, x)
        if width is None or _slice(derivation, low, width) != (0, width // 2):
            continue
        for high in derivation.givers(second, "Slice"):
            same = high.operands[0] == x
            if same and _slice(derivation, high, width) == (width // 2, width):
                yield x, low.node


def _width(derivation: Derivation, class_: int) -> int | None:
    """The last dimension, if it is known and even."""
    shape = derivation.shape(class_)
    width = shape[-1] if shape else None
    return width if isinstance(width, int) and width % 2 == 0 and width else None


def _slice(derivation: Derivation, giver: Giver, width: int) -> tuple[int, int] | None:
    """From where to where a Slice along the last axis alone takes elements of `width`."""
    shape = derivation.shape(giver.operands[0])
    given = [derivation.list(value) for value in giver.operands[1:]]
    if shape is None or len(given) < 3 or any(v is None or len(v) != 1 for v in given):
        return None
    (start,), (end,), (axis,), *step = [value for value in given if value is not None]
    if axis not in (-1, len(shape) - 1) or (step and step[0] != [1]):
        return None
    low, high = (min(v, width) if v >= 0 else max(v + width, 0) for v in (start, end))
    return low, high


def _state(
    derivation: Derivation,
    class_: int,
    total: Giver,
    rotation: tuple[int, int, int, tuple[int, ...]],
    halves: dict[int, int | None],
) -> None:
    x, cosines, sines, nodes = rotation
    shape, width = derivation.shape(x), _width(derivation, x)
    if shape is None or len(shape) != 4 or width is None:
        return
    tables = []
    for table in (cosines, sines):
        table_shape = derivation.shape(table)
        rows = table_shape[-2] if table_shape is not None and len(table_shape) >= 2 else None
        if table_shape is None or rows is None or rows != shape[2] or table_shape[-1] != width:
            return
        if any(size != 1 for size in table_shape[:-2]):  # each token has its row, in every sequence
            return
        if table not in halves:
            halves[table] = _half(derivation, table, width // 2)
        half = halves[table]
        if half is None:
            return
        tables.append(half)
    start = derivation.integers([0])
    made = derivation.make(KERNEL, [x, start, *tables], {}, shape)
    if made is not None:
        derivation.state(RULE, SUMMARY, (*nodes, total.node), [made], class_)


def _half(derivation: Derivation, table: int, half: int) -> int | None:
    """The first half of a table's columns, [rows, half]; None unless the second one is the same."""
    egraph = derivation.egraph
    constant = egraph.constant(table)
    if constant is not None:
        array = constant.array()
        array = array.reshape(array.shape[-2:])
        if not np.array_equal(array[:, :half], array[:, half:]):
            return None
        return egraph.leaf(constant_of(np.ascontiguousarray(array[:, :half])), ("half", table))
    shape = derivation.shape(table)
    if shape is None or not _repeats(derivation, table):
        return None
    bounds = [derivation.integers([bound]) for bound in (0, half, -1)]
    cut = derivation.make("Slice", [table, *bounds], {}, (*shape[:-1], half))
    if cut is None:
        return None
    flat = [derivation.output(cut), derivation.integers([-1, half])]
    rows = derivation.make("Reshape", flat, {}, (shape[-2], half))
    return None if rows is None else derivation.output(rows)


def _repeats(derivation: Derivation, class_: int, depth: int = 6) -> bool:
    """Whether a computed table holds the same in both halves, as its spelling tells."""
    shape = derivation.shape(class_)
    if shape is None or not depth:
        return False
    for joined in derivation.givers(class_, "Concat"):
        twice = len(joined.operands) == 2 and len(set(joined.operands)) == 1
        if twice and _is_last(joined, len(shape)):
            return True
    return any(
        _repeats(derivation, inner, depth - 1)
        for inner in _columns_of(derivation, class_, len(shape))
    )


def _columns_of(derivation: Derivation, class_: int, rank: int) -> Iterator[int]:
    """What a table is computed of element by element, each column of the same column."""
    for giver in derivation.givers(class_, *UNARY):
        yield giver.operands[0]
    for giver in derivation.givers(class_, "Unsqueeze"):
        axes = giver.attributes.get("axes") or derivation.list(giver.operands[-1])
        if axes and not any(axis in (-1, rank - 1) for axis in axes):
            yield giver.operands[0]
    for giver in derivation.givers(class_, "Mul"):
        for inner, factor in (giver.operands, giver.operands[::-1]):
            is_scaled = derivation.number(factor) is not None
            if is_scaled and derivation.shape(inner) == derivation.shape(class_):
                yield inner


def _before_heads(derivation: Derivation, class_: int, kernel: Giver) -> None:
    """Rotate heads that lie side by side: they are taken apart after that."""
    shape = derivation.shape(class_)
    if kernel.attributes or shape is None or len(shape) != 4:
        return
    heads, depth = shape[1], shape[3]
    if not isinstance(heads, int) or not isinstance(depth, int):
        return
    for moved in derivation.givers(kernel.operands[0], "Transpose"):
        if moved.attributes.get("perm") != (0, 2, 1, 3):
            continue
        for split in derivation.givers(moved.operands[0], "Reshape"):
            side = split.operands[0]
            before, after = derivation.shape(side), derivation.shape(moved.operands[0])
            if before is None or after is None or before != (*after[:2], heads * depth):
                continue
            rest = [value for value in kernel.operands[1:] if value != NONE]
            rotated = derivation.make(KERNEL, [side, *rest], {"num_heads": heads}, before)
            if rotated is None:
                continue
            reads = [derivation.output(rotated), split.operands[1]]
            again = derivation.make("Reshape", reads, split.attributes, after)
            if again is None:
                continue
            back = derivation.make(
                "Transpose", [derivation.output(again)], {"perm": [0, 2, 1, 3]}, shape
            )
            if back is not None:
                sources = (split.node, moved.node, kernel.node)
                derivation.state(HEADS, HEADS_SUMMARY, sources, [rotated, again, back], class_)
