"""Many rules through the gate at once, each in a process that can be ended when it takes too long.

A solver may overrun its own limit, or crash; only a process of its own keeps that from the others.
"""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import IO, Self

from ..language.syntax import Rule
from .cpu_limit import FLOATING_MORE_S, FLOATING_TIMES, PROOF_MORE_S, PROOF_TIMES
from .gate import INFER_S, SEARCH_S, TIMEOUT_S
from .verdict import Verdict

# What a rule may take in real time, beyond the processor time that all of its parts keep to by
# themselves: so often as much on a machine that is busy, and so much more.
_TIMES = 8.0
_GRACE_S = 30.0
COMMAND = (sys.executable, "-P", "-m", f"{__package__}.worker")


def prove_rules(
    rules: Sequence[Rule],
    workers: int = 2,
    progress: Callable[[Rule, Verdict], None] | None = None,
    *,
    timeout: float = TIMEOUT_S,
    search: float = SEARCH_S,
    limit: float | None = None,
    infer: float = INFER_S,
    floating: bool | Collection[Rule] = False,
) -> tuple[Verdict, ...]:
    """Put rules through the gate in processes of their own; return verdicts in the rules' order.

    `progress` is called, in this thread, with each rule that is done. A rule that has no verdict
    after `limit` seconds of real time is unknown. `floating`: measure what the proved ones, or
    those of them that are named, do in floating point, and refuse those that break their class. An
    interruption ends the processes and is passed on: what `progress` was told of is all there is.
    """
    with Provers(min(workers, len(rules))) as provers:
        return provers.prove(
            rules,
            progress,
            timeout=timeout,
            search=search,
            limit=limit,
            infer=infer,
            floating=floating,
        )


