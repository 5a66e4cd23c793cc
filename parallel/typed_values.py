"""Plain values, as JSON gives them, read as a type: a dataclass, a tuple, a number, and so on.

Whoever edits a file by hand, or damages it, gets told which value is wrong instead of a failure
somewhere later.
"""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")
_NAMES = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


class ValueTypeError(ValueError):
    """A value is not of the type that is read; the message names its place."""


def read_as(kind: type[T], value: Any, place: str = "") -> T:
    """Read a plain value as a type; ValueTypeError, with its place, where it is none.

    Known are dataclasses (of objects with their fields; what is one already stays), unions,
    `tuple[T, ...]`, `dict[str, T]`, Literal, int, float (finite, whole numbers too), str, bool,
    None and Any.
    """
    return cast("T", _read(kind, value, place))


def _read(kind: Any, value: Any, place: str) -> Any:
    if kind is Any:
        return value
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        some = [choice for choice in arguments if choice is not types.NoneType]
        if value is not None and len(some) == 1:  # what is wrong within it is told
            return _read(some[0], value, place)
        for choice in arguments:
            try:
                return _read(choice, value, place)
            except ValueTypeError:
                continue
        raise ValueTypeError(f"{place} is {value!r}")
    if origin is Literal:
        if not any(value == choice and type(value) is type(choice) for choice in arguments):
            raise ValueTypeError(f"{place} is {value!r}, not {' or '.join(map(str, arguments))}")
        return value
    if origin is tuple:
        if not isinstance(value, list):
            raise ValueTypeError(f"{place} is no list")
        return tuple(_read(arguments[0], item, f"{place}[{i}]") for i, item in enumerate(value))
    if origin is dict:
        return {
            name: _read(arguments[1], item, _inside(place, name))
            for name, item in _object(value, place).items()
        }
    if is_dataclass(kind):
        if isinstance(value, cast("type", kind)):
            return value
        return _dataclass(kind, _object(value, place), place)
    return _plain(kind, value, place)


def _dataclass(kind: Any, values: Mapping[str, Any], place: str) -> Any:
    known = {field.name: field for field in fields(kind)}
    for name in values:
        if name not in known:
            raise ValueTypeError(f"{_inside(place, name)} is not known")
    for name, field in known.items():
        if name not in values and field.default is MISSING and field.default_factory is MISSING:
            raise ValueTypeError(f"{_inside(place, name)} is missing")
    hints = get_type_hints(kind)
    return kind(**{n: _read(hints[n], value, _inside(place, n)) for n, value in values.items()})


def _plain(kind: Any, value: Any, place: str) -> Any:
    if kind is float and type(value) is int and abs(value) < 2**63:
        value = float(value)
    if type(value) is not kind or (kind is float and not math.isfinite(value)):
        raise ValueTypeError(f"{place} is {value!r}, not {_NAMES.get(kind, 'null')}")
    return value


def _object(value: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueTypeError(f"{place or 'it'} is no object with names")
    return value


def _inside(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name
