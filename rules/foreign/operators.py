"""The operators of TASO's and TENSAT's rules, under one name each.

[taso]   Jia et al., TASO, SOSP 2019; its operators are those of include/taso/ops.h.
[tensat] Yang et al., Equality saturation for tensor graph superoptimization, MLSys 2021.

A fused activation is a node of its own here: `conv2d` with acti 2 is `relu` of a `conv2d`.
"""

from __future__ import annotations

from dataclasses import dataclass

from .terms import Apply, Term

ACTIVATIONS = {0: None, 1: "sigmoid", 2: "relu", 3: "tanh"}
SAME, VALID = 0, 1
# How deep a rule may nest, and how many nodes a side may have: far more than any rule of use has,
# and few enough for walking through terms by recursion.
DEEPEST = 60
HIGHEST_RANK = 8


@dataclass(frozen=True)
class Operator:
    """How many operands an operator takes (None: two or more) and its parameters, in order."""

    operands: int | None
    parameters: tuple[str, ...] = ()


WINDOW = ("kernel_h", "kernel_w", "stride_h", "stride_w", "pad")
OPERATORS = {
    "conv2d": Operator(2, ("stride_h", "stride_w", "pad")),
    "poolavg": Operator(1, WINDOW),
    "poolmax": Operator(1, WINDOW),
    "relu": Operator(1),
    "sigmoid": Operator(1),
    "tanh": Operator(1),
    "concat": Operator(None, ("axis", "rank")),  # rank 0: not stated
    "split": Operator(1, ("axis", "parts")),  # parts 0: as many as were concatenated
    "transpose": Operator(1, ("rank", "perm")),  # perm as TASO numbers it; rank 0: not stated
    "ewadd": Operator(2),
    "ewmul": Operator(2),
    "matmul": Operator(2),
    "smul": Operator(2),
    "enlarge": Operator(1, ("kernel_h", "kernel_w")),
    "enlarge_like": Operator(2),
    "iconv": Operator(0, ("kernel_h", "kernel_w")),
    "cpool": Operator(0, ("kernel_h", "kernel_w")),
    "imatmul": Operator(0),
    "ones": Operator(0),
    "identity": Operator(0),  # TASO's CONSTANT_IMM, before it is known of which product
}
CONSTANTS = ("iconv", "cpool", "imatmul", "ones")
ELEMENTWISE = ("ewadd", "ewmul")
UNARY = ("relu", "sigmoid", "tanh")


class UnreadableError(Exception):
    """What is wrong with one rule."""


class UnknownOperatorError(UnreadableError):
    """A rule with an operator that isn't one of OPERATORS."""


def build(
    operator: str, parameters: dict[str, int], operands: tuple[Term, ...], output: int = 0
) -> Term:
    """An operator's term, its activation (parameter `acti`) made explicit; UnreadableError."""
    specification = OPERATORS[operator]
    wanted = specification.operands
    if wanted is None and len(operands) < 2:
        raise UnreadableError(f"{operator} needs at least 2 operands, not {len(operands)}")
    if wanted is not None and len(operands) != wanted:
        raise UnreadableError(f"{operator} needs {_count(wanted)}, not {len(operands)}")
    missing = [name for name in specification.parameters if name not in parameters]
    if missing:
        raise UnreadableError(f"{operator} lacks {', '.join(missing)}")
    values = tuple((name, parameters[name]) for name in specification.parameters)
    _check(operator, dict(values))
    term: Term = Apply(operator, values, operands, output)
    activation = parameters.get("acti", 0)
    if activation not in ACTIVATIONS:
        raise UnreadableError(f"unknown activation {activation} of {operator}")
    fused = ACTIVATIONS[activation]
    return term if fused is None else Apply(fused, (), (term,))


def _count(number: int) -> str:
    return f"{number} operand{'' if number == 1 else 's'}"


def _check(operator: str, values: dict[str, int]) -> None:
    for name, value in values.items():
        if name == "pad" and value not in (SAME, VALID):
            raise UnreadableError(f"unknown padding {value} of {operator}; 0 is SAME, 1 is VALID")
        if name.startswith(("kernel", "stride")) and value < 1:
            raise UnreadableError(f"{name} of {operator} is {value}; it must be 1 or more")
        if name == "rank" and not 0 <= value <= HIGHEST_RANK:
            raise UnreadableError(f"the rank of {operator} is {value}; {HIGHEST_RANK} is the most")
        if name == "axis" and value < 0:
            raise UnreadableError(f"the axis of {operator} is {value}; it must be 0 or more")


def permutation_number(permutation: tuple[int, ...]) -> int:
    """The number under which TASO knows a permutation."""
    number = 0
    for digit in permutation:
        number = number * len(permutation) + digit
    return number


def permutation(number: int, rank: int) -> tuple[int, ...] | None:
    """TASO's number of a permutation: its entries are the digits in base `rank`."""
    digits: list[int] = []
    for _ in range(rank):
        number, digit = divmod(number, rank)
        digits.insert(0, digit)
    return tuple(digits) if number == 0 and sorted(digits) == list(range(rank)) else None
