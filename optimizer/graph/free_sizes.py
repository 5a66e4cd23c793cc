"""Sizes of free dimensions: what a dynamic model is measured and verified with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...catalog.errors import ModelError
from .graph import Graph

BATCH, SEQUENCE, IMAGE = 1, 128, 224
IMAGE_RANK = 4
LARGEST = 2**63 - 1  # ONNX counts in 64 bits


def sizes_from(graph: Graph, input_shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """Read the sizes of free dimensions off shapes given for inputs, by input name.

    Raises ModelError for an unknown input, another rank, or a size that the model contradicts
    or that no tensor has.
    """
    names = {graph.names[value]: value for value in graph.graph_inputs}
    sizes: dict[str, int] = {}
    for name, input_shape in input_shapes.items():
        if name not in names:
            input_names = ", ".join(sorted(names)) or "none"
            raise ModelError(
                f"the model has no input {name!r} to give a shape to; it has: {input_names}"
            )
        shape = graph.shape(names[name])
        if shape is None:
            raise ModelError(f"input {name!r} declares no rank: its shape can't be bound")
        shown = ",".join(map(str, input_shape))
        if any(size > LARGEST for size in input_shape):
            raise ModelError(f"the shape given for input {name!r} has no such sizes: {shown}")
        if len(input_shape) != len(shape):
            raise ModelError(
                f"input {name!r} has rank {len(shape)}, "
                f"the shape given has {len(input_shape)}: {shown}"
            )
        for axis, (declared, size) in enumerate(zip(shape, input_shape, strict=True)):
            if isinstance(declared, int) and declared != size:
                raise ModelError(
                    f"axis {axis} of input {name!r} is {declared}, the shape given says {size}"
                )
            if isinstance(declared, str) and sizes.setdefault(declared, size) != size:
                raise ModelError(
                    f"dimension {declared!r} is {sizes[declared]} elsewhere, "
                    f"and {size} at axis {axis} of input {name!r}"
                )
    return sizes


def not_given(graph: Graph, fixed_sizes: Mapping[str, int]) -> list[str]:
    """Name the free dimensions of a model's inputs whose sizes have to be guessed."""
    free = (
        size
        for value in graph.graph_inputs
        for size in graph.shape(value) or ()
        if isinstance(size, str) and size not in fixed_sizes
    )
    return list(dict.fromkeys(free))


def guesses(graph: Graph, fixed_sizes: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Yield sizes for all free dimensions, likely ones first; `fixed_sizes` are kept.

    The first guess is a batch of one, images of 224 and sequences of 128; the others are smaller
    and uniform, for models whose dimensions constrain one another.
    """
    free: dict[str, int] = {}
    for value in graph.graph_inputs:
        shape = graph.shape(value) or ()
        for axis, size in enumerate(shape):
            if isinstance(size, str):
                likely = IMAGE if len(shape) == IMAGE_RANK and axis > 1 else SEQUENCE
                free.setdefault(size, BATCH if axis == 0 else likely)
    yield {**free, **fixed_sizes}
    if free.keys() - fixed_sizes.keys():
        for uniform in (64, 16, 8, 4, 2, 1):
            yield {
                **{name: uniform if free[name] != BATCH else BATCH for name in free},
                **fixed_sizes,
            }
        # What comes first may be no batch: the nodes of a graph that its edges index.
        yield {**dict.fromkeys(free, 8), **fixed_sizes}
        yield {**dict.fromkeys(free, 1), **fixed_sizes}


def other_sizes(sizes: Mapping[str, int]) -> dict[str, int] | None:
    """Give a second assignment, to catch what holds for one size only; None where none is free."""
    return {name: size + 1 for name, size in sizes.items()} or None
