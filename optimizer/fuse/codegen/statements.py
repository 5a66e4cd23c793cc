"""The elementwise nodes of a region, and the parts of its reductions, as expressions of C.

They come from the operators' specifications: a term of index notation at one element.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ....catalog.errors import TensologError
from ....catalog.operators.expand import Expansion
from ....catalog.operators.terms import Apply, Read, Reduce, Select, Symbol, Term
from ..program.dag import Node, Program, is_elementwise
from ..program.operators import FUNCTIONS

# C types by element type, and how the functions over them end.
C_TYPES: Mapping[str, str] = {"float64": "double", "float32": "float", "bool": "uint8_t"}
SUFFIXES: Mapping[str, str] = {"float64": "64", "float32": "32"}

# Primitives that C has as operators.
_INFIX: Mapping[str, str] = {
    **{symbol: symbol for symbol in ("+", "-", "*", "/", "<", "<=", ">", ">=", "!=")},
    "=": "==",
    "and": "&",
    "or": "|",
    "xor": "!=",
}
# Those of elementary.h, circular.h, hyperbolic.h and powers.h, which a compiler turns into vectors.
VECTOR = frozenset(
    (
        *("exp", "expm1", "log", "log1p", "sigmoid", "softplus", "erf", "pow"),
        *("max", "min", "sign", "mod"),
        *("sin", "cos", "tan", "asin", "acos", "atan"),
        *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
        *("exp2", "log2", "log10", "hypot", "logaddexp", "atan2"),
        "exp_below",  # exp of what is not positive, in kernels of models (brief.h)
        *("rounded_float16", "rounded_bfloat16", "saturated"),  # there, too (elements.h)
    )
)
# Those of the C library: compilers make instructions of some and leave the others as calls.
_LIBRARY: Mapping[str, str] = {
    **{name: name for name in ("sqrt", "floor", "ceil", "fmod")},
    "abs": "fabs",
    "round": "rint",
}


class LoweringError(TensologError):
    """A program that native code is not generated for; NumPy runs it."""


def expression(term: Term, dtype: str, reads: Mapping[str, str | float | bool]) -> str:
    """Return a term in C, computed in `dtype` ("float64" or "float32").

    `reads` says what an element of each tensor is: C text, or a number known beforehand. Raises
    LoweringError for a term that has no such form, naming the primitive.
    """
    return _Expression(dtype, reads).text(term)


def literal(value: float | bool, dtype: str = "float32") -> str:
    """Return a number in C, of type `dtype`."""
    if isinstance(value, bool):
        return str(int(value))
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "(-INFINITY)"
    text = float(value).hex() + ("f" if dtype == "float32" else "")
    return f"({text})" if math.copysign(1.0, value) < 0 else text


class _Expression:
    def __init__(self, dtype: str, reads: Mapping[str, str | float | bool]) -> None:
        self.suffix = SUFFIXES[dtype]
        self.reads = reads

    def text(self, term: Term) -> str:
        known = self._known(term)
        if known is not None:
            return self._literal(known)
        special = self._special(term)
        if special is not None:
            return special
        match term:
            case Read(tensor, _):
                return str(self.reads[tensor])
            case Select(condition, then, otherwise):
                return f"({self.text(condition)} ? {self.text(then)} : {self.text(otherwise)})"
            case Apply("neg", (operand,)):
                return f"(-{self.text(operand)})"
            case Apply("not", (operand,)):
                return f"(!{self.text(operand)})"
            case Apply("real", (operand,)):
                return self.text(operand)
            case Apply("isnan", (operand,)):
                return f"({self.text(operand)} != {self.text(operand)})"
            case Apply("is_positive_inf", (operand,)):
                return f"({self.text(operand)} == INFINITY)"
            case Apply("is_negative_inf", (operand,)):
                return f"({self.text(operand)} == -INFINITY)"
            case Apply(function, (left, right)) if function in _INFIX:
                return f"({self.text(left)} {_INFIX[function]} {self.text(right)})"
            case Apply(function, operands) if function in VECTOR:
                return self._call(f"{function}_{self.suffix}", operands)
            case Apply(function, operands) if function in _LIBRARY:
                ending = "f" if self.suffix == "32" else ""
                return self._call(f"__builtin_{_LIBRARY[function]}{ending}", operands)
            case Apply(function, _):
                raise LoweringError(f"{function} has no form in C")
            case Reduce():
                raise LoweringError("a reduction inside of an elementwise value")
            case _:
                raise LoweringError(f"{term} must be known to be written in C")

    def _call(self, function: str, operands: tuple[Term, ...]) -> str:
        return f"{function}({', '.join(map(self.text, operands))})"

    def _known(self, term: Term) -> float | bool | None:
        if isinstance(term, int | float):
            return term
        if isinstance(term, Read):
            value = self.reads[term.tensor]
            return None if isinstance(value, str) else value
        return None

    def _literal(self, value: float | bool) -> str:
        return literal(value, "float64" if self.suffix == "64" else "float32")

    def _special(self, term: Term) -> str | None:
        """Forms that overflow or cancel if they are computed as they are written."""
        match term:
            case Apply("log", (Apply("+", (1, Apply("exp", (operand,)))),)):
                return f"softplus_{self.suffix}({self.text(operand)})"
            case Apply("/", (1, Apply("+", (1, Apply("exp", (Apply("neg", (operand,)),)))))):
                return f"sigmoid_{self.suffix}({self.text(operand)})"
            case Apply("-", (Apply("exp", (operand,)), 1)):
                return f"expm1_{self.suffix}({self.text(operand)})"
            case Apply("pow", (base, exponent)):
                return self._power(self.text(base), self._known(exponent))
            case _:
                return None

    def _power(self, base: str, exponent: float | bool | None) -> str | None:
        """Powers that NumPy computes without pow for a number as exponent."""
        if exponent == 2:
            return f"({base} * {base})"
        if exponent == 1:
            return base
        if exponent == -1:
            return f"({self._literal(1)} / {base})"
        if exponent == 0.5:
            return f"__builtin_sqrt{'f' if self.suffix == '32' else ''}({base})"
        return None


# Types that are read and then computed with as double, which holds each of their numbers.
SMALL_INTEGERS = frozenset(["int8", "uint8", "int16", "uint16", "int32", "uint32"])

NO_ALIAS: Mapping[int, int] = MappingProxyType({})

# Moves that leave a row of cells as it is.
MOVES = frozenset(["Expand", "Transpose", "Squeeze", "Unsqueeze", "Reshape"])

# Operators whose results are truth values; others give numbers that have to be made some.
LOGICAL = frozenset(
    (
        *("And", "Or", "Xor", "Not", "Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"),
        *("IsNaN", "IsInf", "Cast", "Where", "Identity"),
    )
)


def kernel_dtype(node: Node) -> str:
    """Return the type that a node's elements have inside a kernel; raise LoweringError."""
    if node.dtype in C_TYPES:
        return node.dtype
    if node.dtype in SMALL_INTEGERS or node.dtype in ("int64", "uint64"):
        return "float64"
    raise LoweringError(f"{node.dtype} (%{node.id}) is no type of a kernel")


