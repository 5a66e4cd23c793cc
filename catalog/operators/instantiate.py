"""Expressions of a specification, reduced to terms of index notation once ranks are known."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..terms.comparisons import COMPARISONS
from ..terms.index_notation import Read, Reduce, Term, Variable, apply, is_integer, select
from ..terms.syntax_tree import Binary, Call, Expression, Index, ListOf, Literal, Name, Unary
from . import syntax as s
from .functions import (
    ENTRYWISE,
    FUNCTIONS,
    PRIMITIVES,
    ShapeError,
    UnknownNumberError,
    integer,
)

# A term, a string, a tensor, None (absent) or a list of such.
Value = Any

CONSTANTS: Mapping[str, float | bool] = {
    "inf": math.inf,
    "nan": math.nan,
    "pi": math.pi,
    "true": True,
    "false": False,
}


@dataclass(frozen=True)
class Tensor:
    """A tensor that can be read: an input, a local one, or an absent input with a default.

    `aligned` holds, for the axes [start, start + len(aligned)), the dimensions that they broadcast
    to; an index may then be longer than the rank, and what is too much goes in front of `start`.
    """

    name: str
    shape: tuple[Term, ...]
    start: int = 0
    aligned: tuple[Term, ...] = ()
    default: Term | None = None
    present: bool = True


@dataclass
class Scope:
    """Names and what they stand for; a callable entry is computed when it is first asked for."""

    names: dict[str, Value]
    functions: Mapping[str, s.Function]
    everywhere: tuple[Term, ...] | None = None
    counter: list[int] = field(default_factory=lambda: [0])

    def inner(self, names: Mapping[str, Value]) -> Scope:
        """Return a scope with more names."""
        return Scope({**self.names, **names}, self.functions, self.everywhere, self.counter)

    def variable(self, name: str) -> Variable:
        """Return a new index."""
        self.counter[0] += 1
        return Variable(name, self.counter[0])


@dataclass(frozen=True)
class Lazy:
    """A name's value before it is asked for."""

    compute: Callable[[], Value]


def evaluate(expression: Expression, scope: Scope) -> Value:
    """Return the value of an expression; raise ShapeError where it has none."""
    match expression:
        case Literal(value):
            return value
        case Name(name):
            return lookup(name, scope)
        case Binary("and" | "or" as symbol, left, right):
            decided = truth(scalar(evaluate(left, scope), scope))
            if decided is (symbol == "or"):
                return decided
            return apply(symbol, decided, truth(scalar(evaluate(right, scope), scope)))
        case Binary(symbol, left, right):
            return operate(symbol, [evaluate(left, scope), evaluate(right, scope)], scope)
        case Unary(symbol, operand):
            return operate("neg" if symbol == "-" else symbol, [evaluate(operand, scope)], scope)
        case s.Choice(condition, then, otherwise):
            return _choose(truth(scalar(evaluate(condition, scope), scope)), then, otherwise, scope)
        case ListOf(entries):
            return _entries(entries, scope)
        case s.Comprehension(inner, sources):
            lists = [evaluate(source.values, scope) for source in sources]
            if len({len(values) for values in lists}) > 1:
                raise ShapeError(f"lists of {[len(v) for v in lists]} entries side by side")
            return [
                evaluate(
                    inner,
                    scope.inner({o.name: value for o, value in zip(sources, values, strict=True)}),
                )
                for values in zip(*lists, strict=True)
            ]
        case s.Slice(base, first, last):
            values = evaluate(base, scope)
            bounds = [
                None if bound is None else integer(evaluate(bound, scope), "a slice")
                for bound in (first, last)
            ]
            return values[bounds[0] : bounds[1]]
        case Index(base, indices):
            return _subscript(evaluate(base, scope), _entries(indices, scope), scope)
        case Call():
            return _call(expression, scope)
        case s.Reduction():
            return reduce(expression, scope)
        case s.Splice():
            raise ShapeError("a * may only stand in a list, an index or a call")


def lookup(name: str, scope: Scope) -> Value:
    """Return what a name stands for."""
    if name not in scope.names:
        if name in CONSTANTS:
            return CONSTANTS[name]
        raise ShapeError(f"{name} is not known here")
    value = scope.names[name]
    if isinstance(value, Lazy):
        scope.names[name] = Lazy(_circle(name))
        value = scope.names[name] = value.compute()
    return value


def _circle(name: str) -> Callable[[], Value]:
    def fail() -> Value:
        raise ShapeError(f"{name} is needed to know {name}")

    return fail


