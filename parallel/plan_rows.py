"""Plans for several devices in the catalog: placement and what belongs to it."""

from __future__ import annotations

import datetime
import hashlib

from ..catalog import Catalog
from .cuts.cut_rules import rule_of
from .device_rows import store_cluster
from .planning import ParallelPlan


def store_plan(catalog: Catalog, plan: ParallelPlan, model: str) -> str:
    """Store a plan of a model of this name, and its cluster, unless it is there: return its key."""
    problem = plan.problem
    devices = [device.name for device in problem.cluster.devices]
    operators = [
        (number, position, operator, config)
        for number, instance in enumerate(plan.instances)
        for position, (operator, config) in enumerate(
            zip(problem.workload.operators, instance.plan, strict=True)
        )
    ]
    cuts = [
        (number, position, place, cut, parts, rule_of(operator.kernel, cut))
        for number, position, operator, config in operators
        for place, (cut, parts) in enumerate(config.cuts)
    ]
    described = [
        model, plan.goal, problem.cluster.hash,
        [(n, p, operator.name, config.devices) for n, p, operator, config in operators],
        [(n, p, place, cut.kind, cut.axes, parts) for n, p, place, cut, parts, _ in cuts],
    ]  # fmt: skip
    key = hashlib.sha256(repr(described).encode()).hexdigest()
    known = "SELECT 1 FROM placement WHERE placement_hash = ?"
    if catalog.connection.execute(known, [key]).fetchall():
        return key
    with catalog.transaction():
        store_cluster(catalog, problem.cluster)
        catalog.insert(
            "placement",
            {
                "placement_hash": [key],
                "model": [model],
                "cluster_hash": [problem.cluster.hash],
                "goal": [plan.goal],
                "name": [plan.name],
                "instances": [len(plan.instances)],
                "latency_s": [plan.latency_s],
                "requests_per_s": [plan.requests_per_s],
                "exact": [plan.exact],
                "stored_at": [datetime.datetime.now(datetime.UTC).replace(tzinfo=None)],
            },
        )
        catalog.insert(
            "placement_operator",
            {
                "placement_hash": [key] * len(operators),
                "instance": [number for number, _, _, _ in operators],
                "position": [position for _, position, _, _ in operators],
                "operator": [operator.name for _, _, operator, _ in operators],
                "op_type": [operator.kernel.op_type for _, _, operator, _ in operators],
                "devices": [[devices[n] for n in config.devices] for _, _, _, config in operators],
            },
        )
        catalog.insert(
            "cut",
            {
                "placement_hash": [key] * len(cuts),
                "instance": [number for number, *_ in cuts],
                "position": [position for _, position, *_ in cuts],
                "place": [place for _, _, place, *_ in cuts],
                "kind": [cut.kind for _, _, _, cut, _, _ in cuts],
                "combine": [cut.combine for _, _, _, cut, _, _ in cuts],
                "axis": [cut.axes[0] if cut.axes else None for _, _, _, cut, _, _ in cuts],
                "parts": [parts for _, _, _, _, parts, _ in cuts],
                "rule_hash": [rule.hash if rule else "" for *_, rule in cuts],
            },
        )
        catalog.insert(
            "placement_device",
            {
                "placement_hash": [key] * len(plan.memory_bytes),
                "device": [devices[n] for n in plan.memory_bytes],
                "memory_bytes": list(plan.memory_bytes.values()),
            },
        )
    return key
