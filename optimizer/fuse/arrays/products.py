"""Products of matrices, np.einsum, and what else sums over axes that operands share.

Axes have labels. Labels of one operand alone that the result doesn't have are summed first; then
two operands at a time become one, those whose product takes the fewest multiplications: by
elements, where they have all labels in common, else as a product of matrices. Chains of products
of matrices are put into their cheapest order later (program/value_rewrites.py).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from ..tracing.expressions import Expression, cast, elementwise, reduction
from ..tracing.trace import UnsupportedError
from .operands import traced_type
from .views import with_axes


def product(a: Expression, b: Expression) -> Expression:
    """Return the MatMul of two; raises UnsupportedError where NumPy refuses it, or knows better."""
    kept = _product_type(a.dtype, b.dtype)
    if not a.shape or not b.shape:
        raise UnsupportedError("a product with a number")
    if a.shape[-1] != b.shape[-2 if len(b.shape) > 1 else 0]:
        raise UnsupportedError("a product of shapes that don't fit")
    batch: tuple[int, ...] = ()
    if len(a.shape) > 2 or len(b.shape) > 2:
        try:
            batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        except ValueError as error:
            raise UnsupportedError("a product of shapes that don't fit") from error
    rows = a.shape[-2:-1]
    columns = b.shape[-1:] if len(b.shape) > 1 else ()
    return Expression("MatMul", (cast(a, kept), cast(b, kept)), (*batch, *rows, *columns), kept)


def _product_type(*types: str) -> str:
    kept = traced_type(*map(np.dtype, types), description="a product of type")
    if kept == "bool":
        raise UnsupportedError(f"a product of type {kept}")
    return kept


# A letter, or, for the axes of an ellipsis, how far from its last one.
Label = str | int
_TERM = re.compile(r"([A-Za-z]*)(\.\.\.)?([A-Za-z]*)")


@dataclass(frozen=True, slots=True)
class Term:
    """An operand with a label for each axis, none of them twice."""

    value: Expression
    labels: tuple[Label, ...]


def labels_of(
    subscripts: str, ranks: Sequence[int]
) -> tuple[list[tuple[Label, ...]], tuple[Label, ...]]:
    """Return the labels of operands' axes and of the result's, as np.einsum reads subscripts.

    Raises UnsupportedError for what NumPy refuses, and for a label that stands twice in an operand.
    """
    inputs, arrow, output = subscripts.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if len(terms) != len(ranks):
        raise UnsupportedError("subscripts of another number of operands")
    split = [_TERM.fullmatch(term) for term in (*terms, output)]
    labels_of_operands: list[tuple[Label, ...]] = []
    widest = 0
    for match, rank in zip(split[:-1], ranks, strict=True):
        if match is None:
            raise UnsupportedError("subscripts that NumPy refuses")
        before, dots, after = match.groups()
        rest = rank - len(before) - len(after)
        if rest < 0 or (rest and not dots):
            raise UnsupportedError("subscripts of another number of axes")
        widest = max(widest, rest)
        labels = (*before, *range(rest, 0, -1), *after)
        if len(set(labels)) < len(labels):
            raise UnsupportedError("a subscript twice in one operand")
        labels_of_operands.append(labels)
    spread = range(widest, 0, -1)
    label_counts = Counter(label for labels in labels_of_operands for label in labels)
    if not arrow:
        once = sorted(
            label for label, times in label_counts.items() if times == 1 and type(label) is str
        )
        return labels_of_operands, (*spread, *once)
    if split[-1] is None:
        raise UnsupportedError("subscripts that NumPy refuses")
    before, dots, after = split[-1].groups()
    result = (*before, *(spread if dots else ()), *after)
    if (
        (widest and not dots)
        or len(set(result)) < len(result)
        or not label_counts.keys() >= set(result)
    ):
        raise UnsupportedError("subscripts of a result that NumPy refuses")
    return labels_of_operands, result


def permutation(subscripts: Any, rank: int) -> tuple[int, ...] | None:
    """Return the order of axes where subscripts of one operand only permute them: that's a view."""
    if type(subscripts) is not str or not rank or "," in subscripts:
        return None
    (labels,), result = labels_of(subscripts, [rank])
    return tuple(map(labels.index, result)) if len(result) == rank else None


def einsum(trace: Any, subscripts: Any, *operands: Any, **options: Any) -> Expression:
    """Return np.einsum of expressions."""
    if type(subscripts) is not str or any(type(operand) is not Expression for operand in operands):
        raise UnsupportedError("operands that aren't arrays")
    ordered = options.pop("optimize", False) is not False
    if options:
        raise UnsupportedError(f"{min(options)}=")
    labels, result = labels_of(subscripts, [len(operand.shape) for operand in operands])
    if ordered and not result:
        raise UnsupportedError("optimize=, with which a number comes as an array")
    return contracted(_terms(operands, labels), result)


def over_axes(
    a: Expression, b: Expression, axes_a: Sequence[int], axes_b: Sequence[int]
) -> Expression:
    """Return the products of a and b summed over pairs of axes; first a's other axes, then b's.

    Raises UnsupportedError where their lengths differ.
    """
    if [a.shape[axis] for axis in axes_a] != [b.shape[axis] for axis in axes_b]:
        raise UnsupportedError("shapes that don't fit")
    left: list[Label] = list(range(len(a.shape)))
    right: list[Label] = [len(left) + axis for axis in range(len(b.shape))]
    for axis, other in zip(axes_a, axes_b, strict=True):
        right[other] = left[axis]
    summed = {left[axis] for axis in axes_a}
    result = tuple(label for label in (*left, *right) if label not in summed)
    return contracted(_terms((a, b), (left, right)), result)


