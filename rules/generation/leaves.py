"""The leaves of an enumeration: typed variables, with sizes that tell dimensions apart; constants.

Dimensions are named; under each assignment of sizes they have other ones, so that what fits or is
equal under all of them is no accident of one. Shapes are found from the specifications: a matrix
where an operator takes one, and beside it what the operator needs, with as many dimensions of their
own as it admits.

Constants are what operators leave as it is, or empty, or sum up evenly. They are written with
operators, so that their sizes are those of the variables beside them: zeros and ones of a
variable's shape, the identity of a product of matrices, the same as a kernel of one element, and
the kernel that averages a window in each channel.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement, product

from .choices import ASSIGNMENTS, are_alike, dtypes_of, fits_plainly, operations_on, size, slots_of
from .terms import Apply, Number, Operation, Size, Sort, Term, Variable

# Dimensions by number; the size of a broadcast one is 1, that of a window small.
Dims = tuple[int, ...]
ONE, WINDOW = -1, -2
_SIZED = {ONE: (1, 1), WINDOW: (3, 3)}
_DTYPES = ("float32", "int64", "bool", "uint8", "int8", "int32")
_NAMES = {
    "float32": "XYZUTSRQ",
    "int64": "IJKN",
    "int32": "IJKN",
    "bool": "BCDE",
    "uint8": "GHPF",
    "int8": "GHPF",
}
# Shapes of main variables, in order of preference: matrices, images, signals.
_BASES: tuple[Dims, ...] = ((0, 1), (0, 1, 2, 3), (0, 1, 2))
_MOST_RANK = 5


def sort_of(dtype: str, dims: Dims) -> Sort:
    """The sort of an element type and numbered dimensions."""
    shapes = (
        tuple(_SIZED[d][i] if d in _SIZED else size(d).values[i] for d in dims)
        for i in range(ASSIGNMENTS)
    )
    return Sort(dtype, tuple(shapes))


@dataclass
class _Pool:
    """Dimensions and types of variables, in the order in which they were asked for."""

    counts: dict[tuple[str, Dims], int] = field(default_factory=dict)

    def add(self, dtype: str, dims: Dims, count: int) -> None:
        key = (dtype, dims)
        self.counts[key] = max(self.counts.get(key, 0), count)


def choose_inputs(operators: Sequence[str], count: int) -> tuple[Variable, ...]:
    """Variables for an enumeration over operators: `count` of each main sort, fewer beside them."""
    pool = _Pool()
    for op_type in operators:
        for slots in slots_of(op_type):
            _provide(pool, op_type, slots, count)
    if count > 1 and any(_broadcasts(op_type) for op_type in operators):
        mains = [(d, dims) for d, dims in tuple(pool.counts) if dims in _BASES][:1]
        for dtype, dims in mains:
            pool.add(dtype, (), 1)
            if count > 2 and dims == _BASES[0]:
                pool.add(dtype, (ONE, 1), 1)
                pool.add(dtype, (0, ONE), 1)
    return _named(pool)


def _named(pool: _Pool) -> tuple[Variable, ...]:
    variables: list[Variable] = []
    used: set[str] = set()
    for (dtype, dims), count in pool.counts.items():
        sort = sort_of(dtype, dims)
        letters = _letters(dtype, dims)
        names = [*letters, *(f"{letters[0]}{n}" for n in range(1, 99))]
        for _ in range(count):
            name = next(name for name in names if name not in used)
            used.add(name)
            variables.append(Variable(name, sort))
    return tuple(variables)


def _letters(dtype: str, dims: Dims) -> str:
    if dtype != "float32" or dims in _BASES:
        return _NAMES[dtype]
    return "WVLKMO" if dims else "c"


def _provide(pool: _Pool, op_type: str, slots: tuple[int, ...], count: int) -> None:
    """Add the variables that an operator needs, unless those that are there suffice."""
    typed = list(_typings(op_type, slots))
    for base in _BASES:
        for dtypes in typed:
            alike = tuple(sort_of(dtype, base) for dtype in dtypes)
            if are_alike(op_type, slots) and fits_plainly(op_type, alike):
                for dtype in dict.fromkeys(dtypes):
                    pool.add(dtype, base, count)
                return
        for dtypes in typed:
            is_provided = False
            # Beside an image stands what fits it; a kernel of an image's sizes fits nothing else.
            for place in range(len(slots) if len(base) == len(_BASES[0]) else 1):
                shapes = _completed(op_type, dtypes, base, place)
                if shapes is None:
                    continue
                is_provided = True
                for i, (dtype, dims) in enumerate(zip(dtypes, shapes, strict=True)):
                    pool.add(dtype, dims, count if i == place else max(1, count - 1))
            if is_provided:
                return


def _typings(op_type: str, slots: tuple[int, ...]) -> Iterator[tuple[str, ...]]:
    """Element types for the operands, those before others that most operators compute with."""
    rules = dtypes_of(op_type, slots)
    options = [[d for d in _DTYPES if d in allowed] for allowed, _ in rules]
    for chosen in product(*options):
        ties: dict[str, str] = {}
        if all(ties.setdefault(tie, d) == d for (_, tie), d in zip(rules, chosen, strict=True)):
            yield chosen


def _completed(
    op_type: str, dtypes: tuple[str, ...], base: Dims, place: int
) -> tuple[Dims, ...] | None:
    """Shapes of all operands where the one at `place` has dimensions `base`.

    Of those that fit, the ones of the nearest rank with the most dimensions that nothing else ties.
    """
    fresh = tuple(range(len(base), len(base) + 2))
    ranks = range(_MOST_RANK)
    others = len(dtypes) - 1
    if others > 2:
        ranks = range(2)
    options: list[tuple[int, int, tuple[Dims, ...]]] = []
    for shape_ranks in product(ranks, repeat=others):
        rank_distance = sum(abs(rank - len(base)) for rank in shape_ranks)
        for dims in product(*(product((*base, *fresh, WINDOW), repeat=r) for r in shape_ranks)):
            flat = [d for shape in dims for d in shape if d != WINDOW]
            new = list(dict.fromkeys(d for d in flat if d not in base))
            if new != sorted(new) or (new and new[0] != fresh[0]):
                continue  # the same with other names
            options.append((rank_distance, -len(new), dims))
    for _, _, dims in sorted(options):
        shapes = [*dims[:place], base, *dims[place:]]
        if fits_plainly(op_type, tuple(map(sort_of, dtypes, shapes))):
            return tuple(shapes)
    return None


def _broadcasts(op_type: str) -> bool:
    """Whether an operator accepts a row beside a matrix."""
    for slots in slots_of(op_type):
        for dtypes in _typings(op_type, slots):
            for shapes in combinations_with_replacement(((0, 1), (ONE, 1)), len(slots)):
                if len(set(shapes)) == 2 and operations_on(
                    op_type, tuple(map(sort_of, dtypes, shapes))
                ):
                    result_sort = operations_on(op_type, tuple(map(sort_of, dtypes, shapes)))[0][1]
                    if result_sort.shapes == sort_of("float32", (0, 1)).shapes:
                        return True
            break
    return False


# -------------------------------------------------------------------------------- constants

_MATRIX = 2


def constants_of(inputs: Sequence[Variable]) -> tuple[Term, ...]:
    """Constants of the sizes that variables of real numbers have, each once."""
    sorts = list(dict.fromkeys(input_.sort for input_ in inputs if input_.sort.dtype == "float32"))
    constants: dict[Term, None] = {}
    for sort in sorts:
        if sort.rank:
            constants[_zeros(*_sizes(sort))] = None
            constants[_with_number("Add", _zeros(*_sizes(sort)), 1)] = None
    matrices = [size for sort in sorts if sort.rank == _MATRIX for size in _sizes(sort)]
    constants.update((_identity(size), None) for size in dict.fromkeys(matrices) if size != 1)
    for rank in sorted({sort.rank for sort in sorts if sort.rank > _MATRIX}):
        images = [sort for sort in sorts if sort.rank == rank]
        channels = dict.fromkeys(size for sort in images for size in _sizes(sort)[:2])
        windows = dict.fromkeys(tuple(_windows(images)))
        for channel in channels:
            kernel = _unsqueezed(_identity(channel), rank)
            constants[kernel] = None
            constants.update((_averaging(kernel, channel, window), None) for window in windows)
    return tuple(constants)


# What the outermost operator of a constant makes of it.
_CONSTANT_NAMES = {
    "ConstantOfShape": "Zeros",
    "Add": "Ones",
    "EyeLike": "Identity",
    "Unsqueeze": "IdentityKernel",
    "Div": "AveragingKernel",
}


def constant_name(term: Apply) -> str:
    """What a constant is called in a rule's name."""
    return _CONSTANT_NAMES[term.operation.op_type]


