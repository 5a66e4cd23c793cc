"""Terms by size, larger ones of representatives only: the classes of what was seen to be equal.

After Ruler (Nandi et al., OOPSLA 2021): a term whose characteristic vector is known belongs to that
class and is built upon no further; that it equals the representative is a candidate for a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
import numpy.typing as npt

from .choices import expansions_of, operations_on, slots_of
from .fingerprint import (
    Programs,
    Vectors,
    digests,
    input_vectors,
    reads_by_element,
)
from .terms import Apply, Operation, Sort, Term, Variable

# Terms computed at once, and elements that a tensor may have beyond those of the largest variable.
_BATCH = 1 << 13
_GROWTH = 4

Made = tuple[int, tuple[int, ...]]
"""How a term is made: the number of its operation, and the classes it reads."""


@dataclass(frozen=True)
class Equality:
    """A term that has the vector of a class it did not found: operation, operands, class."""

    made: Made
    equal_to: int


@dataclass
class Level:
    """What the terms of one size were: how many, how many new classes, what equals what."""

    nodes: int
    terms: int = 0
    undefined: int = 0
    classes: int = 0
    equalities: list[Equality] = field(default_factory=list)
    complete: bool = True


@dataclass
class _Known:
    """The classes of one sort: their vectors, and their numbers by size."""

    sort: Sort
    vectors: list[Vectors] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    rows: dict[int, int] = field(default_factory=dict)
    by_size: dict[int, list[int]] = field(default_factory=dict)
    _joined: tuple[int, Vectors] | None = None

    def take(self, classes: npt.NDArray[np.int64], assignment: int) -> npt.NDArray[np.generic]:
        """The values of classes under an assignment."""
        if self._joined is None or self._joined[0] != len(self.vectors):
            joined = tuple(np.concatenate(parts) for parts in zip(*self.vectors, strict=True))
            self.vectors = [joined]
            self._joined = (1, joined)
        rows = np.array([self.rows[c] for c in classes.tolist()], np.int64)
        return self._joined[1][assignment][rows]


class Enumeration:
    """Classes of terms over operators and variables, grown size by size.

    `stop` is asked between batches whether to end early; what was seen until then stands.
    """

    def __init__(
        self,
        operators: Sequence[str],
        inputs: Sequence[Variable],
        seed: int = 0,
        *,
        stop: Callable[[], bool] = lambda: False,
        most_bytes: int = 1 << 31,
    ) -> None:
        self.operators, self.inputs, self.stop = tuple(operators), tuple(inputs), stop
        self.most_bytes, self.bytes = most_bytes, 0
        self.operations: list[Operation] = []
        self.terms: list[Made | Variable] = []
        self.sizes: list[int] = []
        self.digests: list[bytes] = []
        self.sorts: list[Sort] = []
        self._numbers: dict[Operation, int] = {}
        self._known: dict[Sort, _Known] = {}
        self._class_of: dict[tuple[Sort, bytes], int] = {}
        self._programs = Programs()
        self._built: dict[int, Term] = {}
        self._largest = _GROWTH * max(
            int(np.prod(shape)) for one in inputs for shape in one.sort.shapes
        )
        places = self.places = self.reads_places()
        for variable, vectors in zip(
            self.inputs, input_vectors(self.inputs, seed, places=places), strict=True
        ):
            (digest,) = digests(vectors)
            self._found(variable.sort, digest, variable, 0, vectors)

    # ------------------------------------------------------------------------------- reading

    def term(self, number: int) -> Term:
        """The representative of a class."""
        if number not in self._built:
            made = self.terms[number]
            self._built[number] = made if isinstance(made, Variable) else self.made(made)
        return self._built[number]

    def made(self, made: Made) -> Term:
        """The term that an operation on classes is."""
        operation, operands = made
        return Apply(self.operations[operation], tuple(map(self.term, operands)))

    # ------------------------------------------------------------------------------- growing

    def grow(self, nodes: int, *, last: bool) -> Level:
        """Build all terms of so many operators; of the `last` size nothing is built upon."""
        level = Level(nodes)
        for op_type in self.operators:
            for slots in slots_of(op_type):
                for sizes in _compositions(nodes - 1, len(slots)):
                    for operation, sorts, made in self._fitting(op_type, sizes):
                        if not self._apply(level, operation, sorts, made, sizes, last):
                            level.complete = False
                            return level
        return level

    def _fitting(
        self, op_type: str, sizes: tuple[int, ...]
    ) -> Iterator[tuple[Operation, tuple[Sort, ...], Sort]]:
        options = [[s for s, k in self._known.items() if k.by_size.get(n)] for n in sizes]
        for sorts in [*product(*options)]:
            for operation, made in operations_on(op_type, sorts):
                if operation.commutative and not _ordered(sorts, sizes, self._order):
                    continue
                if max(int(np.prod(shape)) for shape in made.shapes) <= self._largest:
                    yield operation, sorts, made

    def _order(self, sort: Sort) -> int:
        return list(self._known).index(sort)

    def _apply(
        self,
        level: Level,
        operation: Operation,
        sorts: tuple[Sort, ...],
        made: Sort,
        sizes: tuple[int, ...],
        last: bool,
    ) -> bool:
        """Compute an operation on all classes of some sorts and sizes; False: asked to stop."""
        programs = self._programs.of(operation, sorts, made)
        number = self._numbers.setdefault(operation, len(self.operations))
        if number == len(self.operations):
            self.operations.append(operation)
        pools = [
            np.array(self._known[sort].by_size[size], np.int64)
            for sort, size in zip(sorts, sizes, strict=True)
        ]
        alike = operation.commutative and len(set(zip(sorts, sizes, strict=True))) == 1
        for chosen in _tuples(pools, ordered=alike):
            if self.stop() or self.bytes > self.most_bytes:
                return False
            vectors, defined = [], np.ones(len(chosen), bool)
            for assignment, program in enumerate(programs):
                operands = [
                    self._known[sort].take(chosen[:, at], assignment)
                    for at, sort in enumerate(sorts)
                ]
                values, whole = program.run(operands)
                vectors.append(values)
                defined &= whole
            level.terms += len(chosen)
            level.undefined += int((~defined).sum())
            self._sorted_out(level, number, chosen, tuple(vectors), defined, made, last)
        return True

    def _sorted_out(
        self,
        level: Level,
        number: int,
        chosen: npt.NDArray[np.int64],
        vectors: Vectors,
        defined: npt.NDArray[np.bool_],
        made: Sort,
        last: bool,
    ) -> None:
        fresh: list[int] = []
        rows = chosen.tolist()
        for row, digest in enumerate(digests(vectors)):
            if not defined[row]:
                continue
            one: Made = (number, tuple(rows[row]))
            known = self._class_of.get((made, digest))
            if known is not None:
                level.equalities.append(Equality(one, known))
                continue
            self._class_of[made, digest] = len(self.terms)
            fresh.append(row)
            self.terms.append(one)
            self.sizes.append(level.nodes)
            self.digests.append(digest)
            self.sorts.append(made)
        level.classes += len(fresh)
        if fresh and not last:
            first = len(self.terms) - len(fresh)
            self._keep(
                made,
                range(first, len(self.terms)),
                level.nodes,
                tuple(values[fresh] for values in vectors),
            )

    def _found(
        self, sort: Sort, digest: bytes, one: Variable, nodes: int, vectors: Vectors
    ) -> None:
        self._class_of[sort, digest] = len(self.terms)
        self.terms.append(one)
        self.sizes.append(nodes)
        self.digests.append(digest)
        self.sorts.append(sort)
        self._keep(sort, range(len(self.terms) - 1, len(self.terms)), nodes, vectors)

    def _keep(self, sort: Sort, classes: range, nodes: int, vectors: Vectors) -> None:
        known = self._known.setdefault(sort, _Known(sort))
        for number in classes:
            known.rows[number] = len(known.ids)
            known.ids.append(number)
        known.by_size.setdefault(nodes, []).extend(classes)
        known.vectors.append(vectors)
        self.bytes += sum(values.nbytes for values in vectors)

    def reads_places(self) -> bool:
        """Whether some operator reads at places that an operand says."""
        sorts = list(dict.fromkeys(one.sort for one in self.inputs))
        for op_type in self.operators:
            for slots in slots_of(op_type):
                for chosen in product(sorts, repeat=len(slots)):
                    for operation, _ in operations_on(op_type, chosen)[:1]:
                        expansions = expansions_of(operation, chosen)
                        if expansions and reads_by_element(expansions[0]):
                            return True
        return False


def _compositions(total: int, count: int) -> Iterator[tuple[int, ...]]:
    """All ways to write a number as a sum of so many, in order."""
    if count == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in _compositions(total - first, count - 1):
            yield (first, *rest)


def _ordered(sorts: tuple[Sort, ...], sizes: tuple[int, ...], order: Callable[[Sort], int]) -> bool:
    """Whether operands that commute stand in the one order in which they are built."""
    keys = [(size, order(sort)) for size, sort in zip(sizes, sorts, strict=True)]
    return keys == sorted(keys)


def _tuples(
    pools: Sequence[npt.NDArray[np.int64]], *, ordered: bool
) -> Iterator[npt.NDArray[np.int64]]:
    """All combinations of classes in batches; of classes that may be permuted, sorted ones."""
    total = int(np.prod([len(pool) for pool in pools]))
    for start in range(0, total, _BATCH):
        rest = np.arange(start, min(total, start + _BATCH))
        columns = []
        for pool in reversed(pools):
            columns.append(pool[rest % len(pool)])
            rest = rest // len(pool)
        chosen = np.stack(columns[::-1], axis=1)
        if ordered:
            chosen = chosen[(np.diff(chosen, axis=1) >= 0).all(axis=1)]
        if len(chosen):
            yield chosen
