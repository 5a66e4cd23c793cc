"""An Arrow table as text in aligned columns."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from .summary import columns

if TYPE_CHECKING:
    import pyarrow as pa

# Imported within functions: pyarrow, where a table is printed.

WIDEST_LINE = 120


def table_text(result: pa.Table) -> str:
    """Header, rule, rows, and the number of rows; long lines are cut (other formats keep them)."""
    import pyarrow as pa

    numeric = [
        index
        for index, field in enumerate(result.schema)
        if pa.types.is_integer(field.type)
        or pa.types.is_floating(field.type)
        or pa.types.is_decimal(field.type)
    ]
    rows = [[str(name) for name in result.column_names]]
    for batch in result.to_batches():
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            # A cell of several lines, such as a rule's text, takes several lines of the table.
            rows += map(list, zip_longest(*(_cell(value) for value in row), fillvalue=""))
    lines = columns(rows, right=numeric, indent="").split("\n")
    lines.insert(1, "─" * max(len(line) for line in lines))
    count = result.num_rows
    return "\n".join([*lines, f"({count} row{'' if count == 1 else 's'})"]) + "\n"


def _cell(value: object) -> list[str]:
    """Lines of one value; at least one."""
    match value:
        case None:
            text = ""
        case bool():
            text = str(value).lower()
        case float():
            text = f"{value:.6g}" if abs(value) < 1e15 else repr(value)
        case bytes():
            text = value[:WIDEST_LINE].hex()
        case _:
            text = str(value)
    return [
        line if len(line) <= WIDEST_LINE else line[: WIDEST_LINE - 1] + "…"
        for line in text.split("\n")
    ]
