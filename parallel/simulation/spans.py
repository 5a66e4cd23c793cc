"""A simulated request as a timeline: what each device and wire does when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..timeline import Kind, Span, Timeline
from .simulator import Simulation
from .tasks import ADD, COMPUTE, MOVE, PARTIAL, Problem, Task

# Neighbours on a lane that are narrower than this share of the whole become one span.
_NARROW = 1 / 500


def timeline_of(simulation: Simulation) -> Timeline:
    """Return what is simulated to happen for a request that finds all devices idle."""
    problem, times = simulation.problem, simulation.schedule
    names = [device.name for device in problem.cluster.devices]
    names += [f"from {name}" for name in problem.wires]
    used = sorted({task.resource for task in times.tasks.values()})
    lane = {resource: number for number, resource in enumerate(used)}
    spans = []
    for key in times.order:
        task, begin = times.tasks[key], times.begin[key]
        if times.end[key] == begin:
            continue
        kind, label, target = _described(problem, task, names)
        free = begin + task.seconds
        spans.append(
            Span(
                lane[task.resource], kind, label, begin, free, times.end[key], lane.get(target, -1)
            )
        )
    spans.sort(key=lambda span: (span.begin_s, span.lane))
    whole = max((span.end_s for span in spans), default=0.0)
    joined = sorted(_joined(spans, whole * _NARROW), key=lambda span: (span.begin_s, span.lane))
    return Timeline(tuple(names[resource] for resource in used), tuple(joined))


def _described(problem: Problem, task: Task, names: Sequence[str]) -> tuple[Kind, str, int]:
    """Say what a task is, and which device it sends to."""
    number, task_kind = task.key[:2]
    operators, values = problem.workload.operators, problem.workload.graph.names
    if task_kind == COMPUTE:
        return "compute", f"{operators[number].kernel.op_type} {operators[number].name}", -1
    if number < 0:
        name = values[task.key[2]]
    else:
        value = operators[number].outputs[task.key[2]]
        name = operators[number].name if value is None else values[value]
    if task_kind in (MOVE, PARTIAL):
        target = task.key[4] if task_kind == MOVE else task.key[5]
        return "send", f"{name} to {names[target]}, {task.size_bytes / 1024:.1f} KiB", target
    return "join", f"{'sum' if task_kind == ADD else 'pieces'} of {name}", -1


def _joined(spans: Sequence[Span], narrow_s: float) -> Iterator[Span]:
    """Join narrow neighbours of a kind on a lane: thousands of operators are no picture."""
    last: dict[int, list[Span]] = {}
    for span in spans:
        group = last.setdefault(span.lane, [])
        if group and not _is_next(group[-1], span, narrow_s):
            yield _joined_span(group)
            group.clear()
        group.append(span)
    for group in last.values():
        yield _joined_span(group)


def _is_next(before: Span, span: Span, narrow_s: float) -> bool:
    """Tell whether a span follows another of its kind closely, and one of them is narrow."""
    least = min(before.end_s - before.begin_s, span.end_s - span.begin_s)
    is_close = span.begin_s - before.end_s < narrow_s
    return before.kind == span.kind != "send" and is_close and least < narrow_s


def _joined_span(group: Sequence[Span]) -> Span:
    first, end = group[0], group[-1]
    if len(group) == 1:
        return first
    label = f"{first.what} to {end.what}, {len(group)} operators"
    return Span(first.lane, first.kind, label, first.begin_s, end.free_s, end.end_s)
