"""Signals in this process: what strikes, what is said, and what somebody tries to swallow."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import onnx
import pytest
import tensolog.optimizer

from tensolog import interrupts
from tensolog.progress import Progress
from tests.endless import PROGRAM, QUERY, RECORDS, ROUNDS, save_endless, struck

from .commandline import TALKATIVE


def strike(number=signal.SIGINT):
    os.kill(os.getpid(), number)


@pytest.fixture(autouse=True)
def heard():
    """Let a hangup be heard where the tests themselves run under nohup, which ignores it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
    interrupts.answer()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_raises_and_the_next_are_ignored(number):
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt) as raised, interrupts.one_interrupt():
        try:
            strike(number)
        finally:
            strike(number)
            strike(signal.SIGINT)
    assert isinstance(raised.value, interrupts.Terminated) == (number != signal.SIGINT)
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_module_is_loaded_before_an_interrupt_is_raised(number, tmp_path, monkeypatch):
    """Native modules abort the process where loading them raises."""
    text = f"import os\nos.kill(os.getpid(), {int(number)})\nfor n in range(10**5): pass\n"
    (tmp_path / f"struck_{int(number)}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(KeyboardInterrupt), interrupts.one_interrupt():
        __import__(f"struck_{int(number)}")
        time.sleep(60)
    assert sys.modules.pop(f"struck_{int(number)}").n == 10**5 - 1


def test_a_swallowed_interrupt_comes_back():
    with (
        pytest.raises(KeyboardInterrupt),
        interrupts.one_interrupt(),
        Progress(quiet=True) as progress,
    ):
        with contextlib.suppress(KeyboardInterrupt):
            strike()
        progress("racing", 0, 0, "")


def test_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interrupts.one_interrupt():
            strike(signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_an_interrupt_is_heard_in_the_background():
    """Where a shell has SIGINT ignored; whoever sends one all the same means it."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(KeyboardInterrupt), interrupts.one_interrupt():
            strike()
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("error", [None, RuntimeError("Query interrupted")])
def test_an_interrupt_that_became_another_error(error, cli, monkeypatch, small_model, tmp_path):
    def interrupted(*_, **__):
        try:
            strike()
        except KeyboardInterrupt:
            if error is None:
                raise
            raise error from None

    monkeypatch.setattr(tensolog.optimizer, "optimize", interrupted)
    outcome = cli("optimize", small_model, "-o", tmp_path / "out.onnx")
    assert outcome.code == 130
    said = outcome.err.splitlines()[-1]
    assert said == "interrupted; no model was written; what was measured is kept"


def test_an_interrupt_that_was_swallowed_writes_nothing(cli, monkeypatch, small_model, tmp_path):
    def swallows(*_, **__):
        try:
            strike()
        except KeyboardInterrupt:
            return "a result"

    monkeypatch.setattr(tensolog.optimizer, "optimize", swallows)
    outcome = cli("optimize", small_model, "-o", tmp_path / "out.onnx", "--quiet")
    assert outcome.code == 130
    assert not (tmp_path / "out.onnx").exists()


def test_an_interrupt_inside_exec_still_ends_with_the_exit_code():
    code = (
        "import os, signal, sys\nfrom tensolog import cli, interrupts\n"
        "import tensolog.commands as commands\n"
        "commands.tensolog.invoke = lambda _: exec('os.kill(os.getpid(), signal.SIGINT)')\n"
        "cli.main(['rules', 'list'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "interrupted; nothing was written\n")


def test_a_signal_after_the_work_changes_no_exit_code():
    """The interpreter takes its time to shut down, with so many libraries loaded."""
    code = (
        "import os, signal\nfrom tensolog import cli\n"
        "class Last:\n    kill, id, number = os.kill, os.getpid(), signal.SIGINT\n"
        "    def __del__(self):\n        self.kill(self.id, self.number)\n"
        "last = Last()\ncli.main(['--version'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_later_run_knows_nothing_of_it(cli):
    assert cli("--version").code == 0
    assert interrupts.caught() is None


# ---------------------------------------------------------------------------------- native code


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_endless_query_ends_by_a_signal(number, code, cli):
    assert cli("sql", "SELECT 1").code == 0  # the catalog is there
    with struck(number):
        outcome = cli("sql", QUERY)
    assert outcome.code == code
    assert outcome.err.splitlines()[-1].endswith("; nothing was written")


@pytest.mark.parametrize("text", [PROGRAM, ROUNDS, RECORDS], ids=["recursive", "rounds", "records"])
def test_an_endless_program_ends_by_a_signal_and_leaves_nothing(text, cli, tmp_path):
    program = tmp_path / "endless.dl"
    program.write_text(text)
    with struck():
        outcome = cli("datalog", "run", program, "-D", tmp_path / "out")
    assert outcome.code == 130
    assert [path.name for path in tmp_path.iterdir()] == ["endless.dl"]


def until(process, line):
    """Wait until a process has said something on standard error; give what it said."""
    for said in process.stderr:
        if line in said:
            return
    raise AssertionError(f"it ended with {process.wait()} and never said {line!r}")


def test_an_original_that_runs_for_ever_ends_by_a_signal(tmp_path):
    model = save_endless(tmp_path / "endless.onnx")
    command = [sys.executable, "-c", TALKATIVE, "optimize", model, "-o", tmp_path / "out.onnx"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        until(process, "running the original")
        time.sleep(1)
        process.send_signal(signal.SIGTERM)
        said = process.stderr.read()
        assert process.wait(60) == 143
    assert said == "terminated; no model was written; what was measured is kept\n"
    assert [path.name for path in tmp_path.iterdir()] == ["endless.onnx"]


STUCK = """
import hashlib, sys, tempfile
from pathlib import Path
from tensolog import cli, interrupts
from tensolog.catalog.files import temporary_beside
import tensolog.commands as commands

def stuck(_):
    folder = tempfile.TemporaryDirectory(dir=sys.argv[1])
    beside = temporary_beside(Path(sys.argv[1], "out.onnx"))
    beside.__enter__()
    with interrupts.on_interrupt("nothing came of it"):
        try:
            print("native", file=sys.stderr, flush=True)
            {block}
        except KeyboardInterrupt:
            print("cleaning up", file=sys.stderr, flush=True)
            hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)

commands.tensolog.invoke = stuck
cli.main(["rules", "list"])
"""
NATIVE = 'hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)'  # can't be ended, lets threads run


@pytest.mark.parametrize(
    ("block", "strikes"),
    [(NATIVE, 1), (NATIVE, 2), ("import time; time.sleep(600)", 2)],
    ids=["first, in time", "second", "second, while cleaning up"],
)
def test_what_cannot_be_ended_is_left(block, strikes, tmp_path):
    command = [sys.executable, "-c", STUCK.format(block=block), tmp_path]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        until(process, "native")
        for strike_number in range(strikes):
            if strike_number and block != NATIVE:
                until(process, "cleaning up")
            time.sleep(0.2)
            process.send_signal(signal.SIGINT)
        said = process.stderr.read()
        assert process.wait(60) == 130
    assert said == "interrupted; nothing came of it\n"
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------------- the best by then


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_writes_the_best_by_then_where_that_is_asked_for(
    number, cli, monkeypatch, small_model, tmp_path
):
    from tensolog.optimizer import plan_selection

    monkeypatch.setattr(plan_selection, "Contest", lambda *_, **__: strike(number))
    out = tmp_path / "out.onnx"
    options = ("--budget", "0", "--portable", "--on-interrupt", "write")
    outcome = cli("optimize", small_model, "-o", out, *options)
    assert outcome.code == interrupts.WRITTEN, outcome.err
    assert outcome.err.splitlines()[-1].endswith(f"the best by then, was written to {out}")
    assert "Interrupted." in outcome.out
    assert onnx.load(out).graph.output[0].name == "y"


def test_before_the_model_is_read_there_is_nothing_to_write(
    cli, monkeypatch, small_model, tmp_path
):
    from tensolog.optimizer import state

    monkeypatch.setattr(state, "read_model", lambda *_: strike())
    out = tmp_path / "out.onnx"
    outcome = cli("optimize", small_model, "-o", out, "--on-interrupt", "write")
    assert outcome.code == 130 and not out.exists()
