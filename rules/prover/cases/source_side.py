"""The left side of a rule in one case: its nodes, their attributes, and the conditions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from ....catalog.operators import ShapeError, Specification
from ....catalog.operators.functions import UnknownNumberError
from ....catalog.operators.syntax import ONLY
from ....catalog.terms.index_notation import Term, apply
from ....catalog.terms.syntax_tree import Binary, Call, Expression, Name, walk
from ...language.conditions import (
    Condition,
    HasAttribute,
    HasShape,
    Holds,
    IsComputable,
    bindings,
    optional_values,
)
from ...language.functions import UnknownError
from ...language.syntax import Input, PatternNode, Star
from ..assumptions import spread
from ..statement import Obligation
from .attribute_choices import LEFT_ALONE, SPATIAL, WINDOW_DEFAULTS, Node
from .axis_notation import NotationMattersError
from .composition import UndescribedError, algebra_of, described
from .element_types import chosen, signature, type_code
from .enumeration import Kind, NoCaseError
from .rule_analysis import (
    asked,
    decides,
    in_order,
    left_out_is_a_case,
    repeats_outputs,
    whole_numbers,
)
from .source_operands import SourceOperands
from .symbolic_expressions import NoTermError, Value


class SourceSide(SourceOperands):
    """The left side: operands are made up, and what is known of them becomes assumptions."""

    def build(self) -> None:
        """Build the left side node by node; NoCaseError where the choices fit none."""
        self.limits: list[Obligation] = []
        self.ranks: dict[str, int] = {}
        for name in sorted(optional_values(self.rule)):
            if self.choices.pick(f"{name} is absent", (False, True), "form"):
                self.absent.add(name)
        for name, (operand, _) in bindings(self.rule).shapes.items():
            if operand not in self.absent:
                self.names[name] = self.symbol(name, "dimension")
        for name in bindings(self.rule).scalars:
            self._bind_scalar(name)
        self._assume_early()
        try:
            for node in in_order(self.rule.match):
                self._node(chosen(node, self.operators))
            for condition in self.waiting:
                self._assume(condition)
            self._check_limits()
        except UnknownNumberError as error:
            raise UndescribedError(str(error)) from None
        except ShapeError as error:
            raise NoCaseError(str(error)) from None
        except NoTermError:
            raise UndescribedError("a value of the rule is more than can be written out") from None
        except UnknownError:
            raise NoCaseError("a condition is not known to hold") from None

    def _check_limits(self) -> None:
        """See that the rule keeps to what is described of its operators, by its own conditions."""
        granted = {assumption.condition for assumption in self.assumptions}
        for limit in self.limits:
            if not granted.issuperset(spread(limit.condition)):
                raise UndescribedError(limit.text)

    # ---------------------------------------------------------------------------- nodes

    def _node(self, node: PatternNode) -> None:
        meaning = described(node.operator, self.composition.opset)
        node_signature = signature(node.operator, self.composition.opset)
        if node_signature is None:
            raise NoCaseError(f"{node.operator} is not in opset {self.composition.opset}")
        attributes: dict[str, Value] = {}
        self.sources: dict[str, Expression] = {}
        self._fixed_attributes(node, attributes)
        for name, expression in node.attributes:  # those on which shapes may depend
            if name in ("transA", "transB", "group") and name not in attributes:
                self._attribute(node, meaning, name, expression, attributes, [])
        inputs = self._operands(node, meaning)
        shapes = [self._shape_or_none(name) for name in inputs]
        for name, expression in node.attributes:
            if name not in attributes:
                self._attribute(node, meaning, name, expression, attributes, shapes)
        if node.rest is not None:
            self._rest(node, meaning, attributes, shapes)
        outputs = self._outputs(node)
        self._lists(node, meaning, inputs, shapes, outputs)
        if self.composition.names_no_axes(node.operator, inputs, attributes):
            self._choose_units(node)
        self._assume_early()
        self.see_node(node.operator, inputs, len(outputs), attributes, self.sources, {})
        for need in self.composition.node(node.operator, inputs, attributes, outputs):
            if need.text.startswith(f"{node.operator}: {ONLY}"):
                self.limits.append(need)
            else:
                self.suppose(need.text, need.condition)
        for name in outputs:
            self._bind_shape(name)
        self._assume_early()

    def _assume_early(self) -> None:
        """Assume the conditions that can be told already: the sooner one fails, the better."""
        for condition in list(self.waiting):
            if isinstance(condition, Holds) and self._can_tell(condition.expression):
                self.waiting.remove(condition)
                self._assume(condition)

    def _can_tell(self, expression: Expression) -> bool:
        """Whether all that a condition asks about is there, so that it may fail early."""
        always, operands, names = asked(self.rule)[id(expression)]
        if always:
            return True
        there = (self.composition.tensors, self.lists, self.absent)
        return all(any(operand in some for some in there) for operand in operands) and all(
            name in self.names for name in names
        )

    def _shape_or_none(self, name: str | None) -> tuple[Term, ...] | None:
        tensor = self.composition.tensors.get(name or "")
        return None if tensor is None else tensor.shape

    def _operands(self, node: PatternNode, meaning: Specification) -> list[str | None]:
        inputs: list[str | None] = []
        for position, item in enumerate(node.inputs):
            if item.value is None or item.value in self.absent:
                inputs.append(None)
                continue
            for name in self._named(node, item) if item.star else [item.value]:
                waits = position in meaning.known_inputs and item.literal is None
                if name not in self.composition.tensors and not waits:
                    self._leaf(node, meaning, position, item, name)
                inputs.append(name)
        while inputs and inputs[-1] is None:
            inputs.pop()
        return inputs

    def _named(self, node: PatternNode, item: Input) -> list[str]:
        """The tensors that `*A` stands for among the inputs."""
        name = item.value or ""
        if name not in self.lists:
            counts = self._counts(len(node.inputs) == 1)
            count = self.choices.pick(f"number of {name}", counts)
            self._stretch(f"len({name})", count, max(counts))
            self.lists[name] = [f"{name}.{number}" for number in range(count)]
        return self.lists[name]

    def _outputs(self, node: PatternNode) -> list[str]:
        outputs: list[str] = []
        for output in node.outputs:
            if not output.star:
                outputs.append(output.value)
                continue
            if output.value not in self.lists:
                counts = self._counts(len(node.outputs) == 1)
                count = self.choices.pick(f"number of {output.value}", counts)
                self._stretch(f"len({output.value})", count, max(counts))
                self.lists[output.value] = [f"{output.value}.{number}" for number in range(count)]
            outputs += self.lists[output.value]
        return outputs + self._unused(node)

    def _unused(self, node: PatternNode) -> list[str]:
        """Outputs that a node may have besides those named: parts of a Split that nothing reads."""
        if any(output.star for output in node.outputs) or not repeats_outputs(node.operator):
            return []
        if node.name not in self.unused:
            count = self.choices.pick(f"number of unused outputs of {node.name}", (1, 0))
            self._stretch(f"outputs({node.name})", count, 1)
            self.unused[node.name] = [f"{node.name}.unused.{number}" for number in range(count)]
        return self.unused[node.name]

    def _lists(
        self,
        node: PatternNode,
        meaning: Specification,
        inputs: Sequence[str | None],
        shapes: Sequence[tuple[Term, ...] | None],
        outputs: Sequence[str],
    ) -> None:
        """Make up the inputs whose elements must be known, axes first: others go with them."""
        waiting = {
            position: name
            for position, name in enumerate(inputs)
            if position in meaning.known_inputs and name and name not in self.composition.tensors
        }
        if not waiting:
            return
        declared = max((block.inputs for block in meaning.blocks), key=len)
        about = self._about(node, meaning, shapes)
        beside: Sequence[int] | None = None
        axes = ""
        for position, name in sorted(
            waiting.items(), key=lambda entry: declared[entry[0]].name != "axes"
        ):
            input_name = declared[position].name
            dtype = self.dtypes.get(name, "int64")
            if self.rule.operand(name).scalar:
                contents: Value = (self.names[name],)
            elif input_name == "split":
                contents = tuple(
                    self.symbol(f"{name}.{part}", "dimension") for part in range(len(outputs))
                )
            elif (
                input_name == "axes"
                and (places := self._stated_axes(node, name, about.rank)) is not None
            ):
                more = len(places) if node.operator == "Unsqueeze" else 0
                contents = self.options.spelled(name, places, about.rank + more)
            else:
                is_whole = algebra_of(dtype) != "real" or name in whole_numbers(self.rule)
                kind = "integer" if is_whole else "real"
                contents = self.options.contents(about, input_name, name, beside, kind)
            if input_name == "axes":
                beside, axes = contents, name
            elif beside is not None and len(beside) > 1 and self.ways.leaders([axes]):
                self.ways.add_beside(axes, name, contents)
            if input_name == "shape" and node.operator == "Expand":
                count = len(contents) if isinstance(contents, tuple) else 0
                more = max(0, about.rank - count)
                self._stretch(f"dim({name}, 0)", count, 3, (outputs[0], more))
            rank = 0 if declared[position].kind == "int" else 1
            self.composition.known_constant(name, contents, dtype, rank)

    def _about(
        self,
        node: PatternNode,
        meaning: Specification,
        shapes: Sequence[tuple[Term, ...] | None],
    ) -> Node:
        opset, outputs = self.composition.opset, len(self._outputs(node))
        declared_shape = self.rule.operand(node.outputs[0].value).shape if node.outputs else None
        has_stated_rank = declared_shape is not None and not any(
            isinstance(size, Star) for size in declared_shape
        )
        rank = len(declared_shape) if has_stated_rank and declared_shape is not None else None
        return Node(node.name, node.operator, meaning, opset, shapes, outputs, rank)

    def _choose_units(self, node: PatternNode) -> None:
        """Choose which sizes are 1, all others being none, of what a Squeeze without axes reads."""
        shape = self._shape_or_none(node.inputs[0].value) or ()
        options = list(product((False, True), repeat=len(shape)))
        units = self.choices.pick(f"sizes of 1 that {node.name} drops", options)
        for size, is_unit in zip(shape, units, strict=True):
            relation = "=" if is_unit else "!="
            self.suppose(f"{size} {relation} 1", apply(relation, size, 1))
            self.composition.units[size] = is_unit

    # ----------------------------------------------------------------------- attributes

    def _fixed_attributes(self, node: PatternNode, attributes: dict[str, Value]) -> None:
        for name, expression in node.attributes:
            try:
                attributes[name] = self.evaluate(expression)
            except UnknownError:
                continue
            self.sources[name] = expression

    def _attribute(
        self,
        node: PatternNode,
        meaning: Specification,
        name: str,
        expression: Expression,
        attributes: dict[str, Value],
        shapes: Sequence[tuple[Term, ...] | None],
    ) -> None:
        """Choose an attribute that the rule binds to a name, or compares with an expression."""
        try:
            attributes[name] = self.evaluate(expression)
            self.sources[name] = expression
            return
        except UnknownError:
            pass
        bound = expression.text if isinstance(expression, Name) else f"{node.name}.{name}"
        about = self._about(node, meaning, shapes)
        if (stated := self._stated_entries(bound)) is not None:
            attributes[name] = self.names[bound] = stated
            return
        if name == "to":
            value: Value = type_code(self.dtypes[node.outputs[0].value])
        else:
            still = self._still(bound, about.rank) if name == "perm" else 0
            value = self.options.attribute(about, name, bound, still)
        if value is None and name in LEFT_ALONE and self._is_integer(meaning, name):
            value = self.symbol(bound, "integer")
        if value is None:
            value = self._default(meaning, name)
        if value is None:
            raise NoCaseError(f"{name} of {node.name} has no value")
        attributes[name] = value
        self.names[bound] = value
        self.sources[name] = Name(bound)

    def _stated_entries(self, name: str) -> tuple[int, ...] | None:
        """The permutation or the axes that a condition says a name to stand for."""
        for expression in self.rule.given:
            for side, other_side in _sides(expression):
                if side != Name(name):
                    continue
                try:
                    value = self.value(other_side)
                except UnknownError:
                    continue
                if isinstance(value, tuple) and all(type(item) is int for item in value):
                    return value
        return None

    def _still(self, name: str, rank: int) -> int:
        """How many of the last axes a permutation leaves where they are, as a condition says."""
        for expression in self.rule.given:
            for side, other_side in _sides(expression):
                match side:
                    case Call("drop", (Name(text), start)) if text == name:
                        try:
                            first, last = self.value(start), self.value(other_side)
                        except UnknownError:
                            continue
                        if type(first) is int and last == tuple(range(first, rank)):
                            return rank - first
        return 0

    def _stated_axes(self, node: PatternNode, name: str, rank: int) -> tuple[int, ...] | None:
        """The axes, from the front, that a condition says the entries of a list to be.

        All others would break it; a list of none has no spelling.
        """
        for expression in self.rule.given:
            for side, other_side in _sides(expression):
                match side:
                    case Call("axes", (Call("ints", (Name(text),)), counted)) if text == name:
                        try:
                            places, among = self.value(other_side), self.value(counted)
                        except UnknownError:
                            continue
                        if not isinstance(places, tuple) or not places:
                            continue
                        more = len(places) if node.operator == "Unsqueeze" else 0
                        if among == rank + more and all(type(axis) is int for axis in places):
                            return places
        return None

    def _is_integer(self, meaning: Specification, name: str) -> bool:
        attributes = (attribute for block in meaning.blocks for attribute in block.attributes)
        return any(attribute.name == name and attribute.type == "int" for attribute in attributes)

    def _default(self, meaning: Specification, name: str) -> Value:
        for block in meaning.blocks:
            for attribute in block.attributes:
                literal = getattr(attribute.default, "value", None)
                if attribute.name == name and literal is not None:
                    return literal
        return None

    def _rest(
        self,
        node: PatternNode,
        meaning: Specification,
        attributes: dict[str, Value],
        shapes: Sequence[tuple[Term, ...] | None],
    ) -> None:
        """Choose the attributes that `*rest` stands for, once for all nodes that bear it."""
        assert node.rest is not None
        if node.rest not in self.rests:
            about = self._about(node, meaning, shapes)
            rest: dict[str, Value] = {}
            names = {a.name for block in meaning.blocks for a in block.attributes}
            for name in sorted(names - set(attributes)):
                padded = {**rest, **attributes}.get("auto_pad", "NOTSET")
                if name == "pads" and padded != "NOTSET":
                    continue
                if name == "kernel_shape" and "Conv" in node.operator:
                    continue  # it is that of the weight, wherever it is given
                if name not in SPATIAL and self._is_left_out(node.rest, name):
                    continue
                value: Value = None
                if name == "to" or (name == "output_dtype" and len(shapes) < 3):
                    value = type_code(self.dtypes[node.outputs[0].value])
                else:
                    value = self.options.attribute(about, name, f"{node.rest}.{name}")
                if value is not None:
                    rest[name] = self.names[f"{node.rest}.{name}"] = value
            self.rests[node.rest] = rest
            self.ranks[node.rest] = len(shapes[0] or ())
        for name, value in self.rests[node.rest].items():
            if name in node.mentioned:
                continue
            if name in SPATIAL and self.ranks[node.rest] != len(shapes[0] or ()):
                self._suppose_window_left_out(name, value)
                continue
            attributes[name] = value
            self.sources[name] = Name(f"{node.rest}.{name}")

    def _is_left_out(self, rest: str, name: str) -> bool:
        """Choose whether the nodes with `*rest` leave an attribute out, each at its own default."""
        nodes = (*self.rule.match, *self.rule.rewrite, *self.rule.correct)
        bearers = [
            described(chosen(node, self.operators).operator, self.composition.opset)
            for node in nodes
            if node.rest == rest and name not in node.mentioned
        ]
        if not left_out_is_a_case(bearers, name):
            return False
        return self.choices.pick(f"{rest}.{name} is left out", (False, True), _kind_of(name))

    def _suppose_window_left_out(self, name: str, value: Value) -> None:
        """Suppose that a part of a window is left out: images of two ranks share no other."""
        if name not in WINDOW_DEFAULTS:
            raise NoCaseError(f"{name} has an entry for each axis of an image")
        for entry in value:
            default = WINDOW_DEFAULTS[name]
            self.suppose(f"{entry} = {default}", apply("=", entry, default))

    # ----------------------------------------------------------------------- conditions

    def _bind_shape(self, name: str) -> None:
        """Bind a list of dimensions that the declared shape of an interior value has."""
        declared = self.rule.operand(name).shape or ()
        shape = self.composition.tensors[name].shape
        for axis, size in enumerate(declared if len(shape) >= len(declared) - 1 else ()):
            if isinstance(size, Star):
                part = shape[axis : len(shape) - (len(declared) - axis - 1)]
                self.names.setdefault(size.text, tuple(part))

    def _assume(self, condition: Condition) -> None:
        """Assume a condition, or what can be said of it: nothing where that is undecided."""
        try:
            self._assume_whole(condition)
        except NoTermError:
            match condition:
                case Holds(Binary("and", left, right)):
                    for part in (left, right):
                        self._assume(Holds(part))
                case IsComputable():
                    raise

    def _assume_whole(self, condition: Condition) -> None:
        text = str(condition)
        match condition:
            case HasShape(value, shape, optional):
                if not (optional and value in self.absent):
                    sizes = self.spliced(shape)
                    self.suppose(text, self.same(self.shape_of(value), sizes))
            case HasAttribute(node, attribute, expression) if not isinstance(expression, Name):
                symbols = self.names.get(f"{node}.{attribute}")
                if symbols is not None:
                    if matter := self.ways.leaders([f"{node}.{attribute}"]):
                        raise NotationMattersError(matter)
                    self.suppose(text, self.same(symbols, self.value(expression)))
            case Holds(expression):
                self.side_conditions.clear()
                self.suppose(text, self.holds(expression))
                if not any(decides(part) for part in walk(expression)):
                    for term in self.side_conditions:
                        self.suppose(text, term)
            case IsComputable(expression):
                self.compute(expression)


def _kind_of(attribute: str) -> Kind:
    """What a choice of an attribute decides: which elements are read, or how a node is spelled."""
    return "index" if attribute in ("axes", "axis", "perm", "split") else "form"


def _sides(condition: Expression) -> Iterator[tuple[Expression, Expression]]:
    """Both ways to read an equation."""
    match condition:
        case Binary("=", left, right):
            yield left, right
            yield right, left
