"""What a specification's text says: the syntax tree that the parser builds.

Of expressions the nodes that rules have too are in catalog/terms/syntax_tree.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from ..terms.syntax_tree import NOWHERE, Expression, Name, Place


@dataclass(frozen=True)
class Choice(Expression):
    """`if condition then … else …`."""

    condition: Expression
    then: Expression
    otherwise: Expression

    @property
    def parts(self) -> tuple[Expression, ...]:
        """The condition and what is chosen from."""
        return (self.condition, self.then, self.otherwise)

    def with_parts(self, change: Callable[[Expression], Expression]) -> Choice:
        """Another choice."""
        return Choice(change(self.condition), change(self.then), change(self.otherwise))


@dataclass(frozen=True)
class Slice(Expression):
    """`d[first:last]` of a list."""

    of: Expression
    first: Expression | None
    last: Expression | None
    place: Place = field(default=NOWHERE, compare=False, repr=False)

    @property
    def parts(self) -> tuple[Expression, ...]:
        """The list and the bounds that there are."""
        return tuple(part for part in (self.of, self.first, self.last) if part is not None)

    def with_parts(self, change: Callable[[Expression], Expression]) -> Slice:
        """Another list between other bounds."""
        first, last = (
            None if bound is None else change(bound) for bound in (self.first, self.last)
        )
        return Slice(change(self.of), first, last, self.place)


@dataclass(frozen=True)
class Splice(Expression):
    """`*expression`: the entries of a list, in the place of one entry."""

    expression: Expression

    @property
    def parts(self) -> tuple[Expression, ...]:
        """The list."""
        return (self.expression,)

    def with_parts(self, change: Callable[[Expression], Expression]) -> Splice:
        """The entries of another list."""
        return Splice(change(self.expression))


@dataclass(frozen=True)
class Over:
    """`name in list`."""

    name: str
    values: Expression


@dataclass(frozen=True)
class Comprehension(Expression):
    """`[expression for a in A, b in B]`: the lists are read side by side."""

    expression: Expression
    sources: tuple[Over, ...]

    @property
    def parts(self) -> tuple[Expression, ...]:
        """The lists and what is made of their entries."""
        return (*(source.values for source in self.sources), self.expression)

    def with_parts(self, change: Callable[[Expression], Expression]) -> Comprehension:
        """Something else made of the entries of other lists."""
        sources = tuple(Over(source.name, change(source.values)) for source in self.sources)
        return Comprehension(change(self.expression), sources)


@dataclass(frozen=True)
class Range:
    """`i < n`, or `*i < n` with a list of ranges: what a reduction runs over."""

    name: str
    extent: Expression
    star: bool


@dataclass(frozen=True)
class Let:
    """`let name = expression`."""

    name: str
    expression: Expression
    place: Place


@dataclass(frozen=True)
class Guard:
    """`if condition`: what an element of a reduction must fulfil."""

    condition: Expression


Item = Range | Let | Guard | Over


@dataclass(frozen=True)
class Reduction(Expression):
    """`sum(items) body`; `pick` takes the first element whose guard holds."""

    kind: str
    items: tuple[Item, ...]
    body: Expression
    place: Place = field(default=NOWHERE, compare=False, repr=False)

    @property
    def parts(self) -> tuple[Expression, ...]:
        """What the items say, and the body."""
        return (*map(expression_of, self.items), self.body)

    def with_parts(self, change: Callable[[Expression], Expression]) -> Reduction:
        """Another body under other items."""
        items = tuple(_with_expression(item, change(expression_of(item))) for item in self.items)
        return Reduction(self.kind, items, change(self.body), self.place)


def expression_of(item: Item) -> Expression:
    """The expression of an item: an extent, a condition, what a name stands for or runs over."""
    match item:
        case Range():
            return item.extent
        case Let():
            return item.expression
        case Guard():
            return item.condition
        case Over():
            return item.values


def _with_expression(item: Item, expression: Expression) -> Item:
    match item:
        case Range(name, _, star):
            return Range(name, expression, star)
        case Let(name, _, place):
            return Let(name, expression, place)
        case Guard():
            return Guard(expression)
        case Over(name):
            return Over(name, expression)


@dataclass(frozen=True)
class Dimension:
    """One entry of a shape; kind: plain | star (`*d`, of `length` entries) | broadcast | each."""

    kind: str
    expression: Expression
    length: Expression | None = None

    @property
    def name(self) -> str | None:
        """The name that an input's shape binds."""
        return self.expression.text if isinstance(self.expression, Name) else None


