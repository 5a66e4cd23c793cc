"""What can be known wrong about a specification before any shape is given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..terms.syntax_tree import Call, Expression, Literal, Name
from . import syntax as s
from .functions import ENTRYWISE, FUNCTIONS, PRIMITIVES
from .instantiate import CONSTANTS
from .parser import SpecificationError

_TYPES = {"bool", "int32", "int64", "uint8"}
_CALLS = {"present", "absent", "shape", "max", "min", "sum", "prod", "any", "all"}


def check(operator: s.Operator, functions: Mapping[str, s.Function]) -> None:
    """Raise SpecificationError for an unknown name or function, or a value that lacks."""
    checker = _Checker(functions)
    known = set(CONSTANTS) | {"outputs"}
    for declared in operator.inputs:
        known |= {declared.name}
        known |= {item.name for item in declared.shape if item.name is not None}
    groups: list[s.Attribute | s.Let | s.Local] = []
    groups += [*operator.attributes, *operator.lets, *operator.locals]
    names = [entry.name for entry in groups]
    for i, entry in enumerate(groups):
        if entry.name in names[:i]:
            raise SpecificationError(entry.place, f"{entry.name} is defined already")
    known |= set(names)
    for output in operator.outputs:
        if output.type is not None and output.type not in _TYPES:
            raise SpecificationError(
                output.place, f"{output.type} is no type; expected {', '.join(sorted(_TYPES))}"
            )
        if output.like is not None and output.like not in {
            input_.name for input_ in operator.inputs
        }:
            raise SpecificationError(output.place, f"{output.like} is no input")
        checker.check_all([output.code], known)
    for declared in operator.inputs:
        checker.check_all((declared.default, *_expressions(declared.shape)), known)
    for attribute in operator.attributes:
        checker.check_all([attribute.default], known)
    checker.check_all([let.expression for let in operator.lets], known)
    checker.check_all([require.condition for require in operator.requires], known)
    tensors: list[s.Output | s.Local] = [*operator.outputs, *operator.locals]
    for tensor in tensors:
        values = [value for value in operator.values if value.name == tensor.name]
        if len(values) != 1:
            how = "no" if not values else "more than one"
            raise SpecificationError(tensor.place, f"{tensor.name} has {how} value")
        checker.check_all(_expressions(tensor.shape), known)
        value = values[0]
        if value.indices is not None and len(value.indices) != len(tensor.shape):
            raise SpecificationError(
                value.place,
                f"{tensor.name} has {len(tensor.shape)} dimensions, {len(value.indices)} indices",
            )
    declared_names = {tensor.name for tensor in tensors}
    for value in operator.values:
        if value.name not in declared_names:
            raise SpecificationError(value.place, f"{value.name} is neither output nor local")
        inner = {name for name, _ in value.indices or ()} | ({value.each} - {None})
        checker.check(value.expression, known | {name for name in inner if name is not None})


def _expressions(shape: Iterable[s.Dimension]) -> list[Expression | None]:
    return [e for item in shape for e in (item.expression, item.length)]


class _Checker:
    def __init__(self, functions: Mapping[str, s.Function]) -> None:
        self.functions = functions

    def check_all(self, expressions: Iterable[Expression | None], known: set[str]) -> None:
        for expression in expressions:
            if expression is not None:
                self.check(expression, known)

    def check(self, expression: Expression, known: set[str]) -> None:
        match expression:
            case Literal():
                return
            case Name(name, place):
                if name not in known:
                    raise SpecificationError(place, f"{name} is not defined{_near(name, known)}")
            case Call():
                self.call(expression, known)
            case s.Comprehension(inner, sources):
                self.check_all([source.values for source in sources], known)
                self.check(inner, known | {source.name for source in sources})
            case s.Reduction(_, items, body):
                self.reduction(items, body, known)
            case _:
                self.check_all(expression.parts, known)

    def call(self, call: Call, known: set[str]) -> None:
        name = call.function
        all_names = {*_CALLS, *PRIMITIVES, *FUNCTIONS, *ENTRYWISE, *self.functions}
        if name not in all_names:
            raise SpecificationError(call.place, f"{name} is no function{_near(name, all_names)}")
        count = PRIMITIVES.get(name)
        if name in self.functions:
            count = len(self.functions[name].parameters)
        if count is not None and count != len(call.arguments):
            raise SpecificationError(
                call.place, f"{name} takes {count} arguments, not {len(call.arguments)}"
            )
        self.check_all(call.arguments, known)

    def reduction(self, items: tuple[s.Item, ...], body: Expression, known: set[str]) -> None:
        known = set(known)
        for item in items:
            match item:
                case s.Range(name, extent, _):
                    self.check(extent, known)
                    known.add(name)
                case s.Let(name, inner, _):
                    self.check(inner, known)
                    known.add(name)
                case s.Guard(condition):
                    self.check(condition, known)
                case s.Over(name, values):
                    self.check(values, known)
                    known.add(name)
        self.check(body, known)


def _near(name: str, known: Iterable[str]) -> str:
    import difflib

    close = difflib.get_close_matches(name, sorted(known), 1)
    return f"; did you mean {close[0]}?" if close else ""
