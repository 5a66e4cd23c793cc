"""Kernels that end the process: on these inputs ONNX Runtime divides by zero or aborts.

An exception can be caught, a signal can't; so what would raise one is never run here. Found by
running every operator on empty tensors, and integer division on its edges, each in a process of its
own: releases 1.20 and 1.31, CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

# Divide by the number of elements of an operand, or assert that there are some.
FATAL_WHEN_EMPTY = frozenset(
    {
        "Attention",
        "Einsum",
        "GRU",
        "GroupQueryAttention",
        "LSTM",
        "MultiHeadAttention",
        "RNN",
        "Unique",
    }
)
# Raise SIGFPE on x / 0 before release 1.31, and on min / -1 in all.
DIVISIONS = frozenset({"Div", "Mod"})


def fatal_input(op_type: str, inputs: Sequence[Array | None]) -> str:
    """Say why an operator must not be run on these inputs; empty where it may be."""
    if op_type in FATAL_WHEN_EMPTY:
        if any(array is not None and array.size == 0 for array in inputs):
            return f"{op_type} of an empty tensor can end the process"
    elif op_type in DIVISIONS and len(inputs) == 2:
        dividend, divisor = inputs
        if divisor is None or divisor.dtype.kind not in "iu" or divisor.size == 0:
            return ""
        if not divisor.all():
            return f"{op_type} of integers by zero can end the process"
        if divisor.dtype.kind == "i" and (divisor == -1).any():
            least = np.iinfo(divisor.dtype).min
            if dividend is None or (dividend == least).any():
                return f"{op_type} of the least integer by -1 can end the process"
    return ""
