"""Settings of a deployment, what was measured of them, and what is asked of them.

A setting is a number of instances, of threads in each, and of rows in a batch. A goal orders
settings; limits rule some out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

import numpy as np

from ...catalog.errors import TensologError
from ..typed_values import read_as

Goal = Literal["throughput", "latency"]
GOALS: tuple[Goal, ...] = ("throughput", "latency")

# Of settings whose throughput differs by no more than this the one that answers sooner is better.
INDIFFERENCE = 0.02
MOST_ROWS = 32


class LimitError(TensologError, ValueError):
    """A limit can't be read, or no setting keeps it."""


@dataclass(frozen=True, order=True)
class Setting:
    """So many instances of a model, threads in each, and rows in a batch.

    `plan` names the plan by which each instance is divided among processes of so many threads; "":
    it is not.
    """

    instances: int
    threads: int
    batch: int
    plan: str = ""

    def __str__(self) -> str:
        """Read as people say it."""
        parts = []
        for count, unit in (
            (self.instances, "instance"),
            (self.threads, "thread"),
        ):
            parts.append(f"{count} {unit}{'' if count == 1 else 's'}")
        divided = f", each {self.plan}" if self.plan else ""
        return f"{' x '.join(parts)} x batch of {self.batch}{divided}"

    def to_json(self) -> dict[str, Any]:
        """Give plain values; the plan only where there is one."""
        return {key: value for key, value in asdict(self).items() if key != "plan" or value}


@dataclass(frozen=True)
class Measured:
    """What a setting gave while all its instances were busy.

    `rows_per_s` counts rows of batches of all instances; times are those of a batch in one
    instance, waiting in a queue not counted. `memory_bytes` is resident, of all instances.
    """

    setting: Setting
    rows_per_s: float
    p50_ms: float
    p90_ms: float
    p99_ms: float
    runs: int
    memory_bytes: int

    def to_json(self) -> dict[str, Any]:
        """Give plain values; `measured_from_json` reads them."""
        values = asdict(self)
        del values["setting"]
        return {**self.setting.to_json(), **values}


def measured_from_json(values: Any, place: str = "") -> Measured:
    """Read what `Measured.to_json` gave; ValueTypeError, which names the place, for another."""
    rest = read_as(dict[str, Any], values, place)
    names = {field.name for field in fields(Setting)}
    setting = {name: rest.pop(name) for name in names & rest.keys()}
    return read_as(Measured, {**rest, "setting": setting}, place)


def summarize(
    setting: Setting, rounds: Sequence[Sequence[Sequence[float]]], memory_bytes: int
) -> Measured:
    """Sum rounds up, each the nanoseconds of each run of each instance.

    Throughput is that of the median round, and within it of each instance's median run: what
    another program took from a run counts less so.
    """
    rates = [sum(1e9 / float(np.median(times)) for times in instances) for instances in rounds]
    times = np.concatenate([np.asarray(times) for instances in rounds for times in instances])
    p50, p90, p99 = (float(np.percentile(times, share)) / 1e6 for share in (50, 90, 99))
    rows_per_s = float(np.median(rates)) * setting.batch
    return Measured(setting, rows_per_s, p50, p90, p99, len(times), memory_bytes)


_UNITS = {
    "ms": 1.0, "s": 1e3, "us": 1e-3, "µs": 1e-3,
    "B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30,
    "/s": 1.0,
}  # fmt: skip
_QUANTITIES = {
    "p50": ("p50_ms", ("ms", "s", "us", "µs")),
    "p90": ("p90_ms", ("ms", "s", "us", "µs")),
    "p99": ("p99_ms", ("ms", "s", "us", "µs")),
    "throughput": ("rows_per_s", ("/s",)),
    "memory": ("memory_bytes", ("B", "kB", "MB", "GB", "KiB", "MiB", "GiB")),
}
_LIMIT = re.compile(r"\s*(\w+)\s*(<=?|>=?)\s*([0-9.]+(?:e-?[0-9]+)?)\s*([^\s0-9.]\S*)\s*$")
_FORMS = "'p99 < 50 ms' (or p50, p90), 'throughput > 100 /s' or 'memory < 2 GB'"


@dataclass(frozen=True)
class Limit:
    """A bound on what is measured; `text` is how it was given."""

    text: str
    field: str
    is_upper: bool
    value: float

    @property
    def is_time(self) -> bool:
        """Tell whether it bounds the time of a batch."""
        return self.field.endswith("_ms")

    def holds(self, measured: Measured) -> bool:
        """Tell whether a setting keeps to it."""
        value = float(getattr(measured, self.field))
        return value <= self.value if self.is_upper else value >= self.value

    def excess(self, measured: Measured) -> float:
        """Return by which factor a setting is beyond it; at most 1 where it keeps to it."""
        value = max(1e-12, float(getattr(measured, self.field)))
        bound = max(1e-12, self.value)
        return value / bound if self.is_upper else bound / value


def read_limit(text: str) -> Limit:
    """Read a limit such as "p99 < 50 ms"; LimitError, with the forms there are, for another."""
    match = _LIMIT.match(text)
    if match is None:
        raise LimitError(f"the limit {text!r} can't be read: write {_FORMS}")
    name, sign, number, unit = match.groups()
    if name not in _QUANTITIES:
        raise LimitError(f"the limit {text!r} names {name!r}: write {_FORMS}")
    field, units = _QUANTITIES[name]
    if unit not in units:
        raise LimitError(f"the limit {text!r} has no unit of {name}: {', '.join(units)}")
    is_upper = sign.startswith("<")
    if is_upper == (name == "throughput"):
        wrong = "most" if is_upper else "least"
        raise LimitError(f"the limit {text!r} asks for the {wrong} {name}: write {_FORMS}")
    try:
        value = float(number) * _UNITS[unit]
    except ValueError:
        raise LimitError(f"the limit {text!r} has no number: write {_FORMS}") from None
    return Limit(text.strip(), field, is_upper, value)


def best(measured: Sequence[Measured], goal: Goal, limits: Sequence[Limit] = ()) -> Measured | None:
    """Return the best setting of those that keep to all limits; None where none does.

    Of throughputs within INDIFFERENCE of the best the smallest time of a batch wins.
    """
    kept = [entry for entry in measured if all(limit.holds(entry) for limit in limits)]
    if not kept:
        return None
    if goal == "latency":
        return min(kept, key=lambda entry: (entry.p50_ms, -entry.rows_per_s))
    most = max(entry.rows_per_s for entry in kept)
    near = [entry for entry in kept if entry.rows_per_s >= (1 - INDIFFERENCE) * most]
    return min(near, key=lambda entry: (entry.p50_ms, -entry.rows_per_s))


def grid(cores: int, batches: Sequence[int]) -> Iterator[Setting]:
    """Give all settings that keep to so many cores."""
    for threads in range(1, cores + 1):
        for instances in range(1, cores // threads + 1):
            for batch in batches:
                yield Setting(instances, threads, batch)


def batch_ladder(is_free: bool, rows: int, most_rows: int = MOST_ROWS) -> tuple[int, ...]:
    """Give the sizes of batches to try: powers of two, or the one that the model has."""
    if not is_free:
        return (rows,)
    sizes = [1]
    while sizes[-1] * 2 <= most_rows:
        sizes.append(sizes[-1] * 2)
    if sizes[-1] < most_rows:
        sizes.append(most_rows)
    return tuple(sizes)
