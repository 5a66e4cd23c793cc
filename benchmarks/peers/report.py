"""The contest's rows as a table, and as a plot where matplotlib is installed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..rows import table_head, table_row, write_rows
from ..zoo import SECOND
from . import PEERS, REFERENCE, TARGETS, WORTH

# Outputs off by more than this, relative to their scale, are called wrong instead of fast.
WRONG = 1e-2
# A race of fewer rounds tells nothing: the first runs of a session are slower than the others.
LEAST_ROUNDS = 5
# Two ratios this near are a tie.
TIE = 1.02


def tells(row: dict[str, Any]) -> bool:
    """Whether a row is the result of a race, with enough rounds."""
    return "laps" in row and all(lap["rounds"] >= LEAST_ROUNDS for lap in row["laps"].values())


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Write rows as Markdown: the reference's time, each peer's ratio; the best one is bold.

    Ratios of tensolog's have their interval, and each of its targets a column of the seconds that
    optimizing took, where rows have them.
    """
    peers = [name for name in PEERS if any(name in row.get("laps", ()) for row in rows)]
    timed = [name for name in TARGETS if any(name in row.get("seconds", ()) for row in rows)]
    head = ["model", "from", "threads", *peers, *(f"{name}: seconds" for name in timed)]
    lines = table_head(head)
    for row in rows:
        start = [row["name"], row["source"], str(row["threads"])]
        if "error" in row:
            empty = [""] * (len(head) - len(start) - 1)
            lines.append("| " + " | ".join([*start, row["error"], *empty]) + " |")
            continue
        right = [name for name, lap in row["laps"].items() if lap["deviation"] <= WRONG]
        best = min(right, key=lambda name: float(row["laps"][name]["ratio"])) if tells(row) else ""
        seconds = [row.get("seconds", {}).get(name) for name in timed]
        cells = [_cell(row, peer, best) for peer in peers]
        cells += ["–" if spent is None else f"{spent:.0f}" for spent in seconds]
        lines.append(table_row([*start, *cells]))
    lines += ["", *_means(rows, peers), *_ahead(rows, peers)]
    failures = [
        f"| {row['name']} | {row['source']} | {row['threads']} | {peer} | {_plain(why)} |"
        for row in rows
        for peer, why in row.get("refused", {}).items()
    ]
    if failures:
        lines += ["", "| model | from | threads | left out | why |", "|---" * 5 + "|", *failures]
    return "\n".join(lines)


def _plain(text: str) -> str:
    """Keep a foreign message from ending a cell of the table."""
    return text.replace("|", "/").replace("`", "'")


def _cell(row: dict[str, Any], peer: str, best: str) -> str:
    lap = row["laps"].get(peer)
    if lap is None:
        return "–"
    if lap["deviation"] > WRONG:
        return f"wrong ({lap['deviation']:.0e})"
    text = f"{lap['ratio']:.2f}"
    if peer in row.get("kept", ()):
        text += " ="
    elif peer in TARGETS and "ratio_low" in lap:
        text += f" [{lap['ratio_low']:.2f}, {lap['ratio_high']:.2f}]"
    if peer == REFERENCE:
        text = f"{lap['median_ns'] / 1e6:.2f} ms"
    return f"**{text}**" if peer == best else text if tells(row) else f"{text}?"


def _means(rows: Sequence[dict[str, Any]], peers: Sequence[str]) -> list[str]:
    lines = []
    for threads in sorted({row["threads"] for row in rows}, reverse=True):
        for peer in peers:
            ratios = [
                row["laps"][peer]["ratio"]
                for row in rows
                if row["threads"] == threads
                and tells(row)
                and peer in row["laps"]
                and row["laps"][peer]["deviation"] <= WRONG
            ]
            if ratios and peer != REFERENCE:
                mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
                count = f"{threads} thread" + "s" * (threads != 1)
                mean_text = f"geometric mean {mean:.3f} over {len(ratios)} races"
                lines.append(f"- {peer}: {mean_text}, {count}")
    return lines


def _ahead(rows: Sequence[dict[str, Any]], peers: Sequence[str]) -> list[str]:
    """In how many races each of tensolog's targets is at or ahead of each other optimizer."""
    lines = []
    for ours in (name for name in TARGETS if name in peers):
        for peer in (name for name in peers if name != REFERENCE and name not in TARGETS):
            races = [
                {name: row["laps"][name]["ratio"] for name in (ours, peer)}
                for row in rows
                if tells(row)
                and {ours, peer} <= row["laps"].keys()
                and row["laps"][peer]["deviation"] <= WRONG
            ]
            count = sum(ratios[ours] <= TIE * ratios[peer] for ratios in races)
            if races:
                lines.append(
                    f"- {ours}: at or ahead of {peer} (within {TIE - 1:.0%}) in {count} of"
                    f" {len(races)} races in which its outputs are right"
                )
    return lines


def write_results(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Write JSON, Markdown and, if it can be drawn, the plot; each whole or not at all.

    Rows are in the order in which a run takes them, whenever they were measured.
    """
    order = [*WORTH, *SECOND]
    rows = sorted(rows, key=lambda row: (-row["threads"], order.index(row["name"])))
    explained = (
        "Time over ONNX Runtime's full optimization (its time is given), all of a row in one"
        " interleaved race; below 1 is faster; the best that computes the same is bold. A question"
        f" mark: fewer than {LEAST_ROUNDS} rounds, which tells nothing; a longer `--race` does."
        " `=`: tensolog kept the original, so that the ratio is the noise of the race."
    )
    second = all(row["name"] in SECOND for row in rows)
    head = f"# Peers\n\n`python -m benchmarks.peers{' --second' if second else ''}`"
    write_rows(path, rows, head, f"{explained}\n\n{table(rows)}")
    draw(rows, path.with_suffix(".svg"))


def draw(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw each race as a row of points, one a peer; nothing where matplotlib is missing."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        return
    matplotlib.use("svg")
    from matplotlib import pyplot

    raced = [row for row in rows if tells(row)]
    peers = [name for name in PEERS if any(name in row["laps"] for row in raced)]
    figure, axes = pyplot.subplots(figsize=(8, 1 + 0.3 * len(raced)))
    for number, peer in enumerate(peers):
        points = [
            (row["laps"][peer]["ratio"], place)
            for place, row in enumerate(raced)
            if peer in row["laps"] and row["laps"][peer]["deviation"] <= WRONG
        ]
        ours = peer in TARGETS
        axes.scatter(
            [ratio for ratio, _ in points],
            [place for _, place in points],
            label=peer,
            marker="D" if ours else "o",
            s=45 if ours else 20,
            color="black" if peer == "tensolog" else "red" if ours else f"C{number % 10}",
            zorder=3 if ours else 2,
        )
    axes.axvline(1.0, color="grey", linewidth=0.8)
    axes.set_yticks(range(len(raced)), [f"{row['name']}, {row['threads']} thr." for row in raced])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("time / ONNX Runtime, full optimization")
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    temporary = path.with_name(path.name + ".part")
    figure.savefig(temporary, format="svg", bbox_inches="tight")
    temporary.replace(path)
    pyplot.close(figure)
