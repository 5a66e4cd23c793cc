"""What plans compute with: integers of 64 bits, symbols, records and sets of rows, as Soufflé's.

`FUNCTIONS` has them by the names that a plan (plan.py) calls them by; those of integers begin with
their kind, as "number +".
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...terms.comparisons import COMPARISONS


def signed(value: int) -> int:
    """Cut an integer to 64 bits with sign."""
    return ((value + 0x8000000000000000) & 0xFFFFFFFFFFFFFFFF) - 0x8000000000000000


def unsigned(value: int) -> int:
    """Cut an integer to 64 bits without sign."""
    return value & 0xFFFFFFFFFFFFFFFF


def quotient(left: int, right: int) -> int:
    """Divide, truncating towards zero."""
    magnitude = abs(left) // abs(right)
    return magnitude if (left < 0) == (right < 0) else -magnitude


def remainder(left: int, right: int) -> int:
    """Return the remainder, which takes the dividend's sign."""
    magnitude = abs(left) % abs(right)
    return -magnitude if left < 0 else magnitude


def power(left: int, right: int, signed: bool) -> int:
    """Raise to a power in doubles, and convert as x86-64 does."""
    try:
        result = math.pow(left, right)
    except (OverflowError, ValueError):
        result = math.inf
    if -(2.0**63) <= result < 2.0**63:
        return int(result) if signed else int(result) & 0xFFFFFFFFFFFFFFFF
    if signed:
        return -(1 << 63)
    return int(result) if 2.0**63 <= result < 2.0**64 else 0


def substring(text: str, start: int, length: int) -> str:
    """Cut bytes out of a symbol; a start outside of it gives the empty one."""
    data = text.encode()
    if start < 0 or start >= len(data):
        return ""
    return (data[start:] if length < 0 else data[start : start + length]).decode()


def counted(first: int, last: int, step: int | None = None) -> Iterable[int]:
    """Return what `range` counts, by default towards the last; a step of zero: the first alone."""
    if step is None:
        step = 1 if first <= last else -1
    if step == 0:
        return () if first == last else (first,)
    return range(first, last, step)


def key_values(
    rows: Iterable[tuple[Any, ...]], keys: tuple[tuple[int, ...], ...]
) -> list[set[Any]]:
    """Collect the values that rows have in the columns of each key."""
    return [{tuple(row[column] for column in key) for row in rows} for key in keys]


def chosen(
    rows: Iterable[tuple[Any, ...]], keys: tuple[tuple[int, ...], ...], values: list[set[Any]]
) -> dict[tuple[Any, ...], None]:
    """Choose rows, in ascending order, with new values for each key; they take these values."""
    rows_chosen: dict[tuple[Any, ...], None] = {}
    for row in sorted(rows):
        news = [tuple(row[column] for column in key) for key in keys]
        if not any(new in known for new, known in zip(news, values, strict=True)):
            rows_chosen[row] = None
            for new, known in zip(news, values, strict=True):
                known.add(new)
    return rows_chosen


def closure(pairs: Iterable[tuple[Any, Any]]) -> dict[tuple[Any, Any], None]:
    """Close pairs under reflexivity, symmetry and transitivity."""
    classes: dict[Any, list[Any]] = {}
    for left, right in pairs:
        ours, theirs = classes.setdefault(left, [left]), classes.setdefault(right, [right])
        if ours is not theirs:
            if len(ours) < len(theirs):
                ours, theirs = theirs, ours
            ours.extend(theirs)
            for member in theirs:
                classes[member] = ours
    return {(left, right): None for left, ours in classes.items() for right in ours}


def _of_integers(kind: str, cut: Callable[[int], int]) -> Mapping[str, Callable[..., Any]]:
    """Return the functions of integers of a kind, which are cut to 64 bits by `cut`."""
    functions: dict[str, Callable[..., Any]] = {
        "+": lambda left, right: cut(left + right),
        "-": lambda left, right: cut(left - right),
        "*": lambda left, right: cut(left * right),
        "/": lambda left, right: cut(quotient(left, right)),
        "%": lambda left, right: cut(remainder(left, right)),
        "^": lambda left, right: power(left, right, kind == "number"),
        "neg": lambda value: cut(-value),
        "bnot": lambda value: cut(~value),
        "band": operator.and_,
        "bor": operator.or_,
        "bxor": operator.xor,
        "bshl": lambda left, right: cut(left << (right & 63)),
        "bshr": lambda left, right: left >> (right & 63),
        "bshru": lambda left, right: cut((left & 0xFFFFFFFFFFFFFFFF) >> (right & 63)),
        "lnot": lambda value: int(not value),
        "land": lambda left, right: int(bool(left) and bool(right)),
        "lor": lambda left, right: int(bool(left) or bool(right)),
        "lxor": lambda left, right: int(bool(left) != bool(right)),
        "cut": cut,
    }
    return {f"{kind} {name}": function for name, function in functions.items()}


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **COMPARISONS,
    "contains": lambda part, whole: part in whole,
    "!contains": lambda part, whole: part not in whole,
    "min": min,
    "max": max,
    "cat": lambda *parts: "".join(parts),
    "strlen": lambda text: len(text.encode()),
    "substr": substring,
    "to_string": str,
    "range": counted,
    "in range": lambda value, *bounds: value in counted(*bounds),
    "tuple": lambda *fields: fields,  # a record; a branch, whose name is the first
    "field": operator.getitem,
    "is nil": lambda whole: whole is None,
    "is record": lambda whole: whole is not None,
    "is branch": lambda whole, name: whole[0] == name,
    **_of_integers("number", signed),
    **_of_integers("unsigned", unsigned),
}
