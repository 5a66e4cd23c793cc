"""The summary of an optimization as text; its input is `optimizer/report/schema.py`'s Summary."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .printing import one_line
from .units import format_size, format_speedup, format_spread, format_time

if TYPE_CHECKING:
    from .optimizer.report.schema import Candidate, Deviation, Step, Summary

TOP_OPERATORS = 8
SHOWN_STEPS = 12
SHOWN_LEFT = 5
FEW_ROUNDS = 5  # fewer give no interval worth showing


def summary_text(summary: Summary, source: str, target: str) -> str:
    """Lay out a summary for a terminal of 80 columns or more; `source` and `target` are paths."""
    parts = [
        _headline(summary, source, target),
        _applied(summary.get("steps", [])),
        _weighed_rules(summary.get("steps", [])),
        _operators(summary),
        _deviations(summary.get("deviations", []), summary["chosen"]),
        _candidates(summary.get("candidates", [])),
    ]
    return "\n\n".join([*filter(None, parts), f"{summary['verdict']}\n"])


def files_text(written: str, files: Sequence[str], *, is_folder: bool) -> str:
    """Say what was written where, where that is not the one file that was named."""
    if not is_folder:
        return ""
    names = ", ".join(Path(file).name for file in files)
    return one_line(f"Written: the folder {written} ({names}); move it as a whole.") + "\n"


def kernels_text(summary: Summary, source: str, target: str) -> str:
    """Say what leaving native kernels out loses, and the command that has them; "" if they are in.

    `source` and `target` are paths.
    """
    choice = summary.get("target")
    if choice is None or not choice["advice"]:
        return ""
    words = [choice["install"]] if choice["install"] else []
    words.append(shlex.join(["tensolog", "optimize", source, "-o", target]))
    return f"{choice['advice']}\n  {one_line(' && '.join(words))}\n"


def columns(rows: Iterable[Sequence[str]], right: Sequence[int] = (), indent: str = "  ") -> str:
    """Align cells in columns; those in `right` to the right. The last column is never padded."""
    cells = [[one_line(cell) for cell in row] for row in rows]
    if not cells:
        return ""
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    lines = []
    for row in cells:
        padded = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(indent + "  ".join(padded).rstrip())
    return "\n".join(lines)


def _headline(summary: Summary, source: str, target: str) -> str:
    options = summary.get("options", {})
    conditions = [str(options[key]) for key in ("target",) if key in options]
    if "threads" in options:
        conditions.append(f"{options['threads']} thread" + "s" * (options["threads"] != 1))
    if device := summary.get("device", {}).get("name"):
        conditions.append(device)
    before, after = summary["nodes_before"], summary["nodes_after"]
    rows = [("nodes", f"{before} -> {after}")]
    if (was_set := summary.get("opset_before")) != (now_set := summary.get("opset_after")):
        rows.append(("operator set", f"{was_set} -> {now_set} (more rules apply to it)"))
    if (choice := summary.get("target")) and choice["asked"] != choice["chosen"]:
        rows.append((choice["asked"], f"{choice['chosen']}: {choice['reason']}"))
    if size := summary.get("model", {}).get("size_bytes"):
        sizes = (format_size(size), format_size(summary.get("size_after_bytes", size)))
        rows.insert(0, ("size", " -> ".join(dict.fromkeys(sizes))))
    was, now = summary.get("latency_before"), summary.get("latency_after")
    if was and now:
        was_text = format_spread(was["median_ns"], was["spread_ns"])
        now_text = format_spread(now["median_ns"], now["spread_ns"])
        rows.append(("latency", was_text if was == now else f"{was_text} -> {now_text}"))
    for candidate in summary.get("candidates", []):
        if candidate["candidate"] == summary["chosen"] != "original" and candidate["ratio"]:
            rows.append(("speedup", _speedup(candidate)))
    title = f"{one_line(source)} -> {one_line(target)}"
    return "\n".join(
        [f"{title}   ({', '.join(conditions)})" if conditions else title, columns(rows)]
    )


def _speedup(candidate: Candidate) -> str:
    interval = _interval(candidate)
    text = format_speedup(candidate["ratio"])
    rounds = f"{candidate['samples']} round" + "s" * (candidate["samples"] != 1)
    return f"{text} ({f'{interval}, ' if interval else ''}{rounds})"


def _interval(candidate: Candidate) -> str:
    low, high = candidate["ratio_low"], candidate["ratio_high"]
    if candidate["samples"] < FEW_ROUNDS:
        return ""
    return f"{1 / high:.2f}x to {1 / low:.2f}x" if low and high else ""


def _applied(steps: Sequence[Step]) -> str:
    """One line per rule: how often, nodes saved, predicted gain, why."""
    accepted = [step for step in steps if step["accepted"]]
    if not accepted:
        return "Applied\n  nothing" if steps else ""
    by_rule: dict[str, list[Step]] = {}
    for step in accepted:
        by_rule.setdefault(step["rule"], []).append(step)
    rows = []
    for rule, fired in by_rule.items():
        saved = sum(step["removed"] - step["added"] for step in fired)
        rows.append(
            (
                rule,
                f"{len(fired)}x",
                f"{-saved:+d} nodes",
                _gain(fired),
                _promise(fired[0]),
                fired[0].get("summary") or fired[0]["reason"],
            )
        )
    shown = rows[:SHOWN_STEPS]
    rest = len(rows) - len(shown)
    more = f"\n  and {rest} more rules (--json or --report lists them all)" if rest else ""
    return f"Applied\n{columns(shown, right=(1, 2, 3))}{more}"


def _promise(step: Step) -> str:
    """What a rewrite promises, and whether that is proved."""
    parts = [step.get("equal", ""), "" if step.get("proved", True) else "not proved"]
    return ", ".join(filter(None, parts))


def _weighed_rules(steps: Sequence[Step]) -> str:
    """One line per rule that was weighed and would cost more, the closest first."""
    least: dict[str, float] = {}
    for step in steps:
        before, after = step["cost_before_ns"], step["cost_after_ns"]
        if not step["accepted"] and before is not None and after is not None and after > before:
            least[step["rule"]] = min(after - before, least.get(step["rule"], after - before))
    rows = [
        (rule, f"+{format_time(more)}", "(higher cost)")
        for rule, more in sorted(least.items(), key=lambda entry: entry[1])
    ]
    rest = len(rows) - SHOWN_LEFT
    more = f"\n  and {rest} more rules" if rest > 0 else ""
    return f"Tried and left\n{columns(rows[:SHOWN_LEFT], right=(1,))}{more}" if rows else ""


def _gain(steps: Sequence[Step]) -> str:
    """Predicted change of time; empty where some step has no cost."""
    total = 0.0
    for step in steps:
        if step["cost_before_ns"] is None or step["cost_after_ns"] is None:
            return ""
        total += step["cost_after_ns"] - step["cost_before_ns"]
    return f"{'+' if total > 0 else '-'}{format_time(abs(total))}" if total else "0"


def _operators(summary: Summary) -> str:
    costs = sorted(
        summary.get("operators", []), key=lambda cost: -max(cost["before_ns"], cost["after_ns"])
    )
    before = sum(cost["before_ns"] for cost in costs) or 1.0
    after = sum(cost["after_ns"] for cost in costs) or 1.0
    if not costs:
        return ""
    rows = [("operator", "calls", "before", "share", "calls", "after", "share")]
    shown = costs[:TOP_OPERATORS]
    for cost in shown:
        least = ">= " if cost["bounded"] else ""
        rows.append(
            (
                cost["op_type"],
                str(cost["calls_before"]),
                f"{least if cost['before_ns'] else ''}{format_time(cost['before_ns'])}",
                f"{cost['before_ns'] / before:.0%}",
                str(cost["calls_after"]),
                f"{least if cost['after_ns'] else ''}{format_time(cost['after_ns'])}",
                f"{cost['after_ns'] / after:.0%}",
            )
        )
    table = columns(rows, right=range(1, 7))
    note = (
        "; >=: not all were, a lower bound stands for the others"
        if any(cost["bounded"] for cost in shown)
        else ""
    )
    return f"Where the time goes (kernels measured one by one{note})\n{table}"


def _deviations(deviations: Sequence[Deviation], chosen: str) -> str:
    """The worst output for each input distribution, of the model that is written."""
    worst: dict[str, Deviation] = {}
    for deviation in deviations:
        if deviation["candidate"] == chosen:
            known = worst.setdefault(deviation["distribution"], deviation)
            if _excess(deviation) > _excess(known):
                worst[deviation["distribution"]] = deviation
    if not worst:
        return ""
    rows = [("inputs", "output", "absolute", "relative", "error", "original's", "tolerated", "")]
    for name, deviation in worst.items():
        rows.append(
            (
                name,
                deviation["output"],
                f"{deviation['max_absolute']:.2g}",
                f"{deviation['max_relative']:.2g}",
                f"{deviation['max_error']:.2g}",
                f"{deviation['original_error']:.2g}",
                f"{deviation['tolerance']:.2g}",
                "within" if deviation["within"] else "BEYOND",
            )
        )
    title = (
        "Largest deviation from the original (error, and the original's own: from the model in "
        "float64, which is asked where a few units in the last place are not enough)"
    )
    return f"{title}\n{columns(rows, right=(2, 3, 4, 5, 6))}"


def _excess(deviation: Deviation) -> tuple[bool, float, float]:
    return not deviation["within"], deviation["max_absolute"], deviation["max_error"]


def _candidates(candidates: Sequence[Candidate]) -> str:
    if len(candidates) < 2:
        return ""
    rows = [("candidate", "nodes", "latency", "speedup", "95 % interval", "")]
    for candidate in candidates:
        original = candidate["candidate"] == "original"
        rows.append(
            (
                candidate["candidate"],
                str(candidate["nodes"]),
                format_spread(candidate["median_ns"], candidate["spread_ns"]),
                "" if original else format_speedup(candidate["ratio"]),
                "" if original else _interval(candidate),
                candidate["verdict"],
            )
        )
    return f"Measured end to end, in turns\n{columns(rows, right=(1,))}"