def truth(value: Value) -> Term:
    """Return a condition; a number counts as whether it isn't 0."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value != 0
    if value is None or isinstance(value, list | str | Tensor):
        raise ShapeError(f"{value} is no condition")
    term: Term = value
    return apply("!=", term, 0) if is_integer(term) else term


def scalar(value: Value, scope: Scope) -> Value:
    """Return a value as an operand: a bare tensor is its element at the output's index."""
    if isinstance(value, Tensor):
        if not value.shape:
            return read(value, ())
        if scope.everywhere is not None:
            return read(value, scope.everywhere)
        raise ShapeError(f"{value.name} needs an index here")
    return value


def operate(symbol: str, values: Sequence[Value], scope: Scope) -> Value:
    """Return an operation, entry by entry where an operand is a list."""
    operands = [scalar(value, scope) for value in values]
    if symbol == "++":
        return [*operands[0], *operands[1]]
    if symbol in ("=", "!=") and any(value is None or isinstance(value, str) for value in operands):
        return (operands[0] == operands[1]) == (symbol == "=")
    if any(isinstance(value, list) for value in operands):
        results = [operate(symbol, entry, scope) for entry in _side_by_side(operands, symbol)]
        if symbol not in COMPARISONS:
            return results
        whole: Term = symbol != "!="
        for result in results:
            whole = apply("or" if symbol == "!=" else "and", whole, result)
        return whole
    if any(value is None or isinstance(value, str) for value in operands):
        raise ShapeError(f"{symbol} doesn't take {operands}")
    if symbol == "not":
        return apply("not", truth(operands[0]))
    return apply(symbol, *operands)


def _side_by_side(operands: Sequence[Value], operator: str) -> list[list[Value]]:
    lengths = {len(value) for value in operands if isinstance(value, list)}
    if len(lengths) > 1:
        if operator in ("=", "!="):
            raise ShapeError(f"{operands[0]} and {operands[1]} have different lengths")
        raise ShapeError(f"{operator} of lists of {sorted(lengths)} entries")
    return [
        [value[place] if isinstance(value, list) else value for value in operands]
        for place in range(next(iter(lengths)))
    ]


def _choose(condition: Term, then: Expression, otherwise: Expression, scope: Scope) -> Value:
    if isinstance(condition, bool):
        return evaluate(then if condition else otherwise, scope)
    first = scalar(evaluate(then, scope), scope)
    second = scalar(evaluate(otherwise, scope), scope)
    if isinstance(first, list) or isinstance(second, list):
        return [select(condition, a, b) for a, b in _side_by_side([first, second], "if")]
    return select(condition, first, second)


def _entries(expressions: Sequence[Expression], scope: Scope) -> list[Value]:
    entries: list[Value] = []
    for expression in expressions:
        if isinstance(expression, s.Splice):
            spliced = evaluate(expression.expression, scope)
            if not isinstance(spliced, list):
                raise ShapeError(f"* needs a list, not {spliced}")
            entries.extend(spliced)
        else:
            entries.append(evaluate(expression, scope))
    return entries


def _subscript(base: Value, indices: list[Value], scope: Scope) -> Value:
    if isinstance(base, Tensor):
        return read(base, [scalar(index, scope) for index in indices])
    if isinstance(base, list) and len(indices) == 1:
        place = integer(indices[0], "an entry of a list")
        if not -len(base) <= place < len(base):
            raise ShapeError(f"entry {place} of a list of {len(base)}")
        return base[place]
    raise ShapeError(f"{base} takes no index")


def read(tensor: Tensor, indices: Sequence[Term]) -> Term:
    """Return an element, with the index fitted where the tensor broadcasts."""
    if tensor.default is not None:
        return tensor.default
    if not tensor.present:
        raise ShapeError(f"{tensor.name} is absent")
    excess = len(indices) - len(tensor.shape)
    if excess < 0:
        raise ShapeError(
            f"{tensor.name} of rank {len(tensor.shape)} is read with {len(indices)} indices"
        )
    if excess > 0 and tensor.start < 0:
        raise ShapeError(f"{tensor.name} is read with {excess} indices too many")
    start = max(tensor.start, 0)
    fitted = [*indices[:start], *indices[start + excess :]]
    for place, target in enumerate(tensor.aligned):
        extent = tensor.shape[start + place]
        if extent != target or extent == 1:
            fitted[start + place] = select(apply("=", extent, 1), 0, fitted[start + place])
    return Read(tensor.name, tuple(fitted))