def variable(node: Node) -> str:
    """Return the declaration of a node's element."""
    dtype = kernel_dtype(node)
    return f"const {'int' if dtype == 'bool' else C_TYPES[dtype]} v{node.id}"


def computed_dtype(program: Program, node: Node) -> str:
    """Return the floating-point type that a node is computed in."""
    for one in (node, *(program.nodes[at] for at in node.inputs)):
        if one.dtype in SUFFIXES:
            return one.dtype
    return "float64"


def statement(program: Program, node: Node, alias: Mapping[int, int] = NO_ALIAS) -> str:
    """Return the statement that computes an element of a node from v<id> of its inputs.

    `alias` names the nodes that moves only show in another shape.
    """
    operands = [program.nodes[at] for at in node.inputs]
    _refuse_integers(node, operands)
    if node.op in MOVES:
        given = operands[0].attributes["value"] if operands[0].op == "Constant" else None
        name = f"v{alias.get(operands[0].id, operands[0].id)}"
        known = {"X": name if given is None else given}
        return (
            f"{variable(node)} = {expression(Read('X', ()), computed_dtype(program, node), known)};"
        )
    if not is_elementwise(node):
        raise LoweringError(f"{node.op} is not elementwise")
    if node.op == "Cast":
        return f"{variable(node)} = {_cast(node, operands[0], alias)};"
    expansion = program.expansion(node.id)
    value = expansion.outputs[0].value
    if node.op in FUNCTIONS:  # what it means may be less exact, computed as it is written
        named = tuple(Read(tensor.name, ()) for tensor in expansion.inputs if tensor is not None)
        value = Apply(FUNCTIONS[node.op], named)
    text = expression(value, computed_dtype(program, node), reads(expansion, operands, alias))
    return f"{variable(node)} = {text};"


