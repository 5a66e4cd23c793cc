"""Progress on standard error: one display on a terminal, a line every few seconds elsewhere.

Both say what is being done, what is left of the steps and of the budget, and the best found so far.
The display stays where it is, however many phases there are, and is gone at the end.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Self, TextIO

from .interrupts import stop_if_interrupted
from .printing import one_line

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

# Imported within functions: rich, where progress is drawn.

PLAIN_INTERVAL_S = 5.0
# A display that is drawn more often would take time from what is being measured.
DRAWN_PER_S = 4
MOST_PLAIN_LETTERS = 120


class Progress:
    """Callable with (phase, done, total, detail); use as a context manager.

    `total` 0 means that the end is not known. `steps` names the step that a phase belongs to, in
    the order of the steps: a phase that comes again leads back to none. `budget_s` is what all may
    take. The phase `best` has the best found so far as its detail, and `foretold`, as long as
    nothing was found, what may be better than the original.
    """

    def __init__(
        self,
        *,
        quiet: bool = False,
        stream: TextIO | None = None,
        steps: Mapping[str, str] | None = None,
        budget_s: float | None = None,
        best: str = "",
        foretold: str = "",
    ) -> None:
        self.stream = stream if stream is not None else sys.stderr
        self.quiet = quiet
        self.steps = dict(steps or {})
        self.budget_s = budget_s
        self.started = time.monotonic()
        self._best_phase, self._foretold_phase = best, foretold
        self._best = self._foretold = ""
        self._doing = ("", 0, 0, "")
        self._names = list(dict.fromkeys(self.steps.values()))
        self._step = 0
        self._printed: float | None = None
        self._live: Live | None = None

    def __enter__(self) -> Self:
        """Open the display where there is a terminal."""
        if not self.quiet and self.stream.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(
                console=Console(file=self.stream),
                get_renderable=self._drawn,
                refresh_per_second=DRAWN_PER_S,
                transient=True,
                # What is printed meanwhile goes above it on a terminal, and else where it would go.
                redirect_stdout=sys.stdout.isatty(),
            )
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take the display away."""
        if self._live is not None:
            self._live.stop()

    def __call__(self, phase: str, done: int, total: int, detail: str = "") -> None:
        """Report that `done` of `total` parts of `phase` are done; `detail` is the current one."""
        stop_if_interrupted()
        if self.quiet:
            return
        if self._best_phase and phase == self._best_phase:
            self._best = one_line(detail)
        elif self._foretold_phase and phase == self._foretold_phase:
            self._foretold = one_line(detail)
        else:
            self._doing = (phase, done, total, one_line(detail))
            if phase in self.steps:
                self._step = max(self._step, self._names.index(self.steps[phase]))
        if self._live is None:
            self._print()

    # ---------------------------------------------------------------------------- plain lines

    def _print(self) -> None:
        now = time.monotonic()
        if self._printed is not None and now - self._printed < PLAIN_INTERVAL_S:
            return
        self._printed = now
        best = f"; {self._best_phase} {self._best}" if self._best else self._promise()
        line = f"[{self._time()}] {self._activity()}"
        print(f"{_cut(line, MOST_PLAIN_LETTERS - len(best))}{best}", file=self.stream, flush=True)

    def _time(self) -> str:
        """Say how much time has passed, and of how much."""
        seconds = time.monotonic() - self.started
        if self.budget_s is None:
            return f"{seconds:6.1f} s"
        return f"{seconds:4.0f} of {self.budget_s:.0f} s"

    def _promise(self) -> str:
        """Say what is foretold, where that is anything."""
        return f"; {self._foretold_phase} {self._foretold}" if self._foretold else ""

    def _activity(self) -> str:
        phase, done, total, detail = self._doing
        count = f" {done}/{total}" if total > 1 else ""
        return f"{phase}{count} {detail}".rstrip()

    # ------------------------------------------------------------------------------- terminal

    def _drawn(self) -> RenderableType:
        """Draw as many lines at any time, each cut to the width that there is."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.spinner import Spinner
        from rich.table import Table
        from rich.text import Text

        def line(text: str, style: str = "") -> Text:
            return Text(text, style, no_wrap=True, overflow="ellipsis")

        first = Table.grid(expand=True, padding=(0, 1))
        first.add_column(width=1)
        first.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
        first.add_column(justify="right", no_wrap=True)
        spinner = Spinner("dots")
        spinner.start_time = 0.0  # a new one is drawn each time
        first.add_row(
            spinner, line(self._activity()), line(self._time().strip(), "progress.elapsed")
        )
        seconds, (_, done, total, _) = time.monotonic() - self.started, self._doing
        if self.budget_s is not None:
            bar = ProgressBar(self.budget_s, min(seconds, self.budget_s))
        else:
            bar = ProgressBar(total or None, done, pulse=not total)
        second = Table.grid(expand=True, padding=(0, 1))  # a bar by itself ends no line
        second.add_column(width=1)
        second.add_column(ratio=1)
        second.add_row("", bar)
        lines: list[RenderableType] = [first, second]
        if self._names:
            steps = Text("  ", no_wrap=True, overflow="ellipsis")
            for number, name in enumerate(self._names):
                mark = "✓ " if number < self._step else "· " if number > self._step else "▸ "
                style = "green" if number < self._step else "dim" if number > self._step else "bold"
                steps.append(f"{mark}{name}  ", style)
            lines.append(steps)
        if self._best_phase:
            best = self._best or f"the original{self._promise()}"
            lines.append(line(f"  {self._best_phase}: {best}"))
        return Group(*lines)


def _cut(text: str, letters: int) -> str:
    return text if len(text) <= letters else f"{text[: letters - 1]}…"
