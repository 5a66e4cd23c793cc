"""The frame of the benchmarks' commands: rows are kept, errors are rows, time ends."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from benchmarks.child import StepError
from benchmarks.frame import Row, Steps, collect, options
from benchmarks.rows import write_rows

CASES: list[Row] = [{"name": name, "threads": 1} for name in ("net", "bad", "far")]


def collected(path: Path, asked: list[str], **changes: object) -> list[Row]:
    def measure(case: Row) -> Steps:
        asked.append(case["name"])
        yield "first", {"before": 1}
        if case["name"] == "bad":
            raise StepError("first: no")
        yield "done", {"after": 2}

    def write(rows: Sequence[Row]) -> None:
        write_rows(path, rows, "# Rows", "none")

    settings = {"minutes": 60.0, "resume": False, "out": path} | changes
    return collect(CASES, measure, write, Namespace(**settings))


def test_a_row_holds_what_its_steps_found(tmp_path: Path) -> None:
    rows = collected(tmp_path / "rows.json", [])
    assert rows[0] == {"name": "net", "threads": 1, "before": 1, "after": 2}
    assert rows[1] == {"name": "bad", "threads": 1, "before": 1, "error": "first: no"}
    assert json.loads((tmp_path / "rows.json").read_text())["rows"] == rows


def test_what_is_kept_is_not_measured_again_but_what_failed_is(tmp_path: Path) -> None:
    before = collected(tmp_path / "rows.json", [])
    asked: list[str] = []
    rows = collected(tmp_path / "rows.json", asked, resume=True)
    assert asked == ["bad"]
    assert sorted(row["name"] for row in rows) == sorted(row["name"] for row in before)


def test_no_row_begins_when_time_is_up(tmp_path: Path) -> None:
    asked: list[str] = []
    assert collected(tmp_path / "rows.json", asked, minutes=-1.0) == []
    assert not asked


def test_each_command_keeps_its_rows_in_a_file_of_its_own() -> None:
    names = {options(name, "", (1,)).parse_args([]).out.name for name in ("models", "peers")}
    assert names == {"models.json", "peers.json"}
