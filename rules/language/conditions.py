"""What must hold for a rule to apply, derived from its text once, for every reader.

What finds places (rules/compiler) compiles these conditions to Datalog and evaluates the rest; a
prover assumes them; the instance generator samples from them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

from ...catalog.terms.syntax_tree import Binary, Call, Expression, Literal, Name, Unary, walk
from .canonical_text import expression_text
from .described_uses import limited, needs_room
from .expressions import names_in, operands_in
from .rank_bounds import Within
from .repetition import expressions_of_node
from .schemas import attribute_names, max_outputs
from .syntax import PatternNode, Rule, Star


@dataclass(frozen=True)
class IsConstant:
    """The value is known at optimize time."""

    value: str
    optional: bool

    def __str__(self) -> str:
        return f"{self.value} is constant"


@dataclass(frozen=True)
class HasType:
    """The value's element type is one of these; see TYPE_SETS."""

    value: str
    dtypes: tuple[str, ...]
    optional: bool

    def __str__(self) -> str:
        return f"{self.value} is {' or '.join(self.dtypes)}"


@dataclass(frozen=True)
class HasShape:
    """The value has this shape; names bind at their first occurrence and agree afterwards."""

    value: str
    shape: tuple[Expression, ...]
    optional: bool

    def __str__(self) -> str:
        sizes = ", ".join(map(expression_text, self.shape))
        return f"{self.value} has shape [{sizes}]"


@dataclass(frozen=True)
class IsLiteral:
    """The value is a constant of one element with this number, or this list of integers.

    It does not raise the rank of its neighbour, the node's first operand that is no literal.
    """

    value: str
    literal: Expression
    neighbour: str | None

    def __str__(self) -> str:
        return f"{self.value} is {expression_text(self.literal)}"


@dataclass(frozen=True)
class IsScalar:
    """The value is a constant of one element; its name stands for the number."""

    value: str

    def __str__(self) -> str:
        return f"{self.value} is a constant of one element"


@dataclass(frozen=True)
class HasAttribute:
    """The node's attribute equals the expression; a name binds where it first occurs."""

    node: str
    attribute: str
    expression: Expression

    def __str__(self) -> str:
        return f"{self.attribute} = {expression_text(self.expression)} at {self.node}"


@dataclass(frozen=True)
class HasDefaults:
    """The attributes that the pattern does not mention have their defaults."""

    node: str
    attributes: tuple[str, ...]

    def __str__(self) -> str:
        return f"{', '.join(self.attributes)} as by default at {self.node}"


@dataclass(frozen=True)
class RestAgrees:
    """The node's remaining attributes equal those that `*rest` stands for at an earlier node."""

    node: str
    rest: str
    mentioned: tuple[str, ...]
    first: str

    def __str__(self) -> str:
        return f"{self.node} and {self.first} agree in their other attributes"


@dataclass(frozen=True)
class ListAgrees:
    """The values that `*name` stands for at a node are those it stands for elsewhere."""

    node: str
    value: str

    def __str__(self) -> str:
        return f"*{self.value} is the same list wherever it stands"


@dataclass(frozen=True)
class UsedOnlyHere:
    """An interior value has no user outside the match."""

    value: str
    uses: int

    def __str__(self) -> str:
        return f"{self.value} has no other user"


@dataclass(frozen=True)
class UnusedOutputs:
    """The outputs of the node after the listed ones are not used."""

    node: str
    listed: int

    def __str__(self) -> str:
        return f"the outputs of {self.node} after {self.listed} are not used"


@dataclass(frozen=True)
class IsKnown:
    """The dimension is a number, not a name, since the right side computes with it."""

    dimension: str

    def __str__(self) -> str:
        return f"{self.dimension} is a known size"


@dataclass(frozen=True)
class IsComputable:
    """An expression of the right side has a known value."""

    expression: Expression

    def __str__(self) -> str:
        return f"{expression_text(self.expression)} is known"


