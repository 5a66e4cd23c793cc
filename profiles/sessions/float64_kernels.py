"""Which operators ONNX Runtime's CPU provider computes in float64: asked of the runtime itself."""

from __future__ import annotations

from functools import cache
from typing import Any

import onnx
from onnxruntime.capi import onnxruntime_pybind11_state as runtime

_PROVIDER, _DOUBLE = "CPUExecutionProvider", "tensor(double)"
# Their kernels are listed with float64, and refuse it when they run.
_REFUSING = frozenset({"LSTM", "GRU"})
# Kernels of float32 alone, in whose place the runtime runs the operator's function on float64.
_BY_FUNCTION = frozenset({"Attention"})


def runs_in_float64(operator: str, opset: int) -> bool:
    """Tell whether an operator of ONNX's own set runs on float64: by a kernel or its function."""
    try:
        schema: Any = onnx.defs.get_schema(operator, opset)
    except onnx.defs.SchemaError:
        return False
    types = _kernels().get(operator, ())
    fitting = [names for first, last, names in types if first <= schema.since_version <= last]
    if fitting:
        takes = any(_DOUBLE in names for names in fitting)
        return operator in _BY_FUNCTION or (takes and operator not in _REFUSING)
    if not schema.has_function:
        return bool(schema.has_context_dependent_function)
    return all(runs_in_float64(part.op_type, opset) for part in schema.function_body.node)


@cache
def _kernels() -> dict[str, list[tuple[int, int, set[str]]]]:
    """Give the versions of each operator that a kernel is for, and the types that it takes."""
    versions: dict[str, list[tuple[int, int, set[str]]]] = {}
    for kernel in runtime.get_all_opkernel_def():
        if kernel.provider == _PROVIDER and kernel.domain == "":
            types = {name for names in kernel.type_constraints.values() for name in names}
            versions.setdefault(kernel.op_name, []).append((*kernel.version_range, types))
    return versions
