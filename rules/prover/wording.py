"""What the prover says, in the words of the rule instead of the names it makes up inside."""

from __future__ import annotations

import re

from .statement import Statement

_INDEX = re.compile(r"\bi@(\d+)")
_BOUND = re.compile(r"%(\d+)")
_HEAD = re.compile(r"(?<![\w.])(V|Max|Most|Least|Prod|Any|Count)#?\d+(\[[^\[\]]*\])?(?![\w(])")
_HEADS = {
    "V": "(a value on the way)",
    "Max": "(a largest element)",
    "Most": "(a largest element)",
    "Least": "(a smallest element)",
    "Prod": "(a product)",
    "Any": "(whether any holds)",
    "Count": "(a count)",
}
_NUMBERED = re.compile(r"(?<![\w.])([A-Za-z_][\w.]*?)((?:\.\d+)+)(?![\w.]*\w)")

# What was tried, and what it means for the rule.
_MEANINGS = (
    (
        re.compile(r"(.*): the coefficients of (.+) differ"),
        r"\1: both sides are not seen to be equal: what they have of \2 differs",
    ),
    (
        re.compile(r"(.*): the solver can't tell the coefficients of (.+)"),
        r"\1: the solver doesn't tell whether both sides have the same of \2",
    ),
    (
        re.compile(r"the source needs (.+) where the other doesn't"),
        r"the left side has a value only where \1, the right side elsewhere, too",
    ),
    (
        re.compile(r"the target needs (.+) where the other doesn't"),
        r"the right side has a value only where \1, the left side elsewhere, too",
    ),
    (re.compile(r"(.+) doesn't hold for all sizes"), r"it doesn't follow for all sizes: \1"),
)


def worded(text: str, statement: Statement) -> str:
    """Return a reason with the indices of the output as i0, i1, …, sizes and entries by the rule.

    `X.0` is dim(X, 0) of an operand and `d.0` is d[0] of a list; what the prover takes for an
    element of its own is described.
    """
    rank = _rank_of_output(statement)

    def index(match: re.Match[str]) -> str:
        number = int(match[1]) - 1
        return f"i{number}" if number < rank else f"j{number - rank}"

    for said, meant in _MEANINGS:
        if (match := said.fullmatch(text)) is not None:
            text = match.expand(meant)
    text = _INDEX.sub(index, text)
    text = _BOUND.sub(lambda match: f"k{match[1]}", text)
    text = text.replace("#INT", "(an integer)")
    text = _HEAD.sub(lambda match: _HEADS[match[1]], text)
    names = {symbol.name for symbol in statement.symbols}
    operands = {operand.name for operand in statement.operands}

    def numbered(match: re.Match[str]) -> str:
        return symbol_worded(match[0], operands) if match[0] in names else match[0]

    return _NUMBERED.sub(numbered, text)


def symbol_worded(name: str, operands: set[str] | frozenset[str]) -> str:
    """Return the name of a size or an entry as a rule would write it."""
    of, _, last = name.rpartition(".")
    if not of or not last.isdigit():
        return name
    if of in operands:
        return f"dim({_entry(of)}, {last})"
    return f"{_entry(of)}[{last}]"


def _entry(name: str) -> str:
    """`A.0` of a list of operands is A[0]."""
    of, _, last = name.rpartition(".")
    return f"{of}[{last}]" if of and last.isdigit() else name


def _rank_of_output(statement: Statement) -> int:
    shapes = {operand.name: operand.shape for operand in statement.operands}
    shapes |= {definition.name: definition.shape for definition in statement.definitions}
    ranks = [
        len(shapes[equation.source])
        for equation in statement.equations
        if equation.source in shapes
    ]
    return max(ranks, default=0)
