"""Features of a kernel: what its operator's specification and its operands say of its cost.

Index roles come from the specification (`catalog/operators`): indices of the output are free, those
that are summed or otherwise reduced over are contracted. Sizes are logarithms; -1 stands for what
does not exist, since 0 is the logarithm of a size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ....catalog.errors import TensologError
from ....catalog.operators.definition import specification
from ....catalog.operators.derive import operations
from ....catalog.operators.expand import Expansion
from ....catalog.terms import index_notation as t
from ...kernel import Kernel, numpy_dtype
from ...kernels.kernel_model import output_shapes
from ...kernels.roofline import bound_ns, work
from ...machine import Machine

Array = np.ndarray[Any, Any]

MOST_DIMENSIONS = 5
NAMES = (
    "flops", "operations", "bytes", "input_bytes", "constant_bytes", "output_bytes", "intensity",
    "free_extent", "contracted_extent", "contractions", "element_bytes", "inputs", "outputs",
    "group", "stride", "dilation",
    *(f"input_{axis}" for axis in range(MOST_DIMENSIONS)),
    *(f"operand_{axis}" for axis in range(MOST_DIMENSIONS)),
    *(f"output_{axis}" for axis in range(MOST_DIMENSIONS)),
    "bound",
)  # fmt: skip

# Small numbers and counts, of which no logarithm is taken.
_AS_THEY_ARE = frozenset(
    {"contractions", "element_bytes", "inputs", "outputs", "group", "stride", "dilation"}
)


def operator_name(kernel: Kernel) -> str:
    """Return the operator with its domain."""
    return f"{kernel.domain}.{kernel.op_type}" if kernel.domain else kernel.op_type


def features(kernel: Kernel, machine: Machine, threads: int) -> Array:
    """Return the features of a kernel on a machine, in the order of NAMES, as float64."""
    values = quantities(kernel, machine, threads)
    return np.array(
        [
            value if name in _AS_THEY_ARE else _log(value)
            for name, value in zip(NAMES, values, strict=True)
        ]
    )


def quantities(kernel: Kernel, machine: Machine, threads: int) -> list[float]:
    """Return what features are made of, in the order of NAMES: sizes, not their logarithms."""
    done = work(kernel)
    specs = [spec for spec in kernel.inputs if spec is not None]
    outputs = [shape for shape in output_shapes(kernel) if shape is not None]
    expansion = _expansion(kernel)
    contracted = [] if expansion is None else list(_contracted(expansion))
    count = None if expansion is None else operations(expansion)
    output_bytes = max(done.bytes - kernel.input_bytes, 0.0)
    shapes = [
        specs[0].shape if specs else (),
        specs[1].shape if len(specs) > 1 else (),
        outputs[0][1] if outputs else (),
    ]
    values = [
        done.flops,
        _number_or_unknown(count),
        done.bytes,
        float(kernel.input_bytes),
        float(kernel.constant_bytes),
        output_bytes,
        done.flops / done.bytes if done.bytes else 0.0,
        float(math.prod(shapes[2])) if outputs else -1.0,
        float(math.prod(contracted)) if contracted else -1.0,
        float(len(contracted)),
        float(numpy_dtype(specs[0].dtype).itemsize) if specs else -1.0,
        float(len(specs)),
        float(kernel.outputs),
        float(kernel.attribute("group", 1)),
        float(math.prod(kernel.attribute("strides", (1,)))),
        float(math.prod(kernel.attribute("dilations", (1,)))),
    ]
    for shape in shapes:
        values += extents(shape)
    values.append(bound_ns(kernel, machine, threads))
    return values


def extents(shape: Sequence[int]) -> list[float]:
    """Return the last dimensions of a shape, -1 before them where there are fewer."""
    last = [float(size) for size in shape[-MOST_DIMENSIONS:]]
    return [-1.0] * (MOST_DIMENSIONS - len(last)) + last


def _number_or_unknown(value: object) -> float:
    """Return a number, and -1 where nothing is known."""
    return float(value) if isinstance(value, (int, float)) and value >= 0 else -1.0


def _log(value: float) -> float:
    """Return log(1 + value), and -1 where nothing is known."""
    return math.log1p(value) if value >= 0 else -1.0


@lru_cache(maxsize=1024)
def _expansion(kernel: Kernel) -> Expansion | None:
    meaning = specification(kernel.domain, kernel.op_type, kernel.opset)
    if meaning is None or meaning.opaque is not None:
        return None
    values = {
        position: np.array(spec.value).reshape(spec.shape)
        for position, spec in enumerate(kernel.inputs)
        if spec is not None and spec.value is not None
    }
    shapes = [None if spec is None else spec.shape for spec in kernel.inputs]
    try:
        return meaning.expand(
            shapes, dict(kernel.attributes), values=values, outputs=kernel.outputs
        )
    except TensologError:  # of operands that only a runtime can tell
        return None


def _contracted(expansion: Expansion) -> Iterator[int]:
    """Yield the extents of what is reduced over."""
    for definition in (*expansion.locals, *expansion.outputs):
        yield from _reductions(definition.value)


def _reductions(term: object) -> Iterator[int]:
    match term:
        case t.Reduce(extents=extents, body=body):
            yield from (size for size in extents if isinstance(size, int))
            yield from _reductions(body)
        case t.Apply(_, arguments):
            for argument in arguments:
                yield from _reductions(argument)
        case t.Select(condition, then, otherwise):
            for part in (condition, then, otherwise):
                yield from _reductions(part)