def _terms(operands: Sequence[Expression], labels: Sequence[Sequence[Label]]) -> list[Term]:
    """Return operands in their common type, without axes of length 1 along longer ones."""
    kept = _product_type(*(operand.dtype for operand in operands))
    longest: dict[Label, int] = {}
    for operand, names in zip(operands, labels, strict=True):
        for label, extent in zip(names, operand.shape, strict=True):
            length = longest.setdefault(label, extent)
            if length == 1:
                longest[label] = extent
            elif extent not in (1, length):
                raise UnsupportedError("shapes that don't fit")
    terms = []
    for factor, names in zip(operands, labels, strict=True):
        value = cast(factor, kept)
        gone = tuple(
            axis for axis, label in enumerate(names) if factor.shape[axis] != longest[label]
        )
        if gone:
            rest = tuple(n for axis, n in enumerate(factor.shape) if axis not in gone)
            value = Expression("Squeeze", (value,), rest, kept, (("axes", gone),))
        kept_labels = tuple(label for axis, label in enumerate(names) if axis not in gone)
        terms.append(Term(value, kept_labels))
    return terms


def contracted(terms: Sequence[Term], result: tuple[Label, ...]) -> Expression:
    """Return the product of terms, summed over all labels that the result doesn't have."""
    waiting = [_summed(term, result, [*terms[:i], *terms[i + 1 :]]) for i, term in enumerate(terms)]
    extents = {
        label: extent
        for term in waiting
        for label, extent in zip(term.labels, term.value.shape, strict=True)
    }
    while len(waiting) > 1:
        pairs = combinations(waiting, 2)
        first, second = min(pairs, key=lambda pair: _work(pair[0], pair[1], extents))
        rest = [term for term in waiting if term is not first and term is not second]
        kept = {*result, *(label for term in rest for label in term.labels)}
        joined = _product(first, second, kept, extents, result)
        waiting = [*rest, _summed(joined, result, rest)]
    return _arranged(waiting[0], result)


def _work(a: Term, b: Term, extents: Mapping[Label, int]) -> tuple[int, int]:
    """Return the multiplications that a product takes, and how few elements may remain of it."""
    union = math.prod(extents[label] for label in {*a.labels, *b.labels})
    return union, -math.prod(extents[label] for label in {*a.labels} & {*b.labels})


def _summed(term: Term, result: Sequence[Label], others: Sequence[Term]) -> Term:
    """Return a term summed over what neither the result nor another term has."""
    read = {*result, *(label for term in others for label in term.labels)}
    axes = tuple(axis for axis, label in enumerate(term.labels) if label not in read)
    if not axes:
        return term
    labels = tuple(label for label in term.labels if label in read)
    return Term(reduction("ReduceSum", term.value, axes, False), labels)


def _product(
    a: Term,
    b: Term,
    kept: set[Label],
    extents: Mapping[Label, int],
    result: Sequence[Label],
) -> Term:
    """Return a product of two, summed over the common labels that aren't kept."""
    both = [label for label in a.labels if label in b.labels]
    summed = [label for label in both if label not in kept]
    batch = [label for label in both if label in kept]
    if not summed or len(both) == len(a.labels) == len(b.labels):
        return _by_elements(a, b, summed, result)
    left = [label for label in a.labels if label not in both]
    right = [label for label in b.labels if label not in both]
    places = {label: place for place, label in enumerate(result)}
    if left and right and places.get(right[-1], 0) < places.get(left[-1], 0):
        a, b, left, right = b, a, right, left
    batches = tuple(extents[label] for label in batch)

    def folded(term: Term, *groups: Sequence[Label]) -> Expression:
        order = (*batch, *(label for group in groups for label in group))
        # a vector needs no second axis, where there is no batch of them
        lengths = [math.prod(map(extents.__getitem__, group)) for group in groups if group or batch]
        return reshaped(_arranged(term, order), (*batches, *lengths))

    matrix_product = product(folded(a, left, summed), folded(b, summed, right))
    labels = (*batch, *left, *right)
    return Term(reshaped(matrix_product, tuple(map(extents.__getitem__, labels))), labels)


def _by_elements(a: Term, b: Term, summed: Sequence[Label], result: Sequence[Label]) -> Term:
    """Return a product by elements, summed over labels that both have."""
    union = (*a.labels, *(label for label in b.labels if label not in a.labels))
    if not summed and set(union) == set(result):
        union = tuple(result)
    elif len(b.labels) == len(union):
        union = b.labels if len(a.labels) < len(union) else a.labels
    spread = []
    for term in (a, b):
        value = _arranged(term, [label for label in union if label in term.labels])
        gaps = tuple(axis for axis, label in enumerate(union) if label not in term.labels)
        # axes before the first one come by themselves
        if gaps != tuple(range(len(gaps))):
            value = with_axes(value, gaps)
        spread.append(value)
    whole = elementwise("Mul", *spread)
    axes = tuple(axis for axis, label in enumerate(union) if label in summed)
    if axes:
        whole = reduction("ReduceSum", whole, axes, False)
    return Term(whole, tuple(label for label in union if label not in summed))


def _arranged(term: Term, order: Sequence[Label]) -> Expression:
    """Return a term's value with its axes in an order."""
    x = term.value
    perm = tuple(term.labels.index(label) for label in order)
    if perm == tuple(range(len(perm))):
        return x
    shape = tuple(x.shape[axis] for axis in perm)
    return Expression("Transpose", (x,), shape, x.dtype, (("perm", perm),))


def reshaped(x: Expression, shape: tuple[int, ...]) -> Expression:
    """Return an expression in another shape, itself where it has it."""
    if x.shape == shape:
        return x
    return Expression("Reshape", (x,), shape, x.dtype, (("shape", shape),))
