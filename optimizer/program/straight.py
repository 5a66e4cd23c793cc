"""Functions that do the same for all arrays of the same shapes and types, so that one call tells.

Their code has no branch and no loop, and reaches nothing but its arguments, constants, NumPy's
functions that are traced, and other functions of this kind.
"""

from __future__ import annotations

import dis
from collections.abc import Mapping
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

# Instructions that only move values, or make them of others, in any version of Python: one that
# isn't among them counts as a branch.
_PLAIN = frozenset(
    (
        *("RESUME", "NOP", "CACHE", "EXTENDED_ARG", "PUSH_NULL", "PRECALL", "CALL", "KW_NAMES"),
        *("CALL_KW", "POP_TOP", "COPY", "SWAP", "LOAD_FAST", "LOAD_FAST_CHECK"),
        *("LOAD_FAST_BORROW", "LOAD_FAST_LOAD_FAST", "STORE_FAST", "STORE_FAST_LOAD_FAST"),
        *("LOAD_FAST_BORROW_LOAD_FAST_BORROW", "STORE_FAST_STORE_FAST", "LOAD_CONST"),
        *("LOAD_SMALL_INT", "RETURN_CONST", "RETURN_VALUE", "LOAD_GLOBAL", "LOAD_ATTR"),
        *("LOAD_METHOD", "BINARY_OP", "BINARY_SUBSCR", "BINARY_SLICE", "BUILD_SLICE"),
        *("BUILD_TUPLE", "UNPACK_SEQUENCE", "COMPARE_OP", "UNARY_NEGATIVE", "UNARY_INVERT"),
        "UNARY_POSITIVE",
    )
)
_FLAGS = frozenset(["OPTIMIZED", "NEWLOCALS", "NESTED", "NOFREE", "HAS_DOCSTRING", "METHOD"])
# What may be asked of arrays, sparse ones too, of NumPy and of SciPy: names that neither write nor
# give memory away, and that mean the same in each call.
_NAMES = frozenset(
    (
        *("T", "mT", "shape", "ndim", "size", "dtype", "sum", "mean", "max", "min", "prod"),
        *("var", "std", "any", "all", "argmax", "argmin", "dot", "clip", "reshape", "ravel"),
        *("flatten", "transpose", "squeeze", "astype", "copy", "where", "outer", "vdot", "inner"),
        *("concatenate", "hstack", "vstack", "stack", "expand_dims", "linalg", "norm", "special"),
        *("expit", "erf", "float32", "float64", "int32", "int64", "bool_", "pi", "e", "inf"),
        *("nan", "newaxis", "amax", "amin", "einsum", "tensordot", "multi_dot", "round", "fix"),
        *("ptp", "nansum", "nanmean", "nan_to_num", "column_stack", "roll", "flip", "flipud"),
        *("fliplr", "swapaxes", "moveaxis", "diff", "atleast_1d", "atleast_2d", "toarray"),
    )
)
_MODULES = frozenset(["numpy", "numpy.linalg", "scipy.special"])
_BUILTINS = (abs, len)
# Functions within functions are looked into to this depth.
_DEPTH = 4

# Where a name is looked up, the name, and what it means.
Meaning = tuple[Mapping[str, Any], str, Any]


def straight(function: FunctionType) -> list[Meaning] | None:
    """Return what the names in a straight function mean, None for a function that is none."""
    found: list[Meaning] = []
    return found if _is_straight(function, found, _DEPTH) else None


def holds(meanings: list[Meaning]) -> bool:
    """Whether all names mean what they did."""
    return all(space.get(name) is meant for space, name, meant in meanings)


def _is_straight(function: FunctionType, found: list[Meaning], depth: int) -> bool:
    code = function.__code__
    flags = [name for flag, name in dis.COMPILER_FLAG_NAMES.items() if code.co_flags & flag]
    if not depth or not _FLAGS.issuperset(flags) or code.co_freevars or code.co_cellvars:
        return False
    for one in dis.get_instructions(code):
        if one.opname not in _PLAIN or (one.opname == "BINARY_OP" and one.argrepr.endswith("=")):
            return False
        if one.opname == "LOAD_GLOBAL" and not _is_known(function, one.argval, found, depth):
            return False
        if one.opname in ("LOAD_ATTR", "LOAD_METHOD") and not _is_pure(one.argval):
            return False
    return True


def _is_pure(name: str) -> bool:
    return name in _NAMES or isinstance(getattr(np, name, None), np.ufunc)


def _is_known(function: FunctionType, name: str, found: list[Meaning], depth: int) -> bool:
    """Whether a global name means a module, a function of this kind, or a number."""
    space: Mapping[str, Any] = function.__globals__
    if name not in space:
        found.append((space, name, None))
        builtins = space.get("__builtins__", {})
        meant = getattr(builtins, "__dict__", builtins).get(name)
        return any(meant is one for one in _BUILTINS)
    meant = space[name]
    found.append((space, name, meant))
    if isinstance(meant, ModuleType):
        return meant.__name__ in _MODULES
    if isinstance(meant, np.ufunc) or type(meant) in (int, float):
        return True
    from .fused import Fused

    inner = meant.__wrapped__ if isinstance(meant, Fused) else meant  # type: ignore[attr-defined]
    return isinstance(inner, FunctionType) and _is_straight(inner, found, depth - 1)
