"""The results as Markdown: who is best beside the fused function, and how far memory's rate is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..rows import table_head, table_row

_OWN = ("cost", "all", "no_redundancy", "read")
_HEADER = (
    "program",
    "threads",
    "fused",
    "NumPy",
    "best other peer",
    "bound",
    "fuse-all",
    "no redundancy",
    "plan",
)


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Write a line for each row. Ratios: how many times longer than the fused function."""
    lines = table_head(_HEADER)
    for row in rows:
        start = [row["program"].replace("|", "\\|"), str(row["threads"])]
        if "error" in row:
            cells = [*start, row["error"], *[""] * (len(_HEADER) - 3)]
        else:
            plan = row.get("templates_cost")
            cells = [
                *start,
                f"{row['cost_ms']:.2f} ms",
                _against(row, "numpy"),
                _best(row),
                _bound(row),
                _heuristic(row, "all"),
                _heuristic(row, "no_redundancy"),
                "" if plan is None else ", ".join(plan) or "NumPy",
            ]
        lines.append(table_row(cells))
    return "\n".join(lines)


def notes(rows: Sequence[dict[str, Any]]) -> str:
    """Say how to read the table, and list what each peer took, and which didn't take part."""
    lines = [
        "Milliseconds are medians; ratios are times over the fused function's of the same round,",
        "so that more than 1 is slower. `bound` is the time of reading the arguments once at the",
        "rate at which one large array is summed, and how many times longer the fused function",
        "takes, where memory is the limit. SystemDS runs in a process of its own. A heuristic with",
        "`=` chose the plan that the costs did: its ratio is the noise of the race.",
        "",
        "| program | threads | peers | not taking part |",
        "|---|---|---|---|",
    ]
    for row in rows:
        if "error" in row:
            continue
        times = [f"{name} {row[f'{name}_ms']:.2f}" for name in _peers(row)]
        modes = row.get("systemds_ms", {})
        times += [f"SystemDS {mode} {took:.2f}" for mode, took in modes.items()]
        absent = [f"{name}: {why}" for name, why in row["missing"].items()]
        program = row["program"].replace("|", "\\|")
        absences = "; ".join(absent).replace("|", "\\|")
        lines.append(f"| {program} | {row['threads']} | {', '.join(times)} | {absences} |")
    return "\n".join(lines)


def _peers(row: dict[str, Any]) -> list[str]:
    names = [key.removesuffix("_ratio") for key in row if key.endswith("_ratio")]
    return [name for name in names if name not in (*_OWN, "numpy")]


def _against(row: dict[str, Any], name: str) -> str:
    return f"{row[f'{name}_ratio']:.2f} ({row[f'{name}_ms']:.2f} ms)"


def _heuristic(row: dict[str, Any], name: str) -> str:
    return f"{row[f'{name}_ratio']:.2f}{' =' if row.get(f'same_{name}') else ''}"


def _best(row: dict[str, Any]) -> str:
    peers = _peers(row)
    if not peers:
        return ""
    best = min(peers, key=lambda name: row[f"{name}_ratio"])
    return f"{best} {_against(row, best)}"


def _bound(row: dict[str, Any]) -> str:
    if not row.get("bound"):
        return ""
    bound_ms = 1e3 * row["bytes"] / row["bytes_per_s"]
    return f"{bound_ms:.2f} ms, {row['cost_ms'] / bound_ms:.2f}"
