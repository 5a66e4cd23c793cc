"""Facts files: the lines of a relation's input, as Souffle's CSV reader takes them apart."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa

from ..errors import TensologError
from .engine import load
from .steps import Relation
from .syntax import DatalogError, Directive

_SPACE = " \t\n\v\f\r"
_ARROW = {
    "number": pa.int64(),
    "unsigned": pa.uint64(),
    "float": pa.float64(),
    "symbol": pa.string(),
}


def delimiter_of(directive: Directive) -> str:
    """Name what separates a directive's fields."""
    default = "," if directive.parameters.get("rfc4180") == "true" else "\t"
    return directive.parameters.get("delimiter", default)


def read_facts(
    relation: Relation,
    directive: Directive,
    folder: Path,
    table: str,
    connection: duckdb.DuckDBPyConnection,
) -> None:
    """Read a relation's facts file, or standard input, into a temporary table.

    Raises DatalogError where there is no such file, TensologError for a line that doesn't fit.
    """
    parameters = directive.parameters
    path = folder / parameters.get("filename", f"{relation.name}.facts")
    try:
        if parameters.get("IO") == "stdin":
            text = sys.stdin.read()
        else:
            text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise DatalogError.at(
            directive.position,
            f"can't read the facts of {relation.name}: {path}: {error.strerror}",
        ) from None
    except UnicodeDecodeError:
        raise DatalogError.at(directive.position, f"{path} is not UTF-8 text") from None
    lines = text.split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    if parameters.get("headers") == "true":
        lines = lines[1:]
    lines = [line.removesuffix("\r") for line in lines]
    columns = _columns(relation, directive, lines, path)
    arrays = [
        pa.array(values, type=_ARROW[kind])
        for values, kind in zip(columns, relation.kinds, strict=True)
    ]
    if not relation.kinds:
        arrays = [pa.array([True] * min(1, len(lines)), type=pa.bool_())]
    load(table, pa.table(arrays, names=list(relation.columns)), connection)


def _columns(
    relation: Relation, directive: Directive, lines: Sequence[str], path: Path
) -> list[list[int | float | str]]:
    """Split lines into the relation's columns, by kind."""
    places = _places(relation, directive)
    last = max(places, default=-1)
    split = _splitter(directive, last + 1)
    rows: list[list[str]] = []
    for number, line in enumerate(lines, 1):
        try:
            fields = split(line) if relation.kinds else []
        except ValueError as error:
            raise TensologError(f"{path}:{number}: {error}") from None
        if len(fields) <= last:
            raise TensologError(
                f"{path}:{number}: {relation.name} needs {last + 1} fields, "
                f"this line has {len(fields)}"
            )
        rows.append(fields)
    out: list[list[int | float | str]] = []
    for place, kind in zip(places, relation.kinds, strict=True):
        texts = [row[place] for row in rows]
        if kind == "symbol":
            out.append(list(texts))
            continue
        values: list[int | float | str] = []
        for number, text in enumerate(texts, 1):
            value = read_value(text, kind)
            if value is None:
                raise TensologError(
                    f"{path}:{number}: {text!r} in field {place + 1} is no {kind} "
                    f"(relation {relation.name})"
                )
            values.append(value)
        out.append(values)
    return out


def _places(relation: Relation, directive: Directive) -> list[int]:
    """Say which field of a line each column takes."""
    arity = len(relation.kinds)
    text = directive.parameters.get("columns", "")
    if not text:
        return list(range(arity))
    try:
        places = [int(part) for part in text.split(":")]
    except ValueError:
        places = []
    if len(places) < arity or len(set(places)) != len(places) or min(places) < 0:
        raise DatalogError.at(
            directive.position, f"columns={text} does not name {arity} fields of {relation.name}"
        )
    return places[:arity]


def read_value(text: str, kind: str) -> int | float | None:
    """Read a field of a facts file; None where it is no value of the kind."""
    if "_" in text or not text or text[-1] in _SPACE:
        return None
    try:
        if kind == "float":
            return float.fromhex(text) if "0x" in text.lower() else float(text)
        if kind == "unsigned":
            base = {"0b": 2, "0x": 16}.get(text[:2], 10)
            value = int(text, base)
            return value % (1 << 64) if -(1 << 64) < value < 1 << 64 else None
        value = int(text)
    except (ValueError, OverflowError):
        return None
    return value if -(1 << 63) <= value < 1 << 63 else None


def _splitter(directive: Directive, count: int) -> Callable[[str], list[str]]:
    """Choose how a line is split; a line of another form than it wants is a ValueError."""
    delimiter = delimiter_of(directive)
    if directive.parameters.get("rfc4180") == "true":
        return lambda line: _quoted_fields(line, delimiter)
    if "," not in delimiter:
        return lambda line: line.split(delimiter)
    return lambda line: (
        _bracketed_fields(line, delimiter, count)
        if "[" in line or "]" in line
        else line.split(delimiter)
    )


def _quoted_fields(line: str, delimiter: str) -> list[str]:
    """Split a line of RFC 4180 text."""
    fields: list[str] = []
    start = 0
    while True:
        if line[start : start + 1] == '"':
            end = start + 1
            text: list[str] = []
            while True:
                close = line.find('"', end)
                if close < 0:
                    raise ValueError("a quoted field is never closed")
                text.append(line[end:close])
                if line[close + 1 : close + 2] != '"':
                    break
                text.append('"')
                end = close + 2
            fields.append("".join(text))
            start = close + 1
            if start < len(line) and not line.startswith(delimiter, start):
                raise ValueError("text follows a quoted field")
        else:
            end = line.find(delimiter, start)
            end = len(line) if end < 0 else end
            fields.append(line[start:end])
            start = end
        if start >= len(line):
            return fields
        start += len(delimiter)


def _bracketed_fields(line: str, delimiter: str, count: int) -> list[str]:
    """Split a line by a delimiter with a comma, up to `count` fields: brackets hide it."""
    fields: list[str] = []
    start = 0
    while len(fields) < count and start <= len(line):
        depth, end = 0, start
        while end < len(line) and (depth or not line.startswith(delimiter, end)):
            depth += {"[": 1, "]": -1}.get(line[end], 0)
            if depth < 0:
                break
            end += 1
        if depth:
            raise ValueError("a bracket has no other in its field")
        fields.append(line[start:end])
        start = end + len(delimiter)
    return fields