@dataclass(frozen=True)
class HasRoom:
    """The windows of the node fit into its image, as far as sizes are known."""

    node: str

    def __str__(self) -> str:
        return f"the windows of {self.node} fit"


@dataclass(frozen=True)
class Holds:
    """A comparison, or `fits`, of the rule's `given`."""

    expression: Expression

    def __str__(self) -> str:
        return expression_text(self.expression)


Condition = (
    IsConstant
    | HasType
    | HasShape
    | IsLiteral
    | IsScalar
    | HasAttribute
    | HasDefaults
    | RestAgrees
    | ListAgrees
    | UsedOnlyHere
    | UnusedOutputs
    | IsKnown
    | IsComputable
    | HasRoom
    | Holds
    | Within
)

FLOATS = ("float16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
TYPE_SETS = {
    "float": FLOATS,
    "int": INTEGERS,
    "number": FLOATS + INTEGERS,
    "bool": ("bool",),
}


def types_of(names: tuple[str, ...]) -> tuple[str, ...]:
    """The element types that names such as `float` or `int64` stand for."""
    return tuple(t for name in names for t in TYPE_SETS.get(name, (name,)))


@dataclass
class Names:
    """Where the names of a rule get their values: the first binding occurrence of each."""

    shapes: dict[str, tuple[str, int]] = field(default_factory=dict)
    stars: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, tuple[str, str]] = field(default_factory=dict)
    rests: dict[str, str] = field(default_factory=dict)
    scalars: set[str] = field(default_factory=set)
    lists: dict[str, tuple[str, str]] = field(default_factory=dict)

    def variables(self) -> set[str]:
        """All names that expressions may use."""
        return (
            set(self.shapes)
            | set(self.stars)
            | set(self.attributes)
            | self.scalars
            | set(self.rests)
            | set(self.lists)
        )


def optional_values(rule: Rule) -> set[str]:
    """The values that may be absent: marked `b?` somewhere in the match."""
    return {i.value for n in rule.match for i in n.inputs if i.optional and i.value}


@cache
def bindings(rule: Rule) -> Names:
    """Find where each name of the rule is bound; values that may be absent bind last."""
    names = Names()
    optional = optional_values(rule)
    for operand in sorted(rule.operands, key=lambda o: o.name in optional):
        for place, size in enumerate(operand.shape or ()):
            if isinstance(size, Name):
                names.shapes.setdefault(size.text, (operand.name, place))
            elif isinstance(size, Star):
                names.stars.setdefault(size.text, operand.name)
        if operand.scalar:
            names.scalars.add(operand.name)
    for node in rule.match:
        for attribute, expression in node.attributes:
            if isinstance(expression, Name):
                names.attributes.setdefault(expression.text, (node.name, attribute))
        if node.rest:
            names.rests.setdefault(node.rest, node.name)
        for item in node.inputs:
            if item.star and item.value:
                names.lists.setdefault(item.value, (node.name, "in"))
        for output in node.outputs:
            if output.star:
                names.lists.setdefault(output.value, (node.name, "out"))
    return names


def neighbour(node: PatternNode, position: int) -> str | None:
    """The operand beside a literal: the node's first one that is no literal."""
    return next(
        (
            o.value
            for i, o in enumerate(node.inputs)
            if i != position and o.value and not o.star and o.literal is None
        ),
        None,
    )


@cache
def conditions(rule: Rule) -> tuple[Condition, ...]:
    """All conditions of a rule but the structure of its pattern, those that bind names first."""
    return (
        *_operand_conditions(rule),
        *_literal_conditions(rule),
        *_attribute_conditions(rule),
        *_list_conditions(rule),
        *_use_conditions(rule),
        *(Holds(expression) for expression in rule.given),
        *(Holds(expression) for expression in _targets(rule)),
        *(IsKnown(name) for name in sorted(_computed_with(rule))),
        *(IsComputable(e) for e in dict.fromkeys(_made_with(rule)) if operands_in(e)),
        *(HasRoom(n.name) for n in rule.match if any(map(needs_room, n.operators))),
        *rule.proved_for,
    )


