"""Pipelines: a plan for a few devices, cut into stages that are on devices of their own."""

from __future__ import annotations

from collections.abc import Sequence

from ..simulation.placement import Config, whole_on
from ..simulation.tasks import Problem


def divide_evenly(weights: Sequence[float], parts: int) -> list[int]:
    """Divide a row into so many neighbouring parts; the largest sum is the least possible.

    Returns the part of each entry. Exact, by bisection over sums of parts.
    """
    if parts <= 1 or not weights:
        return [0] * len(weights)
    low, high = max(weights), sum(weights)
    for _ in range(60):
        middle = (low + high) / 2
        if _parts_below(weights, middle) <= parts:
            high = middle
        else:
            low = middle
    part_of, level, part = [], 0.0, 0
    for place, weight in enumerate(weights):
        remaining = len(weights) - place
        # Sums of floats: what the bisection ended with is allowed a hair more.
        full = level + weight > high * (1 + 1e-9) and level > 0
        if part < parts - 1 and (full or (level > 0 and remaining <= parts - 1 - part)):
            part, level = part + 1, 0.0
        part_of.append(part)
        level += weight
    return part_of


def even_pipeline(problem: Problem, stages: int) -> tuple[Config, ...]:
    """Return stages of undivided operators on devices 0, 1, … that take about equally long.

    That is by the sum of kernels' times on the first device.
    """
    operators = problem.workload.operators
    seconds = [problem.times.operator(operator.kernel, 0) for operator in operators]
    return staged([whole_on(0)] * len(operators), seconds, [(n,) for n in range(stages)])


def _parts_below(weights: Sequence[float], most: float) -> int:
    count, level = 1, 0.0
    for weight in weights:
        if level + weight > most and level > 0:
            count, level = count + 1, 0.0
        level += weight
    return count


def staged(
    plan: Sequence[Config], weights: Sequence[float], blocks: Sequence[Sequence[int]]
) -> tuple[Config, ...]:
    """Move the parts of a plan for the first block to one block for each stage.

    `weights` are what stages are to have equally much of, by operator. Blocks are as large as the
    first one, whose devices the plan names.
    """
    place = {device: number for number, device in enumerate(blocks[0])}
    stages = divide_evenly(weights, len(blocks))
    return tuple(
        config.moved(tuple(blocks[stage][place[device]] for device in config.devices))
        for config, stage in zip(plan, stages, strict=True)
    )
