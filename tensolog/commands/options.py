"""Options and argument types that several commands share."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from . import completion

if TYPE_CHECKING:
    from ..catalog import Catalog

F = TypeVar("F", bound=Callable[..., Any])

EQUALITIES = ("exact", "rounding", "finite_math")
_MOST_NUMBERS = 2**48


class _Seconds(click.FloatRange):
    """A time. NaN is none: it is neither before nor after anything."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        seconds: float = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail("nan is no number of seconds.", param, ctx)
        return seconds


SECONDS = _Seconds(min=0)
SECONDS_ABOVE_0 = _Seconds(min=0, min_open=True)

Shapes = dict[str, tuple[int, ...]]


def _shapes(_: click.Context, option: click.Parameter, values: tuple[str, ...]) -> Shapes:
    """Read `name=1,3,224,224`, repeated; the name may itself hold `=`."""
    shapes: Shapes = {}
    for value in values:
        name, equals, sizes = value.rpartition("=")
        if not equals or not name:
            raise click.BadParameter(f"{value!r} is not of the form name=1,3,224,224", param=option)
        try:
            shape = tuple(int(size) for size in sizes.replace("x", ",").split(","))
        except ValueError:
            raise click.BadParameter(
                f"{sizes!r} in {value!r} is not a list of integers", param=option
            ) from None
        if min(shape) < 1:
            raise click.BadParameter(f"{value!r}: every dimension must be at least 1", param=option)
        if math.prod(shape) > _MOST_NUMBERS:
            raise click.BadParameter(f"{value!r}: no memory holds so many numbers", param=option)
        if shapes.setdefault(name, shape) != shape:
            raise click.BadParameter(f"{name!r} is given twice, with two shapes", param=option)
    return shapes


def _classes(_: click.Context, option: click.Parameter, value: str) -> tuple[str, ...]:
    """Read `exact,rounding`."""
    words = tuple(word.strip() for word in value.split(",") if word.strip())
    for word in words:
        if word not in EQUALITIES:
            raise click.BadParameter(f"{word!r} is none of {', '.join(EQUALITIES)}", param=option)
    if not words:
        raise click.BadParameter(f"name at least one of {', '.join(EQUALITIES)}", param=option)
    return words


FILE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)

SHIPPED = "shipped"


class _Costs(click.Path):
    """A model of costs: a file, or the word for what ships."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return SHIPPED if value == SHIPPED else str(super().convert(value, param, ctx))


COSTS = _Costs(exists=True, dir_okay=False, readable=True)

model_argument = click.argument("model", metavar="IN.onnx", type=FILE)

catalog_option = click.option(
    "--catalog",
    "catalog_path",
    metavar="PATH",
    shell_complete=completion.file,
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
    type=SECONDS,
    metavar="SECONDS",
    default=30.0,
    show_default=True,
    help="Time for measuring.",
)
target_option = click.option(
    "--target",
    type=click.Choice(["auto", "onnxruntime-cpu", "onnxruntime-cpu+kernels", "onnx"]),
    default="auto",
    show_default=True,
    help="'onnx' keeps to standard operators; 'onnxruntime-cpu' may use ONNX Runtime's own as "
    "well; with '+kernels' fused ones come as a library of native code. 'auto': with kernels where "
    "there is a C compiler, else without.",
)
allow_option = click.option(
    "--allow",
    metavar="LIST",
    callback=_classes,
    shell_complete=completion.one_of(*EQUALITIES),
    default="exact,rounding",
    show_default=True,
    help="Substitutions by how equal they are: bit for bit, or up to rounding; with finite_math "
    "NaN and infinities may come out otherwise.",
)
input_shape_option = click.option(
    "--input-shape",
    "input_shapes",
    metavar="NAME=D,D,…",
    multiple=True,
    callback=_shapes,
    help="Size to measure a dynamic input at; the model stays dynamic. Repeat per input.",
)


def jobs_option_of(nouns: str) -> Callable[[F], F]:
    """Return the option of how many to prove at a time."""
    return click.option(
        "--jobs",
        type=click.IntRange(min=1),
        metavar="N",
        help=f"{nouns} to prove at a time.  [default: all cores]",
    )


jobs_option = jobs_option_of("Rules")


def timeout_option(purpose: str) -> Callable[[F], F]:
    """Return the option of the seconds for one thing."""
    return click.option(
        "--timeout",
        type=SECONDS_ABOVE_0,
        metavar="S",
        default=20.0,
        show_default=True,
        help=f"Time {purpose}.",
    )


json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object on standard output."
)


quiet_option = click.option("-q", "--quiet", is_flag=True, help="No progress.")


def print_json(value: object) -> None:
    """Print one JSON object, or a list; dataclasses as objects of their fields."""
    from ..json_text import json_text

    click.echo(json_text(value))


def output_file(path: Path, *, content: str, may_be_folder: bool = False) -> Path:
    """Refuse a path that can't be written, before any work is done.

    Of a symbolic link it gives what is behind: that is replaced, not the link.
    """
    if path.is_symlink():
        path = Path(os.path.realpath(path))
        if path.is_symlink():
            raise click.ClickException(f"{path} is a link that leads back to itself")
    folder = path.parent
    if not folder.is_dir():
        raise click.ClickException(f"{folder} is not a folder: make it first, then write {content}")
    if path.is_dir() and not may_be_folder:
        raise click.ClickException(f"{path} is a folder: name a file for {content}")
    if path.exists() and not (
        path.is_file() or path.is_dir()
    ):  # a device would be replaced, not written to
        raise click.ClickException(f"{path} is no regular file: name another for {content}")
    if not os.access(folder, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise click.ClickException(f"{path} can't be written: {_refusal(folder)}")
    return path


def _refusal(folder: Path) -> str:
    """Return why nothing can be written into a folder."""
    read_only = hasattr(os, "statvfs") and os.statvfs(folder).f_flag & os.ST_RDONLY
    return "its file system is read-only" if read_only else "permission denied"


def refuse_catalog(catalog: Catalog, *outputs: Path | None) -> None:
    """Refuse to write a result over the catalog that it comes from."""
    itself = Path(catalog.home).resolve()
    if any(output is not None and output.resolve() == itself for output in outputs):
        raise click.ClickException(f"{catalog.home} is a catalog: name another file")


def open_to_read(catalog_path: str | None, *, allow_files: bool = False) -> Catalog:
    """Open a catalog for queries. The user's own is made on first use; a named one must exist.

    What runs have left beside it joins it first. One in memory is empty, and nobody else's: it
    needs no protection.
    """
    from ..catalog import Catalog, CatalogError
    from ..catalog.store.catalog import default_path
    from ..catalog.store.staging import has_staged

    path = default_path() if catalog_path is None else Path(catalog_path)
    if catalog_path is None and not path.exists():
        Catalog().close()
    if path.exists() and has_staged(path):
        with contextlib.suppress(CatalogError):  # held by another, or not ours: seen below
            Catalog(path, patience_s=0.0).close()
    read_only = catalog_path != ":memory:"
    return Catalog(catalog_path, read_only=read_only, allow_files=allow_files)
