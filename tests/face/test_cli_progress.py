import io
import re

import pytest

from tensolog import progress as module
from tensolog.progress import Progress

PHASES = ["reading", "rewriting", "measuring kernels", "searching", "verifying", "racing"]


def test_plain_lines_name_each_phase_once():
    stream = io.StringIO()
    with Progress(stream=stream) as progress:
        for phase in PHASES:
            for done in range(50):
                progress(phase, done, 50, "Conv 3x3 [a]")
    lines = stream.getvalue().splitlines()
    assert [re.search(r"\] (.*?)( \d+/50)? Conv", line)[1] for line in lines] == PHASES


def test_plain_lines_go_on_in_a_long_phase(monkeypatch):
    monkeypatch.setattr(module, "PLAIN_INTERVAL_S", 0.0)
    stream = io.StringIO()
    with Progress(stream=stream) as progress:
        for done in range(3):
            progress("racing", done, 3, "")
    assert [line.split("] ")[1] for line in stream.getvalue().splitlines()] == [
        "racing 0/3",
        "racing 1/3",
        "racing 2/3",
    ]


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


def test_a_terminal_shows_bars_and_keeps_finished_phases():
    stream = Terminal()
    with Progress(stream=stream) as progress:
        progress("reading", 0, 0, "model.onnx")
        progress("measuring kernels", 1, 4, "Conv [3x3]")
        progress("measuring kernels", 4, 4, "Conv [5x5]")
    text = stream.getvalue()
    assert "reading" in text and "✓" in text and "measuring kernels" in text


def test_an_interrupt_takes_the_running_bar_away():
    stream = Terminal()
    with pytest.raises(KeyboardInterrupt), Progress(stream=stream) as progress:
        progress("racing", 1, 4, "")
        raise KeyboardInterrupt
    assert stream.getvalue().endswith("\x1b[?25h")  # the cursor is back
