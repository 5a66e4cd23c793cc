"""Products of matrices and vectors."""

from __future__ import annotations

import numpy as np

from .expression import TRACED, Expression, cast, common_type
from .trace import UnsupportedError


def product(a: Expression, b: Expression) -> Expression:
    """Return the MatMul of two; raises UnsupportedError where NumPy refuses it, or knows better."""
    kept = common_type(a.dtype, b.dtype)
    if kept not in TRACED or kept == "bool":
        raise UnsupportedError(f"a product of type {kept}")
    if not a.shape or not b.shape:
        raise UnsupportedError("a product with a number")
    if a.shape[-1] != b.shape[-2 if len(b.shape) > 1 else 0]:
        raise UnsupportedError("a product of shapes that don't fit")
    batch: tuple[int, ...] = ()
    if len(a.shape) > 2 or len(b.shape) > 2:
        try:
            batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        except ValueError as error:
            raise UnsupportedError("a product of shapes that don't fit") from error
    rows = a.shape[-2:-1]
    columns = b.shape[-1:] if len(b.shape) > 1 else ()
    return Expression("MatMul", (cast(a, kept), cast(b, kept)), (*batch, *rows, *columns), kept)
