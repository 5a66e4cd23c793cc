"""What may be fused: a function in Python, or a partial, a method, an object that calls one."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import FunctionType, MethodType
from typing import Any, Literal

from ...catalog.errors import TensologError

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


def target(given: Any) -> Target:
    """Return what is called in the end; raises FuseError for what isn't written in Python."""
    found = _target(given, _DEPTH)
    function = found.function
    if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
        raise FuseError(
            f"{function.__qualname__} is a generator or a coroutine: fuse what it calls"
        )
    if inspect.isasyncgenfunction(function):
        raise FuseError(f"{function.__qualname__} is an asynchronous generator: fuse what it calls")
    return found


def _target(given: Any, depth: int) -> Target:
    if isinstance(given, FunctionType):
        return Target(given)
    if isinstance(given, staticmethod):
        return replace(_target(given.__func__, depth), binding="nothing")
    if isinstance(given, classmethod):
        return replace(_target(given.__func__, depth), binding="class")
    if isinstance(given, property | functools.cached_property | functools.partialmethod):
        kind = type(given).__name__
        raise FuseError(f"fuse takes a function, not a {kind}: write @fuse below @{kind}")
    if depth and isinstance(given, functools.partial):
        return _bound(given.func, given.args, given.keywords, depth)
    if depth and isinstance(given, MethodType):
        return _bound(given.__func__, (given.__self__,), {}, depth)
    called = None if isinstance(given, type) else getattr(type(given), "__call__", None)  # noqa: B004
    if depth and isinstance(called, FunctionType):
        return _bound(called, (given,), {}, depth)
    raise FuseError(f"fuse takes a function in Python, or what calls one, not {given!r}")


def _bound(given: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], depth: int) -> Target:
    """Return a target to which arguments were given before; as a class's attribute it stays so."""
    inner = _target(given, depth - 1)
    complete: Callable[..., Arguments] = functools.partial(_arguments, *args, **kwargs)
    if inner.complete is not None:
        complete = functools.partial(_twice, inner.complete, complete)
    return Target(inner.function, "nothing", complete)


def _arguments(*args: Any, **kwargs: Any) -> Arguments:
    return args, kwargs


def _twice(
    inner: Callable[..., Arguments], outer: Callable[..., Arguments], *args: Any, **kwargs: Any
) -> Arguments:
    found, named = outer(*args, **kwargs)
    return inner(*found, **named)
