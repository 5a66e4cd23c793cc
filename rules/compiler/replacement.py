"""The right side of a rule, made concrete for one match, its correction included."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...catalog.operators.derive import integer_range
from ...catalog.tensors import dtype_name
from ...catalog.terms.syntax_tree import Expression
from ..language import schemas
from ..language.canonical_text import expression_text
from ..language.errors import RuleError
from ..language.functions import UnknownError, Value
from ..language.repetition import (
    count_of,
    item_name,
    repeated_lists,
    repeats,
    unrolled,
    with_numbers,
)
from ..language.syntax import Input, PatternNode
from .bindings import Bindings
from .view import ABSENT, GraphView, Match, NewNode, Reference, Replacement

if TYPE_CHECKING:
    from numpy.typing import NDArray

# What is added to the names that a correction makes.
CORRECTED = ".corrected"


def instantiate(match: Match, view: GraphView) -> Replacement:
    """Build the replacement of a match whose conditions hold.

    A literal takes the element type of the operand it stands beside; a list of integers is int64.
    """
    return _Builder(_written_out(match, view), view).build()


def _written_out(match: Match, view: GraphView) -> Match:
    """The match of a rule whose right side repeats nodes as one of so many nodes."""
    rule = match.rule
    if (count := count_of(rule)) is not None:
        return replace(match, rule=with_numbers(rule, _count(match, view, count)))
    if rule.items is not None or not repeats(rule):
        return match
    lists = Bindings(match, view).lists
    repeated = [name for name in repeated_lists(rule) if name in lists]
    values = dict(match.values)
    for name in repeated:
        values |= {item_name(name, i): value for i, value in enumerate(lists[name])}
    rule = unrolled(rule, len(lists[repeated[0]]))
    return replace(match, rule=rule, values=values)


def _count(match: Match, view: GraphView, count: Expression) -> int:
    """How many nodes with a number a match leads to."""
    rule = match.rule
    try:
        number = Bindings(match, view).evaluate(count)
    except UnknownError:
        number = None
    if not isinstance(number, int) or number < 1:
        reason = f"{rule.name}: there can't be {number} nodes of each on the right side"
        hint = f"state in `given` that {expression_text(count)} is 1 or more"
        raise RuleError(rule.path, rule.line, 1, reason, hint)
    return number


class _Builder:
    """Makes nodes and constants, and tracks the element types of new values."""

    def __init__(self, match: Match, view: GraphView) -> None:
        self.match, self.view, self.rule = match, view, match.rule
        self.bound = Bindings(match, view)
        self.nodes: list[NewNode] = []
        self.constants: dict[str, NDArray[np.generic]] = {}
        self.outputs: dict[int, Reference] = {}
        self.dtypes: dict[str, str] = {}
        # Where a name of the right side is: a correction makes a name of its output anew.
        self.new_names: dict[str, str] = {}

    def build(self) -> Replacement:
        """Go through the right side line by line."""
        try:
            for node in self.rule.rewrite:
                self._node(node)
            for node in self.rule.correct:
                self._node(node, CORRECTED)
            for alias in self.rule.aliases:
                targets = self._matched_outputs(alias.output, alias.source.star)
                dtype = self.view.dtype(targets[0]) if targets else None
                sources = self._reference(alias.source, dtype)
                if len(targets) != len(sources):
                    raise UnknownError
                self.outputs.update(zip(targets, sources, strict=True))
        except UnknownError:
            reason = f"{self.rule.name}: the right side needs a value that this match lacks"
            hint = "state in `given` what it computes with"
            raise RuleError(self.rule.path, self.rule.line, 1, reason, hint) from None
        removed = tuple(dict.fromkeys(self.match.nodes.values()))
        return Replacement(self.rule, tuple(self.nodes), self.constants, self.outputs, removed)

    def _node(self, node: PatternNode, suffix: str = "") -> None:
        types = self._operand_types(node)
        inputs: list[Reference] = []
        for position, item in enumerate(node.inputs):
            inputs += self._reference(item, self._literal_type(node, position, types))
        while inputs and inputs[-1] == "":
            inputs.pop()  # optional inputs left out at the end are not written
        outputs: list[str] = []
        dtype = self._output_type(node, types)
        for output in node.outputs:
            matched = self._matched_outputs(output.value, output.star)
            local = (
                [f"{output.value}.{i}" for i in range(len(matched))]
                if output.star
                else [output.value + suffix]
            )
            self.outputs.update(zip(matched, local, strict=False))
            outputs += local
            for name in local:
                if dtype:
                    self.dtypes[name] = dtype
        self.new_names.update({o.value: o.value + suffix for o in node.outputs})
        op_type = self._chosen(node)
        self.nodes.append(
            NewNode(
                op_type,
                node.domain,
                tuple(inputs),
                tuple(outputs),
                self._attributes(node),
                node.fold,
            )
        )

    def _chosen(self, node: PatternNode) -> str:
        """The operator: for a variable, the one that the match found."""
        if not node.choices:
            return node.op_type
        name = next(n.name for n in self.rule.match if n.op_type == node.op_type)
        return self.bound.operator(name)

    def _matched_outputs(self, name: str, star: bool) -> list[int]:
        if star:
            return list(self.bound.lists[name])
        return [self.match.values[name]] if name in self.rule.outputs else []

    def _attributes(self, node: PatternNode) -> dict[str, object]:
        result = dict(self.bound.rests.get(node.rest or "", {}))
        for name, expression in node.attributes:
            value: Value = self.bound.evaluate(expression)
            result[name] = list(value) if isinstance(value, tuple) else value
        return {k: list(v) if isinstance(v, tuple) else v for k, v in result.items()}

    # ---------------------------------------------------------------------------- inputs

    def _reference(self, item: Input, dtype: str | None) -> list[Reference]:
        if item.literal is not None:
            return [self._literal(item.literal, dtype)]
        name = item.value or ""
        if item.star:
            if name in self.new_names:
                return [f"{name}.{i}" for i in range(len(self.bound.lists[name]))]
            return list(self.bound.lists[name])
        if name in self.new_names:
            return [self.new_names[name]]
        value = self.match.values[name]
        if value != ABSENT:
            return [value]
        return [""] if item.optional else [self._default(name)]

    def _literal(self, expression: Expression, dtype: str | None) -> str:
        value = self.bound.evaluate(expression)
        if isinstance(value, tuple) and all(isinstance(x, int) for x in value):
            dtype = "int64" if dtype is None or dtype.startswith("float") else dtype
            return self._constant(self._typed(value, dtype))
        if dtype is None:
            raise UnknownError
        return self._constant(self._typed(value, dtype))

    def _typed(self, value: Value, dtype: str) -> NDArray[np.generic]:
        limits = integer_range(dtype)
        for number in value if isinstance(value, tuple) else (value,):
            whole = isinstance(number, int) or float(number).is_integer()
            if limits and not (whole and limits[0] <= number <= limits[1]):
                reason = f"{self.rule.name}: the right side needs {number}, which is no {dtype}"
                hint = f"declare an operand that is no {dtype}, or write another number"
                raise RuleError(self.rule.path, self.rule.line, 1, reason, hint)
        with np.errstate(over="ignore"):  # as in the runtime, a number beyond the range is infinite
            return np.asarray(value, np.dtype(dtype))

    def _default(self, name: str) -> str:
        """What an absent operand counts as, in its declared shape and its node's element type."""
        operand = self.rule.operand(name)
        dtype = self._absent_type(name)
        if operand.default is None or dtype is None:
            raise UnknownError
        number = self.bound.evaluate(operand.default)
        shape = tuple(self.bound.evaluate(size) for size in operand.shape or ())
        if not all(isinstance(size, int) for size in shape):
            raise UnknownError
        return self._constant(np.full(shape, number, np.dtype(dtype)))

    def _absent_type(self, name: str) -> str | None:
        """The element type of an absent operand: that of its node's first operand."""
        for node in self.rule.match:
            if any(i.value == name for i in node.inputs):
                first = node.inputs[0].value
                return self.view.dtype(self.match.values[first]) if first else None
        return None

    def _constant(self, array: NDArray[np.generic]) -> str:
        name = f"c.{len(self.constants)}"
        self.constants[name] = array
        return name

    # ------------------------------------------------------------------------------ types

    def _operand_types(self, node: PatternNode) -> list[str | None]:
        """Element types of a node's inputs, None for literals."""
        types: list[str | None] = []
        for item in node.inputs:
            name = item.value or ""
            if item.literal is not None:
                types.append(None)
            elif name in self.new_names:
                types.append(self.dtypes.get(self.new_names[name]))
            elif item.star:
                ids = self.bound.lists[name]
                types.append(self.view.dtype(ids[0]) if ids else None)
            elif self.match.values[name] == ABSENT:
                types.append(self._absent_type(name))
            else:
                types.append(self.view.dtype(self.match.values[name]))
        return types

    def _literal_type(
        self, node: PatternNode, position: int, types: list[str | None]
    ) -> str | None:
        variable = schemas.type_variable(node.operators[0], position)
        if variable.startswith("tensor("):
            return schemas.type_name(variable)
        for i, dtype in enumerate(types):
            if dtype and schemas.type_variable(node.operators[0], i) == variable:
                return dtype
        taken = schemas.element_types(node.operators[0], position)
        beside = next((dtype for dtype in types if dtype), None)
        literal = None if beside else node.inputs[position].literal
        if literal is not None and isinstance(self.bound.evaluate(literal), float):
            return self._matched_float_type()
        if variable == "Tind" or (beside not in taken and "int64" in taken):
            return "int64"
        return beside

    def _matched_float_type(self) -> str | None:
        """The type in which the left side computes with real numbers; None where it doesn't."""
        types = (self.view.dtype(value) for value in self.match.values.values() if value != ABSENT)
        return next((dtype for dtype in types if dtype and dtype.startswith("float")), None)

    def _output_type(self, node: PatternNode, types: list[str | None]) -> str | None:
        if node.op_type == "Cast":
            return self._cast_type(node)
        if node.op_type == "ConstantOfShape" and not node.attributes:
            return "float32"
        variable = schemas.type_variable(node.operators[0], 0, output=True)
        if variable.startswith("tensor("):
            return schemas.type_name(variable)
        for i, dtype in enumerate(types):
            if dtype and schemas.type_variable(node.operators[0], i) == variable:
                return dtype
        return next((dtype for dtype in types if dtype), None)

    def _cast_type(self, node: PatternNode) -> str | None:
        code = dict(node.attributes).get("to")
        value = self.bound.evaluate(code) if code is not None else None
        return dtype_name(value) if isinstance(value, int) else None
