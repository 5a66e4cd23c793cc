"""Long runs of facts, read by a regular expression instead of the grammar (15 times faster)."""

from __future__ import annotations

import re

from .preprocess import Source
from .syntax import Atom, Clause, Expression, Number, String

SHORTEST = 64  # a run of fewer lines is left to the grammar

_CONSTANT = r'(?:-?[0-9]+(?![0-9A-Za-z_.])|"[^"\\]*")'
_FACT = re.compile(
    rf"\s*([A-Za-z?][A-Za-z0-9_?]*)\(\s*({_CONSTANT}(?:\s*,\s*{_CONSTANT})*)\s*\)\.\s*"
)
_ARGUMENT = re.compile(_CONSTANT)
_STRING = re.compile(r'"(?:\\.|[^"\\])*"')
_RESERVED = frozenset(
    {"input", "output", "count", "sum", "min", "max", "mean", "match", "contains"}
)


def take_facts(source: Source) -> tuple[list[Clause], str]:
    """Take runs of one-line facts out of a program; gives them and the text without them.

    The first line of a run stays, so that what is taken follows a finished clause; runs inside of
    braces stay, since they belong to a component.
    """
    lines = source.lines
    if len(lines) < SHORTEST:
        return [], source.text
    rest = list(lines)
    taken: list[Clause] = []
    depth = start = 0
    for number in range(len(lines) + 1):
        match = _FACT.fullmatch(lines[number]) if number < len(lines) else None
        if match is not None and match.group(1) not in _RESERVED:
            continue
        if depth == 0 and number - start >= SHORTEST:
            for index in range(start + 1, number):
                taken.append(_clause(source, index))
                rest[index] = ""
        if number < len(lines):
            bare = _STRING.sub("", lines[number])
            depth += bare.count("{") - bare.count("}")
        start = number + 1
    return taken, "\n".join(rest) + "\n"


def _clause(source: Source, index: int) -> Clause:
    match = _FACT.fullmatch(source.lines[index])
    assert match is not None
    arguments: list[Expression] = []
    for argument in _ARGUMENT.finditer(match.group(2)):
        position = source.position(index + 1, match.start(2) + argument.start() + 1)
        text = argument.group()
        if text[0] == '"':
            arguments.append(String(text[1:-1], position))
        else:
            arguments.append(Number(int(text), None, position))
    place = source.position(index + 1, match.start(1) + 1)
    return Clause(Atom(match.group(1), tuple(arguments), place), (), place)
