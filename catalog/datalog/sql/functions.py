"""Functions of Python that queries call: for patterns and ranges, and functors of users."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import duckdb

from ...terms.syntax_tree import Place
from ..language.syntax import DatalogError
from .expressions import PATTERN_FUNCTION, RANGE_FUNCTION, functor_function, sql_type
from .patterns import translated_or_none


@dataclass(frozen=True)
class FunctorType:
    """A declared functor: the kinds that it takes and the one that it gives."""

    name: str
    parameters: tuple[str, ...]
    result: str
    position: Place


def counted_floats(start: float, end: float, step: float) -> list[float]:
    """Count from a float up or down to another, left out; no step gives the first alone."""
    if step == 0:
        return [] if start == end else [start]
    values = []
    value = start
    while value < end if step > 0 else value > end:
        values.append(value)
        if value + step == value:
            raise ValueError(f"range from {start} to {end} by {step} has no end")
        value += step
    return values


Function = tuple[Callable[..., object], list[str], str]  # with the SQL types it takes and gives
OURS: Mapping[str, Function] = {
    PATTERN_FUNCTION: (translated_or_none, ["VARCHAR"], "VARCHAR"),
    RANGE_FUNCTION: (counted_floats, ["DOUBLE"] * 3, "DOUBLE[]"),
}


@contextmanager
def registered(
    connection: duckdb.DuckDBPyConnection,
    types: Mapping[str, FunctorType],
    called: Mapping[str, Place],
    functors: Mapping[str, Callable[..., object]],
    ours: Mapping[str, Function] = OURS,
) -> Iterator[None]:
    """Let queries call what a program calls; raises DatalogError for a functor that isn't given."""
    created: list[str] = []
    try:
        for name, position in called.items():
            if name in ours and name not in types:
                _register(connection, name, *ours[name])
                created.append(name)
                continue
            if name not in functors:
                raise DatalogError.at(
                    position,
                    f"the functor {name} is declared, but not given: evaluate(..., functors="
                    f"{{{name!r}: a function}}) does, the command can't",
                )
            kinds = types[name]
            parameters = [sql_type(kind) for kind in kinds.parameters]
            function = functor_function(name)
            _register(connection, function, functors[name], parameters, sql_type(kinds.result))
            created.append(function)
        yield
    finally:
        for function in created:
            connection.remove_function(function)


def _register(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    function: Callable[..., object],
    parameters: list[str],
    result: str,
) -> None:
    def called(*arguments: Any) -> Any:
        return function(*arguments)

    # DuckDB reads the signature, and a user's function may have another or none.
    places = [
        inspect.Parameter(f"p{i}", inspect.Parameter.POSITIONAL_ONLY)
        for i in range(len(parameters))
    ]
    called.__signature__ = inspect.Signature(places)  # type: ignore[attr-defined]
    # Only what is ours gives NULL.
    options: dict[str, Any] = {}
    if function is translated_or_none:
        options["null_handling"] = "special"
    connection.create_function(
        name,
        called,
        [duckdb.sqltype(kind) for kind in parameters],
        duckdb.sqltype(result),
        **options,
    )
