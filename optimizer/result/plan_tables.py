"""A finished optimization as rows: of the catalog, and of a file that a search is kept in."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ...profiles.machine import machine_id
from ..egraph.search_tables import write_tables
from ..match.rewrite import Step
from ..race.contest import Plan
from ..race.verify import Deviation
from ..rewrites.unproved import is_unproved
from .outcome import Candidate
from .region_rows import RegionRow

if TYPE_CHECKING:
    from ..state import State

SCHEMA = """
CREATE OR REPLACE TABLE plan (
    plan VARCHAR, nodes INTEGER, predicted_ns DOUBLE, median_ns DOUBLE, spread_ns DOUBLE,
    ratio DOUBLE, ratio_low DOUBLE, ratio_high DOUBLE, samples INTEGER, verdict VARCHAR
);
COMMENT ON TABLE plan IS 'Plans that were derived, the original first.';
COMMENT ON COLUMN plan.predicted_ns IS 'Sum of the costs of its kernels.';
COMMENT ON COLUMN plan.median_ns IS 'Measured median; NULL if it was not raced.';
COMMENT ON COLUMN plan.ratio IS 'Its time over that of the original, paired by round.';
COMMENT ON COLUMN plan.verdict IS 'Chosen, or why not.';
CREATE OR REPLACE TABLE plan_step (
    plan VARCHAR, position INTEGER, rule VARCHAR, nodes VARCHAR[], removed INTEGER, added INTEGER,
    cost_before_ns DOUBLE, cost_after_ns DOUBLE, accepted BOOLEAN, reason VARCHAR, proved BOOLEAN
);
COMMENT ON TABLE plan_step IS 'Rewrites that lead to a plan, and those that were tried and left.';
COMMENT ON COLUMN plan_step.nodes IS 'Names of the nodes matched: of a kernel, those it computes.';
COMMENT ON COLUMN plan_step.accepted IS 'Whether the rewrite was made.';
COMMENT ON COLUMN plan_step.reason IS 'Why, or why not.';
COMMENT ON COLUMN plan_step.proved IS 'False where no proof speaks of the equality.';
"""
# What of a deviation is no column of plan_deviation.
UNSTORED = ("original_error", "reference", "no_float64")
MEASURED = (
    *("nodes", "predicted_ns", "median_ns", "spread_ns", "ratio", "ratio_low", "ratio_high"),
    *("samples", "verdict"),
)
STEP = (
    *("rule", "nodes", "removed", "added", "cost_before_ns", "cost_after_ns", "accepted"),
    "reason",
)


def record_plan(
    state: State,
    result_model_id: int,
    steps: list[Step],
    candidates: list[Candidate],
    deviations: list[Deviation],
    regions: Sequence[RegionRow],
) -> int:
    """Store what was tried, measured and chosen; return the plan_id."""
    catalog, setting = state.catalog, state.setting
    plan_id = catalog.reserve("plan_sequence", 1)
    catalog.insert(
        "plan",
        {
            "plan_id": [plan_id],
            "model_id": [state.model_id],
            "result_model_id": [result_model_id],
            "device_id": [machine_id(catalog)],
            "target": [setting.target],
            "threads": [setting.threads],
            "options": [json.dumps(asdict(setting))],
            "chosen": [state.winner.name],
            "created_at": [datetime.now(UTC).replace(tzinfo=None)],
        },
    )
    step_rows = [asdict(step) for step in steps]
    columns = ("rule", "removed", "added", "cost_before_ns", "cost_after_ns", "accepted", "reason")
    catalog.insert(
        "plan_step",
        {
            "plan_id": [plan_id] * len(steps),
            "position": list(range(len(steps))),
            "nodes": [list(step.nodes) for step in steps],
            **{name: [row[name] for row in step_rows] for name in columns},
        },
    )
    for table, rows in (
        ("plan_candidate", [asdict(candidate) for candidate in candidates]),
        ("plan_deviation", [_deviation_row(item) for item in deviations]),
        ("plan_region", [_region_row(number, item) for number, item in enumerate(regions)]),
        (
            "plan_region_bound",
            [row for number, item in enumerate(regions) for row in _bounds(number, item)],
        ),
    ):
        if rows:
            columns_of = {name: [row[name] for row in rows] for name in rows[0]}
            catalog.insert(table, {"plan_id": [plan_id] * len(rows), **columns_of})
    return plan_id


def _deviation_row(deviation: Deviation) -> dict[str, object]:
    """Give a row of plan_deviation; what it was compared with the report tells."""
    row = {**asdict(deviation), "within": deviation.within}
    return {name: value for name, value in row.items() if name not in UNSTORED}


def _region_row(number: int, region: RegionRow) -> dict[str, object]:
    """Give a row of plan_region."""
    row = {**asdict(region), "nodes": list(region.nodes)}
    return {"region": number, **{name: value for name, value in row.items() if name != "bounds"}}


def _bounds(number: int, region: RegionRow) -> list[dict[str, object]]:
    """Give the rows of plan_region_bound."""
    return [{"region": number, **asdict(bound)} for bound in region.bounds]


def keep_plans(plans: Sequence[Plan], candidates: Sequence[Candidate], path: Path) -> None:
    """Write plans, with what was measured of them, to a DuckDB file.

    Raises TensologError where the file can't be written.
    """
    by_name = {candidate.candidate: candidate for candidate in candidates}
    measured = [
        {"plan": plan.name, **{name: getattr(by_name[plan.name], name) for name in MEASURED}}
        for plan in plans
    ]
    steps = [
        {
            "plan": plan.name,
            "position": place,
            **{name: getattr(step, name) for name in STEP},
            "proved": not is_unproved(step.rule),
        }
        for plan in plans
        for place, step in enumerate(plan.steps)
    ]
    write_tables(path, SCHEMA, {"plan": measured, "plan_step": steps})