@dataclass(frozen=True)
class Input:
    """An input; kind: tensor | ints | int. Of the last two the values themselves are known."""

    name: str
    kind: str
    shape: tuple[Dimension, ...]
    variadic: bool
    optional: bool
    default: Expression | None
    place: Place


@dataclass(frozen=True)
class Output:
    """An output; its type is a name, that of the input `like`, or the ONNX code `code`.

    With both of the last two, the code counts where the input is absent.
    """

    name: str
    shape: tuple[Dimension, ...]
    variadic: bool
    type: str | None
    like: str | None
    code: Expression | None
    place: Place


@dataclass(frozen=True)
class Attribute:
    """An attribute: int | ints | float | floats | string | tensor."""

    name: str
    type: str
    optional: bool
    default: Expression | None
    place: Place


@dataclass(frozen=True)
class Local:
    """A tensor of the specification's own."""

    name: str
    shape: tuple[Dimension, ...]
    place: Place


@dataclass(frozen=True)
class Value:
    """`value Y[i, *j] = …`; indices None: elementwise; `each` numbers one of several outputs."""

    name: str
    indices: tuple[tuple[str, bool], ...] | None
    each: str | None
    expression: Expression
    place: Place


# What the text of a limit starts with: an operator does something else beyond it.
ONLY = "described where"


@dataclass(frozen=True)
class Require:
    """A condition that must hold: or nothing is defined, or, if `only`, nothing is described."""

    condition: Expression
    text: str
    only: bool = False


@dataclass(frozen=True)
class Operator:
    """One block of text: a signature and what holds under it."""

    name: str
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    opset_from: int
    opset_to: int | None
    attributes: tuple[Attribute, ...]
    lets: tuple[Let, ...]
    requires: tuple[Require, ...]
    locals: tuple[Local, ...]
    values: tuple[Value, ...]
    text: str = field(repr=False)
    place: Place


@dataclass(frozen=True)
class Function:
    """`def name(parameters) = expression`."""

    name: str
    parameters: tuple[str, ...]
    expression: Expression
    place: Place


@dataclass(frozen=True)
class Opaque:
    """An operator that is left without a meaning, and why."""

    name: str
    reason: str
    place: Place


Statement = Operator | Function | Opaque


def expressions(statement: Operator | Function) -> Iterator[Expression]:
    """Yield the expressions of a statement, without those that they are made of."""
    if isinstance(statement, Function):
        yield statement.expression
        return
    for declared in statement.inputs:
        yield from _of_shape(declared.shape)
        if declared.default is not None:
            yield declared.default
    yield from expressions_behind_inputs(statement)


def expressions_behind_inputs(operator: Operator) -> Iterator[Expression]:
    """Yield the expressions of an operator that its inputs' declarations don't say."""
    for output in operator.outputs:
        yield from _of_shape(output.shape)
        if output.code is not None:
            yield output.code
    yield from (a.default for a in operator.attributes if a.default is not None)
    yield from (let.expression for let in operator.lets)
    yield from (require.condition for require in operator.requires)
    for local in operator.locals:
        yield from _of_shape(local.shape)
    yield from (value.expression for value in operator.values)


def _of_shape(shape: Iterable[Dimension]) -> Iterator[Expression]:
    for dimension in shape:
        yield dimension.expression
        if dimension.length is not None:
            yield dimension.length
