"""The C preprocessor's common part, which Souffle runs over every program.

Comments go, lines stay: output line i stems from one source line, so that positions survive.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...terms.syntax_tree import Place
from .comments import strip_comments
from .macros import Macros
from .syntax import DatalogError

_DIRECTIVE = re.compile(r"[ \t]*#[ \t]*([A-Za-z_]*)[ \t]*(.*)", re.DOTALL)
_INCLUDE = re.compile(r"[ \t]*\.include[ \t]+(\"(?:\\.|[^\"\\])*\")[ \t]*(.*)", re.DOTALL)
_MAX_DEPTH = 64


@dataclass
class Source:
    """Preprocessed text, and where each of its lines comes from."""

    lines: list[str] = field(default_factory=list)
    origins: list[tuple[str, int]] = field(default_factory=list)
    columns: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    once: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The whole text, one output line for each origin."""
        return "\n".join(self.lines) + "\n"

    def position(self, line: int, column: int) -> Place:
        """Map a line and column of the preprocessed text (from 1) to the source."""
        if not self.origins:
            return Place("<program>", line, column)
        index = min(line, len(self.origins)) - 1
        path, source_line = self.origins[index]
        pieces = self.columns.get(index)
        if pieces:
            start = max(i for i, piece in enumerate(pieces) if piece[0] <= column)
            begin, original = pieces[start]
            # Text between two macros keeps its distance; text of a macro stands at its call.
            column = original + (column - begin) if original > 0 else -original
        return Place(path, source_line, column)

    def add(self, text: str, path: str, line: int, pieces: list[tuple[int, int]] | None) -> None:
        """Append one output line."""
        if pieces:
            self.columns[len(self.lines)] = pieces
        self.lines.append(text)
        self.origins.append((path, line))


def preprocess(text: str, path: str, define: Mapping[str, str] | None = None) -> Source:
    """Strip comments, include files, expand macros and choose conditional parts.

    `define` maps macro names to their text, as `-D` does. Raises DatalogError.
    """
    source = Source()
    _Preprocessor(source, Macros(define or {})).run(text, path, 0)
    return source


class _Preprocessor:
    """One run over a program and all that it includes."""

    def __init__(self, source: Source, macros: Macros) -> None:
        self.source = source
        self.macros = macros

    def run(self, text: str, path: str, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise DatalogError(path, 1, 1, f"files include each other more than {_MAX_DEPTH} deep")
        text = text.removeprefix("\ufeff").replace("\r\n", "\n")
        lines = strip_comments(text, path).split("\n")
        # One entry an open #if: [this branch is taken, a branch was taken, the outer one is].
        conditions: list[tuple[bool, bool, bool, int]] = []
        number = 0
        while number < len(lines):
            start = number
            line = lines[number]
            while line.endswith("\\") and number + 1 < len(lines):
                number += 1
                line = line[:-1] + " " + lines[number]
            number += 1
            active = all(taken for taken, _, _, _ in conditions)
            position = Place(path, start + 1, len(line) - len(line.lstrip()) + 1)
            directive = _DIRECTIVE.match(line)
            if directive:
                word, rest = directive.group(1), directive.group(2).strip()
                if word in ("if", "ifdef", "ifndef"):
                    value = active and self._condition(word, rest, position)
                    conditions.append((value, value, active, start + 1))
                elif word in ("elif", "else", "endif"):
                    if not conditions:
                        raise DatalogError.at(position, f"#{word} without #if")
                    _, done, outer, opened = conditions.pop()
                    if word != "endif":
                        value = outer and not done
                        if word == "elif" and value:
                            value = self._condition("if", rest, position)
                        conditions.append((value, done or value, outer, opened))
                elif active and (word, rest) == ("pragma", "once"):
                    if self._seen(path):
                        return
                elif active:
                    self._directive(word, rest, position, depth)
                for _ in range(start, number):
                    self.source.add("", path, start + 1, None)
                continue
            included = _INCLUDE.match(line)
            if active and included:
                self._include(included.group(1), position, depth)
                line = included.group(2)
            if active and re.fullmatch(r"\s*\.once\s*", line):
                if self._seen(path):
                    return
                line = ""
            if not active:
                line = ""
            if self.macros.mentioned(line):
                # A call may spread over lines: join until its parenthesis closes.
                while not self.macros.complete(line) and number < len(lines):
                    line += " " + lines[number]
                    number += 1
                text_out, pieces = self.macros.line(line, position)
                self.source.add(text_out, path, start + 1, pieces)
            else:
                self.source.add(line, path, start + 1, None)
            for skipped in range(start + 1, number):
                self.source.add("", path, skipped + 1, None)
        if conditions:
            raise DatalogError(path, conditions[-1][3], 1, "this #if has no #endif")

    def _seen(self, path: str) -> bool:
        """Say whether a file that is to be read once was read, by whatever name."""
        file = os.path.realpath(path)
        if file in self.source.once:
            return True
        self.source.once.add(file)
        return False

    def _directive(self, word: str, rest: str, position: Place, depth: int) -> None:
        if word == "include":
            self._include(rest, position, depth)
        elif word == "define":
            self.macros.define(rest, position)
        elif word == "undef":
            self.macros.undefine(rest.strip())
        elif word == "error":
            raise DatalogError.at(position, f"#error {rest}".strip())
        elif word not in ("", "pragma", "line", "warning"):
            # Souffle's scanner drops what its preprocessor lets through: "# vim: ..." is common.
            place = f"{position.path}:{position.line}"
            self.source.notes.append(f"{place}: #{word} is no directive: a comment")

    def _include(self, name: str, position: Place, depth: int) -> None:
        if len(name) < 2 or (name[0], name[-1]) not in (('"', '"'), ("<", ">")):
            raise DatalogError.at(position, f"#include needs a quoted file name, not {name}")
        target = Path(position.path).parent / name[1:-1]
        try:
            text = target.read_bytes().decode("utf-8", errors="replace")
        except OSError as error:
            reason = f"can't include {name[1:-1]}: {error.strerror}"
            raise DatalogError.at(position, reason) from None
        self.run(text, str(target), depth + 1)

    def _condition(self, word: str, rest: str, position: Place) -> bool:
        if word == "ifdef":
            return rest.split()[0] in self.macros if rest.split() else False
        if word == "ifndef":
            return rest.split()[0] not in self.macros if rest.split() else True
        defined = re.sub(
            r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))",
            lambda match: str(int((match.group(1) or match.group(2)) in self.macros)),
            rest,
        )
        expanded = self.macros.text(defined, position)
        expanded = re.sub(r"[A-Za-z_]\w*", "0", re.sub(r"\b([0-9]+)[uUlL]+\b", r"\1", expanded))
        if not re.fullmatch(r"[0-9\s()+\-*/%<>=!&|^~]*", expanded) or "**" in expanded:
            raise DatalogError.at(position, f"#if can't evaluate {rest}")
        python = expanded.replace("&&", " and ").replace("||", " or ").replace("/", "//")
        python = re.sub(r"!(?!=)", " not ", python)
        try:
            return bool(eval(compile(python.strip(), "#if", "eval"), {"__builtins__": {}}))
        except (SyntaxError, ArithmeticError, TypeError, MemoryError, RecursionError):
            raise DatalogError.at(position, f"#if can't evaluate {rest}") from None
