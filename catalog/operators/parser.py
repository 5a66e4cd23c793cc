"""Specification text to its syntax tree; every mistake is told with line, column and a hint."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

import lark
from lark import Token, Transformer, v_args

from ..errors import TensologError
from ..terms.syntax_tree import (
    Binary,
    Call,
    Expression,
    Index,
    ListOf,
    Literal,
    Name,
    Place,
    Unary,
)
from . import syntax as s

ATTRIBUTE_TYPES = ("int", "ints", "float", "floats", "string", "strings", "tensor")

# What to say for the terminals that the parser expected, instead of their names.
_HINTS = {
    "LSQB": "`[` and a shape or an index",
    "LPAR": "`(`",
    "RPAR": "`)`",
    "RSQB": "`]`",
    "EQUAL": "`=`",
    "THEN": "`then`",
    "ELSE": "`else`",
    "INT": "a number",
    "NAME": "a name",
    "QUALIFIED": "a name",
    "COMMA": "`,`",
    "OP": "`op`",
}


class SpecificationError(TensologError):
    """A mistake in a specification's text."""

    def __init__(self, place: Place, reason: str) -> None:
        self.path, self.line, self.column, self.reason = (
            place.path,
            place.line,
            place.column,
            reason,
        )
        super().__init__(f"{place.path}:{place.line}:{place.column}: {reason}")


def parse(text: str, path: str = "<specification>", first_line: int = 1) -> tuple[s.Statement, ...]:
    """Parse statements; raise SpecificationError at the first mistake.

    `first_line` is the line of the file on which `text` begins.
    """
    try:
        tree = _parser().parse(text)
    except lark.exceptions.UnexpectedInput as error:
        raise _syntax_error(error, text, path, first_line) from None
    try:
        statements: tuple[s.Statement, ...] = _Builder(text, path, first_line).transform(tree)
    except lark.exceptions.VisitError as error:
        if isinstance(error.orig_exc, SpecificationError):
            raise error.orig_exc from None
        raise
    return statements


@cache
def _parser() -> lark.Lark:
    grammar = (resources.files(__package__) / "grammar.lark").read_text(encoding="utf-8")
    return lark.Lark(grammar, parser="lalr", propagate_positions=True, maybe_placeholders=True)


def _syntax_error(
    error: lark.exceptions.UnexpectedInput, text: str, path: str, first_line: int
) -> SpecificationError:
    line, column = error.line, error.column
    token_text = ""
    if isinstance(error, lark.exceptions.UnexpectedToken):
        token_text = str(error.token)
        expected = set(error.accepts or error.expected)
    else:
        expected = set(getattr(error, "allowed", None) or ())
        if error.pos_in_stream is not None and error.pos_in_stream < len(text):
            token_text = text[error.pos_in_stream]
    if line is None or line < 1 or not token_text:
        line = text.count("\n") + 1
        column = len(text) - text.rfind("\n")
    hints = sorted(_HINTS[name] for name in expected if name in _HINTS)
    problem = f"{token_text!r} can't stand here" if token_text else "the text ends too early"
    reason = f"{problem}; expected {' or '.join(hints)}" if hints else problem
    return SpecificationError(Place(path, line + first_line - 1, column), reason)


