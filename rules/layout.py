"""Rule files as text: blocks of rules spelled anew or moved, all between them left as it is."""

from __future__ import annotations

from .parser import parse_rules, parse_trees
from .spelling import spelled
from .syntax import Rule


def formatted(text: str, path: str = "<rules>") -> str:
    """Give every rule of a file the one spelling; comments inside a rule move to the one above.

    Raises RuleError where the text holds no rules.
    """
    lines = text.splitlines()
    trees = parse_trees(text, path)
    for rule, tree in reversed(list(zip(parse_rules(text, path), trees, strict=True))):
        start, end = _block(lines, rule)
        moved = [f"# {said}" for line in lines[start:end] if (said := _comment(line))]
        lines[start:end] = [*moved, *spelled(tree)]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def cut(text: str, rule: Rule) -> tuple[str, str]:
    """Take a rule and its comment out of the text of its file; return both, and what is left."""
    lines = text.splitlines()
    start, end = _block(lines, rule)
    start -= len(rule.comment.splitlines())
    left = lines[:start]
    while left and not left[-1].strip():
        left.pop()
    after = lines[end:]
    while after and not after[0].strip():
        after.pop(0)
    parts = ["".join(f"{line}\n" for line in part) for part in (left, after) if part]
    return "".join(f"{line}\n" for line in lines[start:end]), "\n".join(parts)


def _block(lines: list[str], rule: Rule) -> tuple[int, int]:
    """Find where a rule starts and ends: its first line, and one past its last clause."""
    start = rule.line - 1
    end = start + 1
    for at in range(start + 1, len(lines)):
        code = _code(lines[at]).strip()
        if code.startswith("rule ") or code == "rule":
            break
        if code:
            end = at + 1
    return start, end


def _code(line: str) -> str:
    """Give a line without its comment."""
    quoted = False
    for at, letter in enumerate(line):
        if letter == '"':
            quoted = not quoted
        elif letter == "#" and not quoted:
            return line[:at]
    return line


def _comment(line: str) -> str:
    return line[len(_code(line)) + 1 :].strip()
