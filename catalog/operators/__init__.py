"""Operator specifications as data."""

from .classes import Classification, classifications, parse_classes
from .definition import (
    OpaqueOperatorError,
    Specification,
    specification,
    specified,
)
from .functions import ShapeError
from .parser import SpecificationError
from .schemas import (
    AttributeSpec,
    OperatorSpec,
    all_specifications,
    first_version,
    schema_for,
)

__all__ = [
    "AttributeSpec",
    "Classification",
    "OpaqueOperatorError",
    "OperatorSpec",
    "ShapeError",
    "Specification",
    "SpecificationError",
    "all_specifications",
    "classifications",
    "first_version",
    "parse_classes",
    "schema_for",
    "specification",
    "specified",
]
