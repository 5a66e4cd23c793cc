"""Requests that wait for an instance: a bounded queue, and batches formed from it.

A request has as many parts as it has batches of rows; each part is run once, or again where its
instance was lost, and the request is answered when all of its parts are.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress

import numpy as np

from .instance import Array

# A part whose instances were lost so often is what loses them: others shall not suffer from it.
MOST_LOSSES = 3


class Request:
    """What somebody asks for: feeds, and a future of outputs by name."""

    def __init__(self, parts: int) -> None:
        self.future: Future[dict[str, Array]] = Future()
        self._answers: list[dict[str, Array] | None] = [None] * parts
        self._missing = parts
        self._lock = threading.Lock()

    def answer(self, part: int, outputs: dict[str, Array]) -> None:
        """Take the outputs of a part; the last one answers the request."""
        with self._lock:
            if self._answers[part] is not None:
                return
            self._answers[part] = outputs
            self._missing -= 1
            if self._missing:
                return
        answers = [entry for entry in self._answers if entry is not None]
        if len(answers) == 1:
            whole = answers[0]
        else:
            whole = {
                name: np.concatenate([answer[name] for answer in answers]) for name in answers[0]
            }
        with suppress(InvalidStateError):  # it was given up, or a part of it failed
            self.future.set_result(whole)

    def fail(self, error: Exception) -> None:
        """Answer the request with an error."""
        with suppress(InvalidStateError):
            self.future.set_exception(error)


class Part:
    """Rows of a request that fit into a batch; `kind` tells which parts may be joined."""

    def __init__(self, request: Request, number: int, feeds: dict[str, Array], rows: int) -> None:
        self.request, self.number = request, number
        self.feeds, self.rows = feeds, rows
        self.arrived = time.monotonic()
        self.losses = 0
        self.kind = tuple(
            (name, array.dtype.str, array.shape[1:]) for name, array in sorted(feeds.items())
        )


class Queue:
    """Parts in the order of their arrival, at most so many; batches are taken from it.

    A batch is of the oldest part and of others of its kind. It is taken once it is full, once the
    oldest part has waited for `delay_s`, or when the queue is closed.
    """

    def __init__(self, most: int, batch: int, delay_s: float, *, joins: bool) -> None:
        self._most, self._batch, self._delay_s = most, batch, delay_s
        self._joins = joins
        self._parts: deque[Part] = deque()
        self._changed = threading.Condition()
        self._waiting_for_room: deque[Callable[[], object]] = deque()
        self._closed: Exception | None = None

    def __len__(self) -> int:
        """Return how many parts wait."""
        return len(self._parts)

    @property
    def is_closed(self) -> bool:
        """Tell whether it takes nothing more."""
        return self._closed is not None

    def offer(self, parts: Sequence[Part]) -> bool:
        """Take parts if there is room, or if nothing waits; raise what it was closed with."""
        with self._changed:
            if self._closed is not None:
                raise type(self._closed)(*self._closed.args)
            if self._parts and len(self._parts) + len(parts) > self._most:
                return False
            self._parts.extend(parts)
            self._changed.notify_all()
            return True

    def put(self, parts: Sequence[Part], timeout_s: float | None = None) -> bool:
        """Take parts once there is room; False where there was none in time."""
        end = None if timeout_s is None else time.monotonic() + timeout_s
        with self._changed:
            while not self.offer(parts):
                remaining_s = None if end is None else end - time.monotonic()
                if remaining_s is not None and remaining_s <= 0:
                    return False
                self._changed.wait(remaining_s)
            return True

    def call_when_room(self, call: Callable[[], object]) -> None:
        """Call something, once, when parts have been taken out, or at once if nothing waits."""
        with self._changed:
            if self._parts and self._closed is None:
                self._waiting_for_room.append(call)
                return
        call()

    def put_back(self, parts: Sequence[Part]) -> None:
        """Put parts whose instance was lost back to the front, however many wait."""
        with self._changed:
            self._parts.extendleft(reversed(parts))
            self._changed.notify_all()

    def take(self) -> list[Part] | None:
        """Wait for a batch and take it; None when the queue is closed and empty."""
        with self._changed:
            while True:
                if not self._parts:
                    if self._closed is not None:
                        return None
                    self._changed.wait()
                    continue
                batch = self._oldest_batch()
                wait_s = self._parts[0].arrived + self._delay_s - time.monotonic()
                rows = sum(part.rows for part in batch)
                alone = not self._joins or self._parts[0].losses
                if rows >= self._batch or wait_s <= 0 or alone or self._closed:
                    return self._taken(batch)
                self._changed.wait(wait_s)

    def close(self, error: Exception) -> None:
        """Take nothing more; what waits is still given out."""
        with self._changed:
            self._closed = self._closed or error
            waiting = self._drop_waiting()
            self._changed.notify_all()
        for call in waiting:
            call()

    def drain(self) -> list[Part]:
        """Take all that waits."""
        with self._changed:
            parts = list(self._parts)
            self._parts.clear()
            self._changed.notify_all()
        return parts

    def _oldest_batch(self) -> list[Part]:
        first = self._parts[0]
        # What has lost an instance before runs by itself: others shall not be lost with it.
        if not self._joins or first.losses:
            return [first]
        batch: list[Part] = []
        rows = 0
        for part in self._parts:
            if part.kind != first.kind or part.losses:
                continue
            if batch and rows + part.rows > self._batch:
                break
            batch.append(part)
            rows += part.rows
            if rows >= self._batch:
                break
        return batch

    def _taken(self, batch: list[Part]) -> list[Part]:
        gone = set(map(id, batch))
        if all(part is other for part, other in zip(batch, self._parts, strict=False)):
            for _ in batch:
                self._parts.popleft()
        else:
            self._parts = deque(part for part in self._parts if id(part) not in gone)
        waiting = self._drop_waiting()
        self._changed.notify_all()
        for call in waiting:
            call()
        return batch

    def _drop_waiting(self) -> list[Callable[[], object]]:
        waiting = list(self._waiting_for_room)
        self._waiting_for_room.clear()
        return waiting