def _operand_conditions(rule: Rule) -> Iterator[Condition]:
    optional = optional_values(rule)
    for operand in sorted(rule.operands, key=lambda o: o.name in optional):
        absent = operand.name in optional
        if operand.shape is not None:
            yield HasShape(operand.name, operand.shape, absent)
        if operand.scalar:
            yield IsScalar(operand.name)
        elif operand.const:
            yield IsConstant(operand.name, absent)
        if operand.dtypes:
            yield HasType(operand.name, operand.dtypes, absent)


def _literal_conditions(rule: Rule) -> Iterator[Condition]:
    for node in rule.match:
        for position, item in enumerate(node.inputs):
            if item.literal is not None and item.value is not None:
                yield IsLiteral(item.value, item.literal, neighbour(node, position))


def _targets(rule: Rule) -> Iterator[Expression]:
    """That a Reshape gives the sizes which the rule lists: a 0 among them might copy another."""
    for node in rule.match:
        target = node.inputs[1].literal if len(node.inputs) > 1 else None
        if node.op_type == "Reshape" and target is not None and not _has_signs(target):
            yield Binary("=", Call("shape", (Name(node.outputs[0].value),)), target)


def _has_signs(target: Expression) -> bool:
    """Whether a target of Reshape has a 0 or a -1 that is meant as one."""
    return any(
        (isinstance(part, Literal) and part.value in (0, -1)) or isinstance(part, Unary)
        for part in walk(target)
    )


def _attribute_conditions(rule: Rule) -> Iterator[Condition]:
    rests = bindings(rule).rests
    for node in rule.match:
        for attribute, expression in node.attributes:
            yield HasAttribute(node.name, attribute, expression)
        listed = attribute_names if node.rest is None else limited
        others = {
            name
            for operator in node.operators
            for name in listed(operator, rule.opset_from, rule.opset_to)
        }
        if unmentioned := tuple(sorted(others - set(node.mentioned))):
            yield HasDefaults(node.name, unmentioned)
        if node.rest is not None and rests[node.rest] != node.name:
            yield RestAgrees(node.name, node.rest, node.mentioned, rests[node.rest])


def _list_conditions(rule: Rule) -> Iterator[Condition]:
    first = bindings(rule).lists
    for node in rule.match:
        places = [(i.value, "in") for i in node.inputs if i.star]
        places += [(o.value, "out") for o in node.outputs if o.star]
        for value, side in places:
            if value and first[value] != (node.name, side):
                yield ListAgrees(node.name, value)


def _use_conditions(rule: Rule) -> Iterator[Condition]:
    kept = set(rule.outputs)
    used = [i.value for n in rule.match for i in n.inputs if i.value]
    for node in rule.match:
        for output in node.outputs:
            free = output.value in kept or rule.operand(output.value).shared
            if not free and not output.star:
                yield UsedOnlyHere(output.value, used.count(output.value))
        starred = any(o.star for o in node.outputs) and not node.each
        most = max(map(max_outputs, node.operators))
        if not starred and most > len(node.outputs):
            yield UnusedOutputs(node.name, len(node.outputs))


def _made_with(rule: Rule) -> Iterator[Expression]:
    """The expressions of the right side."""
    for node in (*rule.rewrite, *rule.correct):
        yield from expressions_of_node(node)
    yield from (a.source.literal for a in rule.aliases if a.source.literal is not None)


def _computed_with(rule: Rule) -> set[str]:
    """The dimensions whose numbers the right side needs."""
    shapes = bindings(rule).shapes
    used = {name for expression in _made_with(rule) for name in names_in(expression)}
    for operand in rule.operands:  # a default is spread over the declared shape
        if operand.default is not None:
            for size in operand.shape or ():
                used |= names_in(size)
    return used & set(shapes)
