"""Which operators ONNX Runtime's CPU provider computes in float64: asked of the runtime itself."""

from __future__ import annotations

from functools import cache
from typing import Any

import onnx
from onnxruntime.capi import onnxruntime_pybind11_state as runtime

_PROVIDER, _DOUBLE = "CPUExecutionProvider", "tensor(double)"
# Their kernels are listed with float64, and they or their schemas refuse it.
_REFUSING = frozenset({"LSTM", "GRU", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization"})
# Kernels of float32 alone, in whose place the runtime runs the operator's function on float64.
_BY_FUNCTION = frozenset({"Attention"})


def runs_in_float64(operator: str, opset: int, domain: str = "") -> bool:
    """Tell whether an operator runs on float64: by a kernel, or ONNX's own by its function.

    `opset` is the version of ONNX's own set; the runtime's operators have one version each.
    """
    types = _kernels().get((domain.removeprefix("ai.onnx"), operator), ())
    try:
        schema: Any = (
            None if domain not in ("", "ai.onnx") else onnx.defs.get_schema(operator, opset)
        )
    except onnx.defs.SchemaError:  # one that the runtime adds to ONNX's own domain
        schema = None
    if schema is None:
        return operator not in _REFUSING and any(_DOUBLE in names for _, _, names in types)
    fitting = [names for first, last, names in types if first <= schema.since_version <= last]
    if fitting:
        takes = any(_DOUBLE in names for names in fitting)
        return operator in _BY_FUNCTION or (takes and operator not in _REFUSING)
    if not schema.has_function:
        return bool(schema.has_context_dependent_function)
    return all(
        runs_in_float64(part.op_type, opset, part.domain) for part in schema.function_body.node
    )


@cache
def _kernels() -> dict[tuple[str, str], list[tuple[int, int, set[str]]]]:
    """Give the versions of each operator that a kernel is for, and the types that it takes."""
    versions: dict[tuple[str, str], list[tuple[int, int, set[str]]]] = {}
    for kernel in runtime.get_all_opkernel_def():
        if kernel.provider == _PROVIDER:
            types = {name for names in kernel.type_constraints.values() for name in names}
            key = (kernel.domain, kernel.op_name)
            versions.setdefault(key, []).append((*kernel.version_range, types))
    return versions
