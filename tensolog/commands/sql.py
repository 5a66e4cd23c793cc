"""`tensolog sql`: any query on the catalog, in four formats."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..printing import echo
from . import options as shared

if TYPE_CHECKING:
    import pyarrow as pa


@click.command(no_args_is_help=True)
@click.argument("query")
@click.option("--write", is_flag=True, help="Let the query change the catalog.")
@click.option(
    "--allow-files",
    is_flag=True,
    help="Let the query read other files, and write them with --write.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "json", "parquet"]),
    help="How rows are written.  [default: by the ending of -o FILE, else table]",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write to a file instead of standard output.",
)
@shared.catalog_option
def sql(
    query: str,
    write: bool,
    allow_files: bool,
    form: str | None,
    output: Path | None,
    catalog_path: str | None,
) -> None:
    """Run a query on the catalog.

    Models, rules, costs, plans and reasons are its rows; `tensolog catalog` lists its tables.
    QUERY is DuckDB's SQL; `-` reads it from standard input. Without --write it changes nothing,
    and without --allow-files it reaches no file but the catalog, whoever made that.

    \b
    Examples:
      tensolog sql "SELECT name, equal, summary FROM rule ORDER BY name"
      tensolog sql "SELECT op_type, count(*) FROM node GROUP BY ALL" --format csv
      tensolog sql "FROM measurement" -o measurements.parquet
      tensolog sql "DELETE FROM measurement WHERE runtime_version < '1.20'" --write
      tensolog sql "SELECT * FROM model JOIN 'owners.csv' USING (name)" --allow-files
    """
    form = form or _form(output)
    if output is not None:
        output = shared.output_file(output, content="the result")
    elif form == "parquet":
        raise click.UsageError("parquet is not text: name a file with -o FILE")
    if query == "-":
        query = sys.stdin.read()

    from ..catalog import Catalog
    from ..catalog.store.queries import query as run_query

    if write:
        opened = Catalog(catalog_path, allow_files=allow_files)
    else:
        opened = shared.open_to_read(catalog_path, allow_files=allow_files)
    with opened as catalog:
        shared.refuse_catalog(catalog, output)
        result = run_query(catalog, query, write=write)
    if result is None or (not result.num_rows and result.column_names in (["Count"], ["Success"])):
        return  # a statement without a result, such as CREATE or DROP
    if output is not None:
        _write(result, form, output)
    elif form == "table":
        from ..table import table_text

        click.echo(table_text(result), nl=False)
    elif form == "json":
        shared.print_json(result.to_pylist())
    elif sys.stdout.isatty():
        echo(_csv(result), nl=False)
    else:
        sys.stdout.write(_csv(result))  # click would leave escape sequences out


def _form(output: Path | None) -> str:
    ending = output.suffix.lstrip(".").lower() if output is not None else ""
    return ending if ending in ("csv", "json", "parquet") else "table"


def _write(result: pa.Table, form: str, output: Path) -> None:
    """Write the whole file or none of it."""
    from ..catalog.files import replacing

    with replacing(output) as file:
        if form == "parquet":
            from pyarrow import parquet

            parquet.write_table(result, file)
        elif form == "csv":
            file.write(_csv(result).encode())
        elif form == "json":
            from ..json_text import json_text

            file.write((json_text(result.to_pylist()) + "\n").encode())
        else:
            from ..table import table_text

            file.write(table_text(result).encode())


def _csv(result: pa.Table) -> str:
    """RFC 4180 with a header; NULL is empty, lists and structs are JSON."""
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(result.column_names)
    for batch in result.to_batches():
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            writer.writerow([_csv_cell(value) for value in row])
    return text.getvalue()


def _csv_cell(value: object) -> object:
    import json

    from ..json_text import plain

    match value:
        case bool():
            return str(value).lower()
        case float():  # CSV, unlike JSON, can say nan
            return value
        case list() | dict():
            return json.dumps(plain(value))
    return plain(value)
