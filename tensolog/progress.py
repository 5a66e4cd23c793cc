"""Progress on standard error: one live line per phase on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

from .interrupts import stop_if_interrupted

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

PLAIN_INTERVAL_S = 5.0


class Progress:
    """Callable with (phase, done, total, detail); use as a context manager.

    `total` 0 means that the end is not known. A new phase ends the one before.
    """

    def __init__(self, *, quiet: bool = False, stream: TextIO | None = None) -> None:
        self.stream = stream if stream is not None else sys.stderr
        self.quiet = quiet
        self.phase = ""
        self.started = time.monotonic()
        self.printed = 0.0
        self.bars: Bars | None = None
        self.task: TaskID | None = None

    def __enter__(self) -> Self:
        """Draw bars on a terminal."""
        if not self.quiet and self.stream.isatty():
            self.bars = _bars(self.stream)
            self.bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave finished phases on the screen; an unfinished one disappears."""
        if self.bars is None:
            return
        if self.task is not None:
            if kind is None:
                self._finish()
            else:
                self.bars.remove_task(self.task)
        self.bars.stop()

    def __call__(self, phase: str, done: int, total: int, detail: str = "") -> None:
        """Report that `done` of `total` parts of `phase` are done; `detail` is the current one."""
        stop_if_interrupted()
        if self.quiet:
            return
        if self.bars is None:
            self._plain(phase, done, total, detail)
            return
        if phase != self.phase:
            if self.task is not None:
                self._finish()
            self.phase = phase
            self.task = self.bars.add_task(phase, total=total or None, detail=detail)
        assert self.task is not None
        count = f"{done}/{total} " if total > 1 else ""
        self.bars.update(self.task, completed=done, total=total or None, detail=count + detail)

    def _finish(self) -> None:
        """Show the running phase as complete: what a budget left out is not an error."""
        assert self.bars is not None and self.task is not None
        total = self.bars.tasks[-1].total or 1
        self.bars.update(self.task, completed=total, total=total, detail="")

    def _plain(self, phase: str, done: int, total: int, detail: str) -> None:
        now = time.monotonic()
        if phase == self.phase and now - self.printed < PLAIN_INTERVAL_S:
            return
        self.phase, self.printed = phase, now
        count = f" {done}/{total}" if total > 1 else ""
        line = f"[{now - self.started:6.1f} s] {phase}{count} {detail}".rstrip()
        print(line, file=self.stream, flush=True)


def _bars(stream: TextIO) -> Bars:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
    from rich.table import Column
    from rich.text import Text

    class Seconds(ProgressColumn):
        def render(self, task: Task) -> Text:
            seconds = task.finished_time if task.finished_time is not None else task.elapsed
            return Text(f"{seconds or 0:5.1f} s", style="progress.elapsed")

    return Progress(
        SpinnerColumn(finished_text="[green]✓"),
        TextColumn("{task.description}", table_column=Column(min_width=17)),
        BarColumn(bar_width=24),
        Seconds(),
        # Kernel labels hold brackets: no markup.
        TextColumn(
            "{task.fields[detail]}", markup=False, table_column=Column(ratio=1, no_wrap=True)
        ),
        console=Console(file=stream),
        expand=True,
    )
