"""The right side of a rule in one case: what its nodes demand becomes obligations."""

from __future__ import annotations

from ....catalog.operators import ShapeError, Specification
from ....catalog.terms.index_notation import Symbol, Term, apply
from ....catalog.terms.syntax_tree import Expression, Name
from ...language.functions import UnknownError
from ...language.syntax import Input, PatternNode
from ..ranks.operand_lists import joining
from ..statement import Obligation
from .axis_notation import NotationMattersError, names_in
from .composition import UndescribedError, algebra_of, described
from .element_types import chosen, signature
from .environment import Environment, fits_type, require_in_range
from .numbered_nodes import NumberedNodes
from .source_side import SourceSide
from .symbolic_expressions import Value


class TargetSide(Environment):
    """The right side, over the tensors of the left one: what it demands becomes obligations."""

    def __init__(self, source: SourceSide) -> None:
        super().__init__(source.rule, source.composition)
        self.source = source
        self.names, self.lists, self.rests = source.names, source.lists, source.rests
        self.absent, self.progressions = source.absent, source.progressions
        self.ways = source.ways
        self.obligations: list[Obligation] = []
        self.new_names: dict[str, str] = {}
        self.new_lists: dict[str, list[str]] = {}
        self.results: dict[str, str] = {}
        self.numbers: NumberedNodes | None = None
        self.of_numbers: set[str] = set()
        self._constants = 0

    def build(self) -> None:
        """Build the right side; what fails ends it with an obligation that is false."""
        try:
            self._number_nodes()
            for node in self.rule.rewrite:
                self._node(chosen(node, self.source.operators))
            for alias in self.rule.aliases:
                if matter := self.ways.leaders(self._said(alias.source)):
                    raise NotationMattersError(matter)
                targets = self._targets(alias.output, alias.source.star)
                first = self.dtype_of(targets[0]) if targets else "float32"
                inputs = [name for name in self._input(alias.source, first, False) if name]
                if len(targets) != len(inputs):
                    text = f"{alias.output} stands for {len(targets)} values, not {len(inputs)}"
                    self._fail(text)
                    return
                self.results.update(zip(targets, inputs, strict=True))
        except ShapeError as error:
            self._fail(str(error))
        except UnknownError:
            self._fail("the right side needs a value that is not known")

    def _number_nodes(self) -> None:
        """Let a symbol be the number of the nodes that have one.

        What holds of it holds of each of them; there is no such number where there are none, and
        the rule isn't applied there.
        """
        node = next((node for node in self.rule.rewrite if node.count is not None), None)
        if node is None or node.count is None:
            return
        self.see(node.count)
        count, index = self._value(node.count), Symbol(node.index)
        if isinstance(count, tuple | str) or count is None:
            raise UnknownError
        self.source.suppose(f"{index} < {count}", apply("<", index, count))
        self.names[node.index] = index
        self.numbers = NumberedNodes(self.composition, index, count)

    def _joined(self, name: str, meaning: Specification) -> str:
        """What an operator makes of a list of nodes with a number, as one of its operands."""
        kind = joining(meaning)
        if kind is None or self.numbers is None:
            raise UndescribedError(
                f"what {meaning.op_type} makes of nodes with a number is not told"
            )
        joined, needs = self.numbers.joined(self.new_lists[name][0], kind)
        self.obligations += needs
        return joined

    def _said(self, item: Input) -> frozenset[str]:
        return (
            frozenset(filter(None, [item.value]))
            if item.literal is None
            else names_in(item.literal)
        )

    def correct(self) -> None:
        """Go on to the correction of a partial equivalence, which makes the output anew."""
        try:
            for node in self.rule.correct:
                self._node(chosen(node, self.source.operators), "corrected")
        except ShapeError as error:
            self._fail(str(error))
        except UnknownError:
            self._fail("the correction needs a value that is not known")

    def region(self) -> tuple[Term, tuple[str, ...]]:
        """Where the output may differ, and the names of its indices in that condition."""
        assert self.rule.region is not None
        output = self.rule.outputs[0]
        indices = tuple(f"i{axis}" for axis in range(len(self.shape_of(output))))
        if matter := self.ways.leaders(names_in(self.rule.region)):
            raise NotationMattersError(matter)
        names = self.names
        self.names = {**names, **{name: Symbol(name, "integer") for name in indices}}
        try:
            return self.condition(self.rule.region), indices
        except UnknownError:
            return False, indices  # a row of an axis that isn't there: no exception
        finally:
            self.names = names

    def _fail(self, text: str) -> None:
        self.obligations.append(Obligation(text, False))

    def _targets(self, name: str, star: bool) -> list[str]:
        return self.lists[name] if star else [name]

    def _node(self, node: PatternNode, suffix: str = "new") -> None:
        meaning = described(node.operator, self.composition.opset)
        attributes = dict(self.rests.get(node.rest or "", {}))
        sources: dict[str, Expression] = {name: Name(f"{node.rest}.{name}") for name in attributes}
        for name, expression in node.attributes:
            attributes[name] = self._value(expression)
            sources[name] = expression
        inputs: list[str | None] = []
        literals: dict[str, Expression] = {}
        for position, item in enumerate(node.inputs):
            if node.count is None and item.star and item.value in self.of_numbers:
                inputs.append(self._joined(item.value, meaning))
                continue
            input_names = self._input(
                item, self._type_beside(node, position), position in meaning.known_inputs
            )
            inputs += input_names
            if item.literal is not None:
                literals |= {name: item.literal for name in input_names if name is not None}
        while inputs and inputs[-1] is None:
            inputs.pop()
        outputs: list[str] = []
        for output in node.outputs:
            numbered = node.count is not None
            names = [output.value] if numbered else self._targets(output.value, output.star)
            if numbered:
                self.of_numbers.add(output.value)
            new = [f"{name}.{suffix}" for name in names]
            outputs += new
            if output.value in self.rule.outputs:
                self.results.update(zip(names, new, strict=True))
            if output.star:
                self.new_lists[output.value] = new
            else:
                self.new_names[output.value] = new[0]
        self.see_node(node.operator, inputs, len(outputs), attributes, sources, literals)
        self.obligations += self.composition.node(node.operator, inputs, attributes, outputs)

    def _value(self, expression: Expression) -> Value:
        """A value for a node, however axes are written in it: the node is looked at as a whole."""
        self.side_conditions.clear()
        value = self.evaluate(expression)
        self.obligations += [
            Obligation(f"{term} on the right", term) for term in self.side_conditions
        ]
        return value

    def _input(self, item: Input, dtype: str, is_contents: bool) -> list[str | None]:
        if item.literal is not None:
            return [self._literal(self._value(item.literal), dtype, is_contents)]
        name = item.value or ""
        if item.star:
            return list(self.new_lists.get(name, self.lists.get(name, [])))
        if name in self.new_names:
            return [self.new_names[name]]
        if name not in self.absent:
            return [name]
        if item.optional:
            return [None]
        return [self._default(name)]

    def _literal(self, value: Value, dtype: str, is_contents: bool) -> str:
        self._constants += 1
        name = f"constant.{self._constants}"
        if isinstance(value, tuple):
            kind = "int64" if algebra_of(dtype) != "integer" else dtype
            self.composition.known_constant(name, value, kind)
            return name
        if isinstance(value, str) or value is None:
            raise UnknownError
        if not fits_type(value, dtype):
            self._fail(f"{value} is no {dtype}")
        require_in_range(value, dtype)
        if is_contents:
            self.composition.known_constant(name, (value,), dtype, rank=0)
        else:
            self.composition.constant(name, (), value, dtype)
        return name

    def _default(self, name: str) -> str:
        """What an absent operand counts as, in its declared shape."""
        full = f"{name}.default"
        if full not in self.composition.tensors:
            operand = self.rule.operand(name)
            if operand.default is None:
                raise UnknownError
            shape: list[Term] = []
            for size in self.spliced(operand.shape or ()):
                shape.append(size)
            user = next(n for n in self.rule.match if any(i.value == name for i in n.inputs))
            beside = user.inputs[0].value or ""
            self.see(operand.default)
            value = self._value(operand.default)
            contents = value if isinstance(value, tuple) else None
            dtype = self.dtype_of(beside)
            if contents is not None:
                self.composition.known_constant(full, contents, "int64")
            else:
                self.composition.constant(full, shape, value, dtype)
        return full

    def _type_beside(self, node: PatternNode, position: int) -> str:
        """The type that a literal takes: that of an operand of its type variable, or of any."""
        node_signature = signature(node.operator, self.composition.opset)
        if node_signature is None:
            raise UndescribedError(f"{node.operator} is not in opset {self.composition.opset}")
        slot = node_signature.slot(position)
        if not slot.variable and len(slot.types) == 1:
            return next(iter(slot.types))
        candidates: list[tuple[bool, str]] = []
        for place, item in enumerate(node.inputs):
            name = self.new_names.get(item.value or "", item.value or "")
            if item.star and item.value:
                listed = self.new_lists.get(item.value, self.lists.get(item.value, []))
                name = listed[0] if listed else ""
            if item.value in self.absent:
                user = next(n for n in self.rule.match for i in n.inputs if i.value == item.value)
                name = user.inputs[0].value or ""
            if place != position and name in self.composition.tensors:
                beside = node_signature.slot(place).variable == slot.variable
                candidates.append((not beside, self.composition.tensors[name].dtype))
        if slot.variable == "Tind" and not (candidates and not min(candidates)[0]):
            return "int64"
        return min(candidates, key=lambda candidate: candidate[0])[1] if candidates else "int64"
