"""Instances of a model, kept ready to be timed: of each number of threads as many as fit.

A setting with fewer instances has some of them idle. Settings are timed in turns, so that what
slows the machine down for a while slows all of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from ...profiles.machine import available_memory_bytes
from ..deployment.settings import Setting
from ..serving.instance import Array, Instance, Start, time_together
from ..serving.pinning import here

FeedsOf = Callable[[int], Mapping[str, Array]]
"""Gives a request of so many rows."""

_LIMIT_S = 600.0
# All crews together may take this share of what is free: a pool is to be opened beside them.
_MEMORY_SHARE = 0.6


class Crews:
    """Measures settings of one model on this machine; a context manager."""

    def __init__(self, model: Path, cores: int, feeds_of: FeedsOf | None = None) -> None:
        self._model = model
        self._cores = cores
        self.feeds_of = feeds_of
        self._crews: dict[int, list[Instance]] = {}
        # Those that are started by `prepare`, and not waited for yet.
        self._starting: dict[int, list[Instance]] = {}
        self._memory_bytes = available_memory_bytes()

    def __enter__(self) -> Self:
        """Start nothing yet."""
        return self

    def __exit__(self, *raised: object) -> None:
        """End all instances."""
        for threads in [*self._crews, *self._starting]:
            self._dismiss(threads)

    def first(self) -> Instance:
        """Return an instance, to ask about the model itself."""
        return self._crew(self._cores, 1)[0]

    def prepare(self, thread_counts: Sequence[int]) -> None:
        """Start instances that are to be timed, as long as all have room, without waiting.

        Opening a model keeps a core busy: several are opened in the time of one.
        """
        instances = [instance for crew in self._crews.values() for instance in crew]
        instance_bytes = max((instance.resident_bytes for instance in instances), default=0)
        count = len(instances)
        for threads in thread_counts:
            missing = self._cores // threads - len(self._crews.get(threads, []))
            count += max(0, missing)
            if not instance_bytes or count * instance_bytes > _MEMORY_SHARE * self._memory_bytes:
                return
            if threads not in self._crews:
                self._starting[threads] = self._started(threads, 0, missing)

    def time(self, setting: Setting, seconds: float, least_runs: int = 3) -> list[list[float]]:
        """Run a setting for so long; nanoseconds of each run of each instance, after a warm-up."""
        assert self.feeds_of is not None
        for threads, started in list(self._starting.items()):  # what still opens would disturb
            self._crew(threads, len(started))
        crew = self._crew(setting.threads, setting.instances)[: setting.instances]
        key = str(setting.batch)
        for instance in crew:
            # Anew each time: where buffers lie makes runs faster or slower as long as they live.
            instance.load(key, self.feeds_of(setting.batch), _LIMIT_S)
        return time_together(crew, key, seconds, least_runs, _LIMIT_S)

    def memory_bytes(self, setting: Setting) -> int:
        """Return what the instances of a setting have in memory now."""
        crew = self._crews.get(setting.threads, [])
        return sum(instance.resident_bytes for instance in crew[: setting.instances])

    def _crew(self, threads: int, instances: int) -> list[Instance]:
        crew = self._crews.setdefault(threads, [])
        missing = instances - len(crew)
        if missing <= 0:
            return crew
        new = self._starting.pop(threads, [])
        if not new:
            self._make_room(threads, missing)
            new = self._started(threads, len(crew), missing)
        try:
            for instance in new:
                instance.ready()
        except BaseException:
            for instance in new:
                with contextlib.suppress(Exception):
                    instance.close()
            raise
        crew += new
        return crew

    def _started(self, threads: int, first: int, count: int) -> list[Instance]:
        places = here(self._cores // threads, threads)[first : first + count]
        return [Instance(Start(self._model, threads, place)) for place in places]

    def _make_room(self, threads: int, missing: int) -> None:
        """End crews of other thread counts where all of them would not fit into memory."""
        instances = [instance for crew in self._crews.values() for instance in crew]
        if not instances:
            return
        instance_bytes = max(instance.resident_bytes for instance in instances)
        for other in [count for count in self._crews if count != threads]:
            needed = (missing + sum(map(len, self._crews.values()))) * instance_bytes
            if needed <= _MEMORY_SHARE * self._memory_bytes:
                return
            self._dismiss(other)

    def _dismiss(self, threads: int) -> None:
        crew = [*self._crews.pop(threads, []), *self._starting.pop(threads, [])]
        for instance in crew:
            instance.leave()
        for instance in crew:
            instance.close()
