import io
import itertools
import re

import pytest
from tensolog.optimizer.phases import BEST, FORETOLD, STEPS

from tensolog import progress as module
from tensolog.progress import Progress

PHASES = ["reading", "rewriting", "measuring kernels", "searching", "verifying", "racing"]
HEIGHT = 4  # lines of the display of an optimization


@pytest.fixture
def clock(monkeypatch):
    """Time that passes by one second a look."""
    seconds = itertools.count()
    monkeypatch.setattr(module.time, "monotonic", lambda: float(next(seconds)))


def lines_of(stream):
    return stream.getvalue().splitlines()


def test_however_many_phases_there_are_plain_lines_are_some_seconds_apart(clock):
    stream = io.StringIO()
    with Progress(stream=stream) as progress:
        for done in range(50):
            for phase in PHASES:
                progress(phase, done, 50, "Conv 3x3 [a]")
    times = [float(re.match(r"\[ *(\d+\.\d) s\] \w+", line)[1]) for line in lines_of(stream)]
    assert len(times) > 20
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert min(gaps) >= module.PLAIN_INTERVAL_S


def test_the_first_plain_line_comes_at_once_and_lines_name_the_best():
    stream = io.StringIO()
    with Progress(stream=stream, best=BEST, foretold=FORETOLD, budget_s=30) as progress:
        progress("reading", 0, 1, "model.onnx")
        module_interval, module.PLAIN_INTERVAL_S = module.PLAIN_INTERVAL_S, 0.0
        try:
            progress(FORETOLD, 0, 0, "1.40x, plan 'simplified'")
            progress(BEST, 0, 0, "1.31x, plan 'e-graph'")
            progress("racing", 1, 3, "")
        finally:
            module.PLAIN_INTERVAL_S = module_interval
    assert [line.split("] ")[1] for line in lines_of(stream)] == [
        "reading model.onnx",
        "reading model.onnx; predicted 1.40x, plan 'simplified'",
        "reading model.onnx; best so far 1.31x, plan 'e-graph'",
        "racing 1/3; best so far 1.31x, plan 'e-graph'",
    ]
    assert all(" of 30 s]" in line for line in lines_of(stream))


def test_plain_lines_are_cut_and_steer_no_terminal(clock):
    stream = io.StringIO()
    with Progress(stream=stream) as progress:
        progress("racing", 0, 0, "\x1b[2J" + "a" * 10**5)
    (line,) = lines_of(stream)
    assert len(line) <= module.MOST_PLAIN_LETTERS and "\x1b" not in line


def test_quiet_says_nothing():
    stream = io.StringIO()
    with Progress(quiet=True, stream=stream) as progress:
        progress("reading", 0, 1, "model.onnx")
    assert stream.getvalue() == ""


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")


def screen(text):
    """What a terminal shows after some text: the lines, without colours."""
    lines, row, column = [""], 0, 0
    for part in re.findall(r"\x1b\[\??[\d;]*[a-zA-Z]|\r|\n|[^\x1b\r\n]+", text):
        if part == "\r":
            column = 0
        elif part == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif (up := re.fullmatch(r"\x1b\[(\d*)A", part)) is not None:
            row -= int(up[1] or 1)
        elif part == "\x1b[2K":
            lines[row] = ""
        elif not part.startswith("\x1b"):
            kept = lines[row].ljust(column)
            lines[row] = kept[:column] + part + kept[column + len(part) :]
            column += len(part)
    return [line.rstrip() for line in lines if line.strip()]


def test_a_terminal_shows_one_display_that_stays_where_it_is():
    stream = Terminal()
    with Progress(
        stream=stream, steps=STEPS, best=BEST, foretold=FORETOLD, budget_s=60
    ) as progress:
        progress("reading", 0, 0, "model.onnx")
        progress(FORETOLD, 0, 0, "1.40x, plan 'simplified'")
        progress._live.refresh()
        line = screen(stream.getvalue())[3].strip()
        assert line == "best so far: the original; predicted 1.40x, plan 'simplified'"
        for turn in range(5):
            for phase in ("searching", "screening", "verifying", "measuring"):
                progress(phase, turn, 5, "Conv [3x3] " + "x" * 500)
                progress._live.refresh()
        progress(BEST, 0, 0, "1.31x, plan 'e-graph'")
        progress._live.refresh()
        shown = screen(stream.getvalue())
        assert len(shown) == HEIGHT and max(map(len, shown)) <= 100
        assert "measuring 4/5 Conv [3x3]" in shown[0] and shown[0].endswith(" of 60 s")
        assert "✓ search  ▸ verify  · kernels" in shown[2]  # screening again led back to nothing
        assert shown[3].strip() == "best so far: 1.31x, plan 'e-graph'"
    assert screen(stream.getvalue()) == []


def test_other_commands_show_how_much_is_done():
    stream = Terminal()
    with Progress(stream=stream) as progress:
        progress("proving", 3, 6, "FoldScaleIntoWeight: proved")
        progress._live.refresh()
        shown = screen(stream.getvalue())
        assert len(shown) == 2 and "proving 3/6 FoldScaleIntoWeight: proved" in shown[0]


def test_an_interrupt_takes_the_display_away():
    stream = Terminal()
    with pytest.raises(KeyboardInterrupt), Progress(stream=stream) as progress:
        progress("racing", 1, 4, "")
        raise KeyboardInterrupt
    assert "\x1b[?25h" in stream.getvalue()  # the cursor is back
    assert screen(stream.getvalue()) == []
