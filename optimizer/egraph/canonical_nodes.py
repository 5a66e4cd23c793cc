"""One spelling of e-nodes that mean the same: defaults left out, axes counted from the front.

Exporters and rules spell one operator in several ways: `axis=-1` or the last axis by its number,
axes in any order where a reduction takes them, `strides=[1, 1]` or none. What counts axes, and
whether their order matters, the operator's specification says (`catalog.operators.axes`); left out
is what rules read where nothing is given. A plan and its costs keep the model's spelling, so that a
kernel of the model's is known again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import helper

from ...catalog.operators import OperatorSpec, ShapeError, Specification, schema_for, specification
from ...catalog.operators.axes import AxisParameter, axis_parameters, counted
from ...rules.compiler.implied_attributes import implied_attribute
from ...rules.language.schemas import plain
from ..graph.graph import attribute_value, constant_of
from .congruence import NONE, Row
from .interning import Attributes, Operator

if TYPE_CHECKING:
    from .egraph import EGraph

_PLAIN = frozenset(
    onnx.AttributeProto.AttributeType.Value(name)
    for name in ("INT", "INTS", "FLOAT", "FLOATS", "STRING", "STRINGS")
)
Values = tuple[int, ...]
Key = tuple[object, ...]


@dataclass(frozen=True)
class _Form:
    """What of an operator may be spelled in several ways."""

    operator: Operator
    schema: OperatorSpec
    described: Specification | None
    attributes: Mapping[str, AxisParameter]
    inputs: tuple[AxisParameter, ...]

    @cached_property
    def known_positions(self) -> tuple[int, ...]:
        """Positions of the inputs whose contents the meaning depends on."""
        return () if self.described is None else tuple(sorted(self.described.known_inputs))

    @cached_property
    def has_window(self) -> bool:
        """Whether an attribute may say the size of a window."""
        return any(spec.name == "kernel_shape" for spec in self.schema.attributes)

    @cached_property
    def from_the_end(self) -> Mapping[str, int]:
        """The attributes that are an axis by default, counted from the end."""
        defaults = {name: self.schema.defaults.get(name) for name in self.attributes}
        return {n: axis for n, axis in defaults.items() if isinstance(axis, int) and axis < 0}


class Spelling:
    """Spells e-nodes of one e-graph in one way, and remembers how its model spells them."""

    def __init__(self, egraph: EGraph) -> None:
        self.egraph = egraph
        self._forms: dict[int, _Form | None] = {}
        self._spelled: dict[Key, tuple[int, dict[int, np.ndarray]]] = {}
        self._written: dict[Key, Row] = {}

    def canonical(self, row: Row) -> Row:
        """Spell an e-node in the one way; its operands are leaders, and nothing is pending."""
        operator, attributes, operands = row
        form = self._form(operator)
        if form is None:
            return row
        attribute_values = self.egraph.vocabulary.attributes[attributes]
        if attribute_values.identity is not None or not (attribute_values.protos or form.inputs):
            return row
        key = self._key(form, row)
        if key not in self._spelled:
            self._spelled[key] = self._spell(form, row)
        number, lists = self._spelled[key]
        if lists:
            classes = list(operands)
            for position, array in lists.items():
                identity = ("axes", operator, position, array.tobytes())
                classes[position] = self.egraph.leaf(constant_of(array), identity)
            operands = tuple(classes)
        return operator, number, operands

    def remember(self, row: Row, canonical: Row) -> None:
        """Note how the model spells an e-node; of several spellings the first one counts."""
        form = self._form(row[0])
        if form is not None and self.egraph.vocabulary.attributes[row[1]].identity is None:
            self._written.setdefault(self._key(form, canonical), row)

    def written(self, row: Row) -> Row:
        """An e-node as the model spells its like; as it is where the model has none."""
        form = self._form(row[0])
        model_row = None if form is None else self._written.get(self._key(form, row))
        if form is None or model_row is None:
            return row
        operands = list(row[2])
        for parameter in form.inputs:
            if parameter.position is not None and parameter.position < len(operands):
                operands[parameter.position] = self.egraph.find(model_row[2][parameter.position])
        return row[0], model_row[1], tuple(operands)

    def counting_from_the_end(self) -> list[int]:
        """The operators that have an axis by a default which counts from the end."""
        forms = map(self._form, range(len(self.egraph.vocabulary.operators)))
        return [number for number, form in enumerate(forms) if form and form.from_the_end]

    def from_the_front(self, node: int) -> list[tuple[str, int]]:
        """The axes that an e-node has by a default which counts from the end, from the front."""
        columns = self.egraph.columns
        form = self._form(columns.operator(node))
        protos = self.egraph.vocabulary.attributes[columns.attribute(node)].protos
        spelled_defaults = []
        for name, default in form.from_the_end.items() if form else ():
            ranks = [self._rank(value) for value in columns.operands(node)]
            rank = None if form is None else form.attributes[name].rank_of(ranks, 1)
            if name not in protos and rank is not None:
                spelled_defaults.append((name, counted(default, rank)))
        return spelled_defaults

    def _form(self, number: int) -> _Form | None:
        """What of an operator may be spelled in several ways; None if nothing is known of it."""
        if number not in self._forms:
            op = self.egraph.vocabulary.operators[number]
            opset = 0 if op.is_virtual else self.egraph.inference.opset(op.domain)
            schema = None if op.is_virtual else schema_for(op.domain, op.op_type, opset)
            form = None
            if schema is not None:
                parameters = axis_parameters(op.domain, op.op_type, opset)
                form = _Form(
                    op,
                    schema,
                    specification(op.domain, op.op_type, opset),
                    {
                        parameter.name: parameter
                        for parameter in parameters
                        if parameter.position is None
                    },
                    tuple(parameter for parameter in parameters if parameter.position is not None),
                )
            self._forms[number] = form
        return self._forms[number]

    def _key(self, form: _Form, row: Row) -> Key:
        """What a spelling depends on: ranks, the size of a window, lists that are read."""
        operator, attributes, operands = row
        ranks = tuple(self._rank(value) for value in operands[:2])
        lists = tuple(self._number(operands, position) for position in form.known_positions)
        filters = self._shape(operands[1]) if form.has_window and len(operands) > 1 else None
        return operator, attributes, len(operands), ranks, lists, filters

    def _number(self, operands: tuple[int, ...], position: int) -> int | None:
        if position >= len(operands) or operands[position] == NONE:
            return None
        return self.egraph.constants.get(self.egraph.find(operands[position]), NONE)

    def _rank(self, value: int) -> int | None:
        shape = self._shape(value)
        return None if shape is None else len(shape)

    def _shape(self, value: int) -> tuple[int | str, ...] | None:
        type_ = None if value == NONE else self.egraph.type(value)
        return None if type_ is None else type_.shape

    # -------------------------------------------------------------------------- spelling

    def _spell(self, form: _Form, row: Row) -> tuple[int, dict[int, np.ndarray]]:
        """The attributes' number, and the lists of axes that other ones take the place of."""
        _, number, operands = row
        node_attributes = self.egraph.vocabulary.attributes[number]
        ranks = [self._rank(value) for value in operands]
        protos: dict[str, onnx.AttributeProto] = {}
        for name, proto in node_attributes.protos.items():
            if proto.type not in _PLAIN:
                protos[name] = proto
                continue
            value = plain(attribute_value(proto))
            default = self._default(form, name, operands)
            parameter = form.attributes.get(name)
            spelled = value
            if parameter is not None:
                spelled, default = (
                    self._counted(form, row, parameter, ranks, axes) for axes in (value, default)
                )
            if spelled != default:
                protos[name] = proto if spelled == value else helper.make_attribute(name, spelled)
        if protos != dict(node_attributes.protos):
            number = self.egraph.vocabulary.attribute(Attributes(protos, node_attributes.present))
        lists: dict[int, np.ndarray] = {}
        for parameter in form.inputs:
            array = self._list(operands, parameter)
            if array is not None:
                axes = tuple(int(axis) for axis in array.ravel())
                counted_axes = self._counted(form, row, parameter, ranks, axes)
                if counted_axes != axes and parameter.position is not None:
                    counted = np.array(counted_axes, array.dtype).reshape(array.shape)
                    lists[parameter.position] = counted
        return number, lists

    def _default(self, form: _Form, name: str, operands: tuple[int, ...]) -> object:
        """What rules read where an attribute is left out."""
        if name in form.schema.defaults:
            return plain(form.schema.defaults[name])
        shapes = [self._shape(value) for value in operands[:2]]
        return implied_attribute(form.operator.name, name, shapes)

    def _list(self, operands: tuple[int, ...], parameter: AxisParameter) -> np.ndarray | None:
        position = parameter.position
        if position is None or position >= len(operands) or operands[position] == NONE:
            return None
        constant = self.egraph.constant(operands[position])
        if constant is None or constant.type.dtype not in ("int32", "int64"):
            return None
        return constant.array()

    def _counted(
        self,
        form: _Form,
        row: Row,
        parameter: AxisParameter,
        ranks: list[int | None],
        value: object,
    ) -> object:
        """Axes from the front, sorted where the order means nothing; as they are if that fails."""
        if isinstance(value, int):
            rank = parameter.rank_of(ranks, 1)
            return value if rank is None else counted(value, rank)
        if not isinstance(value, tuple):
            return value
        rank = parameter.rank_of(ranks, len(value))
        if rank is None:
            return value
        axes = tuple(counted(axis, rank) for axis in value)
        if len(set(axes)) < len(axes) or any(not 0 <= axis < rank for axis in axes):
            return value
        ordered = tuple(sorted(axes))
        if ordered != axes and self._mean_the_same(form, row, parameter, axes, ordered):
            return ordered
        return axes

    def _mean_the_same(
        self, form: _Form, row: Row, parameter: AxisParameter, axes: Values, ordered: Values
    ) -> bool:
        """Whether the specification says the same of both orders, at any sizes of these ranks."""
        _, number, operands = row
        if form.described is None:
            return False
        shapes: list[tuple[str, ...] | None] = []
        values: dict[int, object] = {}
        for position, operand in enumerate(operands):
            rank = self._rank(operand)
            if operand != NONE and rank is None:
                return False
            shapes.append(None if rank is None else tuple(f"d{position}_{a}" for a in range(rank)))
            constant = None if operand == NONE else self.egraph.constant(operand)
            if position in form.described.known_inputs and constant is not None:
                values[position] = constant.array().tolist()
        attribute_values = self.egraph.vocabulary.attributes[number].values
        try:
            expansions = []
            for spelled in (axes, ordered):
                if parameter.position is None:
                    attributes: Mapping[str, object] = {**attribute_values, parameter.name: spelled}
                else:
                    attributes, values[parameter.position] = attribute_values, list(spelled)
                expansions.append(form.described.expand(shapes, attributes, values=values))
        except ShapeError:
            return False
        return expansions[0] == expansions[1]
