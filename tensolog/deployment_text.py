"""A deployment as text: what was chosen, against what, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .parallel.deployment.deployment import Deployment
from .parallel.deployment.deployment_rows import why_not
from .parallel.deployment.settings import Measured
from .parallel.runnable_plan import CALLER, Partition
from .summary import columns


def deployment_text(plan: Deployment) -> str:
    """Lay a deployment out for a terminal: the setting, the reasons, and all that was measured."""
    unit = "rows" if plan.batch.is_free else "runs"
    gain = plan.chosen.rows_per_s / plan.baseline.rows_per_s
    # Where one instance can't be served, what was chosen stands for it.
    over = f", {gain:.2f} times one instance's" * (not plan.baseline.setting.plan)
    lines = [
        f"{plan.folder}: {plan.setting}, of the {plan.variant} model",
        f"  goal        {plan.goal}{''.join(f', {limit}' for limit in plan.limits)}",
        f"  throughput  {_rate(plan, plan.chosen):.4g} {unit}/s{over}",
        f"  a batch     p50 {plan.chosen.p50_ms:.3g} ms, p99 {plan.chosen.p99_ms:.3g} ms, with all "
        "instances busy",
        f"  memory      {plan.chosen.memory_bytes / 1e6:.0f} MB, of all instances",
    ]
    if plan.batch.is_free and plan.setting.batch > 1:
        lines.append(f"  a request waits at most {plan.delay_ms:g} ms for others to join its batch")
    machine = plan.machine.get("name", "a machine")
    lines.append(f"  measured    on {machine}, {plan.machine.get('cores', '?')} cores")
    if plan.partition is not None:
        lines += ["", "Where", *map("  {}".format, _where(plan.partition))]
    if plan.remote is not None:
        lines.append(f"  workers of the cluster at {plan.remote.scheduler}:")
        for group in plan.remote.workers:
            lines.append(
                "    " + ", ".join(f"{worker.name} at {worker.address}" for worker in group)
            )
    lines += ["", "Why", *(f"  {reason}" for reason in plan.reasons)]
    lines += ["", f"Measured, all instances busy (in {plan.measuring_s:.3g} s)", _table(plan, unit)]
    return "\n".join(lines)


def _where(partition: Partition) -> Iterator[str]:
    """Say what each device computes, stage by stage, and what it gets from others for that."""
    names = partition.devices
    for number, stage in enumerate(partition.stages):
        text = f"{names[stage.device]}  stage {number}: {stage.operators}"
        others = [
            n for n in stage.reads if partition.tensors[n].owner not in (stage.device, CALLER)
        ]
        if others:
            kib = sum(partition.tensors[n].size_bytes for n in others) / 1024
            owners = dict.fromkeys(names[partition.tensors[n].owner] for n in others)
            text += f", with {kib:.1f} KiB from {', '.join(owners)}"
        yield text


def _table(plan: Deployment, unit: str) -> str:
    head = ("instances", "threads", "batch", f"{unit}/s", "over one", "p50", "p99", "memory", "")
    rows: list[Sequence[str]] = [head]
    for entry in plan.measured:
        setting = entry.setting
        rows.append(
            (
                str(setting.instances),
                str(setting.threads),
                str(setting.batch),
                f"{_rate(plan, entry):.4g}",
                f"{entry.rows_per_s / plan.baseline.rows_per_s:.2f}x",
                f"{entry.p50_ms:.3g} ms",
                f"{entry.p99_ms:.3g} ms",
                f"{entry.memory_bytes / 1e6:.0f} MB",
                _remark(plan, entry),
            )
        )
    return columns(rows, right=range(len(head) - 1))


def _rate(plan: Deployment, entry: Measured) -> float:
    """Return rows a second, or runs of a model whose batch is fixed."""
    return entry.rows_per_s / (1 if plan.batch.is_free else max(1, entry.setting.batch))


def _remark(plan: Deployment, entry: Measured) -> str:
    divided = entry.setting.plan
    if entry.setting == plan.setting:
        return f"chosen: {divided}" if divided else "chosen"
    if divided:
        return f"{divided}: {why_not(plan, entry)}"
    if entry.setting == plan.baseline.setting:
        return f"one instance: {why_not(plan, entry)}"
    return why_not(plan, entry)
