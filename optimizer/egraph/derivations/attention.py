"""Attention of several heads as the runtime's one kernel.

    softmax(c Q Kt + M) V, heads along an axis, is MultiHeadAttention(Q, K, V, M) of scale c

with heads side by side in Q and in the result (Vaswani et al., Attention is all you need, NeurIPS
2017, section 3.2.2). Exporters put the factor c on the scores, on one operand or, as its root, on
both, transpose K in one step or two or as a batch of matrices, and broadcast the mask: no rule
would fit all of them. K and V stay as they are where they have an axis of heads already, as grouped
queries and caches leave them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ...graph.graph import Shape
from ..congruence import NONE
from .derivation import Derivation, Giver

RULE = "FuseMultiHeadAttention"
SUMMARY = "attends with several heads in one kernel"
KERNEL = "com.microsoft:MultiHeadAttention"
HEADS = (0, 2, 1, 3)
# The opset from which Shape gives a part of the sizes.
_PART_OF_SHAPE = 15
# Factors that are looked through, one within the other.
MOST_FACTORS = 3


@dataclass(frozen=True)
class _Heads:
    """A class of heads: [b, h, s, e], or [b, s, h, e] where it `is_apart`."""

    class_: int
    is_apart: bool = False


@dataclass(frozen=True)
class _Scores:
    """Scores as factor * queries keys^T + mask; queries [b, h, s, e], the mask a class or NONE."""

    queries: int
    keys: _Heads
    factor: float
    nodes: tuple[int, ...]
    mask: int = NONE


def fuse_attention(derivation: Derivation) -> None:
    """State every attention of an e-graph as the kernel."""
    moved: dict[int, list[tuple[int, Giver]]] = {}
    for class_, giver in derivation.every("Transpose", "Reshape"):
        moved.setdefault(giver.operands[0], []).append((class_, giver))
    for class_, product in list(derivation.every("MatMul")):
        shape = derivation.shape(class_)
        if shape is None or len(shape) != 4:
            continue
        for softmax in derivation.givers(product.operands[0], "Softmax"):
            if not _is_over_last(derivation, softmax):
                continue
            scores = next(_scores(derivation, softmax.operands[0]), None)
            if scores is not None:
                nodes = (*scores.nodes, softmax.node, product.node)
                new_nodes = _attention_nodes(derivation, shape, scores, product.operands[1])
                if new_nodes:
                    _state(derivation, class_, shape, new_nodes, nodes, moved)
    derivation.unite_pairs()


def _is_over_last(derivation: Derivation, softmax: Giver) -> bool:
    default = 1 if derivation.egraph.inference.opset("") < 13 else -1
    return softmax.attributes.get("axis", default) in (-1, 3)


# ------------------------------------------------------------------------------------- reading


def _scores(derivation: Derivation, class_: int) -> Iterator[_Scores]:
    """Spellings of a class as scores, with a mask or without."""
    for added in derivation.givers(class_, "Add"):
        for inner, mask in (added.operands, added.operands[::-1]):
            if derivation.shape(inner) == derivation.shape(class_):
                for product in _products(derivation, inner):
                    yield replace(product, mask=mask, nodes=(*product.nodes, added.node))
    yield from _products(derivation, class_)


def _products(derivation: Derivation, class_: int) -> Iterator[_Scores]:
    """Spellings of a class as a scaled product by transposed keys."""
    for scaled, outer, around in _unscaled(derivation, class_):
        for product in derivation.givers(scaled, "MatMul"):
            for queries, left, before in _unscaled(derivation, product.operands[0]):
                for keys, right, behind in _keys(derivation, product.operands[1]):
                    nodes = (*before, *behind, product.node, *around)
                    yield _Scores(queries, keys, outer * left * right, nodes)


def _keys(derivation: Derivation, class_: int) -> Iterator[tuple[_Heads, float, tuple[int, ...]]]:
    """Keys that a class holds transposed, by which factor."""
    for turned, outer, around in _unscaled(derivation, class_):
        for heads, nodes in _turned(derivation, turned):
            if heads.is_apart:
                yield heads, outer, (*nodes, *around)
                continue
            for keys, inner, within in _unscaled(derivation, heads.class_):
                yield _Heads(keys), outer * inner, (*within, *nodes, *around)


def _unscaled(
    derivation: Derivation, class_: int, depth: int = MOST_FACTORS
) -> Iterator[tuple[int, float, tuple[int, ...]]]:
    """(class, factor, e-nodes): what a class is a known multiple of, itself last."""
    for giver in derivation.givers(class_, "Mul", "Div") if depth else ():
        a, b = giver.operands
        pairs = ((a, b), (b, a)) if _is_product(derivation, giver) else ((a, b),)
        for inner, other in pairs:
            number = derivation.number(other)
            if not number or derivation.shape(inner) != derivation.shape(class_):
                continue
            factor = number if _is_product(derivation, giver) else 1 / number
            for factor_below, rest, nodes in _unscaled(derivation, inner, depth - 1):
                yield factor_below, factor * rest, (*nodes, giver.node)
    yield class_, 1.0, ()


def _is_product(derivation: Derivation, giver: Giver) -> bool:
    egraph = derivation.egraph
    return egraph.vocabulary.operators[egraph.columns.operator(giver.node)].name == "Mul"


def _turned(derivation: Derivation, class_: int) -> Iterator[tuple[_Heads, tuple[int, ...]]]:
    """Heads whose matrices a class holds transposed."""
    for giver in derivation.givers(class_, "Transpose"):
        perm: object = giver.attributes.get("perm")
        if perm == (0, 1, 3, 2):
            yield _Heads(giver.operands[0]), (giver.node,)
        elif perm == (0, 2, 3, 1):
            yield _Heads(giver.operands[0], is_apart=True), (giver.node,)
    shape = derivation.shape(class_)
    for separate in derivation.givers(class_, "Reshape"):  # a batch of matrices, transposed
        for turned in derivation.givers(separate.operands[0], "Transpose"):
            for together in derivation.givers(turned.operands[0], "Reshape"):
                heads = derivation.shape(together.operands[0])
                batch = derivation.shape(turned.operands[0])
                if turned.attributes.get("perm") != (0, 2, 1) or batch is None:
                    continue
                if heads is None or len(heads) != 4 or batch[1:] != heads[2:]:
                    continue
                if shape == (*heads[:2], heads[3], heads[2]):
                    nodes = (together.node, turned.node, separate.node)
                    yield _Heads(together.operands[0]), nodes


# -------------------------------------------------------------------------------------- making


def _attention_nodes(
    derivation: Derivation, shape: Shape, scores: _Scores, values: int
) -> list[int]:
    """The e-nodes of a kernel that gives heads side by side, [b, s, h * f], it the last one."""
    b, h, s, f = shape
    queries, value_shape = derivation.shape(scores.queries), derivation.shape(values)
    if queries is None or len(queries) != 4 or queries[:3] != (b, h, s) or value_shape is None:
        return []
    if len(value_shape) != 4:
        return []
    e, t = queries[3], value_shape[2]
    if value_shape != (b, h, t, f) or not all(isinstance(size, int) for size in (h, e, f)):
        return []
    keys = derivation.shape(scores.keys.class_)
    if keys != ((b, t, h, e) if scores.keys.is_apart else (b, h, t, e)):
        return []
    new_nodes: list[int] = []
    query = _side_by_side(derivation, _Heads(scores.queries)) or _joined(
        derivation, scores.queries, queries, new_nodes
    )
    key, value = (_side_by_side(derivation, heads) for heads in (scores.keys, _Heads(values)))
    if key is None or value is None:
        key, value = scores.keys.class_, values
        if e != f:
            return []
        if scores.keys.is_apart:
            turned = derivation.make("Transpose", [key], {"perm": list(HEADS)}, (b, h, t, e))
            if turned is None:
                return []
            new_nodes.append(turned)
            key = derivation.output(turned)
    reads = [query, key, value]
    if scores.mask != NONE:
        mask = _mask(derivation, scores.mask, (b, h, s, t), query, new_nodes)
        if mask is None:
            return []
        reads += [NONE, NONE, mask]
    attributes = {"num_heads": int(h), "scale": float(scores.factor)}
    kernel = derivation.make(KERNEL, reads, attributes, (b, s, int(h) * int(f)))
    return [] if kernel is None else [*new_nodes, kernel]


def _side_by_side(derivation: Derivation, heads: _Heads) -> int | None:
    """The class of heads side by side, [b, s, h * e], that heads were taken apart from."""
    if not heads.is_apart:
        for giver in derivation.givers(heads.class_, "Transpose"):
            if giver.attributes.get("perm") == HEADS:
                source = _side_by_side(derivation, _Heads(giver.operands[0], is_apart=True))
                if source is not None:
                    return source
        return None
    shape = derivation.shape(heads.class_)
    if shape is None or not all(isinstance(size, int) for size in shape[2:]):
        return None
    width = int(shape[2]) * int(shape[3])
    for giver in derivation.givers(heads.class_, "Reshape"):
        if derivation.shape(giver.operands[0]) == (*shape[:2], width):
            return giver.operands[0]
    return None


def _joined(derivation: Derivation, class_: int, shape: Shape, new_nodes: list[int]) -> int:
    """Heads put side by side by a Transpose and a Reshape, which are added to those made."""
    b, h, s, e = shape
    moved = derivation.make("Transpose", [class_], {"perm": list(HEADS)}, (b, s, h, e))
    assert moved is not None
    width = int(h) * int(e)
    reads = [derivation.output(moved), derivation.integers([0, 0, width])]
    joined = derivation.make("Reshape", reads, {}, (b, s, width))
    assert joined is not None
    new_nodes += [moved, joined]
    return derivation.output(joined)


def _mask(
    derivation: Derivation, mask: int, whole: Shape, query: int, new_nodes: list[int]
) -> int | None:
    """A mask as the kernel takes it: of all rows and columns, for each head and sequence or all.

    `query` is [b, s, h * e], where the number of rows is read if it is free.
    """
    shape = derivation.shape(mask)
    if shape is None or len(shape) > 4:
        return None
    padded_shape = (*(1,) * (4 - len(shape)), *shape)
    if any(size not in (1, full) for size, full in zip(padded_shape, whole, strict=True)):
        return None
    target = (*padded_shape[:2], *whole[2:])
    if shape == target:
        return mask
    sizes = _sizes(derivation, mask, target, padded_shape, query, new_nodes)
    node = None if sizes is None else derivation.make("Expand", [mask, sizes], {}, target)
    if node is None:
        return None
    new_nodes.append(node)
    return derivation.output(node)


def _sizes(
    derivation: Derivation,
    mask: int,
    target: Shape,
    padded_shape: Shape,
    query: int,
    new_nodes: list[int],
) -> int | None:
    """What to expand a mask to; where sizes are free, 1 in the place of those that it has."""
    if all(isinstance(size, int) for size in target):
        return derivation.integers([int(size) for size in target])
    if padded_shape[3] != target[3] or derivation.egraph.inference.opset("") < _PART_OF_SHAPE:
        return None
    if target[2] == target[3]:  # one for all layers
        rows = derivation.make("Shape", [mask], {"start": -1})
    else:
        rows = derivation.make("Shape", [query], {"start": 1, "end": 2})
    if rows is None:
        return None
    ones = derivation.integers([1, 1]), derivation.integers([1])
    parts = [ones[0], derivation.output(rows), ones[1]]
    sizes = derivation.make("Concat", parts, {"axis": 0})
    if sizes is None:
        return None
    new_nodes += [rows, sizes]
    return derivation.output(sizes)


def _state(
    derivation: Derivation,
    class_: int,
    shape: Shape,
    new_nodes: list[int],
    nodes: tuple[int, ...],
    moved: dict[int, list[tuple[int, Giver]]],
) -> None:
    """State the kernel for what puts heads side by side; for the heads where nothing does."""
    b, h, s, f = shape
    flat = derivation.output(new_nodes[-1])
    sizes = derivation.integers([0, 0, int(h), int(f)])
    split = derivation.make("Reshape", [flat, sizes], {}, (b, s, h, f))
    if split is None:
        return
    is_stated = False
    for turned, giver in moved.get(class_, ()):
        if giver.attributes.get("perm") != HEADS:
            continue
        is_stated = True
        derivation.state(RULE, SUMMARY, (*nodes, giver.node), [*new_nodes, split], turned)
        for joined, last in moved.get(turned, ()):
            if derivation.shape(joined) == (b, s, int(h) * int(f)):
                derivation.state(RULE, SUMMARY, (*nodes, giver.node, last.node), new_nodes, joined)
    if not is_stated:
        back = derivation.make(
            "Transpose", [derivation.output(split)], {"perm": list(HEADS)}, shape
        )
        if back is not None:
            derivation.state(RULE, SUMMARY, nodes, [*new_nodes, split, back], class_)
