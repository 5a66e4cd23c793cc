"""Operator sets that a model imports more than once."""

from __future__ import annotations

from collections.abc import Sequence

import onnx


def effective_imports(
    opsets: Sequence[onnx.OperatorSetIdProto],
) -> dict[str, onnx.OperatorSetIdProto]:
    """Give the import of each operator set that counts, by domain; "ai.onnx" is "".

    Of several that is the last one, as ONNX Runtime has it; ONNX's own functions look at how the
    domain is spelled, too.
    """
    return {"" if item.domain == "ai.onnx" else item.domain: item for item in opsets}


def with_effective_imports(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model without imports that later ones of the same operator set override.

    It is the model itself where there are none, and a copy otherwise.
    """
    if not any(_overridden(holder.opset_import) for holder in (model, *model.functions)):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for holder in (copy, *copy.functions):
        if _overridden(holder.opset_import):
            effective = list(effective_imports(holder.opset_import).values())
            del holder.opset_import[:]
            holder.opset_import.extend(effective)
    return copy


def _overridden(opsets: Sequence[onnx.OperatorSetIdProto]) -> bool:
    return len(effective_imports(opsets)) < len(opsets)
