"""Constants among the leaves: what operators leave as it is, or empty, or sum up evenly.

They are written with operators, so that their sizes are those of the variables beside them: zeros
and ones of a variable's shape, the identity of a product of matrices, the same as a kernel of one
element, and the kernel that averages a window in each channel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .terms import Apply, Number, Operation, Size, Sort, Term, Variable

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
_NAMES = {
    "ConstantOfShape": "Zeros",
    "Add": "Ones",
    "EyeLike": "Identity",
    "Unsqueeze": "IdentityKernel",
    "Div": "AveragingKernel",
}


def constant_name(term: Apply) -> str:
    """What a constant is called in a rule's name."""
    return _NAMES[term.operation.op_type]


def _sizes(sort: Sort) -> tuple[int | Size, ...]:
    """The sizes of a sort; those that are the same under all assignments as numbers."""
    each = zip(*sort.shapes, strict=True)
    return tuple(sizes[0] if len(set(sizes)) == 1 else Size(tuple(sizes)) for sizes in each)


def _windows(images: Sequence[Sort]) -> Iterator[tuple[int, ...]]:
    """The windows of kernels: they are as large under all assignments."""
    for sort in images:
        window = tuple(size for size in _sizes(sort)[_MATRIX:] if isinstance(size, int))
        if len(window) == sort.rank - _MATRIX:
            yield window


def _zeros(*sizes: int | Size) -> Term:
    return Apply(Operation("ConstantOfShape", (), known=((0, sizes),)), ())


def _with_number(op_type: str, term: Term, value: int) -> Term:
    number = Number(value, Sort("float32", ((), ())))
    return Apply(Operation(op_type, (0, 1)), (term, number))


def _identity(size: int | Size) -> Term:
    return Apply(Operation("EyeLike", (0,)), (_zeros(size, size),))


def _unsqueezed(matrix: Term, rank: int) -> Term:
    axes = tuple(range(_MATRIX, rank))
    return Apply(Operation("Unsqueeze", (0,), known=((1, axes),)), (matrix,))


def _averaging(kernel: Term, channel: int | Size, window: tuple[int, ...]) -> Term:
    spread = Operation("Expand", (0,), known=((1, (channel, channel, *window)),))
    count = 1
    for size in window:
        count *= size
    return _with_number("Div", Apply(spread, (kernel,)), count)
