"""What ONNX specifies of each operator, with the class that this project gives it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import onnx
import onnx.defs
import onnx.helper

from ..attribute_text import attribute_text
from .classes import Classification, classifications
from .contributed import register, schema

# What releases of onnx without OpSchema.node_determinism draw at random.
_RANDOM = frozenset(
    [
        "Bernoulli",
        "Dropout",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    ]
)


@dataclass(frozen=True)
class AttributeSpec:
    """An attribute that an operator takes; `default` is a Python value or None."""

    name: str
    type: str
    required: bool
    default: object
    default_text: str | None


@dataclass(frozen=True)
class OperatorSpec:
    """One version of an operator's specification; ai.onnx is the domain ''."""

    domain: str
    op_type: str
    since_version: int
    kind: str
    commutative: bool
    deterministic: bool
    min_inputs: int
    max_inputs: int
    min_outputs: int
    max_outputs: int
    deprecated: bool
    attributes: tuple[AttributeSpec, ...]

    @cached_property
    def defaults(self) -> Mapping[str, object]:
        """Default values by attribute, of those that have one."""
        return {spec.name: spec.default for spec in self.attributes if spec.default is not None}


@cache
def schema_for(domain: str, op_type: str, opset: int) -> OperatorSpec | None:
    """Return the specification in force in operator set `opset`; None for an unknown operator."""
    domain = "" if domain == "ai.onnx" else domain
    versions = schema(op_type, opset, domain)
    return None if versions is None else _specification(versions)


@cache
def all_specifications() -> tuple[OperatorSpec, ...]:
    """Return every version of every operator known, contributed ones too, by name and version."""
    register()
    specifications = [_specification(schema) for schema in onnx.defs.get_all_schemas_with_history()]
    return tuple(
        sorted(specifications, key=lambda spec: (spec.domain, spec.op_type, spec.since_version))
    )


@cache
def first_version(domain: str, op_type: str) -> int | None:
    """Return the operator set that brought an operator; None for one that ONNX never had."""
    return min(
        (
            spec.since_version
            for spec in all_specifications()
            if (spec.domain, spec.op_type) == (domain, op_type)
        ),
        default=None,
    )


def _specification(schema: Any) -> OperatorSpec:
    domain, name, since = str(schema.domain), str(schema.name), int(schema.since_version)
    classification = classifications().get((domain, name), Classification())
    return OperatorSpec(
        domain=domain,
        op_type=name,
        since_version=since,
        kind=classification.kind,
        commutative=classification.commutative(since),
        deterministic=_deterministic(schema),
        min_inputs=schema.min_input,
        max_inputs=schema.max_input,
        min_outputs=schema.min_output,
        max_outputs=schema.max_output,
        deprecated=schema.deprecated,
        attributes=tuple(_attribute(schema.attributes[key]) for key in sorted(schema.attributes)),
    )


def _deterministic(schema: Any) -> bool:
    if schema.name in _RANDOM:
        return False
    stated = getattr(schema, "node_determinism", None)
    return stated is None or stated.name != "NonDeterministic"


def _attribute(attribute: Any) -> AttributeSpec:
    default = attribute.default_value
    has_default = default.type != onnx.AttributeProto.UNDEFINED
    value = onnx.helper.get_attribute_value(default) if has_default else None
    return AttributeSpec(
        name=attribute.name,
        type=attribute.type.name,
        required=attribute.required,
        default=_plain(value),
        default_text=attribute_text(default) if has_default else None,
    )


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, float | int | str) or value is None:
        return value
    try:
        return [_plain(item) for item in value]  # type: ignore[attr-defined]
    except TypeError:
        return value
