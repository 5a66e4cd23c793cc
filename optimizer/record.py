"""A finished optimization as rows: plan, steps, candidates, deviations."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime

from ..catalog import Catalog
from ..profiles.machine import device
from .match.rewrite import Step
from .race.verify import Deviation
from .result import Candidate
from .setting import Setting


def record_plan(
    catalog: Catalog,
    setting: Setting,
    model_id: int,
    result_model_id: int,
    chosen: str,
    steps: list[Step],
    candidates: list[Candidate],
    deviations: list[Deviation],
) -> int:
    """Store what was tried, measured and chosen; return the plan_id."""
    plan_id = catalog.reserve("plan_sequence", 1)
    catalog.insert(
        "plan",
        {
            "plan_id": [plan_id],
            "model_id": [model_id],
            "result_model_id": [result_model_id],
            "device_id": [device(catalog)],
            "target": [setting.target],
            "threads": [setting.threads],
            "options": [json.dumps(asdict(setting))],
            "chosen": [chosen],
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
        ("plan_deviation", [{**asdict(item), "within": item.within} for item in deviations]),
    ):
        if rows:
            columns_of = {name: [row[name] for row in rows] for name in rows[0]}
            catalog.insert(table, {"plan_id": [plan_id] * len(rows), **columns_of})
    return plan_id
