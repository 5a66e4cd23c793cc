"""Operator specifications as data: what each operator computes, element by element.

In: the `.ops` files, one a family (`contraction.ops` has MatMul and Conv, `window.ops` the pools;
`classes.ops` names each operator's), over the functions of `library.ops`. Out: specifications by
name and operator set (`definition.py`), as terms at known ranks (`expand.py`, of whose expressions
`instantiate.py` makes terms), or computed with NumPy (`evaluate.py`). What terms are is said in
catalog/terms/. Begin at the block `op NAME` of a file, `grep -n '^op Conv' *.ops`, and at
`definition.py`; `grammar.lark`, `parser.py` and `syntax.py` read the text.
"""

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
