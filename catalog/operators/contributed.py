"""Operators that a runtime adds to ONNX's: schemas made of their specifications, known to onnx.

The onnx package knows no schema of them, so it can't tell types, defaults or shapes of their nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import onnx
import onnx.shape_inference
from onnx import defs, helper

from ..terms.index_notation import Symbol
from ..terms.syntax_tree import Literal
from .definition import Specification, specification, specified
from .functions import ShapeError
from .syntax import Attribute, Input

# Operators over images whose channels lie in blocks, and what says how such images are read: no
# runtime has those of the second domain (blocked.ops).
BLOCKED, LAYOUTS = "com.microsoft.nchwc", "tensolog.layouts"
# domain -> the version of its operator set that is described
DOMAINS: Mapping[str, int] = {"com.microsoft": 1, BLOCKED: 1, LAYOUTS: 1}
_FLOATS = ["tensor(float16)", "tensor(bfloat16)", "tensor(float)", "tensor(double)"]
_ANY = [f"tensor({name})" for name in ("int32", "int64", "float16", "bfloat16", "float", "double")]
_Formal = defs.OpSchema.FormalParameter
_Option = defs.OpSchema.FormalParameterOption


@cache
def register() -> None:
    """Register the schemas with onnx, once; one that somebody registered before stays."""
    # Takes time to load, and fails once two domains have an operator of one name.
    import onnx.reference  # noqa: F401

    for domain, version in DOMAINS.items():
        for name in specified(domain):
            if not defs.has(name, domain):
                meaning = specification(domain, name, version)
                assert meaning is not None
                defs.register_schema(_schema(meaning))


def schema(op_type: str, opset: int, domain: str = "") -> defs.OpSchema | None:
    """Return the schema in force in an operator set; None for an operator without one."""
    if domain in DOMAINS:
        register()
    try:
        return defs.get_schema(op_type, opset, domain)
    except defs.SchemaError:
        return None


def register_imported(model: onnx.ModelProto) -> None:
    """Register the operators, if a model imports a set of them."""
    if any(imported.domain in DOMAINS for imported in model.opset_import):
        register()


def infer_shapes(model: onnx.ModelProto, *, strict: bool = False) -> onnx.ModelProto:
    """Infer types and shapes of a model's values, and constants on the way, as onnx does.

    With `strict`, raises onnx.shape_inference.InferenceError where that fails somewhere.
    """
    register_imported(model)
    return onnx.shape_inference.infer_shapes(model, strict_mode=strict, data_prop=True)


def _schema(meaning: Specification) -> defs.OpSchema:
    """Make a schema: floats are of one type, tensors of indices and masks of any."""
    block = meaning.blocks[0]
    schema = defs.OpSchema(
        meaning.op_type,
        meaning.domain,
        meaning.opset,
        inputs=[_input(declared) for declared in block.inputs],
        outputs=[
            _Formal(output.name, "T", param_option=_Option.Optional if position else _Option.Single)
            for position, output in enumerate(block.outputs)
        ],
        type_constraints=[("T", _FLOATS, ""), ("M", _ANY, "")],
        attributes=[_attribute(declared) for declared in block.attributes],
    )
    teach = getattr(schema, "set_type_and_shape_inference_function", None)
    if teach is not None:  # older releases of onnx know types of ONNX's own operators alone
        teach(_inference(meaning))
    return schema


def _input(declared: Input) -> defs.OpSchema.FormalParameter:
    option = _Option.Optional if declared.optional else _Option.Single
    return _Formal(declared.name, "M" if _is_any(declared) else "T", param_option=option)


def _is_any(declared: Input) -> bool:
    """Tell whether an input may be of another type than the first: indices, masks, lengths."""
    return declared.name == "I" or declared.name in ("mask", "past_length", "cache")


def _attribute(declared: Attribute) -> defs.OpSchema.Attribute:
    kind = getattr(defs.OpSchema.AttrType, declared.type.upper())
    if isinstance(declared.default, Literal):
        value = declared.default.value
        value = float(value) if declared.type == "float" else value
        return defs.OpSchema.Attribute(declared.name, helper.make_attribute(declared.name, value))
    return defs.OpSchema.Attribute(declared.name, kind, required=not declared.optional)


def _inference(meaning: Specification) -> Callable[[Any], None]:
    def infer(context: Any) -> None:
        types = [context.get_input_type(input_) for input_ in range(context.get_num_inputs())]
        if types[0] is None:  # an operator that nobody knows gave it
            return
        first = types[0].tensor_type
        shapes = [_shape(type_, position) for position, type_ in enumerate(types)]
        are_ranked = all(type_ is None or type_.tensor_type.HasField("shape") for type_ in types)
        attributes = {}
        for declared in meaning.blocks[0].attributes:
            attribute = context.get_attribute(declared.name)
            if attribute is not None and attribute.type:
                attributes[declared.name] = helper.get_attribute_value(attribute)
        inferred = _outputs(meaning, shapes, attributes) if are_ranked else []
        for output in range(context.get_num_outputs()):
            dims = inferred[output] if output < len(inferred) else None
            type_ = helper.make_tensor_type_proto(first.elem_type, dims)
            context.set_output_type(output, type_)

    return infer


def _shape(type_: onnx.TypeProto | None, position: int) -> tuple[int | str, ...] | None:
    """Return an input's dimensions, unknown ones under names; None where it is absent."""
    if type_ is None or not type_.HasField("tensor_type"):
        return None
    return tuple(
        dim.dim_value if dim.HasField("dim_value") else dim.dim_param or f"?{position}.{axis}"
        for axis, dim in enumerate(type_.tensor_type.shape.dim)
    )


def _outputs(
    meaning: Specification,
    shapes: Sequence[tuple[int | str, ...] | None],
    attributes: Mapping[str, object],
) -> list[list[int | str | None] | None]:
    plain = {
        name: value.decode() if isinstance(value, bytes) else value
        for name, value in attributes.items()
    }
    try:
        output_shapes = meaning.shapes(shapes, plain)
    except ShapeError:  # a mode that is not described: the types are known, the shapes are not
        return []
    return [
        [size if isinstance(size, int) else _name(size) for size in shape]
        for shape in output_shapes
    ]


def _name(size: object) -> str | None:
    """Return the name of a dimension that an input has; None for what is computed."""
    named = isinstance(size, Symbol) and not size.name.startswith("?")
    return size.name if named else None  # type: ignore[attr-defined]
