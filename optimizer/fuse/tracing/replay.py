"""Calls that do what one before did: the same region of other arrays, without tracing it anew.

A function is straight if its code has no branch and no loop, and reaches nothing but its arguments,
constants, NumPy's functions that are traced, and other straight functions: it does the same for all
arrays of the same shapes and types, so that one call tells.
"""

from __future__ import annotations

import dis
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from ..arrays.sparse_values import rows_at_once
from ..program.dag import Program
from ..program.evaluate import is_sparse
from .eager import raise_if_errors_are_asked_for
from .expressions import Thunk
from .marker_types import FusedFunction, is_lazy
from .prepare import REPLAY_S, SPARSE_REPLAY_S, Prepared
from .region_engine import Runner
from .trace import Trace, UnsupportedError, unshared

# Imported within functions: NumPy's other functions, for programs that call one.

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
class Dependencies:
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


def dependencies_of(function: FunctionType) -> Dependencies | None:
    """Return what a straight function depends on, None for a function that is none."""
    dependencies = Dependencies()
    return dependencies if _is_straight(function, dependencies, _DEPTH) else None


def _is_straight(function: FunctionType, dependencies: Dependencies, depth: int) -> bool:
    code = function.__code__
    flags = [name for flag, name in dis.COMPILER_FLAG_NAMES.items() if code.co_flags & flag]
    if not depth or not _FLAGS.issuperset(flags) or code.co_freevars or code.co_cellvars:
        return False
    dependencies.functions.append((function, code, function.__defaults__, function.__kwdefaults__))
    module: ModuleType | None = None  # that the last instruction gave
    for instruction in dis.get_instructions(code):
        if instruction.opname in _SKIPPED:
            continue
        if instruction.opname not in _PLAIN or (
            instruction.opname == "BINARY_OP" and instruction.argrepr.endswith("=")
        ):
            return False
        meant: Any = None
        if instruction.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            if not _is_pure(instruction.argval):
                return False
            if module is not None:
                space = vars(module)
                meant = space.get(instruction.argval)
                dependencies.names.append((space, instruction.argval, meant))
                if instruction.argval not in space or not _is_numpys(meant):
                    return False
        elif module is not None:
            return False  # it may be asked for anything later
        if instruction.opname == "LOAD_GLOBAL":
            meant = _resolved(function, instruction.argval, dependencies, depth)
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
    from ..arrays.functions import is_traced

    return is_traced(meant)


def _resolved(function: FunctionType, name: str, dependencies: Dependencies, depth: int) -> Any:
    """Return what a global name means: a module, a function of this kind, a number; else None."""
    space: Mapping[str, Any] = function.__globals__
    if name not in space:
        dependencies.names.append((space, name, None))
        builtins = space.get("__builtins__", {})
        space = getattr(builtins, "__dict__", builtins)
        meant = space.get(name)
        dependencies.names.append((space, name, meant))
        return meant if any(meant is builtin for builtin in _BUILTINS) else None
    meant = space[name]
    dependencies.names.append((space, name, meant))
    if isinstance(meant, ModuleType):
        return meant if meant.__name__ in _MODULES else None
    if isinstance(meant, np.ufunc) or type(meant) in (int, float):
        return meant
    inner = meant.__wrapped__ if isinstance(meant, FusedFunction) else meant
    straight_too = isinstance(inner, FunctionType) and _is_straight(inner, dependencies, depth - 1)
    return meant if straight_too else None


# What a call says that has to be traced.
MISSED: Any = object()


@dataclass(frozen=True, slots=True)
class _Result:
    """A value of the region, by its place; `scalar` where it is a number."""

    place: int
    scalar: bool


@dataclass(frozen=True, slots=True)
class _Given:
    """An argument, by its place."""

    place: int


@dataclass(frozen=True, slots=True)
class _Plain:
    """What is no array, and depends on shapes and types alone."""

    value: Any


@dataclass(frozen=True)
class Replay:
    """What a call did that arguments of the same shapes, types and numbers have done, too.

    runner        of the call that was traced
    dependencies  what the function depends on
    inputs        of the region: places of arguments and their types, or -1 and a number
    sparse        the places of sparse arguments
    result        what is returned: _Result, _Given or _Plain, or a tuple of such
    """

    runner: Runner
    dependencies: Dependencies
    prepared: Prepared
    inputs: tuple[tuple[int, Any], ...]
    sparse: frozenset[int]
    result: Any

    def call(self, arguments: Sequence[Any]) -> Any:
        """Return what the function returns, or MISSED where it has to be traced."""
        if self.prepared.compiled is None:
            return MISSED  # NumPy turned out to be sooner
        inputs = [value if place < 0 else arguments[place] for place, value in self.inputs]
        for input_, (place, dtype) in zip(inputs, self.inputs, strict=True):
            if place >= 0 and input_.dtype is not dtype:
                return MISSED  # of another order of bytes, perhaps
        try:
            raise_if_errors_are_asked_for()
        except UnsupportedError:
            return MISSED
        if not self.dependencies.holds():
            return MISSED
        if self.sparse:
            for i, (place, _) in enumerate(self.inputs):
                if place in self.sparse:
                    inputs[i] = rows_at_once(inputs[i])
                    if inputs[i] is None:
                        return MISSED  # entries twice, or in no order
        taken = list(inputs)
        for value in self.prepared.run(inputs):
            taken.append(unshared(value, taken))
        return _built(self.result, taken[len(inputs) :], arguments, {})


