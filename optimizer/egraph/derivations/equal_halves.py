"""Constants of equal halves, as a value joined with itself: so rules see that halves are equal.

A table of rotations holds the same in either half (rules/rotary.rules). Which constants do, their
elements tell; that a constant is what it is computed of holds in any graph.
"""

from __future__ import annotations

import numpy as np

from ...graph.graph import constant_of
from .derivation import Derivation

NAME = "join constants"
SUMMARY = "holds once what a constant holds twice"


def join_twins(derivation: Derivation) -> None:
    """State factors of equal halves along the last axis as joined, where halves are rotated."""
    if next(derivation.every("Neg"), None) is None:
        return
    factors = {operand for _, product in derivation.every("Mul") for operand in product.operands}
    for class_ in sorted(factors):
        constant, shape = derivation.egraph.constant(class_), derivation.shape(class_)
        if constant is None or shape is None or len(shape) < 2:
            continue
        width = int(shape[-1])
        if width < 2 or width % 2:
            continue
        first, second = np.split(constant.array(), 2, axis=-1)
        if not np.array_equal(first, second):
            continue
        half = constant_of(np.ascontiguousarray(first))
        twin = derivation.egraph.leaf(half, ("half", class_))
        joined = derivation.make("Concat", [twin, twin], {"axis": len(shape) - 1}, shape)
        if joined is not None:
            derivation.state(NAME, SUMMARY, (), [joined], class_, equal="exact")
    derivation.unite_pairs()
