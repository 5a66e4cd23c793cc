"""The C preprocessor's common part, which Souffle runs over every program.

Comments go, lines stay: output line i stems from one source line, so that positions survive.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .syntax import DatalogError, Position

_TOKEN = re.compile(
    r'"(?:\\.|[^"\\])*"|[A-Za-z_][A-Za-z0-9_]*|[0-9][A-Za-z0-9_.]*|##|\s+|.', re.DOTALL
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_DIRECTIVE = re.compile(r"[ \t]*#[ \t]*([A-Za-z_]*)[ \t]*(.*)", re.DOTALL)
_INCLUDE = re.compile(r"[ \t]*\.include[ \t]+(\"(?:\\.|[^\"\\])*\")[ \t]*(.*)", re.DOTALL)
_MAX_DEPTH = 64


@dataclass(frozen=True)
class Macro:
    """A defined name; `parameters` is None for an object-like macro."""

    name: str
    parameters: tuple[str, ...] | None
    body: tuple[str, ...]


@dataclass
class Source:
    """Preprocessed text, and where each of its lines comes from."""

    lines: list[str] = field(default_factory=list)
    origins: list[tuple[str, int]] = field(default_factory=list)
    columns: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    once: set[str] = field(default_factory=set)

    @property
    def text(self) -> str:
        """The whole text, one output line for each origin."""
        return "\n".join(self.lines) + "\n"

    def position(self, line: int, column: int) -> Position:
        """Map a line and column of the preprocessed text (from 1) to the source."""
        if not self.origins:
            return Position("<program>", line, column)
        index = min(line, len(self.origins)) - 1
        path, source_line = self.origins[index]
        pieces = self.columns.get(index)
        if pieces:
            start = max(i for i, piece in enumerate(pieces) if piece[0] <= column)
            begin, original = pieces[start]
            # Text between two macros keeps its distance; text of a macro stands at its call.
            column = original + (column - begin) if original > 0 else -original
        return Position(path, source_line, column)

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
    macros = {
        name: Macro(name, None, tuple(_tokens(body))) for name, body in (define or {}).items()
    }
    source = Source()
    _Preprocessor(source, macros).run(text, path, 0)
    return source


def _tokens(text: str) -> Iterator[str]:
    for match in _TOKEN.finditer(text):
        yield match.group()


def strip_comments(text: str, path: str) -> str:
    """Replace comments by blanks, keeping every line and column where it was."""
    out: list[str] = []
    for match in re.finditer(
        r'(?P<keep>"(?:\\.|[^"\\])*"|[^"/]+|/(?![/*]))|(?P<line>//[^\n]*)|(?P<block>/\*.*?\*/)'
        r"|(?P<open>/\*)|(?P<quote>\")",
        text,
        re.DOTALL,
    ):
        if match.lastgroup == "keep":
            out.append(match.group())
        elif match.lastgroup in ("line", "block"):
            out.append(re.sub(r"[^\n\t]", " ", match.group()))
        else:
            what = "comment" if match.lastgroup == "open" else "string"
            raise _error_in(text, match.start(), path, f"this {what} is never closed")
    stripped = "".join(out)
    if "\ufffd" in stripped:
        raise _error_in(stripped, stripped.index("\ufffd"), path, "this byte is not UTF-8")
    return stripped


def _error_in(text: str, offset: int, path: str, reason: str) -> DatalogError:
    before = text[:offset]
    return DatalogError(path, before.count("\n") + 1, offset - before.rfind("\n"), reason)


class _Preprocessor:
    """One run over a program and all that it includes."""

    def __init__(self, source: Source, macros: dict[str, Macro]) -> None:
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
            position = Position(path, start + 1, len(line) - len(line.lstrip()) + 1)
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
                if path in self.source.once:
                    return
                self.source.once.add(path)
                line = ""
            if not active:
                line = ""
            if self.macros and line and any(token in self.macros for token in _tokens(line)):
                # A call may spread over lines: join until its parenthesis closes.
                while not self._complete(line) and number < len(lines):
                    line += " " + lines[number]
                    number += 1
                text_out, pieces = self._line(line, position)
                self.source.add(text_out, path, start + 1, pieces)
            else:
                self.source.add(line, path, start + 1, None)
            for skipped in range(start + 1, number):
                self.source.add("", path, skipped + 1, None)
        if conditions:
            raise DatalogError(path, conditions[-1][3], 1, "this #if has no #endif")

    def _directive(self, word: str, rest: str, position: Position, depth: int) -> None:
        if word == "include":
            self._include(rest, position, depth)
        elif word == "define":
            match = re.match(r"([A-Za-z_]\w*)(\(([^)]*)\))?[ \t]*(.*)", rest, re.DOTALL)
            if not match:
                raise DatalogError.at(position, "#define needs a name")
            parameters = None
            if match.group(2) is not None:
                parameters = tuple(p.strip() for p in match.group(3).split(",") if p.strip())
            body = tuple(_tokens(match.group(4).strip()))
            self.macros[match.group(1)] = Macro(match.group(1), parameters, body)
        elif word == "undef":
            self.macros.pop(rest.strip(), None)
        elif word == "error":
            raise DatalogError.at(position, f"#error {rest}".strip())
        elif word not in ("", "pragma", "line", "warning"):
            raise DatalogError.at(position, f"unknown preprocessor directive #{word}")

    def _include(self, name: str, position: Position, depth: int) -> None:
        if len(name) < 2 or (name[0], name[-1]) not in (('"', '"'), ("<", ">")):
            raise DatalogError.at(position, f"#include needs a quoted file name, not {name}")
        target = Path(position.path).parent / name[1:-1]
        try:
            text = target.read_bytes().decode("utf-8", errors="replace")
        except OSError as error:
            reason = f"can't include {name[1:-1]}: {error.strerror}"
            raise DatalogError.at(position, reason) from None
        self.run(text, str(target), depth + 1)

    def _condition(self, word: str, rest: str, position: Position) -> bool:
        if word == "ifdef":
            return rest.split()[0] in self.macros if rest.split() else False
        if word == "ifndef":
            return rest.split()[0] not in self.macros if rest.split() else True
        defined = re.sub(
            r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))",
            lambda match: str(int((match.group(1) or match.group(2)) in self.macros)),
            rest,
        )
        expanded = "".join(self._expand(list(_tokens(defined)), frozenset(), position))
        expanded = re.sub(r"[A-Za-z_]\w*", "0", re.sub(r"\b([0-9]+)[uUlL]+\b", r"\1", expanded))
        if not re.fullmatch(r"[0-9\s()+\-*/%<>=!&|^~]*", expanded) or "**" in expanded:
            raise DatalogError.at(position, f"#if can't evaluate {rest}")
        python = expanded.replace("&&", " and ").replace("||", " or ").replace("/", "//")
        python = re.sub(r"!(?!=)", " not ", python)
        try:
            return bool(eval(compile(python.strip(), "#if", "eval"), {"__builtins__": {}}))
        except (SyntaxError, ArithmeticError, TypeError, MemoryError, RecursionError):
            raise DatalogError.at(position, f"#if can't evaluate {rest}") from None

    def _complete(self, line: str) -> bool:
        """Say whether every function-like call of the line is closed on it."""
        tokens = list(_tokens(line))
        for index, token in enumerate(tokens):
            macro = self.macros.get(token)
            if macro is not None and macro.parameters is not None:
                after = [t for t in tokens[index + 1 :] if not t.isspace()]
                if after and after[0] == "(" and _arguments(tokens, index + 1) is None:
                    return False
        return True

    def _line(self, line: str, position: Position) -> tuple[str, list[tuple[int, int]]]:
        """Expand one line; the pieces give the source column of each stretch of output."""
        tokens = list(_tokens(line))
        out: list[str] = []
        pieces: list[tuple[int, int]] = [(1, 1)]
        written, column, index = 0, 1, 0
        while index < len(tokens):
            token = tokens[index]
            if token not in self.macros:
                out.append(token)
                written += len(token)
                column += len(token)
                index += 1
                continue
            expansion, index_after = self._call(tokens, index, frozenset(), position)
            pieces.append((written + 1, -column))
            text = "".join(expansion)
            out.append(text)
            written += len(text)
            column += sum(len(t) for t in tokens[index:index_after])
            pieces.append((written + 1, column))
            index = index_after
        return "".join(out), pieces

    def _expand(self, tokens: list[str], hidden: frozenset[str], position: Position) -> list[str]:
        out: list[str] = []
        index = 0
        while index < len(tokens):
            if tokens[index] in self.macros and tokens[index] not in hidden:
                expansion, index = self._call(tokens, index, hidden, position)
                out.extend(expansion)
            else:
                out.append(tokens[index])
                index += 1
        return out

    def _call(
        self, tokens: list[str], index: int, hidden: frozenset[str], position: Position
    ) -> tuple[list[str], int]:
        """Expand the macro at `index`; returns its text and the index after it."""
        macro = self.macros[tokens[index]]
        if len(hidden) > _MAX_DEPTH:
            raise DatalogError.at(position, f"macro {macro.name} expands too deeply")
        inner = hidden | {macro.name}
        if macro.parameters is None:
            return self._expand(_paste(list(macro.body)), inner, position), index + 1
        found = _arguments(tokens, index + 1)
        if found is None:
            return [tokens[index]], index + 1
        arguments, after = found
        if len(arguments) == 1 and not macro.parameters and not "".join(arguments[0]).strip():
            arguments = []
        if len(arguments) != len(macro.parameters):
            raise DatalogError.at(
                position,
                f"macro {macro.name} takes {len(macro.parameters)} arguments, not {len(arguments)}",
            )
        values = dict(zip(macro.parameters, arguments, strict=True))
        body: list[str] = []
        for place, token in enumerate(macro.body):
            if token in values:
                raw = _trim(values[token])
                near = [t for t in macro.body[max(0, place - 2) : place + 3] if not t.isspace()]
                body.extend(raw if "##" in near else self._expand(raw, hidden, position))
            else:
                body.append(token)
        return self._expand(_paste(body), inner, position), after


def _trim(tokens: list[str]) -> list[str]:
    while tokens and tokens[0].isspace():
        tokens = tokens[1:]
    while tokens and tokens[-1].isspace():
        tokens = tokens[:-1]
    return tokens


def _paste(tokens: list[str]) -> list[str]:
    """Apply the ## operator."""
    out: list[str] = []
    index = 0
    while index < len(tokens):
        if tokens[index] == "##":
            out = _trim(out)
            following = _trim(tokens[index + 1 :])
            if out and following:
                out[-1] += following[0]
                tokens = following[1:]
                index = 0
                continue
        else:
            out.append(tokens[index])
        index += 1
    return out


def _arguments(tokens: list[str], index: int) -> tuple[list[list[str]], int] | None:
    """Read a call's arguments from `index`; None where no closed parenthesis follows."""
    while index < len(tokens) and tokens[index].isspace():
        index += 1
    if index >= len(tokens) or tokens[index] != "(":
        return None
    depth = 0
    arguments: list[list[str]] = [[]]
    while index < len(tokens):
        token = tokens[index]
        if token in "([{":
            depth += 1
        elif token in ")]}":
            depth -= 1
            if depth == 0:
                return arguments, index + 1
        if depth == 1 and token == ",":
            arguments.append([])
        elif not (depth == 1 and token == "(" and arguments == [[]]):
            arguments[-1].append(token)
        index += 1
    return None
