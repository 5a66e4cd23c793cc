"""What the operators of programs mean: ONNX's, and functions of NumPy's that ONNX has none for.

What the latter mean stands in operators.ops, for the planner: which cells are needed, where zeros
stay zeros. Kernels compute them by functions of their own, as exp(x) - 1 cancels and log(exp(x))
overflows. A rule that matches ONNX's operators doesn't see them (rule_rewrites.py), and no model
has them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources

from ....catalog.operators import Specification, specification
from ....catalog.operators.parsed import parsed
from ....catalog.operators.syntax import Operator

# The operator set whose specifications the nodes of programs mean.
OPSET = 28
_DOMAIN = "tensolog"
# The function of C that computes each operator, without the ending for its type.
FUNCTIONS: Mapping[str, str] = {
    "Expm1": "expm1",
    "Log1p": "log1p",
    "Exp2": "exp2",
    "Log2": "log2",
    "Log10": "log10",
    "Hypot": "hypot",
    "LogAddExp": "logaddexp",
    "Atan2": "atan2",
}
_STATEMENT = re.compile(rf"^op {_DOMAIN}\.(\w+)", re.MULTILINE)


class OwnSpecification(Specification):
    """What one of these operators means: all are elementwise, and no catalog says so."""

    @property
    def kind(self) -> str:
        """The operator's class."""
        return "elementwise"


@cache
def meaning(op: str) -> Specification | None:
    """Return what an operator of programs means, ONNX's or one of these; None if it is unknown."""
    if op not in FUNCTIONS:
        return specification("", op, OPSET)
    text, line = _texts()[op]
    statement = parsed(text, "operators.ops", line)
    assert isinstance(statement, Operator)
    return OwnSpecification(_DOMAIN, op, 1, (statement,))


@cache
def listed_inputs(op: str) -> tuple[str, ...]:
    """Return the inputs of an operator that are lists or numbers known beforehand, as axes are.

    Nodes of programs have them as attributes.
    """
    definition = meaning(op)
    if definition is None or not definition.blocks:
        return ()
    return tuple(input_.name for input_ in definition.blocks[0].inputs if input_.kind != "tensor")


@cache
def is_commutative(op: str) -> bool:
    """Whether the operands of an operator may be exchanged."""
    definition = meaning(op)
    return definition is not None and definition.commutative


@cache
def _texts() -> Mapping[str, tuple[str, int]]:
    text = resources.files(__package__).joinpath("operators.ops").read_text(encoding="utf-8")
    starts = list(_STATEMENT.finditer(text))
    ends = [*(start.start() for start in starts[1:]), len(text)]
    return {
        start[1]: (text[start.start() : end], text.count("\n", 0, start.start()) + 1)
        for start, end in zip(starts, ends, strict=True)
    }
