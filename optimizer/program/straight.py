"""Functions that do the same for all arrays of the same shapes and types, so that one call tells.

Their code has no branch and no loop, and reaches nothing but its arguments, constants, NumPy's
functions that are traced, and other functions of this kind.
"""

from __future__ import annotations

import dis
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import CodeType, FunctionType, ModuleType
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
_MODULES = frozenset(["numpy", "numpy.linalg", "scipy", "scipy.special"])
_BUILTINS = (abs, len)
# Functions within functions are looked into to this depth.
_DEPTH = 4

# Instructions that stand between a name and what is asked of it.
_SKIPPED = frozenset(["CACHE", "EXTENDED_ARG", "NOP"])


@dataclass
class Meaning:
    """What a straight function does depends on: its names, and its and others' code and defaults.

    names      where each is looked up, the name, and what it means
    functions  with their code, defaults and those of keywords
    """

    names: list[tuple[Mapping[str, Any], str, Any]] = field(default_factory=list)
    functions: list[tuple[FunctionType, CodeType, Any, Any]] = field(default_factory=list)

    def holds(self) -> bool:
        """Whether all is what it was: nobody has put another function in NumPy's, either."""
        for space, name, meant in self.names:
            if space.get(name) is not meant:
                return False
        for function, code, defaults, named in self.functions:
            if function.__code__ is not code or function.__defaults__ is not defaults:
                return False
            if function.__kwdefaults__ is not named:
                return False
        return True


def straight(function: FunctionType) -> Meaning | None:
    """Return what a straight function depends on, None for a function that is none."""
    found = Meaning()
    return found if _is_straight(function, found, _DEPTH) else None


def _is_straight(function: FunctionType, found: Meaning, depth: int) -> bool:
    code = function.__code__
    flags = [name for flag, name in dis.COMPILER_FLAG_NAMES.items() if code.co_flags & flag]
    if not depth or not _FLAGS.issuperset(flags) or code.co_freevars or code.co_cellvars:
        return False
    found.functions.append((function, code, function.__defaults__, function.__kwdefaults__))
    module: ModuleType | None = None  # that the last instruction gave
    for one in dis.get_instructions(code):
        if one.opname in _SKIPPED:
            continue
        if one.opname not in _PLAIN or (one.opname == "BINARY_OP" and one.argrepr.endswith("=")):
            return False
        meant: Any = None
        if one.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            if not _is_pure(one.argval):
                return False
            if module is not None:
                space = vars(module)
                meant = space.get(one.argval)
                found.names.append((space, one.argval, meant))
                if one.argval not in space or not _is_numpys(meant):
                    return False
        elif module is not None:
            return False  # it may be asked for anything later
        if one.opname == "LOAD_GLOBAL":
            meant = _known(function, one.argval, found, depth)
            if meant is None:
                return False
        module = meant if isinstance(meant, ModuleType) else None
    return True


def _is_pure(name: str) -> bool:
    return name in _NAMES or isinstance(getattr(np, name, None), np.ufunc)


def _is_numpys(meant: Any) -> bool:
    """Whether a module's attribute is what it is without patches, as far as that can be told."""
    if meant is None or isinstance(meant, np.ufunc | type | int | float):
        return True
    if isinstance(meant, ModuleType):
        return meant.__name__ in _MODULES
    from .functions import is_traced

    return is_traced(meant)


def _known(function: FunctionType, name: str, found: Meaning, depth: int) -> Any:
    """Return what a global name means: a module, a function of this kind, a number; else None."""
    space: Mapping[str, Any] = function.__globals__
    if name not in space:
        found.names.append((space, name, None))
        builtins = space.get("__builtins__", {})
        space = getattr(builtins, "__dict__", builtins)
        meant = space.get(name)
        found.names.append((space, name, meant))
        return meant if any(meant is one for one in _BUILTINS) else None
    meant = space[name]
    found.names.append((space, name, meant))
    if isinstance(meant, ModuleType):
        return meant if meant.__name__ in _MODULES else None
    if isinstance(meant, np.ufunc) or type(meant) in (int, float):
        return meant
    from .fused import Fused

    inner = meant.__wrapped__ if isinstance(meant, Fused) else meant
    straight_too = isinstance(inner, FunctionType) and _is_straight(inner, found, depth - 1)
    return meant if straight_too else None
