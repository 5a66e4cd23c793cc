"""Model -> the kernels that ONNX Runtime runs for it, after its own optimizer.

That is another list than the model's nodes: fused operators stand for several of them, convolutions
are laid out anew with reorders between, constants are gone. The runtime writes the model that it
runs; shapes come from its profiler, since no inference knows its own operators.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from .extract import kernels_of
from .kernel import VALUE_LIMIT, Kernel, dtype_name
from .session import AS_WRITTEN, DEFAULTS, Execution, open_session

Array = np.ndarray[Any, Any]
Types = dict[str, tuple[str, tuple[int, ...]]]

# The profiler's names of element types that are not ONNX's.
_PROFILED = {"float": "float32", "double": "float64"}


def kernels_run(
    source: Path | bytes,
    feeds: Mapping[str, Array],
    *,
    threads: int,
    execution: Execution = DEFAULTS,
) -> list[tuple[str, Kernel]]:
    """Return (node name, kernel) of what runs, in the order of the graph; raises what it raises.

    Nodes whose tensors are no tensors, or are inside of subgraphs, are left out.
    """
    with tempfile.TemporaryDirectory(prefix="tensolog-run-") as folder:
        path = Path(folder) / "run.onnx"
        open_session(source, threads=threads, execution=execution, optimized_path=path)
        model = onnx.load(str(path))
        for number, node in enumerate(model.graph.node):
            node.name = f"{node.op_type}:{number}"
        onnx.save(model, str(path))
        types = _types_run(model, path, feeds, threads)
    arrays = {
        tensor.name: numpy_helper.to_array(tensor)
        for tensor in model.graph.initializer
        if np.prod(tensor.dims) <= VALUE_LIMIT
    }
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    return kernels_of(model.graph, types, arrays.get, opsets)


def _types_run(
    model: onnx.ModelProto, path: Path, feeds: Mapping[str, Array], threads: int
) -> Types:
    """Run a model as it is written, and give the type of each of its values by name."""
    session = open_session(
        path, threads=threads, execution=AS_WRITTEN, profile_prefix=path.with_name("profile")
    )
    wanted = {entry.name for entry in session.get_inputs()}
    given = {name: array for name, array in feeds.items() if name in wanted}
    session.run(None, given)
    events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    types: Types = {name: (array.dtype.name, array.shape) for name, array in given.items()}
    for tensor in model.graph.initializer:
        types[tensor.name] = (dtype_name(tensor.data_type), tuple(tensor.dims))
    made = {
        event["name"].removesuffix("_kernel_time"): event["args"].get("output_type_shape", [])
        for event in events
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time")
    }
    for node in model.graph.node:
        outputs = [name for name in node.output if name]
        for name, entry in zip(outputs, made.get(node.name, []), strict=False):
            ((element, shape),) = entry.items()
            types[name] = (_PROFILED.get(element, element), tuple(shape))
    return types
