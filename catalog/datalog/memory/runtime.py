"""What loops (nested_loops.py) compute with: integers of 64 bits and symbols, as Soufflé's.

Each function stands alone: its text is copied into the modules that call it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any


def signed(value: int) -> int:
    """Cut an integer to 64 bits with sign."""
    return ((value + 0x8000000000000000) & 0xFFFFFFFFFFFFFFFF) - 0x8000000000000000


def unsigned(value: int) -> int:
    """Cut an integer to 64 bits without sign."""
    return value & 0xFFFFFFFFFFFFFFFF


def quotient(left: int, right: int) -> int:
    """Divide, truncating towards zero."""
    found = abs(left) // abs(right)
    return found if (left < 0) == (right < 0) else -found


def remainder(left: int, right: int) -> int:
    """Return the remainder, which takes the dividend's sign."""
    found = abs(left) % abs(right)
    return -found if left < 0 else found


def power(left: int, right: int, signed: bool) -> int:
    """Raise to a power in doubles, and convert as x86-64 does."""
    try:
        found = math.pow(left, right)
    except (OverflowError, ValueError):
        found = math.inf
    if -(2.0**63) <= found < 2.0**63:
        return int(found) if signed else int(found) & 0xFFFFFFFFFFFFFFFF
    if signed:
        return -(1 << 63)
    return int(found) if 2.0**63 <= found < 2.0**64 else 0


def substring(text: str, start: int, length: int) -> str:
    """Cut bytes out of a symbol; a start outside of it gives the empty one."""
    data = text.encode()
    if start < 0 or start >= len(data):
        return ""
    return (data[start:] if length < 0 else data[start : start + length]).decode()


def counted(first: int, last: int, step: int) -> Iterable[int]:
    """Return what `range` with a step counts; a step of zero gives the first alone."""
    if step == 0:
        return () if first == last else (first,)
    return range(first, last, step)


def taken(rows: Iterable[tuple[Any, ...]], keys: tuple[tuple[int, ...], ...]) -> list[set[Any]]:
    """Collect the values that rows have in the columns of each key."""
    return [{tuple(row[column] for column in key) for row in rows} for key in keys]


def chosen(
    rows: Iterable[tuple[Any, ...]], keys: tuple[tuple[int, ...], ...], values: list[set[Any]]
) -> dict[tuple[Any, ...], None]:
    """Choose rows, in ascending order, with new values for each key; they take these values."""
    out: dict[tuple[Any, ...], None] = {}
    for row in sorted(rows):
        news = [tuple(row[column] for column in key) for key in keys]
        if not any(new in known for new, known in zip(news, values, strict=True)):
            out[row] = None
            for new, known in zip(news, values, strict=True):
                known.add(new)
    return out


def closure(pairs: Iterable[tuple[Any, Any]]) -> dict[tuple[Any, Any], None]:
    """Close pairs under reflexivity, symmetry and transitivity."""
    classes: dict[Any, list[Any]] = {}
    for left, right in pairs:
        ours, theirs = classes.setdefault(left, [left]), classes.setdefault(right, [right])
        if ours is not theirs:
            if len(ours) < len(theirs):
                ours, theirs = theirs, ours
            ours.extend(theirs)
            for one in theirs:
                classes[one] = ours
    return {(left, right): None for left, ours in classes.items() for right in ours}
