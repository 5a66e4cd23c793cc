"""A deployed model that serves: instances in processes, and requests that are shared out to them.

Each instance has a thread here that forms its next batch, writes it into memory that both share,
waits for the answer, and hands each request its rows. An instance that dies, or does not answer in
time, is replaced, and what it was running is run again; a request is answered once.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import os
import threading
import warnings
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ...catalog.errors import TensologError, TensologWarning
from ...profiles.machine import cores
from ...profiles.sessions.core_sharing import Demand
from ..deployment.deployment import Deployment, DeploymentError, read_deployment
from ..deployment.settings import Setting
from ..runnable_plan import Slot
from .instance import Array, Instance, Start
from .process import InstanceError, RunError
from .processor_claims import ProcessorClaim, claim_processors
from .requests import MOST_LOSSES, Part, Queue, Request
from .runner_sources import GroupSource, InstanceSource, Runner, Source
from .worker_group import WorkerGroup, starts_of

if TYPE_CHECKING:
    from ..cluster.cluster_group import ClusterSources

# Instances that can't be started so often in a row are given up.
_MOST_FAILED_STARTS = 3
_CLOSE_S = 10.0


class FeedError(TensologError, ValueError):
    """A request does not fit what the model takes."""


class FullError(TensologError):
    """As many requests wait as may wait: ask again later."""


class ClosedError(TensologError):
    """The pool was closed, or no instance of the model can be started any more."""


class ParallelSession:
    """Runs a deployed model on several instances; `run`, `submit` and `run_async` may be mixed.

    A context manager: `close` answers what waits and ends all processes. Safe to use from many
    threads.
    """

    def __init__(self, plan: Deployment, *, deadline_s: float | None = None,
                 memory_limit_bytes: int = 0) -> None:  # fmt: skip
        """Start the instances; raises what opening the model raises."""
        self.plan = plan
        self.setting = plan.setting if plan.partition is not None else fitted(plan.setting)
        self._deadline_s = plan.deadline_s if deadline_s is None else deadline_s
        if not self._deadline_s > 0:
            raise FeedError(f"a deadline is more than 0 s, not {self._deadline_s}")
        self._memory_limit_bytes = memory_limit_bytes
        self._queue = Queue(
            plan.queue, plan.setting.batch, plan.delay_ms / 1e3, joins=plan.batch.is_free
        )
        self._drivers: list[_Driver] = []
        self._lock = threading.Lock()
        self._cluster: ClusterSources | None = None
        self._claim: ProcessorClaim | None = None
        self._demand: Demand | None = None
        if plan.remote is not None:
            self._sources = self._on_cluster()
        else:
            self._sources = self._divided() if plan.partition is not None else self._whole()
        lanes = 1 if plan.partition is None else plan.partition.slots
        self._alive = len(self._sources) * lanes
        for source, number in itertools.product(self._sources, range(lanes)):
            driver = _Driver(self, source, number)
            self._drivers.append(driver)
            driver.thread.start()
        # A session that nobody has any more ends its instances; so does the interpreter's end.
        weakref.finalize(self, self._queue.close, ClosedError("the session is gone"))
        if self._claim is not None:
            weakref.finalize(self, self._claim.release)
        try:
            for driver in self._drivers:
                driver.opened.result()
            self._check_model()
        except BaseException:
            self.close()
            raise

    def _whole(self) -> list[Source]:
        """Return where instances come from that each have the whole model."""
        threads, instances = self.setting.threads, self.setting.instances
        self._claim = claim_processors([threads] * instances)
        sources = [InstanceSource(self._start(place)) for place in self._claim.places]

        def share_cores(is_shared: bool) -> None:
            for source in sources:
                source.share_cores(is_shared)

        self._demand = Demand(threads * instances, share_cores)
        return [*sources]

    def _divided(self) -> list[Source]:
        """Return where groups of workers come from, each with the parts of a model."""
        partition, instances = self.plan.partition, self.setting.instances
        assert partition is not None
        slots = partition.slots
        try:
            self._claim = claim_processors(list(partition.threads) * instances)
            places = self._claim.places
        except ValueError as error:
            warnings.warn(
                f"{error}: workers take turns; deploy the model here", TensologWarning, stacklevel=4
            )
            places = ((),) * (len(partition.devices) * instances)
        sources: list[Source] = []
        width = len(partition.devices)
        for first in range(0, len(places), width):
            group = places[first : first + width]
            starts = starts_of(partition, self._start(()), group)
            sources.append(GroupSource(partial(WorkerGroup, partition, starts, slots)))
        return sources

    def _on_cluster(self) -> list[Source]:
        """Return where groups of workers on other machines come from."""
        # Imported within functions: the cluster's modules, which plans of this machine don't need.
        from ..cluster.cluster_group import ClusterSources

        remote, partition = self.plan.remote, self.plan.partition
        assert remote is not None and partition is not None
        folder = self.plan.model_path.parent
        self._cluster = ClusterSources(remote, partition, folder, self._memory_limit_bytes)
        return [*self._cluster.sources()]

    def _start(self, processors: tuple[int, ...]) -> Start:
        return Start(
            self.plan.model_path,
            self.setting.threads,
            processors,
            spins=self._spins(),
            memory_limit_bytes=self._memory_limit_bytes,
        )

    def _spins(self) -> bool:
        """Tell whether threads wait busily for each other.

        That costs others nothing where each has a processor of its own. Threads that share some
        with another pool, or instances that are not pinned, would take turns with those who wait.
        """
        if self._claim is None:
            return False
        of_others = {"none": True, "some": False, "unknown": self.setting.instances == 1}
        return of_others[self._claim.others]

    @property
    def restarts(self) -> int:
        """Count the instances, or groups of workers, that were replaced."""
        return sum(max(0, source.opened - 1) for source in self._sources)

    @property
    def inputs(self) -> tuple[Slot, ...]:
        """Describe what the model takes."""
        return self.plan.inputs

    @property
    def outputs(self) -> tuple[Slot, ...]:
        """Describe what the model gives."""
        return self.plan.outputs

    @property
    def is_alive(self) -> bool:
        """Tell whether requests are answered: false once closed, or once all instances are lost."""
        return self._alive > 0 and not self._queue.is_closed

    @property
    def pids(self) -> list[int]:
        """Number the processes of the instances."""
        runners = [driver.instance for driver in self._drivers if driver.instance is not None]
        return list(dict.fromkeys(pid for runner in runners for pid in runner.pids))

    def run(
        self,
        feeds: Mapping[str, Any],
        names: Sequence[str] | None = None,
        *,
        timeout_s: float | None = None,
    ) -> list[Array]:
        """Run the model on `feeds` and wait; returns the outputs named, by default all, in order.

        Waits for room where too many requests wait. Requests are joined with others along the
        batch axis, or divided, where the plan says that rows stay apart. Raises FeedError for feeds
        that do not fit, RunError with the runtime's reason, TimeoutError, ClosedError.
        """
        future = self.submit(feeds, timeout_s=timeout_s)
        try:
            return self._named(future.result(timeout_s), names)
        except BaseException:
            future.cancel()
            raise

    def submit(
        self, feeds: Mapping[str, Any], *, timeout_s: float | None = None
    ) -> Future[dict[str, Array]]:
        """Hand a request over, waiting for room at most so long; the future gives outputs by name.

        The arrays must not change until it is answered: they are copied when they are sent.
        Raises FeedError, ClosedError, and FullError where there was no room in time.
        """
        request, parts = self._request(feeds)
        if not self._queue.put(parts, timeout_s):
            raise FullError(f"{len(self._queue)} requests wait already: ask again later")
        return request.future

    async def run_async(
        self, feeds: Mapping[str, Any], names: Sequence[str] | None = None, *, wait: bool = True
    ) -> list[Array]:
        """Run the model without blocking the event loop; see `run`.

        Unless told to `wait`, raises FullError where too many requests wait.
        """
        request, parts = self._request(feeds)
        loop = asyncio.get_running_loop()
        while not self._queue.offer(parts):
            if not wait:
                raise FullError(f"{len(self._queue)} requests wait already: ask again later")
            room = asyncio.Event()
            self._queue.call_when_room(lambda: _set(loop, room))  # noqa: B023  used once
            await room.wait()
        outputs = await asyncio.wrap_future(request.future)
        return self._named(outputs, names)

    def close(self) -> None:
        """Answer what waits, and end all processes; further requests raise ClosedError."""
        self._queue.close(ClosedError("the session is closed"))
        for driver in self._drivers:
            driver.thread.join(_CLOSE_S)
        for driver in self._drivers:
            if driver.thread.is_alive():  # its instance runs for longer than anybody waits
                driver.stop()
        for driver in self._drivers:
            driver.thread.join(_CLOSE_S)
        if self._cluster is not None:
            self._cluster.close()
        if self._claim is not None:
            self._claim.release()
        if self._demand is not None:
            self._demand.leave()
        self._fail_rest(ClosedError("the session was closed before the request was run"))

    def __enter__(self) -> Self:
        """Give the session."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Close it."""
        self.close()

    def _check_model(self) -> None:
        """Raise DeploymentError where the model is not the one that the plan was made for."""
        instance = self._drivers[0].instance
        if not isinstance(instance, Instance):  # parts that don't fit together can't be opened
            return
        for tensors, planned in ((instance.inputs, self.inputs), (instance.outputs, self.outputs)):
            if [(s.name, s.dtype) for s in tensors] != [(s.name, s.dtype) for s in planned]:
                raise DeploymentError(
                    f"{self.plan.model_path} takes or gives {', '.join(s.name for s in tensors)}, "
                    f"and the plan says {', '.join(s.name for s in planned)}: deploy it again"
                )

    # ------------------------------------------------------------------------------ requests

    def _request(self, feeds: Mapping[str, Any]) -> tuple[Request, list[Part]]:
        arrays = self._checked(feeds)
        rows = next((array.shape[0] for array in arrays.values() if array.ndim), 1)
        pieces = 1
        if self.plan.batch.is_free:
            pieces = max(1, math.ceil(rows / self.plan.setting.batch))
        request = Request(pieces)
        if pieces == 1:
            return request, [Part(request, 0, arrays, rows)]
        ends = [rows * number // pieces for number in range(pieces + 1)]
        return request, [
            Part(
                request,
                number,
                {name: array[start:end] for name, array in arrays.items()},
                end - start,
            )
            for number, (start, end) in enumerate(itertools.pairwise(ends))
        ]

    def _checked(self, feeds: Mapping[str, Any]) -> dict[str, Array]:
        """Take the feeds as arrays of the right types; FeedError where one does not fit."""
        names = [slot.name for slot in self.inputs]
        for name in feeds:
            if name not in names:
                raise FeedError(f"the model has no input {name!r}: it takes {', '.join(names)}")
        arrays, sizes = {}, {}
        for slot in self.inputs:
            if slot.name not in feeds:
                raise FeedError(f"no data for the input {slot.name!r}")
            array = np.asarray(feeds[slot.name])
            wanted = np.dtype(slot.dtype)
            if array.dtype != wanted and not (wanted.hasobject and array.dtype.kind in "SU"):
                raise FeedError(
                    f"the input {slot.name!r} is {array.dtype}: the model takes {wanted}"
                )
            fits = len(slot.shape) == array.ndim and all(
                not isinstance(size, int) or size == array_size
                for size, array_size in zip(slot.shape, array.shape, strict=False)
            )
            if not fits:
                wanted_shape = ", ".join(str(size or "?") for size in slot.shape)
                raise FeedError(
                    f"the input {slot.name!r} has the shape {list(array.shape)}: "
                    f"the model takes [{wanted_shape}]"
                )
            arrays[slot.name] = array.astype(wanted) if wanted.hasobject else array
            if self.plan.batch.is_free:
                sizes[slot.name] = array.shape[0]
        if len(set(sizes.values())) > 1:
            raise FeedError(f"inputs have several numbers of rows: {sizes}")
        return arrays

    def _named(self, outputs: Mapping[str, Array], names: Sequence[str] | None) -> list[Array]:
        wanted = [slot.name for slot in self.outputs] if names is None else list(names)
        for name in wanted:
            if name not in outputs:
                raise FeedError(f"the model has no output {name!r}: it gives {', '.join(outputs)}")
        return [outputs[name] for name in wanted]

    def _fail_rest(self, error: Exception) -> None:
        for part in self._queue.drain():
            part.request.fail(error)

    def _lost(self, error: Exception) -> None:
        """Give up an instance; with the last one all requests."""
        with self._lock:
            self._alive -= 1
            alive = self._alive
        if not alive:
            closed = ClosedError(f"no instance of the model can be started any more: {error}")
            self._queue.close(closed)
            self._fail_rest(closed)


class _Driver:
    """The thread of one instance, which owns it: forms batches, and replaces what is lost."""

    def __init__(self, session: ParallelSession, source: Source, number: int) -> None:
        self._source, self._number = source, number
        self._session = weakref.ref(session)
        self._queue, self._deadline_s = session._queue, session._deadline_s
        self._joins = session.plan.batch.is_free
        self.opened: Future[None] = Future()
        self.instance: Runner | None = None
        self._stopped = False
        self.thread = threading.Thread(target=self._serve, name="tensolog-instance", daemon=True)

    def stop(self) -> None:
        """End the instance, whatever it does; it is not replaced."""
        self._stopped = True
        if self.instance is not None:
            self.instance.kill()

    def _serve(self) -> None:
        try:
            self._open()
        except Exception as error:  # what whoever opens the session sees
            self.opened.set_exception(error)
            return
        self.opened.set_result(None)
        try:
            while (taken := self._queue.take()) is not None:
                batch = [part for part in taken if not part.request.future.done()]
                if not batch:
                    continue
                is_there = False
                try:
                    with self._source.turn(alone=any(part.losses for part in batch)):
                        # Another driver's request may have ended the group before this one's turn.
                        is_there = self.instance is not None and not self.instance.is_lost
                        if is_there:
                            self._answer(batch)
                except InstanceError as error:
                    self._after_loss(batch, error)
                else:
                    if not is_there:
                        self._queue.put_back(batch)
                        self._reopen()
        except Exception as error:
            self._give_up(error)
        finally:
            self._close()

    def _open(self) -> None:
        self._close()
        self.instance = self._source.open(self._number)

    def _close(self) -> None:
        instance, self.instance = self.instance, None
        if instance is not None:
            instance.close()

    def _answer(self, batch: list[Part]) -> None:
        """Run a batch and give each part its rows; parts that are refused together run alone."""
        assert self.instance is not None
        feeds = {name: [part.feeds[name] for part in batch] for name in batch[0].feeds}
        try:
            outputs = self.instance.run(feeds, self._deadline_s)
        except RunError as error:
            if len(batch) == 1:
                batch[0].request.fail(error)
                return
            for part in batch:  # one of them is to blame
                self._answer([part])
            return
        except InstanceError:
            raise
        except Exception as error:  # tensors that can't be put together, memory that is used up
            for part in batch:
                part.request.fail(error)
            return
        row = 0
        for part in batch:
            if self._joins:
                end = row + part.rows
                part.request.answer(part.number, {k: v[row:end].copy() for k, v in outputs.items()})
                row = end
            else:
                part.request.answer(part.number, {k: v.copy() for k, v in outputs.items()})

    def _after_loss(self, batch: list[Part], error: InstanceError) -> None:
        """Have a batch run again, by whoever is free, and start another instance."""
        again = []
        for part in batch:
            part.losses += 1
            if part.losses < MOST_LOSSES:
                again.append(part)
            else:
                part.request.fail(InstanceError(f"{error}; so did {part.losses - 1} before it"))
        self._queue.put_back([part for part in again if not part.request.future.done()])
        if self._stopped:
            raise error
        self._reopen()

    def _reopen(self) -> None:
        """Open what runs requests again; raises what that raises, when it has often enough."""
        for attempt in range(1, _MOST_FAILED_STARTS + 1):
            try:
                self._open()
                break
            except (TensologError, OSError):
                if attempt == _MOST_FAILED_STARTS:
                    raise

    def _give_up(self, error: Exception) -> None:
        session = self._session()
        if session is not None:
            session._lost(error)


def open_parallel(
    plan: str | os.PathLike[str] | Deployment,
    *,
    deadline_s: float | None = None,
    memory_limit_bytes: int = 0,
) -> ParallelSession:
    """Open what `tensolog deploy` wrote: a pool of instances, each a process on cores of its own.

    `deadline_s` replaces the plan's time after which an instance that has not answered is replaced;
    `memory_limit_bytes` bounds what each instance may have of its own. Where this machine, or its
    container, has fewer cores than the plan was made for, there are fewer instances, and a warning.
    Raises DeploymentError for a folder that is no deployment, ModelError for a model that can't be
    opened.
    """
    read = plan if isinstance(plan, Deployment) else read_deployment(os.fspath(plan))
    return ParallelSession(read, deadline_s=deadline_s, memory_limit_bytes=memory_limit_bytes)


def fitted(setting: Setting) -> Setting:
    """Shrink a setting to the cores that may be used here; a warning says so."""
    allowed = cores()
    threads = min(setting.threads, allowed)
    instances = min(setting.instances, allowed // threads)
    shrunk = Setting(instances, threads, setting.batch)
    if shrunk != setting:
        warnings.warn(
            f"the plan was made for {setting}, and {allowed} cores may be used here: it runs with "
            f"{shrunk}; deploy the model here to have it measured",
            TensologWarning,
            stacklevel=2,
        )
    return shrunk


def _set(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(event.set)
