"""Programs and relations as files: what `souffle -F facts -D out program.dl` does."""

from __future__ import annotations

import math
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pyarrow as pa

from ..errors import TensologError
from ..files import replacing
from .engine import Relations, evaluate, explain, load, needed
from .expressions import SQL_TYPE
from .program import Program, parse
from .steps import Relation, quoted
from .syntax import DatalogError, Directive

_BATCH = 50_000
_SPACE = " \t\n\v\f\r"


@dataclass
class RunReport:
    """What a run wrote: `files` maps relations to paths, `rows` to sizes; `text` is for stdout."""

    files: dict[str, Path] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    text: str = ""
    notes: list[str] = field(default_factory=list)


def read_program(path: str | Path, define: Mapping[str, str] | None = None) -> Program:
    """Parse a program file; raises TensologError where it can't be read, DatalogError inside."""
    try:
        # Comments may hold any bytes; the preprocessor refuses what is no UTF-8 elsewhere.
        text = Path(path).read_bytes().decode("utf-8", errors="replace")
    except OSError as error:
        raise TensologError(f"can't read {path}: {error.strerror}") from None
    return parse(text, str(path), define)


def explain_file(path: str | Path, define: Mapping[str, str] | None = None) -> str:
    """Describe the strata and the SQL of a program file."""
    return explain(read_program(path, define))


def run_files(
    program: str | Path,
    facts: str | Path = ".",
    out: str | Path = ".",
    engine: str = "embedded",
    define: Mapping[str, str] | None = None,
) -> RunReport:
    """Run a program file on a folder of facts and write its outputs into a folder.

    `engine` is "embedded" or "souffle" (the command of that name, on the PATH). Raises
    TensologError for files that can't be read or written, DatalogError for the program.
    """
    if engine == "souffle":
        return _run_souffle(Path(program), Path(facts), Path(out), define or {})
    if engine != "embedded":
        raise TensologError(f"unknown engine {engine!r}: use embedded or souffle")
    parsed = read_program(program, define)
    for directive in (*parsed.inputs.values(), *parsed.outputs):
        check_parameters(directive)
    wanted = {d.relation for d in (*parsed.outputs, *parsed.printsizes)}
    relevant = needed(parsed, wanted)
    report = RunReport(notes=list(parsed.notes))
    with duckdb.connect(":memory:") as connection:
        inputs: dict[str, str] = {}
        for name, directive in parsed.inputs.items():
            if name in relevant:
                table = quoted(f"file:{len(inputs)}")
                _read_facts(parsed.relations[name], directive, Path(facts), table, connection)
                inputs[name] = table
        relations = evaluate(parsed, connection, inputs=inputs, only=wanted)
        pieces: list[str] = []
        for directive in (*parsed.outputs, *parsed.printsizes):
            _write(parsed, directive, relations, connection, Path(out), report, pieces)
        report.text = "".join(pieces)
    return report


_KNOWN = frozenset(
    {
        "IO", "name", "filename", "delimiter", "headers", "rfc4180", "columns", "attributeNames",
        "operation", "fact-dir", "output-dir", "types", "auxArity", "intermediate", "n",
    }
)  # fmt: skip


def check_parameters(directive: Directive) -> None:
    """Refuse IO parameters outside the dialect."""
    parameters = directive.parameters
    medium = parameters.get("IO", "file")
    allowed = ("file", "stdin") if directive.action == "input" else ("file", "stdout")
    if medium == "stdoutprintsize" and directive.action == "output":
        return
    if medium not in allowed:
        raise DatalogError.at(
            directive.position,
            f"IO={medium} of {directive.relation} is outside the dialect: "
            f"use {' or '.join(allowed)}",
        )
    if parameters.get("compress", "false") != "false":
        raise DatalogError.at(
            directive.position, f"compress of {directive.relation} is outside the dialect"
        )
    if parameters.get("rfc4180") == "true" and '"' in parameters.get("delimiter", ","):
        raise DatalogError.at(directive.position, "with rfc4180 the delimiter can't hold a quote")
    if parameters.get("delimiter") == "":
        raise DatalogError.at(directive.position, "the delimiter is empty")


def _delimiter(directive: Directive) -> str:
    default = "," if directive.parameters.get("rfc4180") == "true" else "\t"
    return directive.parameters.get("delimiter", default)


# -- reading


def _read_facts(
    relation: Relation,
    directive: Directive,
    folder: Path,
    table: str,
    connection: duckdb.DuckDBPyConnection,
) -> None:
    import sys

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


_ARROW = {
    "number": pa.int64(),
    "unsigned": pa.uint64(),
    "float": pa.float64(),
    "symbol": pa.string(),
}


def _columns(
    relation: Relation, directive: Directive, lines: Sequence[str], path: Path
) -> list[list[int | float | str]]:
    """Split lines into the relation's columns, by kind."""
    places = _places(relation, directive)
    delimiter = _delimiter(directive)
    quoted_fields = directive.parameters.get("rfc4180") == "true"
    last = max(places, default=-1)
    rows: list[list[str]] = []
    for number, line in enumerate(lines, 1):
        fields = (
            _quoted_fields(line, delimiter, path, number)
            if quoted_fields
            else line.split(delimiter)
            if relation.kinds
            else []
        )
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


