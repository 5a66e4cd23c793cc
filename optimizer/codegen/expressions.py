"""Terms of specifications as expressions of C, and a reduction's parts.

A term is that of index notation at one element; what it reads is told by the caller.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...catalog.errors import TensologError
from ...catalog.terms.index_notation import Apply, Read, Reduce, Term
from ...catalog.terms.term_evaluator import TermEvaluator

# What elements of a type are in memory, and how functions over those end that are computed with.
C_TYPES: Mapping[str, str] = {
    "float64": "double",
    "float32": "float",
    "bool": "uint8_t",
    **dict.fromkeys(("float16", "bfloat16"), "uint16_t"),
    **{f"{kind}{bits}": f"{kind}{bits}_t" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
}
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
    return _Expression(dtype, reads).value(term)


def declared(name: str, dtype: str, value: str) -> str:
    """Return the declaration of a local variable that is an element's value, of type `dtype`."""
    return f"const {'int' if dtype == 'bool' else C_TYPES[dtype]} {name} = {value};"


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


class _Expression(TermEvaluator[str]):
    def __init__(self, dtype: str, reads: Mapping[str, str | float | bool]) -> None:
        self.suffix = SUFFIXES[dtype]
        self.reads = reads

    def value(self, term: Term) -> str:
        constant = self._constant(term)
        if constant is not None:
            return self._literal(constant)
        return self._special(term) or super().value(term)

    def refusal(self, term: Term) -> LoweringError:
        if isinstance(term, Reduce):
            return LoweringError("a reduction inside of an elementwise value")
        return LoweringError(f"{term} must be known to be written in C")

    def read(self, element: Read) -> str:
        return str(self.reads[element.tensor])

    def select(self, condition: Term, then: Term, otherwise: Term) -> str:
        return f"({self.value(condition)} ? {self.value(then)} : {self.value(otherwise)})"

    def apply(self, function: str, arguments: Sequence[str]) -> str:
        match function, arguments:
            case "neg", [operand]:
                return f"(-{operand})"
            case "not", [operand]:
                return f"(!{operand})"
            case "real", [operand]:
                return operand
            case "isnan", [operand]:
                return f"({operand} != {operand})"
            case "is_positive_inf", [operand]:
                return f"({operand} == INFINITY)"
            case "is_negative_inf", [operand]:
                return f"({operand} == -INFINITY)"
            case _, [left, right] if function in _INFIX:
                return f"({left} {_INFIX[function]} {right})"
        if function in VECTOR:
            return f"{function}_{self.suffix}({', '.join(arguments)})"
        if function in _LIBRARY:
            ending = "f" if self.suffix == "32" else ""
            return f"__builtin_{_LIBRARY[function]}{ending}({', '.join(arguments)})"
        raise LoweringError(f"{function} has no form in C")

    def _constant(self, term: Term) -> float | bool | None:
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
                return f"softplus_{self.suffix}({self.value(operand)})"
            case Apply("/", (1, Apply("+", (1, Apply("exp", (Apply("neg", (operand,)),)))))):
                return f"sigmoid_{self.suffix}({self.value(operand)})"
            case Apply("-", (Apply("exp", (operand,)), 1)):
                return f"expm1_{self.suffix}({self.value(operand)})"
            case Apply("pow", (base, exponent)):
                return self._power(self.value(base), self._constant(exponent))
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


# What elements are reduced to, in the term of what becomes of it.
WHOLE = Read("whole", ())


@dataclass(frozen=True)
class Reduction:
    """A reduction's parts in C: `body` of an element, and `last` of the reduced value, WHOLE.

    `kind` is sum, prod, max or min; none where an element is reduced to itself.
    """

    node: int
    kind: str
    body: str
    dtype: str
    last: Term = WHOLE

    def finish(self, whole: str) -> str:
        """Return the value of the node, from that of the reduction."""
        return expression(self.last, self.dtype, {WHOLE.tensor: whole})
