"""The engine that workers of a cluster belong to: Dask, which is asked for here and nowhere else.

In: the address of a scheduler. It says which workers there are, and runs functions in them. Tensors
do not pass through it: what a hop costs on engines is in benchmarks/results/engines.md.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Self

from ...catalog.errors import TensologError
from .worker_site import describe

_CONNECT_S = 5.0
_ANSWER_S = 20.0
# Modules that have to be of the same version here and there.
_ALIKE = ("tensolog", "onnxruntime")
_INSTALL = "pip install 'tensolog[cluster]'"


class EngineError(TensologError):
    """The engine is not installed or does not answer, or its workers are not as they have to be."""


@dataclass(frozen=True)
class Worker:
    """A worker of the cluster: its name, its address, and what was given to it.

    `cores` and `memory_bytes` are what it may use; `machine` is equal for workers that can share
    memory. `fingerprint` and `processor` are those of its machine.
    """

    name: str
    address: str
    cores: int
    memory_bytes: int
    machine: str = ""
    fingerprint: str = ""
    processor: str = ""

    @property
    def host(self) -> str:
        """Return the name or number of its machine in the network."""
        return self.address.partition("://")[2].rpartition(":")[0]


class Engine:
    """A client of the cluster; a context manager."""

    def __init__(self, address: str) -> None:
        """Connect to a scheduler. Raises EngineError, in a line, where that can't be."""
        try:
            # An extra: who plans for this machine alone needs no engine.
            import distributed

            client: Any = distributed.Client  # it has types in part
        except ImportError as error:
            raise EngineError(
                f"workers of other machines are Dask's, which is not installed: {_INSTALL}"
            ) from error
        self.address = address
        self._client: Any = None
        with _quiet(), contextlib.suppress(OSError, ValueError, TypeError, ImportError):
            self._client = client(address, timeout=_CONNECT_S, set_as_default=False)
        if self._client is None:
            # Half a client is left. Collected while another one starts, it would wait for a lock
            # that the other holds (distributed's LoopRunner), and both forever.
            gc.collect()
            raise EngineError(
                f"no Dask scheduler answers at {address}: start one with `dask scheduler`, workers "
                "with `dask worker ADDRESS --nthreads N`, or correct the address"
            )
        if not str(self._client.scheduler.address).startswith("tcp://"):
            self.close()
            raise EngineError(
                f"the cluster at {address} does not speak plain TCP: tensors would go unencrypted "
                "between its workers, which is not what it was set up for"
            )
        self._workers_by_address: dict[str, Worker] = {}

    def workers(self) -> list[Worker]:
        """Return the workers that answer. Raises EngineError where one can't run parts of models.

        Versions and machines are asked for once for each worker.
        """
        rows = self._rows()
        new = [address for address in rows if address not in self._workers_by_address]
        versions = {name: version(name) for name in _ALIKE}
        for name, local_version in versions.items():
            # A function of the standard library: what is asked for need not be there.
            for address, answer in self._asked(version, [name], new, rows).items():
                where = f"the worker {rows[address]['name']} ({address})"
                if isinstance(answer, ModuleNotFoundError):
                    raise EngineError(f"{where} has no {name}: {_INSTALL} there")
                if answer != local_version:
                    raise EngineError(
                        f"{where} has {name} {answer}, and {local_version} is here: "
                        "install one version"
                    )
        for address, described in self._asked(describe, [], new, rows).items():
            row = rows[address]
            if isinstance(described, BaseException):
                raise EngineError(
                    f"the worker {row['name']} ({address}) can't run models: "
                    f"{described or type(described)}"
                )
            limit_bytes = int(row.get("memory_limit") or 0)
            self._workers_by_address[address] = Worker(
                str(row["name"]),
                address,
                min(int(row["nthreads"]), described["cores"]),
                min(limit_bytes or described["memory_bytes"], described["memory_bytes"]),
                described["machine"],
                described["fingerprint"],
                described["processor"],
            )
        return [
            self._workers_by_address[address]
            for address in rows
            if address in self._workers_by_address
        ]

    def _asked(
        self,
        function: Callable[..., Any],
        arguments: Sequence[Any],
        addresses: Sequence[str],
        rows: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Run a function in workers; leave out who does not answer, and who is not there any more.

        A ModuleNotFoundError is an answer; any other error is raised, as one of the worker's.
        """
        answers = self.run(function, arguments, addresses)
        errors = {
            address: error
            for address, error in answers.items()
            if isinstance(error, BaseException) and not isinstance(error, ImportError)
        }
        alive = self._rows() if errors else rows
        for address, error in errors.items():
            del answers[address]
            if address in alive and not isinstance(error, OSError):
                raise EngineError(
                    f"the worker {rows[address]['name']} ({address}) can't run models: "
                    f"{error or type(error).__name__}"
                )
        return answers

    def _rows(self) -> dict[str, Any]:
        try:
            info = self._client.scheduler_info(n_workers=-1)
        except (OSError, TimeoutError) as error:
            raise EngineError(f"the scheduler at {self.address} does not answer") from error
        rows: dict[str, Any] = info["workers"]
        for address in rows:
            if not address.startswith("tcp://"):
                raise EngineError(
                    f"the worker {address} is a thread of another process: start workers as "
                    "processes (LocalCluster(processes=True), or `dask worker`)"
                )
        return rows

    def run(
        self,
        function: Callable[..., Any],
        arguments: Sequence[Any],
        addresses: Sequence[str],
        limit_s: float | None = None,
    ) -> dict[str, Any]:
        """Run a function in workers at once; results, or the error of each, by address.

        Of a worker that does not answer in time the error is a TimeoutError.
        """
        return self.run_each(function, dict.fromkeys(addresses, arguments), limit_s)

    def run_each(
        self,
        function: Callable[..., Any],
        arguments: Mapping[str, Sequence[Any]],
        limit_s: float | None = None,
    ) -> dict[str, Any]:
        """Run a function in workers at once, with arguments of their own."""
        answered: dict[str, Any] = {}
        limit_s = _ANSWER_S if limit_s is None else limit_s

        def ask(address: str) -> None:
            try:
                answers = self._client.run(
                    function, *arguments[address], workers=[address], on_error="return"
                )
                answered[address] = answers[address]
            except BaseException as error:  # the worker is gone, or the scheduler
                answered[address] = error

        # Threads that nobody waits for longer: a worker that hangs never answers.
        threads = [
            threading.Thread(target=ask, args=(argument,), daemon=True) for argument in arguments
        ]
        for thread in threads:
            thread.start()
        end = time.monotonic() + limit_s
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
        silent = TimeoutError(f"no answer within {limit_s:.0f} s")
        return {address: answered.get(address, silent) for address in arguments}

    def close(self) -> None:
        """Leave the cluster as it is."""
        with contextlib.suppress(Exception), _quiet():
            self._client.close(timeout=2)

    def __enter__(self) -> Self:
        """Give the engine."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Leave the cluster."""
        self.close()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the engine from printing what is raised anyway."""
    logger = logging.getLogger("distributed")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
