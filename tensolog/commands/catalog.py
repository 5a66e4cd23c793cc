"""`tensolog catalog`: what the catalog holds, and models in and out of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from ..printing import echo
from . import completion
from . import options as shared


class TableOrCommand(click.Group):
    """`catalog NAME` shows the table NAME, unless NAME is a subcommand."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Read an unknown subcommand as the name of a table."""
        if args and args[0] not in self.commands:
            args = ["table", *args]
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete a subcommand or the name of a table."""
        tables = completion.named(completion.table_names(), incomplete)
        return [*super().shell_complete(ctx, incomplete), *tables]


@click.group(cls=TableOrCommand, invoke_without_command=True)
@shared.catalog_option
@click.pass_context
def catalog(ctx: click.Context, catalog_path: str | None) -> None:
    """List the tables, or the columns of one table.

    \b
    Examples:
      tensolog catalog
      tensolog catalog measurement
      tensolog catalog import model.onnx
      tensolog catalog export 1 -o model.onnx
      tensolog catalog forget 1
    """
    ctx.obj = catalog_path
    if ctx.invoked_subcommand is None:
        _list_tables(catalog_path)


@catalog.command(name="table", hidden=True)
@click.argument("name", shell_complete=completion.table)
@click.pass_obj
def table(catalog_path: str | None, name: str) -> None:
    """Show the columns of one table: the same as `tensolog catalog NAME`."""
    tables = "SELECT table_name FROM duckdb_tables() WHERE NOT internal ORDER BY ALL"
    query = """
        SELECT column_name AS "column", data_type AS type, coalesce(comment, '') AS meaning
        FROM duckdb_columns() WHERE table_name = ? AND NOT internal ORDER BY column_index"""
    with shared.open_to_read(catalog_path) as opened:
        names = [row[0] for row in opened.sql(tables).fetchall()]
        if name not in names:
            raise click.ClickException(f"there is no table {name!r}: choose of {', '.join(names)}")
        quoted = '"' + name.replace('"', '""') + '"'
        count = opened.sql(f"SELECT count(*) FROM {quoted}").fetchall()[0][0]
        rows = opened.sql(query, [name]).fetchall()
        comments = opened.sql(
            "SELECT comment FROM duckdb_tables() WHERE table_name = ?", [name]
        ).fetchall()
    echo(f"{name}: {comments[0][0] or 'no comment'}")
    click.echo(f"{count} row{'' if count == 1 else 's'}\n")
    _echo_columns([("column", "type", "meaning"), *rows])


@catalog.command(name="import", no_args_is_help=True)
@shared.model_argument
@click.option("--name", help="Name in the catalog.  [default: the file's]")
@click.pass_obj
def import_model(catalog_path: str | None, model: Path, name: str | None) -> None:
    """Read an ONNX model into the catalog and print its model_id.

    \b
    Example:
      tensolog catalog import model.onnx
    """
    from ..catalog import Catalog
    from ..catalog.onnx.reader import read_model

    with Catalog(catalog_path) as opened:
        click.echo(read_model(opened, model, name=name))


@catalog.command(
    name="export", no_args_is_help=True, short_help="Write a model of the catalog as ONNX."
)
@click.argument("model_id", type=int)
@click.option(
    "-o",
    "--output",
    metavar="OUT.onnx",
    required=True,
    type=click.Path(path_type=Path),
    help="Where the model goes; an older file there is replaced.",
)
@click.pass_obj
def export_model(catalog_path: str | None, model_id: int, output: Path) -> None:
    """Write a model of the catalog as ONNX, equal to the one that was imported.

    \b
    Example:
      tensolog catalog export 1 -o model.onnx
    """
    output = shared.output_file(output, content="the model")
    from ..catalog.onnx.writer import write_model

    with shared.open_to_read(catalog_path) as opened:
        shared.refuse_catalog(opened, output)
        write_model(opened, model_id, output)


@catalog.command(name="forget", no_args_is_help=True, short_help="Remove a model and its plans.")
@click.argument("model_id", type=int)
@click.pass_obj
def forget(catalog_path: str | None, model_id: int) -> None:
    """Remove a model, its plans, and the constants that no other model refers to.

    Measurements and rules stay, and so do models made from it. The catalog's file keeps its size,
    to be filled again; the file of large constants beside it goes when no model needs it.

    \b
    Examples:
      tensolog sql "SELECT model_id, name, origin, size_bytes FROM model"
      tensolog catalog forget 1
    """
    shared.open_to_read(catalog_path).close()  # a catalog that is not there must not be made
    from ..catalog import Catalog
    from ..catalog.store.deletion import forget_model
    from ..printing import one_line
    from ..units import format_size

    with Catalog(catalog_path) as opened:
        removed = forget_model(opened, model_id)
    counts = [(removed.nodes, "node"), (removed.plans, "plan"), (removed.constants, "constant")]
    parts = ", ".join(f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in counts)
    name, size = one_line(removed.name), format_size(removed.size_bytes)
    click.echo(f"forgot model {model_id} ({name}): {parts} ({size})")


def _list_tables(catalog_path: str | None) -> None:
    with shared.open_to_read(catalog_path) as opened:
        tables: list[tuple[str, str]] = opened.sql(
            """SELECT table_name, coalesce(comment, '') FROM duckdb_tables()
               WHERE NOT internal AND NOT temporary ORDER BY table_oid"""
        ).fetchall()
        counts = [
            str(opened.sql(f'SELECT count(*) FROM "{name}"').fetchall()[0][0]) for name, _ in tables
        ]
        path = opened.path
    echo(f"{path}\n")
    rows = [(name, count, comment) for (name, comment), count in zip(tables, counts, strict=True)]
    _echo_columns([("table", "rows", "meaning"), *rows], right=(1,))


def _echo_columns(rows: list[Any], right: tuple[int, ...] = ()) -> None:
    from ..summary import columns

    click.echo(columns(rows, right=right, indent=""))
