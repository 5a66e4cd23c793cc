"""Where the two sides of a statement differ at concrete numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import numpy as np

from ....catalog.terms.index_notation import Variable, substitute
from ...prover.statement import Equation, Statement
from ..evaluation.arithmetic import (
    Arithmetic,
    Array,
    Assignment,
    NoValueError,
    Tensor,
    TooLargeError,
    number,
    shape_at,
)
from ..evaluation.evaluate import compute, holds
from ..evaluation.exact import Exact
from ..evaluation.intervals import bounds

DifferenceKind = Literal["value", "shape", "undefined", "defined"]


@dataclass(frozen=True)
class Difference:
    """One place where the sides differ: `index` of `output`, with what stands there on each side.

    `kind` is that of a Counterexample. Sizes alone show a "shape"; `text` says what failed.
    """

    kind: DifferenceKind
    assignment: Assignment
    output: str
    index: tuple[int, ...] = ()
    source: Any = None
    target: Any = None
    text: str = ""


def differences(
    statement: Statement, assignment: Assignment, arithmetic: Arithmetic
) -> Iterator[Difference]:
    """The first difference of each output.

    Raises NoValueError or TooLargeError where the source can't be computed; one of its own
    requirements that fails counts as such, too.
    """
    symbols = assignment.symbols
    tensors = compute(statement, assignment, arithmetic, statement.source)
    for condition in statement.assumptions:
        try:
            met = bool(number(condition, symbols))
        except NoValueError:
            met = bool(holds(condition, {}, tensors, symbols, arithmetic).all())
        if not met:
            raise NoValueError(f"{condition} doesn't hold")
    for obligation in statement.obligations:
        try:
            met = bool(number(obligation.condition, symbols))
        except NoValueError:
            met = bool(holds(obligation.condition, {}, tensors, symbols, arithmetic).all())
        if not met:
            if obligation.text.startswith("size "):
                break  # of an output: said below
            text = f"the right side needs {obligation.text}"
            yield Difference("undefined", assignment, "", text=text)
            return
    names = frozenset(d.name for d in statement.definitions)
    shapes = {d.name: d.shape for d in statement.definitions}
    shapes |= {o.name: o.shape for o in statement.operands}
    for equation in statement.equations:
        left = shape_at(shapes[equation.source], symbols)
        try:
            right = shape_at(shapes[equation.target], symbols)
        except NoValueError as error:
            yield Difference("undefined", assignment, equation.output, text=str(error))
            return
        if left != right:
            text = (
                f"{equation.output} has shape {list(left)} on the left, {list(right)} on the right"
            )
            yield Difference("shape", assignment, equation.output, (), left, right, text)
            return
    try:
        tensors = compute(statement, assignment, arithmetic, names)
    except TooLargeError:
        raise
    except NoValueError as error:
        if isinstance(arithmetic, Exact):
            raise
        yield Difference("undefined", assignment, "", text=str(error))
        return
    for equation in statement.equations:
        difference = _first(statement, equation, assignment, tensors, arithmetic)
        if difference is not None:
            yield difference


def _first(
    statement: Statement,
    equation: Equation,
    assignment: Assignment,
    tensors: dict[str, Tensor],
    arithmetic: Arithmetic,
) -> Difference | None:
    left, right = tensors[equation.source], tensors[equation.target]
    counted = _outside(statement, left.values.shape, tensors, assignment, arithmetic)

    def difference(where: Array, kind: DifferenceKind) -> Difference:
        index = tuple(int(i) for i in np.argwhere(where)[0])
        first = left.values[index] if left.defined[index] else None
        other = right.values[index] if right.defined[index] else None
        return Difference(kind, assignment, equation.output, index, first, other)

    lost = counted & left.defined & ~right.defined
    if lost.any():
        return difference(lost, "undefined")
    gained = counted & ~left.defined & right.defined
    if gained.any():
        return difference(gained, "defined")
    both = counted & left.defined & right.defined
    unequal = both & differ(left, right, arithmetic)
    return difference(unequal, "value") if unequal.any() else None


def _outside(
    statement: Statement,
    shape: tuple[int, ...],
    tensors: dict[str, Tensor],
    assignment: Assignment,
    arithmetic: Arithmetic,
) -> Array:
    """The elements that a partial equivalence speaks of: those outside of its region."""
    if statement.region is None:
        return np.ones(shape, bool)
    places = {name: Variable(name, -1) for name in statement.region_indices}
    region = substitute(statement.region, places)
    grids = np.indices(shape) if shape else np.zeros((0,), np.int64)
    bound = dict(zip(places.values(), grids, strict=True))
    inside = holds(region, bound, tensors, assignment.symbols, arithmetic)
    return ~np.broadcast_to(inside, shape)


def differ(left: Tensor, right: Tensor, arithmetic: Arithmetic) -> Array:
    """Where two tensors have different elements, beyond what rounding explains."""
    if left.kind != "real" or right.kind != "real":
        return np.asarray(np.not_equal(left.values, right.values))
    if isinstance(arithmetic, Exact):
        unequal = partial(_unequal, tolerance=arithmetic.tolerance)
        return np.asarray(np.frompyfunc(unequal, 2, 1)(left.values, right.values), bool)
    if left.values.dtype.kind != "f":
        return np.asarray(np.not_equal(left.values, right.values))
    a, b = left.values, right.values
    finite = np.isfinite(a) & np.isfinite(b)
    a, b = np.where(finite, a, 0.0), np.where(finite, b, 0.0)
    scale = np.maximum(np.abs(a), np.abs(b))
    return np.asarray(np.abs(a - b) > 1e-9 + 1e-7 * scale)


def _unequal(a: Any, b: Any, tolerance: Fraction) -> bool:
    """Whether two exact numbers differ for certain, and by more than a rounded literal explains."""
    (low, high), (least, most) = bounds(a), bounds(b)
    gap = max(least - high, low - most)
    return bool(gap > tolerance * max(1, abs(low), abs(high), abs(least), abs(most)))
