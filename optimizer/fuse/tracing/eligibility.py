"""What may be fused, and whether a call is.

A function in Python may, and a partial, a method, or an object that calls one. Its calls are,
unless their user says otherwise, somebody watches the function run, or its code asks for real
arrays.
"""

from __future__ import annotations

import dis
import functools
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import CodeType, FunctionType, MethodType
from typing import Any, Literal, get_args

from ....catalog.errors import TensologError

# What an attribute of a class gives its first argument from.
Binding = Literal["instance", "class", "nothing"]
Arguments = tuple[tuple[Any, ...], Mapping[str, Any]]
# A partial of a partial of … is looked through to this depth; objects that call objects, too.
_DEPTH = 16


class FuseError(TensologError):
    """A function that can't be fused, or a question about one that wasn't called yet."""


@dataclass(frozen=True)
class Target:
    """A function in Python, and how it is called.

    `complete` adds to the arguments of a call those that were given before, by a partial or as the
    instance of a method; None where there are none.
    """

    function: FunctionType
    binding: Binding = "instance"
    complete: Callable[..., Arguments] | None = None


def target(decorated: Any) -> Target:
    """Return what is called in the end; raises FuseError for what isn't written in Python."""
    checked = _target(decorated, _DEPTH)
    function = checked.function
    if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
        raise FuseError(
            f"{function.__qualname__} is a generator or a coroutine: fuse what it calls"
        )
    if inspect.isasyncgenfunction(function):
        raise FuseError(f"{function.__qualname__} is an asynchronous generator: fuse what it calls")
    return checked


def _target(decorated: Any, depth: int) -> Target:
    if isinstance(decorated, FunctionType):
        return Target(decorated)
    if isinstance(decorated, staticmethod):
        return replace(_target(decorated.__func__, depth), binding="nothing")
    if isinstance(decorated, classmethod):
        return replace(_target(decorated.__func__, depth), binding="class")
    if isinstance(decorated, property | functools.cached_property | functools.partialmethod):
        kind = type(decorated).__name__
        raise FuseError(f"fuse takes a function, not a {kind}: write @fuse below @{kind}")
    if depth and isinstance(decorated, functools.partial):
        return _bound(decorated.func, decorated.args, decorated.keywords, depth)
    if depth and isinstance(decorated, MethodType):
        return _bound(decorated.__func__, (decorated.__self__,), {}, depth)
    called = None if isinstance(decorated, type) else getattr(type(decorated), "__call__", None)  # noqa: B004
    if depth and isinstance(called, FunctionType):
        return _bound(called, (decorated,), {}, depth)
    raise FuseError(f"fuse takes a function in Python, or what calls one, not {decorated!r}")


def _bound(decorated: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], depth: int) -> Target:
    """Return a target to which arguments were given before; as a class's attribute it stays so."""
    inner = _target(decorated, depth - 1)
    complete: Callable[..., Arguments] = functools.partial(_arguments, *args, **kwargs)
    if inner.complete is not None:
        complete = functools.partial(_twice, inner.complete, complete)
    return Target(inner.function, "nothing", complete)


def _arguments(*args: Any, **kwargs: Any) -> Arguments:
    return args, kwargs


def _twice(
    inner: Callable[..., Arguments], outer: Callable[..., Arguments], *args: Any, **kwargs: Any
) -> Arguments:
    positional, named = outer(*args, **kwargs)
    return inner(*positional, **named)


# auto      fused, but for functions that a debugger, a tracer or a measurement of coverage watches
# fused     fused whoever watches
# traced    the function itself runs in each call, over arrays that wait
# plain     the function itself runs, over the arrays that were given
Mode = Literal["auto", "fused", "traced", "plain"]
MODES: tuple[Mode, ...] = get_args(Mode)
# Goes before the argument `mode`.
SWITCH = "TENSOLOG_FUSE"
# Tools of sys.monitoring that look at lines: debuggers, coverage, and those without a purpose of
# their own. Profilers are to see what runs without them.
_WATCHING = (0, 1, 3, 4)
# What stands for an array can't answer to, or what asks for the function itself: builtins, methods.
_ASKING = {
    "breakpoint": "breakpoint()",
    "set_trace": "set_trace()",
    "shuffle": "shuffle(), which exchanges the rows of real arrays",
}
_METHODS = frozenset(["set_trace", "shuffle"])

# What os.environ looks names up in, where it is as in CPython: asking for a name that isn't there
# takes microseconds otherwise, in every call.
_VARIABLES = getattr(os.environ, "_data", None)
_NAME = getattr(os.environ, "encodekey", str)(SWITCH)


def mode_of(asked: Mode) -> Mode:
    """Return the mode that holds: the environment's, where it has one. Raises FuseError."""
    if (_VARIABLES is not None and _NAME not in _VARIABLES) or SWITCH not in os.environ:
        return asked
    named = os.environ[SWITCH].strip().lower()
    for mode in MODES:
        if named == mode:
            return mode
    if named:
        raise FuseError(f"{SWITCH}={named} is none of {', '.join(MODES)}")
    return asked


def watched() -> str:
    """Return who watches functions run in this thread; "" for nobody."""
    if sys.gettrace() is not None:
        return "a debugger or a tracer is active (sys.gettrace)"
    if sys.version_info >= (3, 12):
        for tool in _WATCHING:
            name = sys.monitoring.get_tool(tool)
            if name is not None:
                return f"{name} is active (sys.monitoring)"
    return ""


def asks(function: FunctionType) -> str:
    """Return what a function's own code asks that only real arrays answer; "" for nothing."""
    name = _asked(function.__code__)
    return f"it calls {name}" if name else ""


def _asked(code: CodeType) -> str:
    for instruction in dis.get_instructions(code):
        called = (
            instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME") or instruction.argval in _METHODS
        )
        if called and instruction.argval in _ASKING and instruction.opname.startswith("LOAD_"):
            return _ASKING[instruction.argval]
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return next(filter(None, map(_asked, inner)), "")
