"""TENSAT's rules: equations between terms, as text."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from importlib import resources
from itertools import accumulate
from pathlib import Path
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
from .terms import ForeignError, ForeignRule, Problem, Term, Variable

Node = Tree[Token]
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


def read_tensat(path: Path) -> tuple[ForeignRule | Problem, ...]:
    """Read a file of equations, one to a line or run together; ForeignError if it is no text."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ForeignError(str(path), 1, f"can't read the equations: {error}") from error
    return read_equations(text)


def read_equations(text: str) -> tuple[ForeignRule | Problem, ...]:
    """Read equations; a line that can't be read gives a Problem, and the others are read."""
    found: list[ForeignRule | Problem] = []
    for line, said in _statements(text):
        name = f"Tensat{len(found) + 1}"
        if _depth(said) > DEEPEST:
            found.append(Problem(name, line, said, "nested too deeply"))
            continue
        try:
            trees = _lark().parse(said).children
        except UnexpectedInput as error:
            found.append(Problem(name, line, said, _complaint(said, error)))
            continue
        for tree in cast(list[Node], trees):
            name = f"Tensat{len(found) + 1}"
            left, right = (cast(Node, child) for child in tree.children)
            shown = said if len(trees) == 1 else ""
            try:
                pair = (_term(left), _term(right))
            except UnreadableError as error:
                malformed = not isinstance(error, UnknownOperatorError)
                found.append(Problem(name, line, said, str(error), malformed))
                continue
            shown = shown or f"{equation_text(pair[0])} == {equation_text(pair[1])}"
            found.append(ForeignRule(name, "tensat", line, shown, (pair,)))
    return tuple(found)


@lru_cache(maxsize=1)
def _lark() -> Lark:
    grammar = (resources.files(__package__) / "equations.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", lexer="contextual", propagate_positions=True)


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments; those that end inside of parentheses or at `==` go on."""
    start, waiting = 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        said = line.split("#")[0].split("//")[0].strip()
        if not said:
            continue
        if waiting and not _continues(waiting) and not said.startswith("=="):
            yield start, waiting
            waiting = ""
        if not waiting:
            start = number
        waiting = f"{waiting} {said}".strip()
    if waiting:
        yield start, waiting


def _depth(said: str) -> int:
    """How deep parentheses nest."""
    return max(accumulate({"(": 1, ")": -1}.get(character, 0) for character in said), default=0)


def _continues(said: str) -> bool:
    return said.endswith("==") or (said.count("(") > said.count(")") and said.endswith((",", "(")))


def _complaint(said: str, error: UnexpectedInput) -> str:
    position = error.pos_in_stream
    at_end = isinstance(error, UnexpectedToken) and error.token.type == "$END"
    if position is None or at_end:
        return "the equation ends too early; it reads `lhs == rhs`"
    shown = said[position : position + 12]
    if isinstance(error, UnexpectedCharacters):
        return f"unexpected '{shown}' (column {position + 1})"
    return f"unexpected '{shown}' (column {position + 1}); an equation reads `lhs == rhs`"


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
            integers.append(int(str(argument.children[0])))
        else:
            operands.append(_term(argument))
    return _apply(str(name), integers, tuple(operands))


def _apply(name: str, integers: list[int], operands: tuple[Term, ...]) -> Term:
    operator, output = SPELLINGS.get(name, name), 0
    if name.startswith("split_") and name.removeprefix("split_").isdigit():
        operator, output = "split", int(name.removeprefix("split_"))
    if operator == "transpose":
        return build(operator, _transposed(integers), operands)
    known = operator in LEADING and name not in ("split", *SPELLINGS.values())
    if not known:
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
