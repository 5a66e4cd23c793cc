"""Functions that a loop leaves to a loop of their own, for as many elements as lie near.

Those of circular.h have a rare case that no vector has. So the loop around such a call is made
several: one computes the arguments, each_sin_64 or one like it the function, and another the rest,
which reads what it gave. A compiler leaves out of each what nothing there needs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

# Elements at a time: what a call costs is little beside them, and a thread's stack has room.
MOST = 256
_CALL = re.compile(r"\b(sin|cos|tan)_(32|64)\(")
_DECLARED = re.compile(r"const (?:float|double) (\w+) = ")
_TYPES = {"32": "float", "64": "double"}


@dataclass(frozen=True)
class _Call:
    """A call whose argument has no other in it: in line `at`, from `start` to `end`."""

    at: int
    start: int
    end: int
    function: str
    bits: str
    argument: str


def split(variable: str, first: str, end: str, body: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return what computes the functions of elements `first` to `end`, and the body that reads it.

    `body` are the statements for element `variable`, of which those that begin with `const` declare
    what others read; without such a call it is returned as it is. At most MOST elements.
    """
    lines, before = list(body), []
    arguments: dict[tuple[str, str], str] = {}
    found = _first(lines)
    while found is not None:
        kind, key = _TYPES[found.bits], (found.argument, found.bits)
        place = f"[{variable} - ({first})]"
        if key not in arguments:
            name = arguments[key] = f"each_x{len(arguments)}"
            known = [line for line in lines[: found.at] if line.startswith("const ")]
            before += [
                f"{kind} {name}[{MOST}] __attribute__((aligned(64)));",
                "#pragma omp simd",
                f"for (i64 {variable} = {first}; {variable} < {end}; {variable}++) {{",
                *(f"  {line}" for line in known),
                f"  {name}{place} = {found.argument};",
                "}",
            ]
            lines = [_given(line, found.argument, f"{name}{place}") for line in lines]
            found = _first(lines)
            assert found is not None
        name, made = arguments[key], f"each_y{len(before)}"
        before += [
            f"{kind} {made}[{MOST}] __attribute__((aligned(64)));",
            f"each_{found.function}_{found.bits}({name}, {made}, ({end}) - ({first}));",
        ]
        line = lines[found.at]
        lines[found.at] = line[: found.start] + made + place + line[found.end :]
        found = _first(lines)
    return before, lines


def _given(line: str, argument: str, element: str) -> str:
    """Read an argument where it was computed anew, so that it isn't in both loops."""
    declared = _DECLARED.match(line)
    if declared is None or declared[1] != argument:
        return line
    return f"{declared[0]}{element};"


def _first(lines: Sequence[str]) -> _Call | None:
    for at, line in enumerate(lines):
        for call in _CALL.finditer(line):
            end = _closed(line, call.end())
            argument = line[call.end() : end - 1]
            if not _CALL.search(argument):
                return _Call(at, call.start(), end, call[1], call[2], argument)
    return None


def _closed(line: str, at: int) -> int:
    """Return the place behind the parenthesis that was opened before `at`."""
    depth = 1
    while depth:
        depth += {"(": 1, ")": -1}.get(line[at], 0)
        at += 1
    return at
