"""Left to NumPy: a function called at once on real arrays, its results traced on from there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..program.evaluate import ERROR_STATES
from .expressions import leaf, type_name
from .marker_types import is_lazy
from .trace import Family, Trace, UnsupportedError

# What a call that is left to NumPy takes longer than without tracing.
CALL_S = 5e-6

# States that were seen to ask for nothing; held, so that no others can be in their place.
_silent: Any = object()


def raise_if_errors_are_asked_for() -> None:
    """Leave to NumPy what the user wants to hear of, such as a division by zero."""
    global _silent
    handler = None if ERROR_STATES is None else ERROR_STATES.get()
    if handler is _silent:
        return
    asked = np.geterr().values()
    if "raise" in asked or "call" in asked:
        raise UnsupportedError("np.errstate asks for errors")
    if handler is not None:
        _silent = handler


def real(value: Any, why: str = "a function left to NumPy") -> Any:
    """Return a value with real arrays in place of lazy ones, in tuples, lists and dicts too.

    The arrays are the memory that lazy ones stand for: not to be kept, and not to be written.
    """
    kind = type(value)
    if is_lazy(value):
        return value._value(why)
    if kind in (tuple, list):
        return kind(real(item, why) for item in value)
    if kind is dict:
        return {key: real(item, why) for key, item in value.items()}
    if kind is slice:
        return slice(real(value.start), real(value.stop), real(value.step))
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return type(value)._make(real(item, why) for item in value)
    as_real = getattr(kind, "_tensolog_real", None)
    return value if as_real is None else as_real(value)


def shown(value: Any) -> Any:
    """Return a value as real() does, of arrays that may be kept and written."""
    if type(value) is tuple:
        return tuple([shown(item) for item in value])
    if is_lazy(value) and not value._scalar:
        return value.__array__()
    return real(value)


def lazies(value: Any) -> list[Any]:
    """Return the lazy arrays in a value."""
    if is_lazy(value):
        return [value]
    if isinstance(value, tuple | list):
        return [lazy for item in value for lazy in lazies(item)]
    if type(value) is dict:
        return [lazy for item in value.values() for lazy in lazies(item)]
    return []


def call(
    trace: Trace,
    function: Callable[..., Any],
    arguments: Sequence[Any],
    options: Mapping[str, Any],
    why: str,
) -> Any:
    """Call a function of NumPy's at once, and trace on with what it returns.

    Arrays named by `out` are written where they are.
    """
    if trace.closed:
        return _plainly(function, arguments, options)
    trace.runner.lost_s += CALL_S
    trace.stop_if_it_loses()
    if trace.closed:
        return _plainly(function, arguments, options)
    options = dict(options)
    out = options.pop("out", None)
    name = _name(function)
    trace.runner.note(f"{name}: by NumPy at once: {why}")
    # It may write into any of its arguments, as np.copyto does.
    trace.flush("a function left to NumPy")
    for lazy in lazies(out):
        if not lazy._scalar:
            trace.memory(lazy, "an array is written")
    sources = [*lazies(tuple(arguments)), *lazies(options)]
    if out is not None:
        options["out"] = real(out)
    for source in sources:
        if source._family is not None and source._family.array is None:
            trace.memory(source, "may be viewed")
    result = function(*real(tuple(arguments), name), **real(options, name))
    if out is not None:
        return out[0] if type(out) is tuple and len(out) == 1 else out
    return adopt(trace, result, sources)


def _name(function: Callable[..., Any]) -> str:
    """Return what a function is called in messages: np.exp, np.add.reduce, ndarray.sort."""
    name = getattr(function, "__name__", str(function))
    ufunc = getattr(function, "__self__", None)
    if isinstance(ufunc, np.ufunc):
        return f"{_name(ufunc)}.{name}"
    return f"np.{name}" if getattr(np, name, None) is function else name


def _plainly(
    function: Callable[..., Any], arguments: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    """Call a function where nothing waits any more: all values are there, in their memory."""
    result = function(*real(tuple(arguments)), **real(dict(options)))
    out = options.get("out")
    if out is None:
        return result
    return out[0] if type(out) is tuple and len(out) == 1 else out


def method(lazy: Any, name: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """Call a method of ndarray at once; see call."""

    def bound(array: Any, *rest: Any, **named: Any) -> Any:
        return getattr(array, name)(*rest, **named)

    bound.__name__ = f"ndarray.{name}"
    return call(lazy._trace, bound, (lazy, *arguments), options, "not traced")


def adopt(trace: Trace, value: Any, sources: Sequence[Any]) -> Any:
    """Return what NumPy returned with lazy arrays in place of real ones.

    One that shares memory with a source becomes a view of it, in effect.
    """
    if type(value) is np.ndarray:
        for source in sources:
            if source._thunk.value is value:
                return source  # NumPy returned what it was given
        if not type_name(value.dtype) or trace.closed:
            return value
        lazy = trace.kind(trace, leaf(value, trace.places))
        for source in sources:
            array = source._thunk.value
            if isinstance(array, np.ndarray) and np.may_share_memory(value, array):
                if source._joined().array is None:
                    trace.memory(source, "viewed")
                shared = source._joined()
                if lazy._family is None:
                    lazy._join(Family(lazy._thunk, value))
                lazy._joined().given_away |= shared.given_away
                lazy._joined().lent += shared.lent
        return lazy
    if type(value) in (tuple, list):
        return type(value)(adopt(trace, item, sources) for item in value)
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return type(value)._make(adopt(trace, item, sources) for item in value)
    return value