def _quoted_fields(line: str, delimiter: str, path: Path, number: int) -> list[str]:
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
                    raise TensologError(f"{path}:{number}: a quoted field is never closed")
                text.append(line[end:close])
                if line[close + 1 : close + 2] != '"':
                    break
                text.append('"')
                end = close + 2
            fields.append("".join(text))
            start = close + 1
            if start < len(line) and not line.startswith(delimiter, start):
                raise TensologError(f"{path}:{number}: text follows a quoted field")
        else:
            end = line.find(delimiter, start)
            end = len(line) if end < 0 else end
            fields.append(line[start:end])
            start = end
        if start >= len(line):
            return fields
        start += len(delimiter)


# -- writing


def _write(
    program: Program,
    directive: Directive,
    relations: Relations,
    connection: duckdb.DuckDBPyConnection,
    folder: Path,
    report: RunReport,
    pieces: list[str],
) -> None:
    name = directive.relation
    relation = program.relations[name]
    report.rows[name] = _size(relations, name, connection)
    parameters = directive.parameters
    if directive.action == "printsize" or parameters.get("IO") == "stdoutprintsize":
        pieces.append(f"{name}\t{report.rows[name]}\n")
        return
    header = ""
    if parameters.get("headers") == "true":
        labels = [a.name for a in program.declarations[name].attributes]
        header = parameters.get("attributeNames", _delimiter(directive).join(labels)) + "\n"
    lines = _lines(relation, directive, relations, connection)
    if parameters.get("IO") == "stdout":
        pieces.append(f"---------------\n{name}\n{header}===============\n")
        pieces.extend(lines)
        pieces.append("===============\n")
        return
    path = folder / parameters.get("filename", f"{name}.csv")
    if path == Path("/dev/stdout"):
        pieces.extend((header, *lines))
        return
    _write_file(path, header, lines)
    report.files[name] = path


def _size(relations: Relations, name: str, connection: duckdb.DuckDBPyConnection) -> int:
    # Fetch all: an unfinished result would block the connection.
    rows = connection.execute(f"SELECT count(*) FROM {relations.sql(name)}").fetchall()
    return int(rows[0][0])


def _write_file(path: Path, header: str, lines: Iterator[str]) -> None:
    """Write a file whole or not at all, and to a device or pipe; raises TensologError."""
    # /dev/stderr may be a link to a file, which must not be replaced.
    is_file = path.is_file() and path.parts[:2] != ("/", "dev")
    special = path.exists() and not (is_file or path.is_dir())
    try:
        with path.open("ab") if special else replacing(path) as file:
            file.write(header.encode())
            for text in lines:
                file.write(text.encode())
    except OSError as error:
        raise TensologError(f"can't write {path}: {error.strerror}") from None


def _lines(
    relation: Relation,
    directive: Directive,
    relations: Relations,
    connection: duckdb.DuckDBPyConnection,
) -> Iterator[str]:
    """Give a relation's lines, sorted, as Souffle's CSV writer spells values."""
    if not relation.kinds:
        if _size(relations, relation.name, connection):
            yield "()\n"
        return
    quoting = directive.parameters.get("rfc4180") == "true"
    delimiter = _delimiter(directive)
    result = connection.execute(f"SELECT * FROM {relations.sql(relation.name)} ORDER BY ALL")
    plain = [not (k == "float" or (quoting and k == "symbol")) for k in relation.kinds]
    while rows := result.fetchmany(_BATCH):
        if all(plain):
            yield "\n".join(delimiter.join(map(str, row)) for row in rows) + "\n"
            continue
        for row in rows:
            yield (
                delimiter.join(str(v) if p else _spell(v) for v, p in zip(row, plain, strict=True))
                + "\n"
            )


def _spell(value: float | str) -> str:
    if isinstance(value, str):
        # As Souffle has it: a backslash before a quote, and the quote doubled by nothing else.
        return '"' + value.replace('"', '\\""') + '"'
    return spell_float(value)


def spell_float(value: float) -> str:
    """Spell a float with 17 significant digits, as its CSV writer does."""
    if math.isnan(value):
        return "-nan" if math.copysign(1.0, value) < 0 else "nan"
    return f"{value:.17g}"


def _run_souffle(program: Path, facts: Path, out: Path, define: Mapping[str, str]) -> RunReport:
    command = shutil.which("souffle")
    if command is None:
        raise TensologError("souffle is not on the PATH: install it, or use --engine embedded")
    arguments = [command, "-F", str(facts), "-D", str(out)]
    if define:
        arguments.append("--macro=" + " ".join(f"{k}={v}" for k, v in define.items()))
    done = subprocess.run([*arguments, str(program)], capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        reason = lines[0] if lines else f"exit code {done.returncode}"
        raise TensologError(f"souffle refused {program}: {reason}")
    return RunReport(text=done.stdout, notes=[n for n in done.stderr.splitlines() if n.strip()])


__all__ = ["SQL_TYPE", "RunReport", "explain_file", "read_program", "run_files"]
