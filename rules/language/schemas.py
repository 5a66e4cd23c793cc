"""What ONNX's operator schemas say, as far as rules ask: attributes, defaults, arities, types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache, lru_cache

import onnx
from onnx import defs, helper

from ...catalog.operators.classes import classifications
from ...catalog.operators.contributed import DOMAINS, register

EARLIEST_OPSET = 7
VARIADIC = defs.OpSchema.FormalParameterOption.Variadic


@cache
def _versions(contributed: bool = False) -> dict[tuple[str, str], tuple[defs.OpSchema, ...]]:
    """All schemas by (domain, name); those of contributed operators, which cost, if asked for."""
    if contributed:
        register()
    by_name: dict[tuple[str, str], list[defs.OpSchema]] = {}
    for schema in defs.get_all_schemas_with_history():
        by_name.setdefault((schema.domain, schema.name), []).append(schema)
    return {
        key: tuple(sorted(schemas, key=lambda s: s.since_version))
        for key, schemas in by_name.items()
    }


def names(domain: str = "") -> list[str]:
    """Name all operators of a domain."""
    return sorted(name for where, name in _versions(domain in DOMAINS) if where == domain)


@cache
def versions(
    operator: str, opset_from: int | None = None, opset_to: int | None = None
) -> tuple[defs.OpSchema, ...]:
    """The schemas of an operator that are in force somewhere in an opset range; () if unknown."""
    domain, _, name = operator.rpartition(":")
    since_versions = _versions(domain in DOMAINS).get((domain, name), ())
    low = opset_from or EARLIEST_OPSET if not domain else 1
    high = opset_to or 10**6 if not domain else 10**6
    in_force = []
    for i, schema in enumerate(since_versions):
        until = since_versions[i + 1].since_version - 1 if i + 1 < len(since_versions) else 10**6
        if schema.since_version <= high and until >= low and not schema.deprecated:
            in_force.append(schema)
    return tuple(in_force)


def default_of(attribute: defs.OpSchema.Attribute) -> object:
    """A schema attribute's default as a Python value; None when it has none."""
    if attribute.default_value.type == onnx.AttributeProto.UNDEFINED:
        return None
    value: object = helper.get_attribute_value(attribute.default_value)
    return plain(value)


def plain(value: object) -> object:
    """An attribute value with text as str and sequences as tuples."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, Iterable) and not isinstance(value, str):
        return tuple(plain(item) for item in value)
    return value


@cache
def attribute_names(operator: str, opset_from: int | None, opset_to: int | None) -> frozenset[str]:
    """All attributes an operator has anywhere in the opset range."""
    return frozenset(
        name for s in versions(operator, opset_from, opset_to) for name in s.attributes
    )


@cache
def attribute_defaults(
    operator: str, opset_from: int | None, opset_to: int | None
) -> Mapping[str, frozenset[object]]:
    """The defaults each attribute has over the opset range; more than one is ambiguous."""
    defaults: dict[str, set[object]] = {}
    for schema in versions(operator, opset_from, opset_to):
        for name, attribute in schema.attributes.items():
            defaults.setdefault(name, set())
            if (default := default_of(attribute)) is not None:
                defaults[name].add(default)
    return {name: frozenset(values) for name, values in defaults.items()}


def is_integer(operator: str, attribute: str) -> bool:
    """Whether the attribute is an integer (so that `attribute_int` has it)."""
    return any(
        s.attributes[attribute].type == defs.OpSchema.AttrType.INT
        for s in versions(operator)
        if attribute in s.attributes
    )


def is_always_set(operator: str, attribute: str) -> bool:
    """Whether a valid node has the attribute, set or by default, so that a relation lists it."""
    attributes = [s.attributes[attribute] for s in versions(operator) if attribute in s.attributes]
    return bool(attributes) and all(a.required or default_of(a) is not None for a in attributes)


def max_inputs(operator: str) -> int:
    """How many inputs the operator can have (2**31 - 1 when variadic)."""
    return max((s.max_input for s in versions(operator)), default=2**31 - 1)


def max_outputs(operator: str) -> int:
    """How many outputs the operator can have (2**31 - 1 when variadic)."""
    return max((s.max_output for s in versions(operator)), default=2**31 - 1)


def is_variadic(operator: str) -> bool:
    """Whether the operator's last input may repeat."""
    return any(s.inputs and s.inputs[-1].option == VARIADIC for s in versions(operator))


def type_variable(operator: str, position: int, *, output: bool = False) -> str:
    """The type of an input or output in the newest schema: "T", or "tensor(int64)" if only that."""
    operator_schemas = versions(operator)
    if not operator_schemas:
        return "T"
    formal = operator_schemas[-1].outputs if output else operator_schemas[-1].inputs
    if not formal:
        return ""
    parameter = formal[min(position, len(formal) - 1)]
    return next(iter(parameter.types)) if len(parameter.types) == 1 else parameter.type_str


@cache
def element_types(operator: str, position: int) -> frozenset[str]:
    """The element types that an input may have in the newest schema; none where it isn't known."""
    operator_schemas = versions(operator)
    if not operator_schemas or not operator_schemas[-1].inputs:
        return frozenset()
    formal = operator_schemas[-1].inputs
    texts = formal[min(position, len(formal) - 1)].types
    return frozenset(map(type_name, texts))


def type_name(text: str) -> str:
    """A type as rules name it, of what a schema calls it: "float32" of `tensor(float)`."""
    name = text.removeprefix("tensor(").removesuffix(")")
    return {"float": "float32", "double": "float64"}.get(name, name)


@lru_cache(maxsize=1)
def commutative() -> frozenset[str]:
    """The operators of ONNX whose operands may be swapped, as classes.ops says."""
    return frozenset(
        name
        for (domain, name), classification in classifications().items()
        if not domain and classification.commutative_from is not None
    )


def words(operator: str, attribute: str, opset: int) -> tuple[str, ...]:
    """The words that an attribute may be, which schemas don't list; none for other values."""
    match attribute, operator:
        case "auto_pad", _:
            return ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
        case "approximate", _:
            return ("none", "tanh")
        case "direction", "BitShift":
            return ("LEFT", "RIGHT")
        case "direction", _:
            return ("forward", "reverse", "bidirectional")
        case "mode", "Pad":
            return ("constant", "edge", "reflect", *(("wrap",) if opset >= 19 else ()))
        case "mode", "Resize":
            return ("nearest", "linear", "cubic")
        case "coordinate_transformation_mode", "Resize":
            return (
                *("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners"),
                *("asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"),
            )
        case "nearest_mode", "Resize":
            return ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
        case "mode", "DepthToSpace" | "SpaceToDepth":
            return ("DCR", "CRD")
    return ()


# Inputs that are vectors of the operator's channel count in any valid model.
CHANNEL_VECTORS = {"BatchNormalization": (1, 2, 3, 4), "InstanceNormalization": (1, 2)}


def implicit_default(operator: str, attribute: str, rank: int | None) -> object:
    """A default that stands in the specification's text only, for an input X of known rank.

    Transpose reverses the axes; convolutions and poolings have unit strides and dilations and no
    padding; kernel_shape is left alone because it is read off the weight.
    """
    if rank is None:
        return None
    if operator == "Transpose" and attribute == "perm":
        return tuple(reversed(range(rank)))
    windowed = ("Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool", "ConvInteger")
    if operator in windowed and rank > 2:
        spatial = rank - 2
        if attribute in ("strides", "dilations"):
            return (1,) * spatial
        if attribute == "pads":
            return (0,) * (2 * spatial)
        if attribute == "output_padding" and operator == "ConvTranspose":
            return (0,) * spatial
    return None