class Provers:
    """Processes that prove rules, kept from one call to the next: starting one takes a second."""

    def __init__(self, workers: int = 2) -> None:
        self._processes = [_Process() for _ in range(workers)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.end()
            process.close()

    @property
    def processor_s(self) -> float:
        """The processor time that all answers took, in seconds."""
        return sum(process.processor_s for process in self._processes)

    def prove(
        self,
        rules: Sequence[Rule],
        progress: Callable[[Rule, Verdict], None] | None = None,
        *,
        timeout: float = TIMEOUT_S,
        search: float = SEARCH_S,
        limit: float | None = None,
        infer: float = INFER_S,
        floating: bool | Collection[Rule] = False,
        processor: float | None = None,
    ) -> tuple[Verdict, ...]:
        """Do what `prove_rules` does; after an interruption no more can be proved.

        `processor` bounds all but the measurement of each rule, in seconds of processor time.
        """
        options = {
            "timeout": timeout,
            "search": search,
            "infer": infer,
            "processor": processor,
        }
        chosen = frozenset(rules if floating is True else floating or ())
        if limit is None:
            work = (PROOF_TIMES + FLOATING_TIMES) * timeout + PROOF_MORE_S + FLOATING_MORE_S
            limit = _TIMES * work + _GRACE_S
        for process in self._processes:
            process.options, process.limit, process.floating = options, limit, chosen
        verdicts: dict[int, Verdict] = {}
        for number, verdict in _proving(rules, self._processes):
            verdicts[number] = verdict
            if progress is not None:
                progress(rules[number], verdict)
        return tuple(verdicts[number] for number in range(len(rules)))


def _proving(rules: Sequence[Rule], processes: Sequence[_Process]) -> Iterator[tuple[int, Verdict]]:
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in range(len(rules)):
        waiting.put(number)
    done: queue.SimpleQueue[tuple[int, Verdict] | BaseException] = queue.SimpleQueue()

    def work(process: _Process) -> None:
        try:
            with suppress(queue.Empty):
                while not process.ended:
                    number = waiting.get_nowait()
                    done.put((number, process.ask(rules[number])))
        except BaseException as error:  # told to the thread that waits for verdicts
            done.put(error)

    threads = [threading.Thread(target=work, args=(p,), daemon=True) for p in processes]
    answered = 0
    try:
        for thread in threads:
            thread.start()
        for _ in rules:
            answer = done.get()
            if isinstance(answer, BaseException):
                raise answer
            answered += 1
            yield answer
    finally:
        if answered < len(rules):  # a thread may wait for an answer that nobody wants
            for process in processes:
                process.end()
        for thread in threads:
            thread.join()


class _Process:
    """A worker that is started when it is first asked, and again after it had to be ended."""

    def __init__(self) -> None:
        self.options: Mapping[str, object] = {}
        self.limit = 0.0
        self.floating: Collection[Rule] = ()
        self.ended = False
        self._ended_s, self._running_s = 0.0, 0.0
        self._running: subprocess.Popen[bytes] | None = None
        self._complaints: IO[bytes] | None = None
        self._lock = threading.Lock()

    @property
    def processor_s(self) -> float:
        """The processor time that answers took, those of processes that ended among them."""
        return self._ended_s + self._running_s

    def ask(self, rule: Rule) -> Verdict:
        """Return the verdict on a rule; unknown where the process ends without one."""
        process = self._started()
        if process is None or process.stdin is None or process.stdout is None:
            return _unknown(rule, "it was interrupted")
        late = threading.Event()

        def stop() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(self.limit, stop)
        verdict: Verdict | None = None
        try:
            timer.start()
            floating = rule in self.floating
            pickle.dump((rule, self.options, floating), process.stdin)
            process.stdin.flush()
            verdict = self._answer(process.stdout)
            if floating:
                verdict = self._answer(process.stdout)
            return verdict
        except (EOFError, OSError, pickle.UnpicklingError):
            code = process.wait()
            words = self._last_words()
            self.close()
            if verdict is not None:  # a measurement that fails takes no proof away
                return verdict
            if late.is_set():
                return _unknown(rule, f"no verdict within {self.limit:g} s")
            return _unknown(rule, f"the prover ended with code {code}{words}")
        finally:
            timer.cancel()
            if late.is_set():  # even where the verdict came at the last moment
                self.close()

    def _answer(self, answers: IO[bytes]) -> Verdict:
        verdict: Verdict
        verdict, self._running_s = pickle.load(answers)
        return verdict

    def _started(self) -> subprocess.Popen[bytes] | None:
        with self._lock:
            if self.ended or self._running is not None:
                return self._running
            self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as the process)
            self._running = subprocess.Popen(
                COMMAND,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._complaints,
                # An interruption at the keyboard is this process's to handle.
                start_new_session=os.name == "posix",
            )
        assert self._running.stdout is not None
        try:
            pickle.load(self._running.stdout)  # ready: the limit is not spent on starting
        except (EOFError, OSError) as error:
            if self.ended:
                return None
            reason = f"the prover can't be started{self._last_words()}"
            raise RuntimeError(reason) from error
        return self._running

    def _last_words(self) -> str:
        if self._complaints is None:
            return ""
        self._complaints.seek(0)
        lines = self._complaints.read().decode(errors="replace").strip().splitlines()
        return f": {lines[-1]}" if lines else ""

    def end(self) -> None:
        """End the process, whatever it does: an answer that is waited for is not given."""
        with self._lock:
            self.ended = True
            if self._running is not None:
                self._running.kill()

    def close(self) -> None:
        """Give back what an ended process held."""
        with self._lock:
            running, self._running = self._running, None
            self._ended_s, self._running_s = self.processor_s, 0.0
        if running is not None:
            running.wait()
            for stream in (running.stdin, running.stdout):
                if stream is not None:
                    with suppress(OSError):
                        stream.close()
        if self._complaints is not None:
            self._complaints.close()
            self._complaints = None


def _unknown(rule: Rule, reason: str) -> Verdict:
    return Verdict(rule.name, rule.hash, "unknown", reason)
