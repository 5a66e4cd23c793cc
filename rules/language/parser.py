"""Rule text to syntax tree."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from importlib import resources
from itertools import pairwise
from pathlib import PurePath

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken

from .check import check_rule
from .errors import RuleError, refuse_all
from .reader import RuleReader
from .syntax import Rule

WORDS = {
    "LPAR": "(",
    "RPAR": ")",
    "LSQB": "[",
    "RSQB": "]",
    "COMMA": ",",
    "EQUAL": "=",
    "LESSTHAN": "<",
    "MORETHAN": ">",
    "STAR": "*",
    "QMARK": "?",
    "NAME": "a name",
    "INT": "a number",
    "STRING": 'a "text"',
    "OPERATOR": "an operator",
    "RULE": "rule",
    "MATCH": "match",
    "REWRITE": "rewrite",
}
_BEGINS = re.compile(r"rule\b")
CLAUSES = "tags, source, opset, target, given, match, fold, rewrite, equal, finite_math"


@lru_cache(maxsize=1)
def _lark() -> Lark:
    grammar = (resources.files(__package__) / "grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", lexer="contextual", propagate_positions=True)


def parse_rules(text: str, path: str = "<rules>") -> tuple[Rule, ...]:
    """Read rule text; RuleError names the line, the column and a way out, of all that is wrong.

    The family of the rules is the file's stem.
    """
    family = PurePath(path).stem.strip("<>")
    lines = text.splitlines()
    rules: dict[str, Rule] = {}
    errors: list[RuleError] = []
    for tree in _trees(text, path, errors):
        comment = _comment_above(lines, tree.meta.line)
        try:
            rule = RuleReader(path, family, comment).read(tree)
            if rule.name in rules:
                first = rules[rule.name].line
                reason = f"{rule.name} is defined twice (first on line {first})"
                raise RuleError(path, rule.line, 1, reason, "give each rule a name of its own")
            rules[rule.name] = rule
            check_rule(rule)
        except RuleError as error:
            errors.append(error)
    refuse_all(errors)
    return tuple(rules.values())


def _trees(text: str, path: str, errors: list[RuleError]) -> Iterator[Tree[Token]]:
    """Parse rule text; where it has errors of syntax, block by block, and note them all."""
    try:
        yield from parse_trees(text, path)
    except RuleError:
        for start, block in _blocks(text):
            try:
                yield from parse_trees("\n" * start + block, path)
            except RuleError as error:
                errors.append(error)


def _blocks(text: str) -> Iterator[tuple[int, str]]:
    """Cut rule text before each line that begins a rule; yield the lines before a block, and it."""
    lines = text.splitlines()
    starts = [i for i, line in enumerate(lines) if _BEGINS.match(line)]
    for start, end in pairwise([*sorted({0, *starts}), len(lines)]):
        yield start, "\n".join(lines[start:end])


def parse_trees(text: str, path: str = "<rules>") -> tuple[Tree[Token], ...]:
    """Parse rule text without reading what it means; one tree a rule."""
    return tuple(tree for tree in _parse(text, path).children if isinstance(tree, Tree))


def _comment_above(lines: list[str], line: int) -> str:
    """The comment block that ends right above a line (1-based), with its line ends."""
    start = line - 1
    while start > 0 and lines[start - 1].lstrip().startswith("#"):
        start -= 1
    return "".join(f"{text.strip()}\n" for text in lines[start : line - 1])


def _parse(text: str, path: str) -> Tree[Token]:
    try:
        return _lark().parse(text)
    except UnexpectedEOF as error:
        raise _refusal(text, path, error, "the text ends in the middle of a rule", set()) from None
    except UnexpectedToken as error:
        if error.token.type == "$END":
            reason = "the text ends in the middle of a rule"
        else:
            reason = f"unexpected '{error.token}'"
        raise _refusal(text, path, error, reason, set(error.accepts or error.expected)) from None
    except UnexpectedCharacters as error:
        reason = f"unexpected '{text[error.pos_in_stream or 0]}'"
        raise _refusal(text, path, error, reason, set(error.allowed or ())) from None


def _refusal(
    text: str, path: str, error: UnexpectedInput, reason: str, expected: set[str]
) -> RuleError:
    line, column = error.line, error.column
    if line is None or line < 1:  # lark gives -1 at the end of the text
        line = max(1, len(text.splitlines()))
        column = len(text.splitlines()[-1]) + 1 if text.splitlines() else 1
    return RuleError(path, line, max(1, column), reason, _hint(expected, reason))


def _hint(expected: set[str], reason: str) -> str:
    if expected == {"RULE", "$END"} or expected == {"RULE"}:
        return "a rule starts with `rule Name`"
    if "TAGS" in expected and "COMMA" not in expected:
        return f"the clauses of a rule are {CLAUSES}"
    if "COMMA" in expected and "TAGS" in expected:
        return "separate the items of `given` by commas"
    if expected == {"EQUAL"} or expected == {"EQUAL", "COMMA"}:
        return "a statement reads `Y = Op<axis=1>(X, W)`; operators start with a capital"
    words = sorted({WORDS.get(name, name.lower()) for name in expected if not name.startswith("_")})
    return "expected " + " or ".join(words[:8]) if words else "see docs/rules.md for the grammar"
