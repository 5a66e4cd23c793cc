"""Operator specifications as data."""

from .classes import Classification, classifications, parse_classes
from .specification import (
    AttributeSpec,
    OperatorSpec,
    all_specifications,
    first_version,
    schema_for,
)

__all__ = [
    "AttributeSpec",
    "Classification",
    "OperatorSpec",
    "all_specifications",
    "classifications",
    "first_version",
    "parse_classes",
    "schema_for",
]
