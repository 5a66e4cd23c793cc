"""Model -> the kernels that ONNX Runtime runs for it, after its own optimizer.

That is another list than the model's nodes: fused operators stand for several of them, convolutions
are laid out anew with reorders between, constants are gone. The runtime writes the model that it
runs; shapes come from its profiler, since no inference knows its own operators.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from ..kernel import VALUE_LIMIT, Kernel, TensorSpec, dtype_name
from ..sessions.session import (
    AS_WRITTEN,
    DEFAULTS,
    Execution,
    open_session,
    operators_timed,
    run_session,
)
from .graph_kernels import kernels_of

Array = np.ndarray[Any, Any]
Types = dict[str, tuple[str, tuple[int, ...]]]

# Session config entries: where the weights of a model go that is written as it is run, and from how
# many bytes on. Those of kernels' values must stay with the model.
_WEIGHTS_FILE = "session.optimized_model_external_initializers_file_name"
_WEIGHTS_FROM = "session.optimized_model_external_initializers_min_size_in_bytes"
_APART_BYTES = 16 * VALUE_LIMIT
# Nobody waits for these sessions to be fast: they pack no weights.
_UNPACKED = ("session.disable_prepacking", "1")
# The profiler's names of element types that are not ONNX's.
_PROFILED = {
    "float": "float32",
    "double": "float64",
    "Float8E4M3FN": "float8_e4m3fn",
    "Float8E4M3FNUZ": "float8_e4m3fnuz",
    "Float8E5M2": "float8_e5m2",
    "Float8E5M2FNUZ": "float8_e5m2fnuz",
    "Int4x2": "int4",
    "UInt4x2": "uint4",
}


@dataclass(frozen=True)
class RuntimeKernels:
    """What runs for a model: its kernels, and the operators that aren't known as such.

    The latter have tensors that are none, or depend on what is inside of subgraphs. The constants
    of all take `constant_bytes`.
    """

    kernels: tuple[Kernel, ...]
    unknown_operators: tuple[str, ...]
    constant_bytes: int

    @property
    def counts(self) -> Counter[Kernel]:
        """How often each kernel runs; those of constants alone don't."""
        return Counter(kernel for kernel in self.kernels if not kernel.is_constant)


def runtime_kernels(
    source: Path | bytes,
    feeds: Mapping[str, Array],
    *,
    threads: int,
    execution: Execution = DEFAULTS,
) -> RuntimeKernels:
    """Return what runs for a model opened like this; raises what ONNX Runtime raises.

    The model is opened twice. Its weights are written to a file, and not read.
    """
    with tempfile.TemporaryDirectory(prefix="tensolog-run-") as folder:
        path = Path(folder) / "run.onnx"
        external_weights = ((_WEIGHTS_FILE, "run.weights"), (_WEIGHTS_FROM, str(_APART_BYTES)))
        writing = replace(execution, options=(*execution.options, *external_weights, _UNPACKED))
        open_session(source, threads=threads, execution=writing, optimized_path=path)
        model = onnx.load(str(path), load_external_data=False)
        for number, node in enumerate(model.graph.node):
            node.name = f"{node.op_type}:{number}"
        onnx.save(model, str(path))
        libraries = execution.libraries
        if isinstance(source, Path):
            libraries = tuple(source.parent / library for library in libraries)
        as_written = replace(AS_WRITTEN, options=(_UNPACKED,), libraries=libraries)
        types = _types_run(model, path, feeds, threads, as_written)
    arrays = {
        tensor.name: numpy_helper.to_array(tensor)
        for tensor in model.graph.initializer
        if np.prod(tensor.dims) <= VALUE_LIMIT
    }
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    known = kernels_of(model.graph, types, arrays.get, opsets)
    named = {name for name, _ in known}
    left_out = (node.op_type for node in model.graph.node if node.name not in named)
    return RuntimeKernels(
        tuple(kernel for _, kernel in known),
        tuple(operator for operator in left_out if operator != "Constant"),
        sum(TensorSpec(*types[tensor.name]).size_bytes for tensor in model.graph.initializer),
    )


def _types_run(
    model: onnx.ModelProto,
    path: Path,
    feeds: Mapping[str, Array],
    threads: int,
    execution: Execution,
) -> Types:
    """Run a model as it is written, and give the type of each of its values by name."""
    session = open_session(
        path, threads=threads, execution=execution, profile_prefix=path.with_name("profile")
    )
    wanted = {entry.name for entry in session.get_inputs()}
    model_feeds = {name: array for name, array in feeds.items() if name in wanted}
    run_session(session, model_feeds)
    types: Types = {name: (array.dtype.name, array.shape) for name, array in model_feeds.items()}
    for tensor in model.graph.initializer:
        types[tensor.name] = (dtype_name(tensor.data_type), tuple(tensor.dims))
    output_types = {
        event["name"]: event["args"].get("output_type_shape", [])
        for event in operators_timed(session)
    }
    for node in model.graph.node:
        outputs = [name for name in node.output if name]
        for name, entry in zip(outputs, output_types.get(node.name, []), strict=False):
            ((element, shape),) = entry.items()
            types[name] = (_PROFILED.get(element, element), tuple(shape))
    return types
