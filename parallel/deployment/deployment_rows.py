"""Deployments in the catalog: what was chosen, all that was measured, and why."""

from __future__ import annotations

import datetime
import hashlib
import json
from pathlib import Path

from ...catalog import Catalog
from .deployment import Deployment
from .settings import INDIFFERENCE, Measured, read_limit


def store_deployment(
    catalog: Catalog, plan: Deployment, model: Path, placement_hash: str | None = None
) -> str:
    """Store a deployment of the model at a path, unless it is there; return its key.

    `placement_hash` names the plan by which it is divided, where plan_rows.py has stored one.
    """
    text = json.dumps([plan.to_json(), str(model), str(plan.folder)], sort_keys=True)
    key = hashlib.sha256(text.encode()).hexdigest()
    known = "SELECT 1 FROM deployment WHERE deployment_hash = ?"
    if catalog.connection.execute(known, [key]).fetchall():
        return key
    measured = plan.measured
    with catalog.transaction():
        catalog.insert(
            "deployment",
            {
                "deployment_hash": [key],
                "model": [str(model)],
                "folder": [str(plan.folder)],
                "goal": [plan.goal],
                "limits": [list(plan.limits)],
                "variant": [plan.variant],
                "batch_is_free": [plan.batch.is_free],
                "delay_ms": [plan.delay_ms],
                "machine": [plan.machine.get("fingerprint", "")],
                "cores": [plan.machine.get("cores", 0)],
                "measuring_s": [plan.measuring_s],
                "complete": [plan.complete],
                "placement_hash": [placement_hash],
                "deployed_at": [datetime.datetime.now(datetime.UTC).replace(tzinfo=None)],
            },
        )
        catalog.insert(
            "deployment_setting",
            {
                "deployment_hash": [key] * len(measured),
                "instances": [entry.setting.instances for entry in measured],
                "threads": [entry.setting.threads for entry in measured],
                "batch": [entry.setting.batch for entry in measured],
                "division": [entry.setting.plan for entry in measured],
                "role": [_role(plan, entry) for entry in measured],
                "rows_per_s": [entry.rows_per_s for entry in measured],
                "p50_ms": [entry.p50_ms for entry in measured],
                "p90_ms": [entry.p90_ms for entry in measured],
                "p99_ms": [entry.p99_ms for entry in measured],
                "runs": [entry.runs for entry in measured],
                "memory_bytes": [entry.memory_bytes for entry in measured],
                "why_not": [why_not(plan, entry) for entry in measured],
            },
        )
        catalog.insert(
            "deployment_reason",
            {
                "deployment_hash": [key] * len(plan.reasons),
                "position": list(range(len(plan.reasons))),
                "reason": list(plan.reasons),
            },
        )
    return key


def _role(plan: Deployment, entry: Measured) -> str:
    if entry.setting == plan.setting:
        return "chosen"
    return "baseline" if entry.setting == plan.baseline.setting else "rival"


def why_not(plan: Deployment, entry: Measured) -> str:
    """Say why a setting was not chosen; "" for what was."""
    chosen = plan.chosen
    if entry.setting == plan.setting:
        return ""
    broken = [text for text in plan.limits if not read_limit(text).holds(entry)]
    if broken:
        return f"breaks {broken[0]}"
    if plan.goal == "latency":
        factor = entry.p50_ms / chosen.p50_ms
        return f"{factor:.2f} times the chosen's time" if factor > 1 else _UNSURE
    share = entry.rows_per_s / chosen.rows_per_s
    if share >= 1 - INDIFFERENCE and entry.p50_ms > chosen.p50_ms:
        return "no more than chosen, and answers later"
    return f"{share:.2f} of the chosen's throughput" if share < 1 else _UNSURE


_UNSURE = "not surely better than chosen, in rounds that both took part in"
