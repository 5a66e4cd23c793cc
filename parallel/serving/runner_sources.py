"""Where a driver gets what runs its requests, and another one when that was lost.

A single instance belongs to one driver. The lanes of a group of workers belong to one driver each,
and are lost together: the first driver that notices starts the next group.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

from .instance import Array, Instance, Start
from .pinning import bind, on_nodes
from .process import InstanceError
from .worker_group import Group


class Runner(Protocol):
    """Runs one request at a time."""

    def run(self, feeds: Mapping[str, Sequence[Array]], limit_s: float) -> dict[str, Array]:
        """Run the model; outputs may be views, good until the next run."""
        ...

    def kill(self) -> None:
        """End it at once."""
        ...

    def close(self) -> None:
        """End it, or leave it to others."""
        ...

    @property
    def pids(self) -> list[int]:
        """Number its processes."""
        ...

    @property
    def is_lost(self) -> bool:
        """Tell whether it is known to be no more."""
        ...


class Source(ABC):
    """Opens what runs requests; `opened` counts how often that had to be."""

    def __init__(self) -> None:
        self.opened = 0
        self._gate = threading.Condition()
        self._running = 0

    @abstractmethod
    def open(self, number: int) -> Runner:
        """Return what runs the requests of a driver; raises what opening the model raises."""

    @contextmanager
    def turn(self, *, alone: bool) -> Iterator[None]:
        """Wait until others have let go, and keep them waiting if it is to be `alone`.

        What has lost its workers before runs alone: others shall not be lost with it.
        """
        with self._gate:
            while self._running < 0 or (alone and self._running):
                self._gate.wait()
            self._running = -1 if alone else self._running + 1
        try:
            yield
        finally:
            with self._gate:
                self._running = 0 if alone else self._running - 1
                self._gate.notify_all()


class InstanceSource(Source):
    """Gives a driver an instance of its own."""

    def __init__(self, start: Start) -> None:
        super().__init__()
        self._start = start
        self._processors = start.processors
        self._pids: list[int] = []

    def open(self, number: int) -> Runner:
        """Start an instance, and wait until it is ready."""
        self.opened += 1
        instance = Instance(replace(self._start, processors=self._processors))
        self._pids = instance.pids
        try:
            instance.ready()
        except BaseException:
            instance.close()
            raise
        return instance

    def share_cores(self, is_shared: bool) -> None:
        """Let the instance run anywhere on its memory nodes, or where it is pinned to."""
        pinned = self._start.processors
        if pinned:
            self._processors = on_nodes([pinned])[0] if is_shared else pinned
            for pid in self._pids:
                bind(pid, self._processors)


class GroupSource(Source):
    """Gives drivers the lanes of one group, of this machine or of a cluster."""

    def __init__(self, make: Callable[[], Group]) -> None:
        super().__init__()
        self._make = make
        self._lock = threading.Lock()
        self._group: Group | None = None
        # How often none could be started, and why the last time.
        self._failures = 0
        self._failure: Exception | None = None

    def open(self, number: int) -> Runner:
        """Return a lane of the group that is there, or of a new one where it was lost.

        Where that could not be started while this driver waited, it is told so, and does not try
        by itself: to find that a worker is missing takes long.
        """
        earlier_failures = self._failures
        with self._lock:
            while True:
                if self._group is None:
                    if self._failure is not None and self._failures > earlier_failures:
                        raise self._failure
                    self._group = self._started()
                try:
                    return self._group.lane(number)
                except InstanceError:
                    self._group = None

    def _started(self) -> Group:
        self.opened += 1
        try:
            group = self._make()
            try:
                group.ready()
            except BaseException:
                group.close()
                raise
        except Exception as error:
            self._failures += 1
            self._failure = error
            raise
        return group
