"""Options and argument types that several commands share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ..catalog import Catalog

EQUALITIES = ("exact", "rounding")


class InputShape(click.ParamType):
    """`name=1,3,224,224` as (name, (1, 3, 224, 224)); the name may itself hold `=`."""

    name = "name=d,d,…"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, tuple[int, ...]]:
        """Split at the last `=`; every dimension is an integer of at least 1."""
        if isinstance(value, tuple):
            return value
        name, equals, sizes = str(value).rpartition("=")
        if not equals or not name:
            self.fail(f"{value!r} is not of the form name=1,3,224,224", param, ctx)
        try:
            shape = tuple(int(size) for size in sizes.replace("x", ",").split(","))
        except ValueError:
            self.fail(f"{sizes!r} in {value!r} is not a list of integers", param, ctx)
        if min(shape) < 1:
            self.fail(f"{value!r}: every dimension must be at least 1", param, ctx)
        return name, shape


class Allowed(click.ParamType):
    """`exact,rounding` as ("exact", "rounding")."""

    name = "list"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Split at commas; each word is one of `EQUALITIES`."""
        if isinstance(value, tuple):
            return value
        words = tuple(word.strip() for word in str(value).split(",") if word.strip())
        for word in words:
            if word not in EQUALITIES:
                self.fail(f"{word!r} is none of {', '.join(EQUALITIES)}", param, ctx)
        if not words:
            self.fail(f"name at least one of {', '.join(EQUALITIES)}", param, ctx)
        return words


FILE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)

model_argument = click.argument("model", metavar="IN.onnx", type=FILE)

catalog_option = click.option(
    "--catalog",
    "catalog_path",
    metavar="PATH",
    help="Catalog file, or :memory: to keep nothing.  "
    "[default: $TENSOLOG_CATALOG, else in the user's data folder]",
)
threads_option = click.option(
    "--threads",
    type=click.IntRange(min=1),
    metavar="N",
    help="Threads the model will run with.  [default: all cores]",
)
budget_option = click.option(
    "--budget",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    default=20.0,
    show_default=True,
    help="Time for measuring.",
)
target_option = click.option(
    "--target",
    type=click.Choice(["onnxruntime-cpu", "onnx"]),
    default="onnxruntime-cpu",
    show_default=True,
    help="'onnx' keeps to standard operators; 'onnxruntime-cpu' may use its own as well.",
)
allow_option = click.option(
    "--allow",
    type=Allowed(),
    default="exact,rounding",
    show_default=True,
    help="Substitutions by how equal they are: bit for bit, or up to rounding.",
)
input_shape_option = click.option(
    "--input-shape",
    "input_shapes",
    type=InputShape(),
    multiple=True,
    help="Size to measure a dynamic input at; the model stays dynamic. Repeat per input.",
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object on standard output."
)


def distinct_shapes(shapes: tuple[tuple[str, tuple[int, ...]], ...]) -> dict[str, tuple[int, ...]]:
    """Collect repeated --input-shape options; naming an input twice is a mistake."""
    collected: dict[str, tuple[int, ...]] = {}
    for name, shape in shapes:
        if collected.setdefault(name, shape) != shape:
            raise click.UsageError(f"--input-shape names {name!r} twice, with different sizes")
    return collected


@contextmanager
def on_interrupt(state: str) -> Iterator[None]:
    """Have an interrupt of the block say `state`; what an inner block says goes first."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        interrupt.add_note(state)
        raise


def check_output(path: Path, *, what: str) -> None:
    """Refuse a path that can't be written, before any work is done."""
    folder = path.parent
    if not folder.is_dir():
        raise click.ClickException(f"{folder} is not a folder: make it first, then write {what}")
    if path.is_dir():
        raise click.ClickException(f"{path} is a folder: name a file for {what}")
    if not os.access(folder, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise click.ClickException(f"{path} can't be written: permission denied")


def open_to_read(catalog_path: str | None) -> Catalog:
    """Open a catalog for queries. The user's own is made on first use; a named one must exist."""
    from ..catalog import Catalog
    from ..catalog.store import default_path

    if catalog_path is None and not default_path().exists():
        Catalog().close()
    return Catalog(catalog_path, read_only=True)
