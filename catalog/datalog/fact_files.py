"""Facts files: the lines of a relation's input, as Souffle's CSV reader takes them apart."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa

from ..errors import TensologError
from .language.structures import Structures, read
from .language.syntax import DatalogError, Directive
from .sql.engine import arrow_type, load
from .steps import Relation

_SPACE = " \t\n\v\f\r"


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
    structures: Structures,
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
    columns = _columns(relation, directive, lines, path, structures)
    arrays = [
        pa.array(values, type=arrow_type(kind))
        for values, kind in zip(columns, relation.kinds, strict=True)
    ]
    if not relation.kinds:
        arrays = [pa.array([True] * min(1, len(lines)), type=pa.bool_())]
    load(table, arrays, relation, connection)


def _columns(
    relation: Relation,
    directive: Directive,
    lines: Sequence[str],
    path: Path,
    structures: Structures,
) -> list[list[int | float | str]]:
    """Split lines into the relation's columns, by kind."""
    places = _places(relation, directive)
    last = max(places, default=-1)
    rows: list[list[str]] = []
    numbers: list[int] = []
    for number, fields in _records(relation, directive, lines, last + 1, path):
        if len(fields) <= last:
            raise TensologError(
                f"{path}:{number}: {relation.name} needs {last + 1} fields, "
                f"this line has {len(fields)}"
            )
        rows.append(fields)
        numbers.append(number)
    out: list[list[int | float | str]] = []
    for place, kind in zip(places, relation.kinds, strict=True):
        texts = [row[place] for row in rows]
        if kind == "symbol":
            out.append(list(texts))
            continue
        values: list[int | float | str] = []
        for number, text in zip(numbers, texts, strict=True):
            value = _value(text, kind, structures)
            if value is None:
                raise TensologError(
                    f"{path}:{number}: {text!r} in field {place + 1} is no {kind} "
                    f"(relation {relation.name})"
                )
            values.append(value)
        out.append(values)
    return out


def _value(text: str, kind: str, structures: Structures) -> int | float | str | None:
    if kind not in structures:
        return read_value(text, kind)
    try:
        return read(text, kind, structures, read_value)
    except ValueError:
        return None


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


def _records(
    relation: Relation, directive: Directive, lines: Sequence[str], count: int, path: Path
) -> Iterator[tuple[int, list[str]]]:
    """Split lines into fields, each record with the number of its first line."""
    if not relation.kinds:
        yield from ((number, []) for number in range(1, len(lines) + 1))
        return
    delimiter = delimiter_of(directive)
    number = 1
    try:
        if directive.parameters.get("rfc4180") == "true":
            for number, fields in _quoted_records(lines, delimiter):
                yield number, fields
            return
        bracketed = "," in delimiter
        for number, line in enumerate(lines, 1):
            if bracketed and ("[" in line or "]" in line):
                yield number, _bracketed_fields(line, delimiter, count)
            else:
                yield number, line.split(delimiter)
    except _RecordError as error:
        raise TensologError(f"{path}:{error.number or number}: {error}") from None


class _RecordError(ValueError):
    """A line of another form than it should have; `number` where it isn't the one at hand."""

    def __init__(self, reason: str, number: int | None = None) -> None:
        super().__init__(reason)
        self.number = number


def _quoted_records(lines: Sequence[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Split RFC 4180 text into records; a quoted field may go over several lines."""
    index = 0
    while index < len(lines):
        first, line, start = index, lines[index], 0
        fields: list[str] = []
        while True:
            if line[start : start + 1] == '"':
                text: list[str] = []
                begin = start + 1
                while True:
                    close = line.find('"', begin)
                    if close < 0:
                        index += 1
                        if index == len(lines):
                            raise _RecordError("a quoted field is never closed", first + 1)
                        text.append(line[begin:] + "\n")
                        line, begin = lines[index], 0
                        continue
                    text.append(line[begin:close])
                    if line[close + 1 : close + 2] != '"':
                        break
                    text.append('"')
                    begin = close + 2
                fields.append("".join(text))
                start = close + 1
                if start < len(line) and not line.startswith(delimiter, start):
                    raise _RecordError("text follows a quoted field", index + 1)
            else:
                end = line.find(delimiter, start)
                end = len(line) if end < 0 else end
                fields.append(line[start:end])
                start = end
            if start >= len(line):
                break
            start += len(delimiter)
        yield first + 1, fields
        index += 1


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
            raise _RecordError("a bracket has no other in its field")
        fields.append(line[start:end])
        start = end + len(delimiter)
    return fields
