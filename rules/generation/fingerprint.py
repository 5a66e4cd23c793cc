"""Characteristic vectors: what terms compute on random operands, in a prime field.

An operation's meaning is its specification's index notation, evaluated by the gate's own grid
(gate/evaluation/evaluate.py) with one index more: the number of the term. So the terms of one
operation are computed together, under one assignment of sizes after the other. Terms that are equal
as functions have equal vectors; of two that differ, a rational one shows it almost surely. Operands
are small halves, so that signs, orders and roundings are those of numbers and not of residues.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...catalog.operators.derive import saturated
from ...catalog.operators.expand import Definition, Expansion
from ...catalog.terms.index_notation import Apply as Primitive
from ...catalog.terms.index_notation import (
    Read,
    Variable,
    looks_up,
    map_children,
    subterms,
)
from ...catalog.terms.index_notation import Term as Element
from ...catalog.terms.term_evaluator import by_index, grid_elements
from ..gate.evaluation.arithmetic import KINDS, Array, Kind, Tensor
from ..gate.evaluation.evaluate import Grid, converted
from ..language.conditions import INTEGERS
from .choices import expansions_of, sort_made
from .number_fields import EXPONENTIAL, ExponentialRing, OrderedField
from .terms import Apply, Number, Operation, Sort, Term
from .terms import Variable as Input

Vectors = tuple[Array, ...]
"""The values of terms of one sort: for each assignment an array over terms, samples, indices."""

_TERM = Variable("term", 0)
# Elements of a grid that is computed at once.
_GRID = 1 << 20
_LARGEST_INPUT = 20
_SMALL_SAMPLES = 12


@dataclass(frozen=True)
class Program:
    """An operation ready to be computed for many operands at once, under one assignment."""

    definitions: tuple[Definition, ...]
    kinds: Mapping[str, Kind]
    inputs: tuple[str, ...]
    output: str
    dtype: str
    volume: float
    arithmetic: OrderedField

    def run(self, operands: Sequence[Array]) -> tuple[Array, npt.NDArray[np.bool_]]:
        """What it gives, and for each term whether all of it has a value.

        Without operands it is a constant, one term of one sample.
        """
        if not operands:
            values, defined = self._piece([])
            return values[None], defined
        count, samples = operands[0].shape[:2]
        flat = [operand.reshape(-1, *operand.shape[2:]) for operand in operands]
        step = max(1, int(_GRID / self.volume))
        pieces = [
            self._piece([array[start : start + step] for array in flat])
            for start in range(0, count * samples, step)
        ]
        values = np.concatenate([values for values, _ in pieces])
        defined = np.concatenate([defined for _, defined in pieces])
        whole = np.asarray(defined.reshape(count, samples).all(axis=1))
        return values.reshape(count, samples, *values.shape[1:]), whole

    def _piece(self, operands: Sequence[Array]) -> tuple[Array, npt.NDArray[np.bool_]]:
        count = len(operands[0]) if operands else 1
        tensors = {
            name: Tensor(
                values,
                np.ones((1,) * values.ndim, bool) & np.ones(values.shape, bool),
                self.kinds[name],
            )
            for name, values in zip(self.inputs, operands, strict=True)
        }
        for definition in self.definitions:
            tensors[definition.name] = self._defined(definition, count, tensors)
        result = tensors[self.output]
        whole = np.asarray(result.defined.reshape(count, -1).all(axis=1))
        return result.values, whole

    def _defined(self, definition: Definition, count: int, tensors: Mapping[str, Tensor]) -> Tensor:
        grid = Grid(tensors, {}, self.arithmetic)
        shape = (count, *(int(d) for d in definition.shape))  # type: ignore[arg-type]
        for variable, extent in zip((_TERM, *definition.indices), shape, strict=True):
            grid.bind(variable, range(extent))
        element = grid.value(definition.value)
        kind = self.kinds.get(definition.name, element.kind)
        with np.errstate(all="ignore"):
            converted_element = converted(element, kind, self.arithmetic)
        values = by_index(converted_element.values, shape)
        defined = by_index(converted_element.defined, shape)
        if definition.name == self.output and self.dtype in INTEGERS:
            values = values.astype(np.dtype(self.dtype)).astype(np.int64)
        return Tensor(np.ascontiguousarray(values), defined, kind)


class Programs:
    """Operations prepared for operands of some sorts, each once, and the arithmetic they are in."""

    def __init__(self, arithmetic: OrderedField) -> None:
        self.arithmetic = arithmetic
        self._by_operation: dict[tuple[Operation, tuple[Sort, ...]], tuple[Program, ...]] = {}

    def of(
        self, operation: Operation, sorts: tuple[Sort, ...], result_sort: Sort
    ) -> tuple[Program, ...]:
        """An operation that fits, under each assignment; it gives values of `result_sort`."""
        key = (operation, sorts)
        if key not in self._by_operation:
            expansions = expansions_of(operation, sorts)
            assert expansions is not None, "it was seen to fit"
            self._by_operation[key] = tuple(
                _program(expansion, sorts, result_sort.dtype, operation.output, self.arithmetic)
                for expansion in expansions
            )
        return self._by_operation[key]


def _program(
    expansion: Expansion, sorts: Sequence[Sort], dtype: str, number: int, arithmetic: OrderedField
) -> Program:
    """Prepare an operation's meaning under one assignment, for operands of some sorts."""
    names = expansion.names
    kinds = {name: kind_of(sort.dtype) for name, sort in zip(names, sorts, strict=True)}
    output = expansion.outputs[number]
    kinds[output.name] = kind_of(dtype)
    saturating = Definition(
        output.name, output.shape, output.indices, saturated(output.value, dtype)
    )
    definitions = tuple(_numbered(definition) for definition in (*expansion.locals, saturating))
    volume = max(
        _product(definition.shape) * grid_elements(definition.value, _extent)
        for definition in definitions
    )
    return Program(definitions, kinds, names, output.name, dtype, volume, arithmetic)


