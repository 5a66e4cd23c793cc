"""TENSAT's rules: equations between terms, as text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from itertools import accumulate
from typing import cast

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from .operators import (
    DEEPEST,
    UnknownOperatorError,
    UnreadableError,
    build,
    permutation,
    permutation_number,
)
from .terms import ForeignRule, Problem, Term, Variable, lines_of

Node = Tree[Token]
# TENSAT's own file is one line of some 30,000 characters.
LONGEST = 500_000
_DIGITS = 30
_SHOWN = 200
_FORM = "an equation reads `lhs == rhs`"
# The integers that may stand before the operands, in order; the last of them may be left out.
LEADING = {
    "conv2d": ("stride_h", "stride_w", "pad", "acti"),
    "poolavg": ("kernel_h", "kernel_w", "stride_h", "stride_w", "pad", "acti"),
    "poolmax": ("kernel_h", "kernel_w", "stride_h", "stride_w", "pad", "acti"),
    "concat": ("axis", "rank"),
    "split": ("axis",),
    "enlarge": ("kernel_h", "kernel_w"),
    "iconv": ("kernel_h", "kernel_w"),
    "cpool": ("kernel_h", "kernel_w"),
    "matmul": ("acti",),
    "relu": (),
    "sigmoid": (),
    "tanh": (),
    "ewadd": (),
    "ewmul": (),
    "smul": (),
    "imatmul": (),
    "ones": (),
}
SPELLINGS = {"Iconv": "iconv", "Cpool": "cpool", "Imatmul": "imatmul", "Iewmul": "ones"}


def read_equations(text: str) -> tuple[ForeignRule | Problem, ...]:
    """Read equations; a line that can't be read gives a Problem, and the others are read."""
    entries: list[ForeignRule | Problem] = []
    for statement in _statements(text):
        name, line, said = f"Tensat{len(entries) + 1}", statement.line, statement.text
        if problem := _oversized(said):
            entries.append(Problem(name, line, said[:_SHOWN], problem))
            continue
        try:
            trees = _lark().parse(said).children
        except UnexpectedInput as error:
            entries.append(Problem(name, line, said, _complaint(statement, error)))
            continue
        for tree in cast(list[Node], trees):
            name = f"Tensat{len(entries) + 1}"
            left, right = (cast(Node, child) for child in tree.children)
            shown = said if len(trees) == 1 else ""
            try:
                pair = (_term(left), _term(right))
            except UnreadableError as error:
                malformed = not isinstance(error, UnknownOperatorError)
                reason = (
                    f"{error}{statement.place(tree.meta.start_pos)}" if not shown else str(error)
                )
                entries.append(Problem(name, line, said, reason, malformed))
                continue
            shown = shown or f"{equation_text(pair[0])} == {equation_text(pair[1])}"
            entries.append(ForeignRule(name, "tensat", line, shown, (pair,)))
    return tuple(entries)


def _oversized(text: str) -> str:
    """Say in what way a text is larger than any equation."""
    if len(text) > LONGEST:
        return f"{len(text)} characters; {LONGEST} are the most"
    return "nested too deeply" if _depth(text) > DEEPEST else ""


@lru_cache(maxsize=1)
def _lark() -> Lark:
    grammar = (resources.files(__package__) / "equations.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", lexer="contextual", propagate_positions=True)


@dataclass
class _Statement:
    """The text of equations, joined from lines: of each its offset, number and indentation."""

    text: str = ""
    lines: list[tuple[int, int, int]] = field(default_factory=list)

    @property
    def line(self) -> int:
        """Where it begins."""
        return self.lines[0][1]

    def add(self, number: int, line: str) -> None:
        """Go on with a line."""
        text = line.strip()
        joined = f"{self.text} {text}" if self.text else text
        self.lines.append((len(joined) - len(text), number, line.find(text)))
        self.text = joined

    def place(self, position: int) -> str:
        """Say where in the file a place of the text is."""
        offset, number, indented = next(
            line for line in reversed(self.lines) if line[0] <= position
        )
        column = position - offset + indented + 1
        if number == self.line:
            return f" (column {column})"
        return f" (line {number}, column {column})"


