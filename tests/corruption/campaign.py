"""The campaign: mutations of the models, sent through `explain` and `optimize`, and judged.

A command may give a result or one line that says what is wrong with the model. All else is a
defect: a traceback, a line that speaks of a defect, a process that dies or doesn't end, a file that
is left behind or half written, an input that is changed, a terminal's control characters in what is
printed.
"""

import json
import os
import random
import select
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx

from .models import MODELS, write_external
from .mutations import mutate

TARGETS = ("onnxruntime-cpu", "onnxruntime-cpu+kernels")
# A hang is what a command with this budget (s) hasn't ended after this time (s), however busy the
# machine is.
BUDGET_S, HANG_S = 0.2, 300.0
MOST_PRINTED = 3_000  # letters of an error's line
# Memory that a command may ask for (bytes): a tensor of 2**40 elements must not take the machine.
MEMORY_BYTES = 16 << 30
# A file that ONNX Runtime makes, once a process.
_OF_THE_RUNTIME = ".ses"


@dataclass(frozen=True)
class Case:
    """A damaged model and a command for it; `seed` and `number` make it again."""

    number: int
    model: str
    damage: str
    command: str


@dataclass(frozen=True)
class Finding:
    """What a command must not do, and for which case."""

    case: Case
    problem: str


class Worker:
    """The process that runs the commands; a new one where it died, or hung."""

    def __init__(self, folder: Path) -> None:
        self.temporary = folder / "tmp"
        self.temporary.mkdir(exist_ok=True)
        self._environment = {
            **os.environ,
            "TENSOLOG_CATALOG": str(folder / "catalog.duckdb"),
            "TMPDIR": str(self.temporary),
        }
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, arguments: Sequence[str]) -> dict[str, object] | str:
        """Return exit code, output and errors of a command, or how the process ended."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"{__package__}.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=self._environment,
                preexec_fn=_limit_memory,
            )
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(list(arguments)).encode() + b"\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], HANG_S)
        line = process.stdout.readline() if ready else b""
        if line:
            answer: dict[str, object] = json.loads(line)
            return answer
        self.close()
        return f"the process ended with {process.returncode}" if ready else "it hangs"

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _limit_memory() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def campaign(
    folder: Path, count: int, seed: int, first: int = 0
) -> Iterator[tuple[Case, list[str]]]:
    """Run so many cases from number `first` on; yield each with what is wrong with it.

    A case depends on seed and number alone.
    """
    worker = Worker(folder)
    try:
        for number in range(first, first + count):
            yield run_case(worker, folder / "case", number, seed)
    finally:
        worker.close()


def run_case(worker: Worker, folder: Path, number: int, seed: int) -> tuple[Case, list[str]]:
    """Make and run one case in an empty folder; the folder stays where something is wrong."""
    folder.mkdir()
    draw = random.Random(f"{seed}/{number}")
    make = MODELS[number % len(MODELS)]
    path = folder / "in.onnx"
    if draw.random() < 0.2:
        write_external(make(), path)
    else:
        onnx.save(make(), path)
    damaged, damage = mutate(path.read_bytes(), draw)
    path.write_bytes(damaged)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    # Compiling takes longer than all else: every fourth.
    target = TARGETS[draw.randrange(4) == 0]
    problems = []
    optimize = ["optimize", str(path), "-o", str(folder / "out.onnx"), "--target", target]
    for command in (
        ["explain", str(path), "--json"],
        [*optimize, "--budget", str(BUDGET_S), "--json"],
    ):
        answer = worker.run(command)
        problems += [f"{command[0]}: {problem}" for problem in judge(answer, folder, before)]
        for entry in worker.temporary.iterdir():
            if entry.name != _OF_THE_RUNTIME:
                problems.append(f"{command[0]}: {entry.name} stayed among temporary files")
            _remove(entry)
    case = Case(number, make.__name__, damage, f"explain, optimize --target {target}")
    if not problems:
        _remove(folder)
    return case, problems


def judge(answer: dict[str, object] | str, folder: Path, before: dict[str, bytes]) -> Iterator[str]:
    """Say what a command must not have done."""
    written: set[str] = set()
    if isinstance(answer, str):
        yield answer
    else:
        code, out, err = answer["code"], str(answer["out"]), str(answer["err"])
        errors = [line for line in err.splitlines() if line.startswith("error: ")]
        if "Traceback" in err or "a defect of tensolog" in err:
            yield errors[-1] if errors else err[-500:]
        elif code == 0:
            result = json.loads(out)
            written = {Path(result["output"]).name} if "output" in result else set()
            yield from _unreadable(result.get("files", []))
        elif code != 2 or len(errors) != 1:
            yield f"exit code {code}: {err[-500:]}"
        elif len(errors[0]) > MOST_PRINTED:
            yield f"a line of {len(errors[0])} letters: {errors[0][:200]}"
        elif out:
            yield f"an error behind output: {out[:200]}"
        if any(letter in err for letter in "\x1b\x07\x9b"):
            yield f"control characters are printed: {err[-300:]!r}"
    files = {file.name: file for file in folder.iterdir()}
    if more := sorted(set(files) - set(before) - written):
        yield f"{more} left behind"
    for name, content in before.items():
        if name not in files or files[name].read_bytes() != content:
            yield f"{name} was changed"
    for name in set(files) - set(before):
        _remove(files[name])


def _unreadable(files: Sequence[str]) -> Iterator[str]:
    for name in files:
        if name.endswith(".onnx"):
            try:
                onnx.load(name)
            except Exception as error:
                yield f"{name} can't be read: {error}"


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        for entry in path.iterdir():
            _remove(entry)
        path.rmdir()
    else:
        path.unlink()
