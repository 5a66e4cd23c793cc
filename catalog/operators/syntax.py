"""What a specification's text says: the syntax tree that the parser builds."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Place:
    """A line and a column of a file, both from 1."""

    path: str
    line: int
    column: int


@dataclass(frozen=True)
class Literal:
    """A number or a string."""

    value: int | float | str


@dataclass(frozen=True)
class Name:
    """A name: of a dimension, list, attribute, index, tensor or constant."""

    name: str
    place: Place


@dataclass(frozen=True)
class Operation:
    """An operator of the language: + - * / // % ++ and or not neg, or a comparison."""

    symbol: str
    operands: tuple[Expression, ...]
    place: Place


@dataclass(frozen=True)
class Choice:
    """`if condition then … else …`."""

    condition: Expression
    then: Expression
    otherwise: Expression


@dataclass(frozen=True)
class Subscript:
    """`X[i, *j]`: an element of a tensor, or an entry of a list."""

    base: Expression
    indices: tuple[Expression, ...]
    place: Place


@dataclass(frozen=True)
class Slice:
    """`d[first:last]` of a list."""

    base: Expression
    first: Expression | None
    last: Expression | None
    place: Place


@dataclass(frozen=True)
class Call:
    """A named function applied to arguments."""

    function: str
    arguments: tuple[Expression, ...]
    place: Place


@dataclass(frozen=True)
class ListOf:
    """`[a, *b]`."""

    entries: tuple[Expression, ...]


@dataclass(frozen=True)
class Splice:
    """`*expression`: the entries of a list, in the place of one entry."""

    expression: Expression


@dataclass(frozen=True)
class Over:
    """`name in list`."""

    name: str
    values: Expression


@dataclass(frozen=True)
class Comprehension:
    """`[expression for a in A, b in B]`: the lists are read side by side."""

    expression: Expression
    sources: tuple[Over, ...]


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
class Reduction:
    """`sum(items) body`; `pick` takes the first element whose guard holds."""

    kind: str
    items: tuple[Item, ...]
    body: Expression
    place: Place


Expression = (
    Literal
    | Name
    | Operation
    | Choice
    | Subscript
    | Slice
    | Call
    | ListOf
    | Splice
    | Comprehension
    | Reduction
)


@dataclass(frozen=True)
class Dimension:
    """One entry of a shape; kind: plain | star (`*d`, of `length` entries) | broadcast | each."""

    kind: str
    expression: Expression
    length: Expression | None = None

    @property
    def name(self) -> str | None:
        """The name that an input's shape binds."""
        return self.expression.name if isinstance(self.expression, Name) else None


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