def _statements(text: str) -> Iterator[_Statement]:
    """Lines without comments; an equation that isn't complete at the end of a line goes on."""
    waiting = _Statement()
    for number, line in enumerate(lines_of(text), 1):
        said = line.split("#")[0].split("//")[0]
        if not said.strip():
            continue
        if waiting.text and not _continues(waiting.text, said.strip()):
            yield waiting
            waiting = _Statement()
        waiting.add(number, said)
    if waiting.text:
        yield waiting


def _depth(text: str) -> int:
    """How deep parentheses nest."""
    return max(accumulate({"(": 1, ")": -1}.get(character, 0) for character in text), default=0)


def _continues(text: str, more: str) -> bool:
    """Whether a line goes on with an equation; one with both sides only inside of parentheses."""
    if text.count("(") > text.count(")") and text.endswith((",", "(")):
        return True
    if more.startswith("=="):
        return "==" not in text
    return text.endswith("==") and text != "==" and "==" not in more


def _complaint(statement: _Statement, error: UnexpectedInput) -> str:
    text, position = statement.text, error.pos_in_stream
    at_end = isinstance(error, UnexpectedToken) and error.token.type == "$END"
    if text.startswith("=="):
        return f"the left side is missing; {_FORM}{statement.place(0)}"
    if position is None or at_end:
        missing = (
            "the right side is missing" if text.endswith("==") else "the equation ends too early"
        )
        return f"{missing}; {_FORM}{statement.place(len(text) - 1)}"
    shown = "".join(c if c.isprintable() else "?" for c in text[position : position + 12])
    more = "" if isinstance(error, UnexpectedCharacters) else f"; {_FORM}"
    return f"unexpected '{shown}'{statement.place(position)}{more}"


def _term(tree: Node) -> Term:
    if tree.data == "variable":
        return Variable(str(tree.children[0]))
    name, *arguments = (child for child in tree.children if child is not None)
    integers: list[int] = []
    operands: list[Term] = []
    for argument in cast(list[Node], arguments):
        if argument.data == "number":
            if operands:
                raise UnreadableError(f"the parameters of {name} stand before its operands")
            integers.append(_integer(str(argument.children[0])))
        else:
            operands.append(_term(argument))
    return _apply(str(name), integers, tuple(operands))


def _integer(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise UnreadableError(f"a number of {len(digits)} digits")
    return int(digits)


def _apply(name: str, integers: list[int], operands: tuple[Term, ...]) -> Term:
    operator, output = SPELLINGS.get(name, name), 0
    if name.startswith("split_") and name.removeprefix("split_").isdecimal():
        operator, output = "split", _integer(name.removeprefix("split_"))
    if operator == "transpose":
        return build(operator, _transposed(integers), operands)
    is_operator = operator in LEADING and name not in ("split", *SPELLINGS.values())
    if not is_operator:
        raise UnknownOperatorError(f"unknown operator {name}")
    names = LEADING[operator]
    if len(integers) > len(names):
        raise UnreadableError(f"{name} has {len(names)} parameters, not {len(integers)}")
    values = {"rank": 0, "parts": 0} | dict(zip(names, integers, strict=False))
    if (operator == "conv2d" and "acti" not in values) or ("pad" in names and "pad" not in values):
        raise UnreadableError(f"{name} lacks {', '.join(n for n in names if n not in values)}")
    return build(operator, values, operands, output)


def _transposed(integers: list[int]) -> dict[str, int]:
    """No integers swap the axes of a matrix; several are a permutation."""
    order = tuple(integers) or (1, 0)
    if sorted(order) != list(range(len(order))):
        raise UnreadableError(f"{list(order)} is no permutation")
    return {"rank": len(order), "perm": permutation_number(order)}


def equation_text(term: Term) -> str:
    """A term as TENSAT writes it; activations stand outside of what they were fused with."""
    if isinstance(term, Variable):
        return term.name
    values = dict(term.parameters)
    name = {ours: theirs for theirs, ours in SPELLINGS.items()}.get(term.operator, term.operator)
    integers = list(values.values())
    match term.operator:
        case "conv2d":
            integers.append(0)
        case "concat":
            integers = [values["axis"]] + ([values["rank"]] if values["rank"] else [])
        case "split":
            name, integers = f"split_{term.output}", [values["axis"]]
        case "transpose":
            order = permutation(values["perm"], values["rank"]) or ()
            integers = [] if order == (1, 0) else list(order)
    arguments = [*map(str, integers), *map(equation_text, term.operands)]
    return f"{name}({','.join(arguments)})" if arguments else name
