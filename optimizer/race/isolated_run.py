"""A trial run in a process of its own, for models that may end the process that runs them.

Some kernels of ONNX Runtime don't raise but die (profiles/kernels/faults.py). Whether a model
reaches one with a fatal input shows only when it runs, so a model that might is run by somebody
else first.
"""

from __future__ import annotations

import math
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...catalog.errors import ModelError
from ...profiles.kernels.faults import DIVISIONS, FATAL_WHEN_EMPTY, fatal_input
from ...rules import ABSENT
from ..graph.graph import Graph, Node, TensorType
from .verify import EndlessError

Array = np.ndarray[Any, Any]

# An error of Python's is not fatal: whoever runs the model next sees it, and can say more.
_RUN = """
import sys
import numpy as np
from tensolog.profiles.sessions.session import AS_WRITTEN, DEFAULTS, open_session
for execution in (DEFAULTS, AS_WRITTEN):
    session = open_session(sys.argv[1], threads=int(sys.argv[2]), execution=execution)
    for path in sys.argv[3:]:
        with np.load(path, allow_pickle=True) as feeds:
            wanted = {entry.name for entry in session.get_inputs()}
            session.run(None, {name: feeds[name] for name in feeds.files if name in wanted})
"""
_RAISED = (0, 1)  # exit codes of a Python that ended by itself


def is_risky(graph: Graph, types: Mapping[int, TensorType]) -> bool:
    """Tell whether some node of the main graph might be given inputs that end the process."""
    return any(_may_die(graph, node, types) for node in graph.nodes.values())


def _may_die(graph: Graph, node: Node, types: Mapping[int, TensorType]) -> bool:
    operands = [value for value in node.inputs if value != ABSENT]
    if node.op_type in FATAL_WHEN_EMPTY:
        return any(_may_be_empty(types.get(value)) for value in operands)
    if node.op_type not in DIVISIONS or len(operands) != 2:
        return False
    type_ = types.get(operands[1])
    if type_ is not None and "int" not in type_.dtype:
        return False
    if operands[1] not in graph.constants:
        return True
    dividend = graph.constants.get(operands[0])
    arrays = [dividend.array() if dividend else None, graph.constants[operands[1]].array()]
    return bool(fatal_input(node.op_type, arrays))


def _may_be_empty(type_: TensorType | None) -> bool:
    if type_ is None or type_.shape is None:
        return True
    return any(not isinstance(size, int) or size == 0 for size in type_.shape)


def run_isolated(
    source: Path | bytes, runs: list[Mapping[str, Array]], threads: int, limit_s: float = math.inf
) -> None:
    """Run a model on each of `runs` in another process; ModelError where that process dies.

    One that hasn't ended after `limit_s` seconds is ended: whether it dies is not known then.
    """
    with tempfile.TemporaryDirectory(prefix="tensolog-trial-") as name:
        folder = Path(name)
        if isinstance(source, bytes):
            model = folder / "model.onnx"
            model.write_bytes(source)
        else:
            model = source
        paths = []
        for number, feeds in enumerate(runs):
            arrays: dict[str, Any] = dict(feeds)
            paths.append(folder / f"{number}.npz")
            np.savez(paths[-1], **arrays)
        try:
            done = subprocess.run(
                [sys.executable, "-c", _RUN, str(model), str(threads), *map(str, paths)],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                timeout=None if math.isinf(limit_s) else limit_s,
            )
        except subprocess.TimeoutExpired as error:
            raise EndlessError(limit_s) from error
    if done.returncode not in _RAISED:
        raise ModelError(
            f"ONNX Runtime ends the process that runs this model ({_cause(done.returncode)}); "
            "an empty tensor or an integer division it can't compute is the usual cause"
        )


def _cause(code: int) -> str:
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"exit code {code}"
