"""Rules to a Datalog program that finds where they match: each rule is the body of a clause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from itertools import combinations

from onnx.defs import OpSchema

from ...catalog.datalog.language import builders
from ...catalog.datalog.language.builders import Definition, absent, atom, comparison, symbol
from ...catalog.datalog.language.syntax import Atom, Variable, Wildcard
from ...catalog.datalog.language.unparse import clause_text
from ...catalog.terms.syntax_tree import Expression, Literal, Name
from ..language import schemas
from ..language.conditions import (
    Condition,
    HasAttribute,
    HasDefaults,
    HasShape,
    HasType,
    Holds,
    IsConstant,
    IsKnown,
    IsLiteral,
    IsScalar,
    UnusedOutputs,
    UsedOnlyHere,
    bindings,
    conditions,
    optional_values,
)
from ..language.repetition import pattern
from ..language.syntax import Input, Output, PatternNode, Rule, Star
from .atoms import Atoms, Size, Terms, attribute_text, scalar_atom, shape_atoms, type_atom
from .symmetry import mirrored_nodes

# The attributes that the relation `attribute` has: numbers, texts and lists of them.
_LISTED = tuple(
    getattr(OpSchema.AttrType, kind + ending)
    for kind in ("INT", "FLOAT", "STRING")
    for ending in ("", "S")
)
WIDTH = 5  # the inputs that `call` has columns for
_RULES = __package__.removesuffix(".compiler")
LONG = 6  # atoms from which on a body is evaluated in two steps


@dataclass
class Part:
    """What one condition (None: the pattern's structure) contributes to the body."""

    condition: Condition | None
    atoms: list[builders.Part]


@dataclass
class Clause:
    """The body of a rule's clause, condition by condition, and what is left to Python."""

    rule: Rule
    parts: list[Part] = field(default_factory=list)
    not_in_datalog: tuple[Condition, ...] = ()
    sizes: list[str] = field(default_factory=list)

    def columns(self) -> tuple[str, ...]:
        """Nodes, values, positions, then dimensions and integer attributes."""
        nodes = [f"n_{node.name}" for node in self.rule.match]
        values = [f"v_{value}" for value in pattern_values(self.rule)]
        positions = [f"p_{node}_{side}" for node, side in list_positions(self.rule)]
        return (*nodes, *values, *positions, *(f"d_{name}" for name in self.sizes))

    def atoms(self, without: Condition | None = None) -> list[builders.Part]:
        """All atoms, those of one condition left out."""
        return [
            atom
            for part in self.parts
            if without is None or part.condition != without
            for atom in part.atoms
        ]

    def definitions(self) -> list[Definition]:
        """The relation `match_<Name>`; of a long body, first `pattern_<Name>`, its structure.

        The few rows of the structure tell the engine where to start; alone it may begin by joining
        all vectors of one length.
        """
        match = Definition.of_numbers(f"match_{self.rule.name}", self.columns(), self.body())
        if not self.is_long:
            return [match]
        name, structure = f"pattern_{self.rule.name}", self.parts[0].atoms
        return [Definition.of_numbers(name, self.structural, structure), match]

    @property
    def is_long(self) -> bool:
        """Whether the structure has a relation of its own."""
        return len(self.atoms()) >= LONG

    @property
    def structural(self) -> tuple[str, ...]:
        """The columns of nodes, values and positions."""
        return tuple(column for column in self.columns() if not column.startswith("d_"))

    def body(self, without: Condition | None = None) -> list[builders.Part]:
        """The atoms of the match, those of one condition left out."""
        if not self.is_long:
            return self.atoms(without)
        pattern = atom(f"pattern_{self.rule.name}", *self.structural)
        return [pattern, *self.atoms(without)[len(self.parts[0].atoms) :]]


def implied_vectors(rule: Rule) -> set[str]:
    """Operands whose declared shape follows from their operator in any valid model.

    Joining on their sizes costs time and finds nothing out; Python checks them for the rest.
    """
    return {
        item.value
        for node in rule.match
        for position, item in enumerate(node.inputs)
        if item.value and position in schemas.CHANNEL_VECTORS.get(node.operator, ())
    }


def choice_name(rule: Rule, variable: str) -> str:
    """What the relation `choice` calls an operator variable of a rule."""
    return f"{rule.name}.{variable}"


def pattern_values(rule: Rule) -> tuple[str, ...]:
    """The names of single values in the match, literals included, in order of occurrence."""
    names: dict[str, None] = {}
    for node in rule.match:
        for item in node.inputs:
            if item.value and not item.star:
                names[item.value] = None
        for output in node.outputs:
            if not output.star:
                names[output.value] = None
    return tuple(names)


def list_positions(rule: Rule) -> tuple[tuple[str, str], ...]:
    """The nodes and sides where one operand stands between two lists."""
    return tuple(
        (node.name, side)
        for node in rule.match
        for side, stars in (
            ("in", sum(item.star for item in node.inputs)),
            ("out", sum(item.star for item in node.outputs)),
        )
        if stars == 2
    )


def clause_of(rule: Rule) -> Clause:
    """Compile a rule's match and conditions."""
    return ClauseBuilder(rule).build()


class ClauseBuilder:
    """Collects the atoms of a rule; a condition that Datalog can't express is left over."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule = pattern(rule)
        self.names = bindings(rule)
        self.optional = optional_values(rule)
        self.implied = implied_vectors(rule)
        self.nodes = {node.name: node for node in rule.match}
        self.sizes: dict[str, int] = {}  # how many shapes a dimension stands in
        self.needed: set[str] = set()  # the dimensions that some atom reads
        self.terms = Terms(rule, self.sizes, self.needed)

    def build(self) -> Clause:
        """Compile structure first, then each condition."""
        clause = Clause(self.rule)
        clause.parts.append(Part(None, self._structure()))
        self._collect_sizes()
        remaining: list[Condition] = []
        for condition in conditions(self.rule):
            atoms, complete = self._condition(condition)
            clause.parts.append(Part(condition, atoms))
            if not complete:
                remaining.append(condition)
        self._add_sizes(clause)
        clause.not_in_datalog = tuple(remaining)
        return clause

    # ------------------------------------------------------------------------- structure

    def _structure(self) -> list[builders.Part]:
        atoms = [atom for node in self.rule.match for atom in self.node_atoms(node)]
        return [*atoms, *self._distinct()]

    def node_atoms(self, node: PatternNode) -> list[builders.Part]:
        """The atoms that tie one pattern node to its operands."""
        operator: builders.Argument = symbol(node.operator)
        atoms: list[builders.Part] = []
        if node.choices:
            operator = f"o_{node.op_type}"
            atoms = [atom("choice", symbol(choice_name(self.rule, node.op_type)), operator)]
        n = f"n_{node.name}"
        starred = any(i.star for i in node.inputs) or any(o.star for o in node.outputs)
        if not starred and len(node.inputs) <= WIDTH:
            inputs: list[builders.Argument] = [f"v_{item.value}" for item in node.inputs]
            inputs += [-1] * (WIDTH - len(inputs))
            outputs = [f"v_{output.value}" for output in node.outputs]
            atoms.append(atom("call", n, operator, *inputs, outputs[0]))
            atoms += [atom("gives", n, i, v) for i, v in enumerate(outputs) if i > 0]
            return [*atoms, *self._present(node)]
        atoms.append(atom("node", n, operator))
        sides: tuple[tuple[str, str, Sequence[Input | Output]], ...] = (
            ("in", "reads", node.inputs),
            ("out", "gives", node.outputs),
        )
        for side, relation, items in sides:
            between = sum(item.star for item in items) == 2
            for i, item in enumerate(items):
                position = f"p_{node.name}_{side}" if between else i
                if isinstance(item, Input) and item.optional:
                    atoms.append(atom("operand", n, position, f"v_{item.value}"))
                elif not item.star:
                    atoms.append(atom(relation, n, position, f"v_{item.value}"))
                elif not between and item.value:
                    atoms.append(atom(relation, n, position, f"l_{item.value}"))
            if side == "in" and not any(item.star for item in node.inputs):
                atoms += [absent("reads", n, i, "_") for i in _positions_beyond(node)]
        return atoms

    def _present(self, node: PatternNode) -> list[builders.Part]:
        """Operands that are not optional must not be -1."""
        operator_schemas = [s for operator in node.operators for s in schemas.versions(operator)]
        few = min((s.min_input for s in operator_schemas), default=0)
        return [
            comparison(f"v_{item.value}", ">=", 0)
            for i, item in enumerate(node.inputs)
            if i >= few and not item.optional
        ]

    def _distinct(self) -> list[builders.Part]:
        """Two pattern nodes are two nodes; mirror images come out once."""
        atoms: list[builders.Part] = []
        mirrored = mirrored_nodes(self.rule)
        for a, b in combinations(self.rule.match, 2):
            if a.operator != b.operator:
                continue
            if (a.name, b.name) in mirrored:
                atoms.append(comparison(f"n_{a.name}", "<", f"n_{b.name}"))
            elif not _feeds(a, b) and not _feeds(b, a):
                atoms.append(comparison(f"n_{a.name}", "!=", f"n_{b.name}"))
        return atoms

    # ------------------------------------------------------------------------- dimensions

    def _collect_sizes(self) -> None:
        """Count the shapes that each dimension stands in, those of optional operands left out."""
        for operand in self.rule.operands:
            for size in operand.shape or ():
                if isinstance(size, Name) and operand.name not in self.optional | self.implied:
                    self.sizes[size.text] = self.sizes.get(size.text, 0) + 1

    def _add_sizes(self, clause: Clause) -> None:
        """Add the dimension atoms that join operands or feed a comparison, and no others."""
        for part in clause.parts:
            if not isinstance(part.condition, HasShape):
                continue
            if part.condition.optional or part.condition.value in self.implied:
                continue
            sizes = [self._size(size) for size in part.condition.shape]
            self.needed.update(s.name.removeprefix("d_") for s in sizes if isinstance(s, Variable))
            part.atoms += shape_atoms(part.condition.value, sizes)
        clause.sizes = sorted(self.needed)

    def _size(self, size: Expression) -> Size:
        """A size as a Datalog term: an underscore where nothing depends on it."""
        match size:
            case Literal(int() as value):
                return builders.term(value)
            case Name(text) if self.sizes[text] > 1 or text in self.needed:
                return builders.term(f"d_{text}")
            case Star():
                return None
        return Wildcard(builders.MADE)

    # ------------------------------------------------------------------------- conditions

    def _condition(self, condition: Condition) -> Atoms:
        """The atoms that follow from a condition, and whether they imply it."""
        match condition:
            case IsConstant(value, optional):
                return [atom(f"constant{'_or_absent' if optional else ''}", f"v_{value}")], True
            case IsScalar(value) if value in self.optional:
                return [atom("constant_or_absent", f"v_{value}")], False
            case IsScalar(value):
                return [atom("scalar", f"v_{value}", f"x_{value}")], True
            case HasType(value, dtypes, optional):
                return ([], False) if optional else ([type_atom(value, dtypes)], True)
            case HasShape(value, shape, optional):
                return ([], False) if optional or value in self.implied else self._shape(shape)
            case IsLiteral():
                return self._literal(condition)
            case HasAttribute():
                return self._attribute(condition)
            case HasDefaults(node, attributes):
                complete = self._are_listed(self.nodes[node], attributes)
                if not self.nodes[node].attributes:
                    return [absent("altered", f"n_{node}", "_")], complete
                return [
                    absent("altered", f"n_{node}", symbol(name)) for name in attributes
                ], complete
            case UsedOnlyHere(value, uses):
                return [atom("private", f"v_{value}", uses)], True
            case UnusedOutputs(node, listed):
                return [absent("uses_output_beyond", f"n_{node}", listed)], True
            case IsKnown(dimension) if dimension in self.sizes:
                self.needed.add(dimension)
                return [comparison(f"d_{dimension}", ">=", 0)], True
            case Holds(expression):
                return self.terms.comparison(expression)
        return [], False

    def _are_listed(self, node: PatternNode, attributes: Sequence[str]) -> bool:
        """Whether `attribute` lists attributes: tensors and graphs are told by no text."""
        return not any(
            operator_schema.attributes[name].type not in _LISTED
            for operator in node.operators
            for operator_schema in schemas.versions(
                operator, self.rule.opset_from, self.rule.opset_to
            )
            for name in attributes
            if name in operator_schema.attributes
        )

    def _shape(self, shape: tuple[Expression, ...]) -> Atoms:
        """Whether Datalog can say all of a shape: lists that must agree and arithmetic it can't.

        The atoms themselves come last, when it is known which sizes somebody needs.
        """
        plain = all(
            isinstance(size, Literal)
            or (isinstance(size, Name) and size.text not in self.names.attributes)
            or (isinstance(size, Star) and self._occurrences(size.text) == 1)
            for size in shape
        )
        return [], plain

    def _occurrences(self, name: str) -> int:
        return sum(
            isinstance(size, Star) and size.text == name
            for operand in self.rule.operands
            for size in operand.shape or ()
        )

    def _literal(self, condition: IsLiteral) -> Atoms:
        atoms: list[builders.Part] = [atom("constant", f"v_{condition.value}")]
        if not isinstance(condition.literal, Literal) or isinstance(condition.literal.value, str):
            return atoms, False
        atoms = [scalar_atom(condition.value, condition.literal.value)]
        if condition.neighbour:
            atoms.append(atom("fits", f"v_{condition.value}", f"v_{condition.neighbour}"))
        return atoms, True

    def _attribute(self, condition: HasAttribute) -> Atoms:
        node, attribute = self.nodes[condition.node], condition.attribute
        if node.choices or not schemas.is_always_set(node.operator, attribute):
            return [], False
        n, name = f"n_{node.name}", symbol(attribute)
        integer = schemas.is_integer(node.operator, attribute)
        match condition.expression:
            case Literal(int() as value) if integer:
                return [atom("attribute_int", n, name, value)], True
            case Literal(value):
                if not integer and isinstance(value, int):
                    value = float(value)
                return [atom("attribute", n, name, symbol(attribute_text(value)))], True
            case Name(text) if integer:
                self.needed.add(text)
                return [atom("attribute_int", n, name, f"d_{text}")], True
            case Name(text) if self._attribute_uses(text) == 1:
                return [], True  # it binds, and nothing has to agree with it
            case Name(text) if text in self.names.attributes:
                return [atom("attribute", n, name, f"a_{text}")], True
        return [], False

    def _attribute_uses(self, name: str) -> int:
        return sum(
            isinstance(value, Name) and value.text == name
            for node in self.rule.match
            for _, value in node.attributes
        )


def _positions_beyond(node: PatternNode) -> range:
    """The positions of the inputs that a node may have and the pattern doesn't mention."""
    named = len(node.inputs)
    if any(map(schemas.is_variadic, node.operators)):
        return range(named, named + 1)  # none is left out before another
    return range(named, max(map(schemas.max_inputs, node.operators)))


def _feeds(a: PatternNode, b: PatternNode) -> bool:
    """Whether an output of a is an input of b: then they are never the same node."""
    return bool({o.value for o in a.outputs} & {i.value for i in b.inputs})


@cache
def graph_relations() -> str:
    """The text of rules/graph.dl: the relations of a graph and what is derived from them."""
    return (resources.files(_RULES) / "graph.dl").read_text(encoding="utf-8")


def compile_program(rules: Sequence[Rule]) -> str:
    """Compile the left sides: rules/graph.dl and one relation `match_<Name>` a rule.

    Columns: the nodes `n_*`, the values `v_*`, bound dimensions and integer attributes `d_*`,
    positions of operands between two lists `p_*`; `matches` reads them.
    """
    facts = "".join(clause_text(fact, ()) for fact in default_facts(rules))
    parts = [graph_relations(), facts]
    for rule in rules:
        text = "".join(definition.text() for definition in clause_of(rule).definitions())
        parts.append(f"// {rule.summary}\n{text}\n.output match_{rule.name}\n")
    return "\n".join(parts)


def default_facts(rules: Sequence[Rule]) -> list[Atom]:
    """Facts that rules need: defaults of attributes they leave out, choices of operators."""
    facts: set[tuple[str, ...]] = set()
    for rule in rules:
        asked = {c.node for c in conditions(rule) if isinstance(c, HasDefaults)}
        for node in rule.match:
            if node.name not in asked:
                continue
            for operator in node.operators:
                defaults = schemas.attribute_defaults(operator, rule.opset_from, rule.opset_to)
                for name, value in ((n, v) for n, values in defaults.items() for v in values):
                    facts.add(("default_attribute", operator, name, attribute_text(value)))
    for rule in rules:
        for variable, operators in rule.choices:
            name = choice_name(rule, variable)
            facts |= {("choice", name, operator) for operator in operators}
    return [atom(relation, *map(symbol, texts)) for relation, *texts in sorted(facts)]


@cache
def columns(rule: Rule) -> tuple[str, ...]:
    """The columns of a rule's match relation."""
    return clause_of(rule).columns()


@cache
def remainder(rule: Rule) -> tuple[Condition, ...]:
    """The conditions that the Datalog clause leaves to `check_conditions`."""
    return clause_of(rule).not_in_datalog
