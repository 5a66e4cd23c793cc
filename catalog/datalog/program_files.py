"""Programs and relations as files: what `souffle -F facts -D out program.dl` does."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import duckdb

from ..errors import TensologError
from ..files import replacing
from ..interruption import endable
from .fact_files import delimiter_of, read_facts
from .language.parser import parse_block
from .language.structures import decode, spell, spell_float
from .language.syntax import DatalogError, Directive, Expression, Functor, Number, String
from .limits import DEFAULT_LIMITS, Limits
from .memory.program_plans import database_only
from .memory.why import Reasons, Why
from .program import Program, parse
from .sql.engine import Relations, evaluate, explain, needed
from .steps import Relation, Row, quoted

_BATCH = 50_000


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
    limits: Limits = DEFAULT_LIMITS,
) -> RunReport:
    """Run a program file on a folder of facts and write its outputs into a folder.

    `engine` is "embedded" or "souffle" (the command of that name, on the PATH), which knows no
    `limits`. Raises TensologError for files that can't be read or written, DatalogError for the
    program and for limits that are reached.
    """
    if engine == "souffle":
        return _run_souffle(Path(program), Path(facts), Path(out), define or {})
    if engine != "embedded":
        raise TensologError(f"unknown engine {engine!r}: use embedded or souffle")
    parsed = read_program(program, define)
    for directive in (*chain.from_iterable(parsed.inputs.values()), *parsed.outputs):
        check_parameters(directive)
    needed_relations = {d.relation for d in (*parsed.outputs, *parsed.printsizes)}
    relevant = needed(parsed, needed_relations)
    report = RunReport(notes=list(parsed.notes))
    with duckdb.connect(":memory:") as connection:
        endable(connection, duckdb.DuckDBPyConnection.interrupt)
        inputs = _inputs(parsed, relevant, Path(facts), connection)
        relations = evaluate(
            parsed, connection, inputs=inputs, only=needed_relations, limits=limits
        )
        pieces: list[str] = []
        for directive in (*parsed.outputs, *parsed.printsizes):
            _write(parsed, directive, relations, connection, Path(out), report, pieces)
        report.text = "".join(pieces)
    return report


def _inputs(
    program: Program,
    needed_relations: Collection[str],
    folder: Path,
    connection: duckdb.DuckDBPyConnection,
) -> dict[str, str]:
    """Read the facts of some relations, and return queries of them."""
    inputs: dict[str, str] = {}
    for name, directives in program.inputs.items():
        if name in needed_relations:
            tables = [quoted(f"file:{len(inputs)}:{i}") for i in range(len(directives))]
            for directive, table in zip(directives, tables, strict=True):
                relation = program.relations[name]
                read_facts(relation, directive, folder, table, connection, program.structures)
            inputs[name] = " UNION ALL ".join(f"SELECT * FROM {table}" for table in tables)
    return inputs


def why_in_files(
    program: str | Path,
    row: str,
    facts: str | Path = ".",
    define: Mapping[str, str] | None = None,
) -> Why:
    """Say why a row holds or doesn't in a program file on a folder of facts (memory/why.py).

    `row` is spelled as a fact. Raises what `run_files` raises, and TensologError for what is no row
    of constants, and for a program that can't be evaluated in memory.
    """
    parsed = read_program(program, define)
    relation, values = _row(parsed, row)
    refusal = database_only(parsed)
    if refusal is not None:
        raise TensologError(f"{program}: no reasons are known of {refusal}; run it instead")
    with duckdb.connect(":memory:") as connection:
        endable(connection, duckdb.DuckDBPyConnection.interrupt)
        inputs = _inputs(parsed, parsed.relations.keys(), Path(facts), connection)
        relations = evaluate(parsed, connection, inputs=inputs)
        rows = {
            name: connection.execute(f"SELECT * FROM {relations.sql(name)}").fetchall()
            for name in parsed.relations
        }
    return Reasons(parsed, rows).why(relation, values)


def _row(program: Program, text: str) -> tuple[str, Row]:
    """Read a row that is spelled as a fact."""
    clauses = parse_block(f"{text.strip().removesuffix('.')}.", "<row>").clauses
    if len(clauses) != 1 or clauses[0].body:
        raise TensologError(f'{text} is no row: write it as a fact, reaches("a", "b")')
    head = clauses[0].head
    relation = program.relations.get(head.name)
    if relation is None:
        raise TensologError(f"{program.path} has no relation {head.name}")
    plain = {"number": int, "unsigned": int, "float": float, "symbol": str}
    values = [_constant(argument) for argument in head.arguments]
    if len(values) != len(relation.kinds) or None in values:
        columns = ", ".join(relation.kinds)
        raise TensologError(f"{text} is no row of {relation.name}({columns}): give each a constant")
    if any(kind not in plain for kind in relation.kinds):
        raise TensologError(f"no reasons are known of rows with records, as in {relation.name}")
    typed_values = zip(values, relation.kinds, strict=True)
    if not all(_is_of(value, kind) for value, kind in typed_values):
        raise TensologError(f"{text} is no row of {relation.name}({', '.join(relation.kinds)})")
    return relation.name, tuple(plain[k](v) for v, k in zip(values, relation.kinds, strict=True))


def _is_of(value: float | str | None, kind: str) -> bool:
    """Tell whether a constant is one of a kind: no fraction is a whole number."""
    if isinstance(value, str) or kind == "symbol":
        return isinstance(value, str) and kind == "symbol"
    return kind == "float" or isinstance(value, int)


def _constant(argument: Expression) -> int | float | str | None:
    """Return what a constant is, a negative number too; None for anything else."""
    if isinstance(argument, Functor) and argument.name == "neg":
        value = _constant(argument.arguments[0])
        return -value if isinstance(value, int | float) else None
    return argument.value if isinstance(argument, Number | String) else None


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
        header = parameters.get("attributeNames", delimiter_of(directive).join(labels)) + "\n"
    lines = _lines(program, relation, directive, relations, connection)
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
    program: Program,
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
    delimiter = delimiter_of(directive)
    result = connection.execute(f"SELECT * FROM {relations.sql(relation.name)} ORDER BY ALL")
    plain = [k in ("number", "unsigned") or (k == "symbol" and not quoting) for k in relation.kinds]

    def spelled(value: int | float | str, kind: str) -> str:
        if kind in program.structures:
            return _spell_structure(str(value), kind, program, quoting)
        return _spell(value)

    while rows := result.fetchmany(_BATCH):
        if all(plain):
            yield "\n".join(delimiter.join(map(str, row)) for row in rows) + "\n"
            continue
        for row in rows:
            yield (
                delimiter.join(
                    str(v) if p else spelled(v, k)
                    for v, p, k in zip(row, plain, relation.kinds, strict=True)
                )
                + "\n"
            )


def _spell(value: int | float | str) -> str:
    if isinstance(value, str):
        # As Souffle has it: a backslash before a quote, and the quote doubled by nothing else.
        return '"' + value.replace('"', '\\""') + '"'
    return spell_float(value)


def _spell_structure(text: str, kind: str, program: Program, quoting: bool) -> str:
    """Spell a record or branch; with quotes around it and around its symbols where asked."""

    def symbol(value: str) -> str:
        return '""' + value.replace('"', '\\""') + '""' if quoting else value

    value = decode(text, kind, program.structures)
    spelled = spell(value, kind, program.structures, symbol)
    return f'"{spelled}"' if quoting else spelled


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


__all__ = ["RunReport", "explain_file", "read_program", "run_files"]