def kind_of(dtype: str) -> Kind:
    """What elements of a type are computed as."""
    if dtype == "bool":
        return KINDS["boolean"]
    return KINDS["integer"] if dtype in INTEGERS else KINDS["real"]


def _numbered(definition: Definition) -> Definition:
    return Definition(
        definition.name, definition.shape, definition.indices, _of_term(definition.value)
    )


def _of_term(element: Element) -> Element:
    """The same element of term number `_TERM`."""
    if isinstance(element, Read):
        return Read(element.tensor, (_TERM, *map(_of_term, element.indices)))
    return map_children(_of_term, element)


def _product(sizes: Sequence[Element]) -> float:
    return math.prod(map(_extent, sizes))


def _extent(size: Element) -> float:
    return float(size) if isinstance(size, int) else 1.0


def arithmetic_of(expansions: Iterable[Expansion]) -> OrderedField:
    """The arithmetic for what operators compute: exp and log are random functions without need."""
    functions = {
        part.function
        for expansion in expansions
        for definition in (*expansion.locals, *expansion.outputs)
        for part in subterms(definition.value)
        if isinstance(part, Primitive)
    }
    return ExponentialRing() if EXPONENTIAL & functions else OrderedField()


def reads_by_element(expansion: Expansion) -> bool:
    """Whether elements of an operand say where another one is read."""
    return any(looks_up(value.value) for value in (*expansion.locals, *expansion.outputs))


def input_vectors(
    inputs: Sequence[Input], seed: int, arithmetic: OrderedField, *, places: bool
) -> list[Vectors]:
    """Random elements for each variable; with `places` its integers are indices of any axis."""
    vectors = []
    # Truth values and places tell little: as many samples as make a hundred of them.
    small = places or any(variable.sort.dtype == "bool" for variable in inputs)
    numbers = any(not variable.sort.rank for variable in inputs)
    samples = _SMALL_SAMPLES if small else 2 if numbers else 1
    for number, variable in enumerate(inputs):
        rng = np.random.default_rng([seed, number])
        kind = kind_of(variable.sort.dtype)
        arrays: list[Array] = []
        for sizes in variable.sort.shapes:
            shape = (samples, *sizes)
            if kind == "boolean":
                arrays.append(rng.integers(0, 2, (1, *shape)).astype(bool))
            elif kind == "integer":
                low = 0 if places or variable.sort.dtype.startswith("u") else -_LARGEST_INPUT
                high = 2 if places else _LARGEST_INPUT
                arrays.append(rng.integers(low, high, (1, *shape)))
            else:
                modulus = arithmetic.modulus
                arrays.append(_halves(rng, shape) * pow(2, -1, modulus) % modulus)
        vectors.append(tuple(arrays))
    return vectors


def _halves(rng: np.random.Generator, shape: Sequence[int]) -> Array:
    """Twice the elements of a variable: of both signs, and some of them between -1 and 1."""
    count = math.prod(shape)
    sizes = rng.integers(2, 2 * _LARGEST_INPUT, count)
    sizes[: (count + 2) // 3] = 1
    signs = np.where(np.arange(count) % 2 == 0, 1, -1)
    return np.asarray(rng.permutation(sizes * signs).reshape((1, *shape)))


def constant_vectors(term: Term, programs: Programs, samples: int) -> Vectors:
    """The values of a constant, the same for each sample."""

    def value_of(part: Term) -> tuple[Sort, Vectors]:
        if isinstance(part, Number):
            return part.sort, tuple(np.full((1, 1), part.value) for _ in part.sort.shapes)
        assert isinstance(part, Apply), "no variable occurs in a constant"
        operands = [value_of(operand) for operand in part.operands]
        sorts = tuple(sort for sort, _ in operands)
        result_sort = sort_made(part.operation, sorts)
        assert result_sort is not None, f"{part} is a term"
        results = (
            program.run([vectors[number] for _, vectors in operands])[0]
            for number, program in enumerate(programs.of(part.operation, sorts, result_sort))
        )
        return result_sort, tuple(results)

    _, arrays = value_of(term)
    return tuple(np.repeat(values, samples, axis=1) for values in arrays)


def sort_of_term(term: Term) -> Sort:
    """The sort of a term."""
    if isinstance(term, Apply):
        sort = sort_made(term.operation, tuple(map(sort_of_term, term.operands)))
        assert sort is not None, f"{term} is a term"
        return sort
    return term.sort


Digests = tuple[bytes, ...]
"""Hashes of a term's values; terms that have one in common, at its place, are taken for equal."""


def digests(vectors: Vectors, arithmetic: OrderedField) -> Iterable[Digests]:
    """Hashes of each term's values."""
    views = zip(*(arithmetic.views(vector) for vector in vectors), strict=True)
    return zip(*map(_hashes, views), strict=True)


def _hashes(vectors: Vectors) -> Iterator[bytes]:
    flat = [np.ascontiguousarray(vector.reshape(len(vector), -1)) for vector in vectors]
    views = [array.view(np.uint8).reshape(len(array), -1) for array in flat]
    joined = np.concatenate(views, axis=1)
    return (hashlib.blake2b(row.tobytes(), digest_size=12).digest() for row in joined)


def alike(some: Digests, others: Digests) -> bool:
    """Whether two terms are taken for equal."""
    return any(digest == other for digest, other in zip(some, others, strict=True))