def reads(
    expansion: Expansion, operands: Sequence[Node], alias: Mapping[int, int] = NO_ALIAS
) -> Mapping[str, str | float | bool]:
    """Return what an element of each input of a specification is: v<id>, or a known number."""
    found: dict[str, str | float | bool] = {}
    for tensor, operand in zip(expansion.inputs, operands, strict=False):
        if tensor is not None:
            constant = operand.op == "Constant"
            name = f"v{alias.get(operand.id, operand.id)}"
            found[tensor.name] = operand.attributes["value"] if constant else name
    return found


def _cast(node: Node, operand: Node, alias: Mapping[int, int]) -> str:
    name = f"v{alias.get(operand.id, operand.id)}"
    if operand.op == "Constant":
        value = operand.attributes["value"]
        name = f"({float(value).hex()})"
    if node.dtype == "bool":
        return f"({name} != 0)"
    return f"({C_TYPES[kernel_dtype(node)]}){name}"


def _refuse_integers(node: Node, operands: Sequence[Node]) -> None:
    """Integer arithmetic wraps around in NumPy; doubles hold the smaller types' numbers only."""
    if node.dtype not in C_TYPES:
        raise LoweringError(f"{node.op} (%{node.id}) of {node.dtype}")
    if node.dtype == "bool" and node.op not in LOGICAL | MOVES:
        raise LoweringError(f"{node.op} (%{node.id}) of bool")
    for operand in operands:
        kernel_dtype(operand)
        wide = operand.dtype in ("int64", "uint64") and operand.op != "Constant"
        if wide and not (node.op == "Cast" and node.dtype == "float64"):
            raise LoweringError(f"{node.op} (%{node.id}) of {operand.dtype}")


@dataclass(frozen=True)
class Reduction:
    """A reduction's parts in C: `body` of an element, and `last` of the reduced value `whole`.

    `kind` is sum, prod, max or min; none where an element is reduced to itself.
    """

    node: int
    kind: str
    body: str
    last: Term
    dtype: str

    def finish(self, whole: str) -> str:
        """Return the value of the node, from that of the reduction."""
        return expression(self.last, self.dtype, {"whole": whole})


def reduction(program: Program, node: Node, alias: Mapping[int, int] = NO_ALIAS) -> Reduction:
    """Return the parts of a Reduce*; raise LoweringError where its value has another form."""
    operand = program.nodes[node.inputs[0]]
    _refuse_integers(node, [operand])
    if node.dtype not in SUFFIXES or operand.dtype != node.dtype:
        raise LoweringError(f"{node.op} (%{node.id}) of {operand.dtype} as {node.dtype}")
    if node.op == "ReduceLogSumExp":
        raise LoweringError("ReduceLogSumExp overflows if it is computed as it is written")
    expansion = program.expansion(node.id)
    found: list[Reduce] = []
    last = _without_reduce(expansion.outputs[0].value, found)
    if len(found) != 1:
        if found:
            raise LoweringError(f"{node.op} of several reductions")
        # nothing is reduced: the value is elementwise
        body = expression(last, node.dtype, reads(expansion, [operand], alias))
        return Reduction(node.id, "none", body, Read("whole", ()), node.dtype)
    if found[0].condition is not True or found[0].kind not in ("sum", "prod", "max", "min"):
        raise LoweringError(f"{node.op} under a condition")
    body = expression(found[0].body, node.dtype, reads(expansion, [operand], alias))
    return Reduction(node.id, found[0].kind, body, last, node.dtype)


def _without_reduce(term: Term, found: list[Reduce]) -> Term:
    match term:
        case Reduce():
            found.append(term)
            return Read("whole", ())
        case Apply(function, arguments):
            return Apply(function, tuple(_without_reduce(one, found) for one in arguments))
        case Select(condition, then, otherwise):
            return Select(
                _without_reduce(condition, found),
                _without_reduce(then, found),
                _without_reduce(otherwise, found),
            )
        case Symbol():
            raise LoweringError(f"{term} must be known")
        case _:
            return term


def load(node: Node, element: str) -> str:
    """Return the statement that reads an element from memory."""
    return f"{variable(node)} = {element};"
