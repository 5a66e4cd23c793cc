"""The names of a rule with the values one match gives them, and conditions evaluated over them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from ...catalog.terms.syntax_tree import Call, Expression, Literal, walk
from ..language import schemas
from ..language.canonical_text import expression_text
from ..language.conditions import (
    Condition,
    HasAttribute,
    HasDefaults,
    HasRoom,
    HasShape,
    HasType,
    Holds,
    IsComputable,
    IsConstant,
    IsKnown,
    IsLiteral,
    IsScalar,
    ListAgrees,
    RestAgrees,
    UnusedOutputs,
    UsedOnlyHere,
    bindings,
    types_of,
)
from ..language.described_uses import finds_room
from ..language.expressions import KnownNumbers, names_in, operands_in
from ..language.functions import Symbol, UnknownError, Value
from ..language.rank_bounds import Within, measure_of
from ..language.syntax import Input, Output
from .implied_attributes import implied_attribute
from .view import ABSENT, GraphView, Match

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Bindings(KnownNumbers):
    """A match with its names bound: dimensions, attributes, scalars, lists of operands."""

    def __init__(self, match: Match, view: GraphView) -> None:
        self.match, self.view, self.rule = match, view, match.rule
        self.patterns = {node.name: node for node in match.rule.match}
        self.lists: dict[str, tuple[int, ...]] = {}
        self.names: dict[str, Value] = {}
        self.rests: dict[str, dict[str, object]] = {}
        self._bind()

    def _bind(self) -> None:
        names = bindings(self.rule)
        for name, (node, side) in names.lists.items():
            self.lists[name] = self.listed(node, name, side)
        for name, (operand, place) in names.shapes.items():
            self._bind_size(name, operand, place)
        for name, operand in names.stars.items():
            declared = self.rule.operand(operand)
            behind = len(declared.shape or ()) - 1
            if (shape := self._shape(operand)) is not None and len(shape) >= behind:
                before = declared.star or 0
                self.names[name] = shape[before : len(shape) - (behind - before)]
        for name, (node, attribute) in names.attributes.items():
            if name not in self.names:
                value = self.attribute(node, attribute)
                if value is not None:
                    self.names[name] = value
        for name in names.scalars:
            if (number := self._number(name)) is not None:
                self.names[name] = number
        for name, node in names.rests.items():
            self.rests[name] = self.remaining(node, self.patterns[node].mentioned)

    def _bind_size(self, name: str, operand: str, place: int) -> None:
        declared, shape = self.rule.operand(operand), self._shape(operand)
        if shape is None:
            return
        star = declared.star
        where = place if star is None or place < star else place - len(declared.shape or ())
        if -len(shape) <= where < len(shape):
            self.names[name] = shape[where]

    # ------------------------------------------------------------------ what a match holds

    def value(self, name: str) -> int:
        """The value id that a name of the pattern stands for."""
        return self.match.values[name]

    def listed(self, node: str, name: str, side: str) -> tuple[int, ...]:
        """The value ids that `*name` stands for at a node, among its inputs or outputs."""
        pattern, n = self.patterns[node], self.match.nodes[node]
        items: Sequence[Input | Output] = pattern.inputs if side == "in" else pattern.outputs
        actual = tuple(self.view.inputs(n) if side == "in" else self.view.outputs(n))
        stars = [i for i, item in enumerate(items) if item.star]
        place = next(i for i in stars if items[i].value == name)
        if len(stars) == 2:
            middle = self.match.positions[f"{node}:{side}"]
            return actual[:middle] if place == stars[0] else actual[middle + 1 :]
        return actual[place:]

    def _shape(self, name: str) -> tuple[int | str, ...] | None:
        return self._shape_at(self.match.values.get(name, ABSENT))

    def _shape_at(self, value: int) -> tuple[int | str, ...] | None:
        shape = None if value == ABSENT else self.view.shape(value)
        if shape is None:
            return None
        return tuple(Symbol(size) if isinstance(size, str) else size for size in shape)

    def _number(self, name: str) -> int | float | None:
        default = self.rule.operand(name).default
        if self.value(name) == ABSENT and default is not None:
            return self.number(self.evaluate(default))
        array = self.constant(name)
        return None if array is None or array.size != 1 else array.reshape(()).item()

    def constant(self, name: str) -> NDArray[np.generic] | None:
        """The array of a constant operand, None where it is not constant or absent."""
        value = self.value(name)
        if value == ABSENT or not self.view.is_constant(value):
            return None
        return self.view.constant(value)

    def attribute(self, node: str, name: str) -> Value:
        """An attribute with schema and implicit defaults filled in; None when it has no value."""
        n, operator = self.match.nodes[node], self.operator(node)
        value = schemas.plain(self.view.attribute(n, name))
        if value is not None:
            return value
        defaults = schemas.attribute_defaults(
            operator, self.rule.opset_from, self.rule.opset_to
        ).get(name, frozenset())
        if len(defaults) == 1:
            return next(iter(defaults))
        return implied_attribute(operator, name, self._input_shapes(node))

    def _input_shapes(self, node: str) -> list[tuple[int | str, ...] | None]:
        """The shapes of a node's first inputs, which attributes may follow from."""
        inputs = self.view.inputs(self.match.nodes[node])[:2]
        return [None if value == ABSENT else self.view.shape(value) for value in inputs]

    def operator(self, node: str) -> str:
        """The operator of a pattern node, that of the graph where the pattern has a variable."""
        pattern = self.patterns[node]
        return self.view.op_type(self.match.nodes[node]) if pattern.choices else pattern.operator

    def remaining(self, node: str, mentioned: tuple[str, ...]) -> dict[str, object]:
        """The attributes of a node beside the mentioned ones, those at their default left out."""
        operator = self.operator(node)
        shapes = self._input_shapes(node)
        defaults = schemas.attribute_defaults(operator, self.rule.opset_from, self.rule.opset_to)
        kept: dict[str, object] = {}
        for name, raw in self.view.attributes(self.match.nodes[node]).items():
            value = schemas.plain(raw)
            default = defaults.get(name, frozenset())
            usual = len(default) == 1 and value in default
            if name in mentioned or usual:
                continue
            if value != implied_attribute(operator, name, shapes):
                kept[name] = value
        return kept

    # ------------------------------------------------------------------ what expressions ask

    def shape_of(self, name: str) -> tuple[int | str, ...]:
        """The shape of an operand; UnknownError when it has none."""
        if (shape := self._shape(name)) is None:
            raise UnknownError
        return shape

    def dtype_of(self, name: str) -> str:
        """The element type of an operand."""
        value = self.value(name)
        if value == ABSENT or (dtype := self.view.dtype(value)) is None:
            raise UnknownError
        return dtype

    def integers_of(self, name: str) -> tuple[int, ...]:
        """The elements of a constant operand, which must be integers whatever its type."""
        array = self.constant(name)
        default = self.rule.operand(name).default
        if array is None and default is not None and self.value(name) == ABSENT:
            value = self.evaluate(default)
            return value if isinstance(value, tuple) else (value,)
        if array is None:
            raise UnknownError
        return self.whole_numbers(array.reshape(-1).tolist())

    def count_of(self, name: str) -> int:
        """How many operands `*name` stands for."""
        if name not in self.lists:
            raise UnknownError
        return len(self.lists[name])

    def shapes_of(self, name: str) -> tuple[tuple[int | str, ...], ...]:
        """The shapes of the operands that `*name` stands for."""
        shapes = [self._shape_at(value) for value in self.lists.get(name, (ABSENT,))]
        declared_shapes = tuple(shape for shape in shapes if shape is not None)
        if len(declared_shapes) != len(shapes):
            raise UnknownError
        return declared_shapes

    def measure(self, name: str) -> int | None:
        """A rank or length as rank_bounds.py names it; None for an operand that is absent."""
        quantity, of = measure_of(name)
        if quantity == "outputs":
            listed = len(self.patterns[of].outputs)
            return len(self.view.outputs(self.match.nodes[of])) - listed
        if quantity == "len":
            return (
                len(self.lists[of])
                if of in self.lists
                else len(self.sequence(self._list_value(of)))
            )
        if quantity == "rank" and of in self.lists:
            ranks = {len(shape) for shape in self.shapes_of(of)}
            if len(ranks) > 1:
                raise UnknownError
            return min(ranks, default=None)
        if self.value(of) == ABSENT:
            return None
        shape = self.shape_of(of)
        return len(shape) if quantity == "rank" else self.integer(shape[0] if shape else 1)

    def _list_value(self, name: str) -> Value:
        if name not in self.names:
            raise UnknownError
        return self.names[name]

    # ------------------------------------------------------------------ conditions

    def holds(self, condition: Condition) -> bool:
        """Whether a condition is known to hold."""
        try:
            return self._holds(condition)
        except UnknownError:
            return False

    def _holds(self, condition: Condition) -> bool:
        view = self.view
        match condition:
            case IsConstant(value, optional):
                absent = optional and self.value(value) == ABSENT
                return absent or view.is_constant(self.value(value))
            case HasType(value, dtypes, optional):
                absent = optional and self.value(value) == ABSENT
                return absent or view.dtype(self.value(value)) in types_of(dtypes)
            case HasShape(value, shape, optional):
                return (optional and self.value(value) == ABSENT) or self._has_shape(value, shape)
            case IsLiteral():
                return self._is_literal(condition)
            case IsScalar(value):
                return self._number(value) is not None
            case HasAttribute(node, attribute, expression):
                actual = self.attribute(node, attribute)
                expected = self.evaluate(expression)
                if isinstance(actual, float) and isinstance(expected, int | float):
                    return actual == expected or actual == float(np.float32(expected))
                return actual is not None and self.same(actual, expected)
            case HasDefaults(node, attributes):
                mentioned = self.patterns[node].mentioned
                return not set(self.remaining(node, mentioned)) & set(attributes)
            case RestAgrees(node, rest, mentioned):
                return self.remaining(node, mentioned) == self.rests[rest]
            case ListAgrees(node, value):
                pattern = self.patterns[node]
                side = "in" if any(i.star and i.value == value for i in pattern.inputs) else "out"
                return self.listed(node, value, side) == self.lists[value]
            case IsComputable(expression):
                return _is_known(self.evaluate(expression))
            case HasRoom(node):
                return self._has_room(node)
            case IsKnown(dimension):
                return isinstance(self.names.get(dimension), int)
            case Holds(expression):
                return bool(self.evaluate(expression))
            case Within(names):
                return condition.holds([self.measure(name) for name in names])
            case UsedOnlyHere() | UnusedOutputs():
                return True  # only Datalog counts users
        raise UnknownError

    def _has_room(self, node: str) -> bool:
        n, view = self.match.nodes[node], self.view
        shapes = [None if v == ABSENT else view.shape(v) for v in view.inputs(n)]
        if any(s is None and v != ABSENT for s, v in zip(shapes, view.inputs(n), strict=True)):
            return True
        attributes = {name: schemas.plain(raw) for name, raw in view.attributes(n).items()}
        outputs = len(view.outputs(n))
        return finds_room(self.operator(node), self.rule.opset_to, shapes, attributes, outputs)

    def _has_shape(self, value: str, declared: tuple[Expression, ...]) -> bool:
        shape = self.shape_of(value)
        return self.same(shape, self.entries(declared))

    def _is_literal(self, condition: IsLiteral) -> bool:
        array = self.constant(condition.value)
        if array is None:
            return False
        expected = self.evaluate(condition.literal)
        if isinstance(expected, tuple):
            listed = array.ndim <= 1 and array.dtype.kind in "iu"
            return listed and self.same(self.integers_of(condition.value), expected)
        if array.size != 1:
            return False
        literal_shape = self.shape_of(condition.value)
        if (
            literal_shape
            and condition.neighbour
            and not self.fits(literal_shape, self.shape_of(condition.neighbour))
        ):
            return False
        if array.dtype.kind in "iub":
            return bool(array.reshape(()).item() == expected)
        return bool(array.reshape(()) == np.asarray(expected, array.dtype))

    def explain(self, condition: Condition) -> str:
        """A condition with the values that decide it."""
        facts: list[str] = []
        for name in sorted(self._mentioned(condition)):
            if name in self.names:
                facts.append(f"{name} = {_shown(self.names[name])}")
            elif name in self.match.values and self._shape(name) is not None:
                facts.append(f"{name} is {_shown(self._shape(name))}")
        facts += self._computed(condition)
        return f"{condition} ({', '.join(facts)})" if facts else str(condition)

    def _computed(self, condition: Condition) -> list[str]:
        """The element types and the integers that a condition asks for, which no shape tells."""
        if not isinstance(condition, Holds):
            return []
        facts = []
        for part in walk(condition.expression):
            if isinstance(part, Call) and part.function in ("dtype", "ints"):
                with suppress(UnknownError):
                    value = self.evaluate(part)
                    facts.append(f"{expression_text(part)} = {_shown(value)}")
        return list(dict.fromkeys(facts))

    def _mentioned(self, condition: Condition) -> set[str]:
        match condition:
            case Holds(expression) | IsComputable(expression) | HasAttribute(_, _, expression):
                return names_in(expression) | operands_in(expression)
            case HasShape(value, shape):
                sizes = (names_in(size) for size in shape if not isinstance(size, Literal))
                return {value}.union(*sizes)
            case IsKnown(dimension):
                return {dimension}
            case Within(names):
                return {measure_of(name)[1] for name in names}
            case IsConstant(value) | HasType(value) | IsLiteral(value) | IsScalar(value):
                return {value}
        return set()


def _is_known(value: Value) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_known, value))
    return not isinstance(value, Symbol)


def _shown(value: Value) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    return str(value)
