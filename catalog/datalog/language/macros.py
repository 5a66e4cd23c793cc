"""Macros of the C preprocessor: their definitions, and text with them expanded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ...terms.syntax_tree import Place
from .syntax import DatalogError

_TOKEN = re.compile(
    r'"(?:\\.|[^"\\])*"|[A-Za-z_][A-Za-z0-9_]*|[0-9][A-Za-z0-9_.]*|##|\s+|.', re.DOTALL
)
_DEFINITION = re.compile(r"([A-Za-z_]\w*)(\(([^)]*)\))?[ \t]*(.*)", re.DOTALL)
_MAX_DEPTH = 64
_PLACES = ("__FILE__", "__LINE__")
_GIVEN = {"RAM_DOMAIN_SIZE": "64"}  # Souffle tells programs the bits of its numbers
_FEWEST = len(_PLACES) + len(_GIVEN)


@dataclass(frozen=True)
class Macro:
    """A defined name; `parameters` is None for an object-like macro."""

    name: str
    parameters: tuple[str, ...] | None
    body: tuple[str, ...]


def tokens_of(text: str) -> Iterator[str]:
    """Split text into strings, names, numbers, blanks and single characters."""
    for match in _TOKEN.finditer(text):
        yield match.group()


class Macros:
    """The macros defined so far."""

    def __init__(self, define: Mapping[str, str]) -> None:
        self._table = {name: Macro(name, None, ()) for name in _PLACES}
        define = {**_GIVEN, **define}
        for name, body in define.items():
            self._table[name] = Macro(name, None, tuple(tokens_of(body)))

    def __contains__(self, name: str) -> bool:
        return name in self._table

    def define(self, text: str, position: Place) -> None:
        """Take what follows #define; raises DatalogError."""
        match = _DEFINITION.match(text)
        if not match:
            raise DatalogError.at(position, "#define needs a name")
        parameters = None
        if match.group(2) is not None:
            parameters = tuple(p.strip() for p in match.group(3).split(",") if p.strip())
        body = tuple(tokens_of(match.group(4).strip()))
        self._table[match.group(1)] = Macro(match.group(1), parameters, body)

    def undefine(self, name: str) -> None:
        """Forget a macro, if there is one of that name."""
        self._table.pop(name, None)

    def mentioned(self, line: str) -> bool:
        """Say whether a line names a macro."""
        if len(self._table) == _FEWEST and "_" not in line:
            return False
        return any(token in self._table for token in tokens_of(line))

    def text(self, text: str, position: Place) -> str:
        """Expand a text without keeping track of columns."""
        return "".join(self._expand(list(tokens_of(text)), frozenset(), position))

    def complete(self, line: str) -> bool:
        """Say whether every function-like call of the line is closed on it."""
        tokens = list(tokens_of(line))
        for index, token in enumerate(tokens):
            macro = self._table.get(token)
            if macro is not None and macro.parameters is not None:
                after = [t for t in tokens[index + 1 :] if not t.isspace()]
                if after and after[0] == "(" and _arguments(tokens, index + 1) is None:
                    return False
        return True

    def line(self, line: str, position: Place) -> tuple[str, list[tuple[int, int]]]:
        """Expand one line; the pieces give the source column of each stretch of output."""
        tokens = list(tokens_of(line))
        out: list[str] = []
        pieces: list[tuple[int, int]] = [(1, 1)]
        written, column, index = 0, 1, 0
        while index < len(tokens):
            token = tokens[index]
            if token not in self._table:
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

    def _expand(self, tokens: list[str], hidden: frozenset[str], position: Place) -> list[str]:
        out: list[str] = []
        index = 0
        while index < len(tokens):
            if tokens[index] in self._table and tokens[index] not in hidden:
                expansion, index = self._call(tokens, index, hidden, position)
                out.extend(expansion)
            else:
                out.append(tokens[index])
                index += 1
        return out

    def _call(
        self, tokens: list[str], index: int, hidden: frozenset[str], position: Place
    ) -> tuple[list[str], int]:
        """Expand the macro at `index`; returns its text and the index after it."""
        macro = self._table[tokens[index]]
        if len(hidden) > _MAX_DEPTH:
            raise DatalogError.at(position, f"macro {macro.name} expands too deeply")
        if macro.name in _PLACES:
            here = str(position.line) if macro.name == "__LINE__" else _quoted(position.path)
            return [here], index + 1
        inner = hidden | {macro.name}
        if macro.parameters is None:
            return self._expand(_paste(list(macro.body)), inner, position), index + 1
        call = _arguments(tokens, index + 1)
        if call is None:
            return [tokens[index]], index + 1
        arguments, after = call
        values = _bound(macro, arguments, position)
        body: list[str] = []
        for place, token in enumerate(macro.body):
            if token in values:
                raw = _trim(values[token])
                if body and body[-1] == "#":
                    body[-1] = _stringified(raw)
                    continue
                near = [t for t in macro.body[max(0, place - 2) : place + 3] if not t.isspace()]
                body.extend(raw if "##" in near else self._expand(raw, hidden, position))
            else:
                body.append(token)
        return self._expand(_paste(body), inner, position), after


def _bound(macro: Macro, arguments: list[list[str]], position: Place) -> dict[str, list[str]]:
    """Match a call's arguments with the parameters; `...` takes what is left."""
    assert macro.parameters is not None
    parameters = macro.parameters
    if len(arguments) == 1 and not parameters and not "".join(arguments[0]).strip():
        arguments = []
    if parameters and parameters[-1].endswith("..."):
        fixed = len(parameters) - 1
        rest: list[str] = []
        for argument in arguments[fixed:]:
            rest.extend([",", *argument] if rest else argument)
        parameters = (*parameters[:fixed], parameters[-1].removesuffix("...") or "__VA_ARGS__")
        if len(arguments) >= fixed:
            arguments = [*arguments[:fixed], rest]
    if len(arguments) != len(parameters):
        raise DatalogError.at(
            position,
            f"macro {macro.name} takes {len(parameters)} arguments, not {len(arguments)}",
        )
    return dict(zip(parameters, arguments, strict=True))


def _stringified(tokens: list[str]) -> str:
    """Apply the # operator."""
    return _quoted("".join(" " if token.isspace() else token for token in tokens))


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


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
