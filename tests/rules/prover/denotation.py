"""Normal forms as numbers: what they stand for at known sizes and elements, computed naively.

This is the meaning of the normal form, written apart from everything that transforms it, so that it
can be compared with the specifications.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tensolog.catalog.terms.numpy_evaluator import PRIMITIVE
from tensolog.rules.prover.normal.context import Context, parameter
from tensolog.rules.prover.normal.sums import Place, Product, Sum
from tensolog.rules.prover.solve.polynomials import Constraint, Opaque, Polynomial

# Where the guards of an index don't bound it from both sides by what is known.
_FAR = 24

Sizes = Mapping[str, int]


@dataclass
class Denotation:
    """Evaluates normal forms of one space: `tensors` by name, `numbers` for real symbols."""

    context: Context
    tensors: Mapping[str, Any]
    numbers: Mapping[str, float]
    sizes: Sizes

    def sum(self, whole: Sum, sizes: Sizes) -> float:
        """Return the value of a sum."""
        return float(math.fsum(self.product(product, sizes) for product in whole))

    def product(self, product: Product, sizes: Sizes) -> float:
        """Return the value of one product, summed over its bound indices."""
        total = 0.0
        for inner in self.places(product, sizes):
            powers = [
                (self.place(place, inner), exponent) for place, exponent in product.factors.items()
            ]
            # A choice is a sum of products of which all but one are 0, even where they divide by 0.
            if any(base == 0 and exponent > 0 for base, exponent in powers):
                continue
            value = float(product.coefficient)
            for base, exponent in powers:
                value *= base ** (int(exponent) if exponent.denominator == 1 else float(exponent))
            total += value
        return total

    def places(self, product: Product, sizes: Sizes) -> Iterator[Sizes]:
        """Yield the values of bound indices for which all guards hold."""
        yield from self._choose(list(product.bound), product.guards, dict(sizes))

    def _choose(
        self, left: list[str], guards: Sequence[Constraint], known: dict[str, int]
    ) -> Iterator[Sizes]:
        decided = [guard for guard in guards if guard.variables.isdisjoint(left)]
        if not all(self.holds(guard, known) for guard in decided):
            return
        if not left:
            yield known
            return
        waiting = [guard for guard in guards if guard not in decided]
        ranges = {name: self._range(name, left, waiting, known) for name in left}
        name = min(left, key=lambda other: (len(ranges[other]), other))
        others = [other for other in left if other != name]
        for value in ranges[name]:
            yield from self._choose(others, waiting, {**known, name: value})

    def _range(
        self, name: str, left: Sequence[str], guards: Sequence[Constraint], known: Sizes
    ) -> range:
        low, high = -_FAR, _FAR
        for guard in guards:
            if guard.kind != "ge" or guard.variables & (set(left) - {name}):
                continue
            value = guard.whole.linear(name)
            if value is None:
                continue
            if guard.whole.terms[(name,)] == 1:
                low = max(low, self.polynomial(value, known))
            else:
                high = min(high, self.polynomial(value, known))
        return range(low, high + 1)

    # ---- integers
    def polynomial(self, whole: Polynomial, known: Sizes) -> int:
        """Return the value of an integer."""
        total = 0
        for monomial, coefficient in whole.terms.items():
            for atom in monomial:
                inner = whole.opaque.get(atom)
                coefficient *= known[atom] if inner is None else self._atom(inner, known)
            total += coefficient
        return total

    def _atom(self, atom: Opaque, known: Sizes) -> int:
        if atom.function == "if":
            assert atom.condition is not None
            then, otherwise = atom.arguments
            return self.polynomial(then if self.holds(atom.condition, known) else otherwise, known)
        arguments = [self.polynomial(argument, known) for argument in atom.arguments]
        match atom.function:
            case "//":
                return arguments[0] // arguments[1]
            case "min":
                return min(arguments)
            case "max":
                return max(arguments)
            case function:
                return round(self.head(function.removeprefix("read:"), arguments))

    def holds(self, condition: Constraint, known: Sizes) -> bool:
        """Return whether a constraint holds."""
        match condition.kind:
            case "and":
                return all(self.holds(part, known) for part in condition.parts)
            case "or":
                return any(self.holds(part, known) for part in condition.parts)
            case kind:
                value = self.polynomial(condition.whole, known)
                return {"ge": value >= 0, "eq": value == 0, "ne": value != 0}[kind]

    # ---- elements
    def place(self, place: Place, known: Sizes) -> float:
        """Return the value of a place."""
        return self.head(place.head, [self.polynomial(index, known) for index in place.indices])

    def head(self, head: str, indices: Sequence[int]) -> float:
        """Return the element of a head at indices."""
        if head == "#INT":
            return float(indices[0])
        if head in self.tensors:
            return float(self.tensors[head][tuple(indices)])
        if head in self.numbers:
            return float(self.numbers[head])
        if head in self.context.interned:
            return self._interned(head, indices)
        if head.startswith("C:"):
            above, _, beneath = head[2:].partition("/")
            return int(above) / int(beneath or 1)
        if head.startswith("N:"):
            return _NUMBERS.get(head[2:]) or float(head[2:])
        function, _, inside = head[:-1].partition("(")
        return self._function(function, _arguments(inside, indices))

    def _function(self, function: str, heads: Sequence[tuple[str, Sequence[int]]]) -> float:
        values = [self.head(head, indices) for head, indices in heads]
        if function == "above":
            return float(values[0] > 0)
        if function.startswith("to_"):
            return float(np.asarray(values[0]).astype(np.dtype(function[3:])))
        name = {"size": "abs"}.get(function, function)
        return float(np.asarray(PRIMITIVE[name](*(np.float64(value) for value in values))))

    def _interned(self, head: str, indices: Sequence[int]) -> float:
        entry = self.context.interned[head]
        numbers = {
            **self.sizes,
            **{parameter(i): value for i, value in enumerate(indices)},
        }
        if entry.kind == "sum":
            return self.sum(entry.body, numbers)
        elements = [
            self.place(next(iter(product.factors)), inner)
            for product in entry.body
            for inner in self.places(product, numbers)
        ]
        return _KINDS[entry.kind](elements)


def _arguments(inside: str, indices: Sequence[int]) -> list[tuple[str, Sequence[int]]]:
    """Return the heads of a function's arguments with the indices of each."""
    parts, depth, start = [], 0, 0
    for position, letter in enumerate(inside):
        depth += (letter == "(") - (letter == ")")
        if letter == ";" and depth == 0:
            parts.append(inside[start:position])
            start = position + 1
    parts.append(inside[start:])
    if len(parts) == 1:
        return [(parts[0], indices)]
    arguments: list[tuple[str, Sequence[int]]] = []
    position = 0
    for part in parts:
        head, mark, count = part.rpartition("|")
        size = int(count) if mark else 0
        arguments.append((head if mark else part, indices[position : position + size]))
        position += size
    return arguments


_NUMBERS: Mapping[str, float] = {"e": math.e, "pi": math.pi}
_KINDS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "max": max,
    "most": max,
    "least": min,
    "prod": math.prod,
    "any": lambda elements: max(elements, default=0.0),
}
