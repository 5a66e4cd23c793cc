"""Operator specifications as data."""

from .classes import Classification, classifications, parse_classes
from .specification import AttributeSpec, OperatorSpec, all_specifications, schema_for

__all__ = [
    "AttributeSpec",
    "Classification",
    "OperatorSpec",
    "all_specifications",
    "classifications",
    "parse_classes",
    "schema_for",
]