def _call(call: Call, scope: Scope) -> Value:
    name = call.function
    arguments = _entries(call.arguments, scope)
    if name in ("present", "absent"):
        is_present = arguments[0] is not None and getattr(arguments[0], "present", True)
        return is_present == (name == "present")
    if name == "shape":
        return list(arguments[0].shape)
    if name in scope.functions:
        function = scope.functions[name]
        if len(arguments) != len(function.parameters):
            raise ShapeError(f"{name} takes {len(function.parameters)} arguments")
        names = dict(zip(function.parameters, arguments, strict=True))
        return evaluate(
            function.expression,
            Scope(dict(names), scope.functions, scope.everywhere, scope.counter),
        )
    if name in ("max", "min", "sum", "prod", "any", "all"):
        return _fold(name, arguments, scope)
    if name in PRIMITIVES or name in ENTRYWISE:
        operands = [scalar(argument, scope) for argument in arguments]
        if any(isinstance(operand, list) for operand in operands):
            return [_primitive(name, entry) for entry in _side_by_side(operands, name)]
        return _primitive(name, operands)
    if name in FUNCTIONS:
        try:
            return FUNCTIONS[name](*arguments)
        except TypeError as error:  # of a symbol, say, where a number is compared
            raise UnknownNumberError(f"{name}: {error}") from None
        except (IndexError, ValueError, StopIteration) as error:
            raise ShapeError(f"{name}: {error}") from None
    raise ShapeError(f"{name} is no function")


def _primitive(name: str, operands: Sequence[Any]) -> Term:
    if name in ENTRYWISE:
        term: Term = ENTRYWISE[name](*operands)
        return term
    return apply(name, *operands)


_FOLDS = {"sum": "+", "prod": "*", "any": "or", "all": "and", "max": "max", "min": "min"}
_EMPTY: Mapping[str, Term] = {"sum": 0, "prod": 1, "any": False, "all": True}


def _fold(name: str, arguments: list[Value], scope: Scope) -> Value:
    """max(a, b) and its like, and sum(list)."""
    if len(arguments) == 1 and isinstance(arguments[0], list):
        arguments = arguments[0]
        if not arguments:
            return _EMPTY[name]
    whole = scalar(arguments[0], scope)
    for argument in arguments[1:]:
        whole = operate(_FOLDS[name], [whole, argument], scope)
    return whole


def reduce(reduction: s.Reduction, scope: Scope) -> Value:
    """Return a reduction: over indices a Reduce, over the entries of a list written out."""
    over = next((item for item in reduction.items if isinstance(item, s.Over)), None)
    if over is not None:
        return _unroll(reduction, over, scope)
    variables: list[Variable] = []
    extents: list[Term] = []
    condition: Term = True
    inner = scope.inner({})
    for item in reduction.items:
        match item:
            case s.Range(name, extent, star):
                bound = evaluate(extent, inner)
                if isinstance(bound, list) != star:
                    raise ShapeError(f"{name} runs over {bound}")
                new = [inner.variable(name) for _ in (bound if star else [bound])]
                inner.names[name] = list(new) if star else new[0]
                variables += new
                extents += bound if star else [bound]
            case s.Let(name, expression, _):
                inner.names[name] = evaluate(expression, inner)
            case s.Guard(guard):
                condition = apply("and", condition, truth(scalar(evaluate(guard, inner), inner)))
            case s.Over():
                raise AssertionError("written out above")
    body = scalar(evaluate(reduction.body, inner), inner)
    if not variables:
        if condition is True:
            return body
        # Nothing to run over, as of an update that is a scalar: it is reduced once, or not at all.
        variables, extents = [inner.variable("once")], [1]
    return Reduce(reduction.kind, tuple(variables), tuple(extents), condition, body)


def _unroll(reduction: s.Reduction, over: s.Over, scope: Scope) -> Value:
    values = evaluate(over.values, scope)
    if not isinstance(values, list):
        raise ShapeError(f"{over.name} runs over {values}, which is no list")
    branches: list[tuple[Term, Term]] = []
    for value in values:
        inner = scope.inner({over.name: value})
        condition: Term = True
        for item in reduction.items:
            match item:
                case s.Let(name, expression, _):
                    inner.names[name] = evaluate(expression, inner)
                case s.Guard(guard):
                    condition = apply(
                        "and", condition, truth(scalar(evaluate(guard, inner), inner))
                    )
                case _:
                    continue
        if condition is not False:
            branches.append((condition, scalar(evaluate(reduction.body, inner), inner)))
    if reduction.kind == "pick":
        if not branches:
            return 0
        whole = branches[-1][1]
        for condition, term in reversed(branches[:-1]):
            whole = select(condition, term, whole)
        return whole
    if any(condition is not True for condition, _ in branches):
        raise ShapeError(f"{reduction.kind} over a list takes no condition on indices")
    if not branches:
        return _EMPTY[reduction.kind]
    whole = branches[0][1]
    for _, term in branches[1:]:
        whole = apply(_FOLDS[reduction.kind], whole, term)
    return whole
