"""Terms evaluated in an arithmetic that a subclass gives: one walk for all kinds of numbers.

Such are the numbers of NumPy's types (numpy_evaluator.py), and those of rules/gate/evaluation/:
floats, residues, intervals. On a grid a term is evaluated at all of its indices together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from .index_notation import Apply, Read, Reduce, Select, Symbol, Term, Variable, children

Array = npt.NDArray[Any]
Value = TypeVar("Value")


class TermEvaluator(Generic[Value]):
    """Evaluates terms from the inside out; what a subclass doesn't say has no value."""

    def value(self, term: Term) -> Value:
        """Return the value of a term; raises what `refusal` gives where there is none."""
        match term:
            case bool() | int() | float():
                return self.constant(term)
            case Symbol():
                return self.symbol(term)
            case Variable():
                return self.variable(term)
            case Apply("and" | "or" as function, (left, right)):
                return self.junction(function, left, right)
            case Apply(function, arguments):
                return self.apply(function, [self.value(argument) for argument in arguments])
            case Select(condition, then, otherwise):
                return self.select(condition, then, otherwise)
            case Read():
                return self.read(term)
            case Reduce():
                return self.reduce(term)

    def refusal(self, term: Term) -> Exception:
        """Return the error that says that a term has no value here."""
        return NotImplementedError(f"{term} has no value here")

    def constant(self, value: bool | int | float) -> Value:
        """Return a known number."""
        raise self.refusal(value)

    def symbol(self, symbol: Symbol) -> Value:
        """Return the number that a symbol stands for."""
        raise self.refusal(symbol)

    def variable(self, variable: Variable) -> Value:
        """Return an index."""
        raise self.refusal(variable)

    def apply(self, function: str, arguments: Sequence[Value]) -> Value:
        """Return what a primitive gives."""
        raise self.refusal(Apply(function, ()))

    def junction(self, function: str, left: Term, right: Term) -> Value:
        """Return `and` or `or`, of which the left side may decide alone."""
        return self.apply(function, [self.value(left), self.value(right)])

    def select(self, condition: Term, then: Term, otherwise: Term) -> Value:
        """Return one of two values; the other one need not be any."""
        raise self.refusal(Select(condition, then, otherwise))

    def read(self, element: Read) -> Value:
        """Return an element of a tensor."""
        raise self.refusal(element)

    def reduce(self, reduction: Reduce) -> Value:
        """Return a sum, product, maximum, minimum, any or all."""
        raise self.refusal(reduction)


class PrefixText(TermEvaluator[str]):
    """Spells terms as `(+ a b)`, `(if c a b)`, `X[i j]` and `(sum i n c a)`, to compare them by.

    A subclass may name symbols, indices and tensors in another way.
    """

    def constant(self, value: bool | int | float) -> str:
        """Spell a known number."""
        return repr(value)

    def symbol(self, symbol: Symbol) -> str:
        """Spell a symbol."""
        return symbol.name

    def variable(self, variable: Variable) -> str:
        """Spell an index."""
        return str(variable)

    def apply(self, function: str, arguments: Sequence[str]) -> str:
        """Spell a primitive applied to what is spelled."""
        return f"({function} {' '.join(arguments)})"

    def select(self, condition: Term, then: Term, otherwise: Term) -> str:
        """Spell a choice."""
        return f"(if {self.values((condition, then, otherwise))})"

    def read(self, element: Read) -> str:
        """Spell an element."""
        return f"{element.tensor}[{self.values(element.indices)}]"

    def reduce(self, reduction: Reduce) -> str:
        """Spell a reduction: its indices, how far they run, its condition and its body."""
        parts = (*reduction.variables, *reduction.extents, reduction.condition, reduction.body)
        return f"({reduction.kind} {self.values(parts)})"

    def values(self, terms: Sequence[Term]) -> str:
        """Spell terms one after the other."""
        return " ".join(map(self.value, terms))


class GridEvaluator(TermEvaluator[Value]):
    """Evaluates terms at all indices at once: the v-th one bound runs along axis -(v + 1)."""

    def __init__(self) -> None:
        self.bound: dict[Variable, Array] = {}
        self.depth = 0

    def bind(self, variable: Variable, positions: range) -> None:
        """Let an index run along the next axis, to the left of those that are bound."""
        self.bound[variable] = np.asarray(positions).reshape((-1,) + (1,) * self.depth)
        self.depth += 1

    @contextmanager
    def binding(self, variables: Sequence[Variable], extents: Sequence[int]) -> Iterator[None]:
        """Let indices of a reduction run while it is evaluated."""
        depth = self.depth
        for variable, extent in zip(variables, extents, strict=True):
            self.bind(variable, range(extent))
        try:
            yield
        finally:
            self.depth = depth

    def spread(self, values: Any, extents: Sequence[int]) -> Array:
        """Return values over all of a reduction's axes, which are the first ones."""
        array = np.asarray(values)
        array = array.reshape((1,) * (self.depth + len(extents) - array.ndim) + array.shape)
        return np.broadcast_to(array, (*reversed(extents), *array.shape[len(extents) :]))


def by_index(values: Any, shape: tuple[int, ...]) -> Array:
    """Return values on a grid with the axes in the order in which the indices were bound."""
    return np.broadcast_to(np.asarray(values), shape[::-1]).transpose(range(len(shape))[::-1])


def grid_elements(term: Term, extent: Callable[[Term], float]) -> float:
    """Return how many elements the grid of a term has for each of the indices around it.

    `extent` tells how far the index of a reduction runs.
    """
    inner = max((grid_elements(part, extent) for part in children(term)), default=1.0)
    if isinstance(term, Reduce):
        return math.prod(map(extent, term.extents)) * inner
    return inner
