"""Which operators ONNX Runtime runs after its own optimizer, by its own profiler."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .session import DEFAULTS, Execution, open_session, operators_timed, run_session


def operators_run(
    source: Path | bytes,
    feeds: Mapping[str, np.ndarray[Any, Any]],
    *,
    threads: int,
    execution: Execution = DEFAULTS,
) -> Counter[str]:
    """Run a model once and count the nodes of its main graph by operator; raises what it raises."""
    with tempfile.TemporaryDirectory(prefix="tensolog-profile-") as folder:
        session = open_session(
            source, threads=threads, execution=execution, profile_prefix=Path(folder) / "run"
        )
        run_session(session, feeds)
        return Counter(event["args"]["op_name"] for event in operators_timed(session))
