"""An Arrow table as text in aligned columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .summary import columns

if TYPE_CHECKING:
    import pyarrow as pa

WIDEST_CELL = 100


def table_text(result: pa.Table) -> str:
    """Header, rule, rows, and the number of rows; long cells are cut (other formats keep them)."""
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
            rows.append([_cell(value) for value in row])
    lines = columns(rows, right=numeric, indent="").split("\n")
    lines.insert(1, "─" * max(len(line) for line in lines))
    count = result.num_rows
    return "\n".join([*lines, f"({count} row{'' if count == 1 else 's'})"]) + "\n"


def _cell(value: object) -> str:
    match value:
        case None:
            return ""
        case float():
            text = f"{value:.6g}" if abs(value) < 1e15 else repr(value)
        case bytes():
            text = value[: WIDEST_CELL // 2 + 1].hex()
        case bool():
            text = str(value).lower()
        case _:
            text = str(value)
    # Cut before control characters are escaped: a rule's text has many lines.
    text = text.replace("\n", "⏎")
    return text if len(text) <= WIDEST_CELL else text[: WIDEST_CELL - 1] + "…"