def _sizes(sort: Sort) -> tuple[int | Size, ...]:
    """The sizes of a sort; those that are the same under all assignments as numbers."""
    size_choices = zip(*sort.shapes, strict=True)
    return tuple(sizes[0] if len(set(sizes)) == 1 else Size(tuple(sizes)) for sizes in size_choices)


def _windows(images: Sequence[Sort]) -> Iterator[tuple[int, ...]]:
    """The windows of kernels: they are as large under all assignments."""
    for sort in images:
        window = tuple(size for size in _sizes(sort)[_MATRIX:] if isinstance(size, int))
        if len(window) == sort.rank - _MATRIX:
            yield window


def _zeros(*sizes: int | Size) -> Term:
    return Apply(Operation("ConstantOfShape", (), contents=((0, sizes),)), ())


def _with_number(op_type: str, term: Term, value: int) -> Term:
    number = Number(value, Sort("float32", ((), ())))
    return Apply(Operation(op_type, (0, 1)), (term, number))


def _identity(size: int | Size) -> Term:
    return Apply(Operation("EyeLike", (0,)), (_zeros(size, size),))


def _unsqueezed(matrix: Term, rank: int) -> Term:
    axes = tuple(range(_MATRIX, rank))
    return Apply(Operation("Unsqueeze", (0,), contents=((1, axes),)), (matrix,))


def _averaging(kernel: Term, channel: int | Size, window: tuple[int, ...]) -> Term:
    spread = Operation("Expand", (0,), contents=((1, (channel, channel, *window)),))
    return _with_number("Div", Apply(spread, (kernel,)), math.prod(window))