def _built(
    result: Any, results: Sequence[Any], arguments: Sequence[Any], seen: dict[int, Any]
) -> Any:
    match result:
        case _Result(place, scalar):
            if place not in seen:
                seen[place] = results[place][()] if scalar else results[place]
            return seen[place]
        case _Given(place):
            return arguments[place]
        case _Plain(value):
            return value
        case _:
            return tuple([_built(part, results, arguments, seen) for part in result])


@dataclass(frozen=True, slots=True)
class _Pending:
    """A value that waits for the region; two arrays that share it count as two."""

    thunk: Thunk
    scalar: bool


def result_sketch(raw: Any, wrapped: Sequence[Any], seen: dict[int, Any] | None = None) -> Any:
    """Return what a result is made of while it waits, None where that isn't known.

    `wrapped` are the arguments as the function got them.
    """
    seen = {} if seen is None else seen
    if type(raw) is tuple:
        parts = tuple([result_sketch(part, wrapped, seen) for part in raw])
        return None if None in parts else parts
    if is_lazy(raw):
        for i, argument in enumerate(wrapped):
            if argument is raw:
                return _Given(i)
        if raw._family is not None or seen.setdefault(id(raw._thunk), raw) is not raw:
            return None
        return _Pending(raw._thunk, raw._scalar)
    return _Plain(raw) if raw is None or type(raw) in (bool, int, float, str) else None


def may_repeat(value: Any) -> bool:
    """Whether calls with such an argument may be known again: of sparse ones, those by rows."""
    return not is_sparse(value) or value.format == "csr"


def leaves_of(wrapped: Sequence[Any]) -> dict[int, int]:
    """Return the places of arguments by the identity of what regions read of them."""
    arrays = [(i, argument) for i, argument in enumerate(wrapped) if hasattr(argument, "_thunk")]
    return {id(array._thunk.value): number for number, array in arrays}


def replay_of(
    trace: Trace,
    dependencies: Dependencies,
    arguments: Sequence[Any],
    sketch: Any,
    read: Mapping[int, int],
) -> Replay | None:
    """Return what a call for some arguments did, None where others may differ or gain nothing.

    `read` are the places of arguments by the identity of what the region reads of them.
    """
    runner, ran = trace.runner, trace.ran
    if ran is None or len(runner.regions) != 1 or runner.notes or trace.touched:
        return None
    prepared = runner.regions[0].prepared
    if not isinstance(prepared, Prepared) or prepared.compiled is None or prepared.plan is None:
        return None
    sparse = frozenset(i for i, argument in enumerate(arguments) if is_sparse(argument))
    replay_s = REPLAY_S + SPARSE_REPLAY_S * len(sparse)
    if prepared.seconds is not None and prepared.plan.cost_s + replay_s > prepared.seconds[1]:
        return None
    record, wanted, inputs = ran
    if len(read) < len(sparse) + sum(type(argument) is np.ndarray for argument in arguments):
        return None  # one was given twice: other calls may give two
    if any(id(leaf) not in read for leaf in record.leaves):
        return None
    if any(not arguments[number].has_canonical_format for number in sparse) or _meet(
        prepared.traced
    ):
        return None
    result = _placed(sketch, {id(expression): i for i, expression in enumerate(wanted)})
    if result is None:
        return None
    placed = [(read.get(id(input_), -1), input_) for input_ in inputs]
    kept = tuple([(number, input_.dtype if number >= 0 else input_) for number, input_ in placed])
    return Replay(runner, dependencies, prepared, kept, sparse, result)


def _meet(program: Program) -> bool:
    """Whether two sparse values meet: what is traced of that depends on their entries."""
    layouts = [node.layout for node in program.nodes]
    return any(
        sum(layouts[number] != "dense" for number in node.inputs) > 1 for node in program.nodes
    )


def _placed(sketch: Any, places: dict[int, int]) -> Any:
    if type(sketch) is tuple:
        parts = tuple([_placed(part, places) for part in sketch])
        return None if None in parts else parts
    if isinstance(sketch, _Pending):
        place = places.get(id(sketch.thunk))
        return None if place is None else _Result(place, sketch.scalar)
    return sketch