@v_args(meta=True)
class _Builder(Transformer[Token, Any]):
    """Builds the tree bottom-up; each method is named after its alternative in the grammar."""

    def __init__(self, text: str, path: str, first_line: int) -> None:
        super().__init__()
        self.text, self.path, self.offset = text, path, first_line - 1

    def _place(self, token: Any) -> Place:
        line = getattr(token, "line", None)
        return Place(self.path, (line or 1) + self.offset, getattr(token, "column", None) or 1)

    # ---- statements
    def start(self, meta: Any, children: list[Any]) -> tuple[s.Statement, ...]:
        return tuple(children)

    def function(self, meta: Any, children: list[Any]) -> s.Function:
        name, *parameters, expression = children
        return s.Function(str(name), tuple(map(str, parameters)), expression, self._place(name))

    def opaque(self, meta: Any, children: list[Any]) -> s.Opaque:
        name, reason = children
        return s.Opaque(str(name), str(reason)[1:-1], self._place(name))

    def operator(self, meta: Any, children: list[Any]) -> s.Operator:
        name = children[0]

        def of(kind: type) -> tuple[Any, ...]:
            return tuple(child for child in children if isinstance(child, kind))

        opset = next((child for child in children if type(child) is tuple), (1, None))
        return s.Operator(
            name=str(name),
            inputs=of(s.Input),
            outputs=of(s.Output),
            opset_from=opset[0],
            opset_to=opset[1],
            attributes=of(s.Attribute),
            lets=of(s.Let),
            requires=of(s.Require),
            locals=of(s.Local),
            values=of(s.Value),
            text=self.text[meta.start_pos : meta.end_pos],
            place=self._place(name),
        )

    def opset_from(self, meta: Any, children: list[Any]) -> tuple[int, int | None]:
        return int(children[0]), None

    def opset_range(self, meta: Any, children: list[Any]) -> tuple[int, int | None]:
        return int(children[0]), int(children[1])

    # ---- signature
    def tensor_input(self, meta: Any, children: list[Any]) -> s.Input:
        name, variadic, shape, absent = children
        optional, default = absent or (False, None)
        return s.Input(
            str(name), "tensor", shape, variadic is not None, optional, default, self._place(name)
        )

    def list_input(self, meta: Any, children: list[Any]) -> s.Input:
        kind, name, absent = children
        if kind not in ("int", "ints"):
            raise SpecificationError(
                self._place(kind),
                f"an input is `NAME [shape]`, `ints NAME` or `int NAME`, no {kind}",
            )
        optional, default = absent or (False, None)
        return s.Input(str(name), str(kind), (), False, optional, default, self._place(name))

    def optional(self, meta: Any, children: list[Any]) -> tuple[bool, None]:
        return True, None

    def default(self, meta: Any, children: list[Any]) -> tuple[bool, Any]:
        return True, children[0]

    def variadic(self, meta: Any, children: list[Any]) -> bool:
        return True

    def output(self, meta: Any, children: list[Any]) -> s.Output:
        name, variadic, shape, kind = children
        words = {"name": None, "like": None, "code": None} | (kind or {})
        return s.Output(
            str(name),
            shape,
            variadic is not None,
            words["name"],
            words["like"],
            words["code"],
            self._place(name),
        )

    def type_name(self, meta: Any, children: list[Any]) -> dict[str, Any]:
        return {"name": str(children[0])}

    def type_like(self, meta: Any, children: list[Any]) -> dict[str, Any]:
        return {"like": str(children[0]), "code": children[1]}

    def type_code(self, meta: Any, children: list[Any]) -> dict[str, Any]:
        return {"code": children[0]}

    def shape(self, meta: Any, children: list[Any]) -> list[Any]:
        return [child for child in children if child is not None]

    def star_dimension(self, meta: Any, children: list[Any]) -> s.Dimension:
        return s.Dimension("star", children[0], children[1])

    def broadcast_dimension(self, meta: Any, children: list[Any]) -> s.Dimension:
        return s.Dimension("broadcast", Name(str(children[0]), self._place(children[0])))

    def each_dimension(self, meta: Any, children: list[Any]) -> s.Dimension:
        return s.Dimension("each", Name(str(children[0]), self._place(children[0])))

    def any_dimensions(self, meta: Any, children: list[Any]) -> s.Dimension:
        return s.Dimension("any", Literal(0))

    def plain_dimension(self, meta: Any, children: list[Any]) -> s.Dimension:
        return s.Dimension("plain", children[0])

    # ---- clauses
    def attribute(self, meta: Any, children: list[Any]) -> s.Attribute:
        name, kind, absent = children
        if kind not in ATTRIBUTE_TYPES:
            raise SpecificationError(
                self._place(kind), f"{kind} is no type; expected {', '.join(ATTRIBUTE_TYPES)}"
            )
        optional, default = absent or (False, None)
        return s.Attribute(str(name), str(kind), optional, default, self._place(name))

    def let(self, meta: Any, children: list[Any]) -> s.Let:
        return s.Let(str(children[0]), children[1], self._place(children[0]))

    def require(self, meta: Any, children: list[Any]) -> s.Require:
        text = self.text[meta.start_pos : meta.end_pos].removeprefix("require").strip()
        return s.Require(children[0], " ".join(text.split()))

    def only(self, meta: Any, children: list[Any]) -> s.Require:
        text = self.text[meta.start_pos : meta.end_pos].removeprefix("only").strip()
        return s.Require(children[0], " ".join((s.ONLY, *text.split())), only=True)

    def local(self, meta: Any, children: list[Any]) -> s.Local:
        return s.Local(str(children[0]), tuple(children[1]), self._place(children[0]))

    def value_everywhere(self, meta: Any, children: list[Any]) -> s.Value:
        name, expression = children
        return s.Value(str(name), None, None, expression, self._place(name))

    def value(self, meta: Any, children: list[Any]) -> s.Value:
        name, index, expression = children
        return s.Value(str(name), index, None, expression, self._place(name))

    def value_each(self, meta: Any, children: list[Any]) -> s.Value:
        name, counter, index, expression = children
        return s.Value(str(name), index, str(counter), expression, self._place(name))

    def index(self, meta: Any, children: list[Any]) -> tuple[tuple[str, bool], ...]:
        return tuple(child for child in children if child is not None)

    def one_place(self, meta: Any, children: list[Any]) -> tuple[str, bool]:
        return str(children[0]), False

    def star_place(self, meta: Any, children: list[Any]) -> tuple[str, bool]:
        return str(children[0]), True

    # ---- expressions
    def choice(self, meta: Any, children: list[Any]) -> s.Choice:
        return s.Choice(*children)

    def or_(self, meta: Any, children: list[Any]) -> Binary:
        return Binary("or", children[0], children[1], self._place(meta))

    def and_(self, meta: Any, children: list[Any]) -> Binary:
        return Binary("and", children[0], children[1], self._place(meta))

    def not_(self, meta: Any, children: list[Any]) -> Unary:
        return Unary("not", children[0], self._place(meta))

    def chain(self, meta: Any, children: list[Any]) -> Expression:
        place = self._place(meta)
        links: list[Expression] = [
            Binary(children[position], children[position - 1], children[position + 1], place)
            for position in range(1, len(children), 2)
        ]
        whole = links[0]
        for link in links[1:]:
            whole = Binary("and", whole, link, place)
        return whole

    def compare(self, meta: Any, children: list[Any]) -> str:
        return str(children[0])

    def binary(self, meta: Any, children: list[Any]) -> Binary:
        left, symbol, right = children
        return Binary(str(symbol), left, right, self._place(symbol))

    def times(self, meta: Any, children: list[Any]) -> Binary:
        return Binary("*", children[0], children[1], self._place(meta))

    def negative(self, meta: Any, children: list[Any]) -> Expression:
        if isinstance(children[1], Literal) and not isinstance(children[1].value, str):
            return Literal(-children[1].value)
        return Unary("-", children[1], self._place(meta))

    def reduction(self, meta: Any, children: list[Any]) -> s.Reduction:
        kind, *items, body = children
        return s.Reduction(
            str(kind),
            tuple(self._item(item, kind) for item in items),
            body,
            self._place(kind),
        )

    def _item(self, item: Any, kind: Token) -> s.Item:
        if isinstance(item, s.Range | s.Let | s.Guard | s.Over):
            return item
        match item:
            case Binary("<", Name(name), extent):
                return s.Range(name, extent, False)
        raise SpecificationError(
            self._place(kind),
            f"{kind} runs over `i < n`, `*i < n` or `x in X`, with `let` and `if`; write conditions"
            " as `if condition`",
        )

    def subscript(self, meta: Any, children: list[Any]) -> Index:
        base, *indices = children
        return Index(
            base, tuple(index for index in indices if index is not None), self._place(meta)
        )

    def slice(self, meta: Any, children: list[Any]) -> s.Slice:
        base, first, last = children
        return s.Slice(base, first, last, self._place(meta))

    def integer(self, meta: Any, children: list[Any]) -> Literal:
        return Literal(int(children[0]))

    def real(self, meta: Any, children: list[Any]) -> Literal:
        return Literal(float(children[0]))

    def string(self, meta: Any, children: list[Any]) -> Literal:
        return Literal(str(children[0])[1:-1])

    def name(self, meta: Any, children: list[Any]) -> Name:
        return Name(str(children[0]), self._place(children[0]))

    def call(self, meta: Any, children: list[Any]) -> Call:
        name, *arguments = children
        return Call(
            str(name),
            tuple(argument for argument in arguments if argument is not None),
            self._place(name),
        )

    def reducer_call(self, meta: Any, children: list[Any]) -> Call:
        name, *items = children
        for item in items:
            ranges = isinstance(item, Binary) and item.operator == "<"
            if ranges or isinstance(item, s.Range | s.Let | s.Guard | s.Over):
                raise SpecificationError(
                    self._place(name), f"after {name}(…) the term that it runs over is missing"
                )
        return Call(str(name), tuple(items), self._place(name))

    def list_of(self, meta: Any, children: list[Any]) -> ListOf:
        return ListOf(tuple(child for child in children if child is not None))

    def comprehension(self, meta: Any, children: list[Any]) -> s.Comprehension:
        return s.Comprehension(children[0], tuple(children[1:]))

    def splice(self, meta: Any, children: list[Any]) -> s.Splice:
        return s.Splice(children[0])

    def over(self, meta: Any, children: list[Any]) -> s.Over:
        return s.Over(str(children[0]), children[1])

    def let_item(self, meta: Any, children: list[Any]) -> s.Let:
        return s.Let(str(children[0]), children[1], self._place(children[0]))

    def if_item(self, meta: Any, children: list[Any]) -> s.Guard:
        return s.Guard(children[0])

    def star_range(self, meta: Any, children: list[Any]) -> s.Range:
        return s.Range(str(children[0]), children[1], True)
