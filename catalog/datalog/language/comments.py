"""What a program says to its readers alone: comments and annotations, blanked out in place."""

from __future__ import annotations

import re

from .syntax import DatalogError

_PIECE = re.compile(
    r'(?P<string>"(?:\\.|[^"\\])*")|(?P<text>[^"/#]+|/(?![/*]))|(?P<line>//[^\n]*)'
    r"|(?P<block>/\*.*?\*/)|(?P<hash>#[^\n]*)|(?P<open>/\*)|(?P<quote>\")",
    re.DOTALL,
)
_ANNOTATION = re.compile(r'"(?:\\.|[^"\\])*"|@!?\[|[\[\](){}]', re.DOTALL)
_LINE_END = re.compile(r"(?<!\\)\n")


def strip_comments(text: str, path: str) -> str:
    """Replace comments and annotations by blanks, keeping every line and column where it was.

    Besides `//` and `/* */`, Souffle's scanner skips the rest of a line from a `#` on that is no
    directive, and since 2.5 annotations: `@[…]` and `@![…]`. Raises DatalogError.
    """
    out: list[str] = []
    line = ""  # what the logical line holds so far
    position = 0
    while position < len(text):
        match = _PIECE.match(text, position)
        assert match is not None
        kind, piece = match.lastgroup, match.group()
        position = match.end()
        if kind in ("open", "quote"):
            construct = "comment" if kind == "open" else "string"
            raise _error_in(text, match.start(), path, f"this {construct} is never closed")
        if kind == "hash":
            # A directive goes on with the text after it: comments and strings may follow.
            if not line.strip() or line.lstrip().startswith("#"):
                piece = "#"
                position = match.start() + 1
            else:
                piece = _blank(piece)
        elif kind in ("line", "block"):
            piece = _blank(piece)
        out.append(piece)
        parts = _LINE_END.split(piece)
        line = parts[-1] if len(parts) > 1 else line + piece
    stripped = "".join(out)
    if "\ufffd" in stripped:
        raise _error_in(stripped, stripped.index("\ufffd"), path, "this byte is not UTF-8")
    return _strip_annotations(stripped, path) if "@" in stripped else stripped


def _strip_annotations(text: str, path: str) -> str:
    out: list[str] = []
    depth = start = end = 0
    for match in _ANNOTATION.finditer(text):
        token = match.group()
        if depth == 0:
            if token[0] == "@":
                out.append(text[end : match.start()])
                start, depth = match.start(), 1
        elif token[-1] in "([{":
            depth += 1
        elif token in (")", "]", "}"):
            depth -= 1
            if depth == 0:
                end = match.end()
                out.append(_blank(text[start:end]))
    if depth:
        raise _error_in(text, start, path, "this annotation is never closed")
    return "".join(out) + text[end:]


def _blank(text: str) -> str:
    return re.sub(r"[^\n\t]", " ", text)


def _error_in(text: str, offset: int, path: str, reason: str) -> DatalogError:
    before = text[:offset]
    return DatalogError(path, before.count("\n") + 1, offset - before.rfind("\n"), reason)
