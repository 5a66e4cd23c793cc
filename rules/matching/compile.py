"""Rules to a Datalog program that finds where they match: each rule is the body of a clause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from itertools import combinations

from .. import schemas
from ..conditions import (
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
from ..syntax import Expression, Input, Literal, Name, Output, PatternNode, Rule, Star
from .atoms import Terms, attribute_text, declared, quoted, scalar_atom, shape_atoms, type_atom
from .symmetry import mirrored_nodes

WIDTH = 5  # the inputs that `call` has columns for
_RULES = __package__.removesuffix(".matching")
LONG = 6  # atoms from which on a body is evaluated in two steps


@dataclass
class Part:
    """What one condition (None: the pattern's structure) contributes to the body."""

    condition: Condition | None
    atoms: list[str]


@dataclass
class Clause:
    """The body of a rule's clause, condition by condition, and what is left to Python."""

    rule: Rule
    parts: list[Part] = field(default_factory=list)
    left_over: tuple[Condition, ...] = ()
    sizes: list[str] = field(default_factory=list)

    def columns(self) -> tuple[str, ...]:
        """Nodes, values, positions, then dimensions and integer attributes."""
        nodes = [f"n_{node.name}" for node in self.rule.match]
        values = [f"v_{value}" for value in pattern_values(self.rule)]
        positions = [f"p_{node}_{side}" for node, side in list_positions(self.rule)]
        return (*nodes, *values, *positions, *(f"d_{name}" for name in self.sizes))

    def atoms(self, without: Condition | None = None) -> list[str]:
        """All atoms, those of one condition left out."""
        return [
            atom
            for part in self.parts
            if without is None or part.condition != without
            for atom in part.atoms
        ]

    def text(self) -> str:
        """The relation `match_<Name>`; of a long body, first `pattern_<Name>`, its structure.

        The few rows of the structure tell the engine where to start; alone it may begin by joining
        all vectors of one length.
        """
        match = declared(f"match_{self.rule.name}", self.columns(), self.body())
        if not self.is_long:
            return match
        structure = self.parts[0].atoms
        return declared(f"pattern_{self.rule.name}", self.structural, structure) + match

    @property
    def is_long(self) -> bool:
        """Whether the structure has a relation of its own."""
        return len(self.atoms()) >= LONG

    @property
    def structural(self) -> tuple[str, ...]:
        """The columns of nodes, values and positions."""
        return tuple(column for column in self.columns() if not column.startswith("d_"))

    def body(self, without: Condition | None = None) -> list[str]:
        """The atoms of the match, those of one condition left out."""
        if not self.is_long:
            return self.atoms(without)
        pattern = f"pattern_{self.rule.name}({', '.join(self.structural)})"
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
    found: dict[str, None] = {}
    for node in rule.match:
        for item in node.inputs:
            if item.value and not item.star:
                found[item.value] = None
        for output in node.outputs:
            if not output.star:
                found[output.value] = None
    return tuple(found)


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
        self.rule = rule
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
        left: list[Condition] = []
        for condition in conditions(self.rule):
            atoms, complete = self._condition(condition)
            clause.parts.append(Part(condition, atoms))
            if not complete:
                left.append(condition)
        self._add_sizes(clause)
        clause.left_over = tuple(left)
        return clause

    # ------------------------------------------------------------------------- structure

    def _structure(self) -> list[str]:
        atoms = [atom for node in self.rule.match for atom in self.node_atoms(node)]
        return atoms + self._distinct()

    def node_atoms(self, node: PatternNode) -> list[str]:
        """The atoms that tie one pattern node to its operands."""
        operator, atoms = quoted(node.operator), []
        if node.choices:
            operator = f"o_{node.op_type}"
            atoms = [f"choice({quoted(choice_name(self.rule, node.op_type))}, {operator})"]
        n = f"n_{node.name}"
        starred = any(i.star for i in node.inputs) or any(o.star for o in node.outputs)
        if not starred and len(node.inputs) <= WIDTH:
            inputs = [f"v_{item.value}" for item in node.inputs]
            inputs += ["-1"] * (WIDTH - len(inputs))
            operands = ", ".join(inputs)
            atoms += [f"call({n}, {operator}, {operands}, v_{node.outputs[0].value})"]
            atoms += [f"gives({n}, {i}, v_{o.value})" for i, o in enumerate(node.outputs) if i > 0]
            return atoms + self._present(node)
        atoms += [f"node({n}, {operator})"]
        sides: tuple[tuple[str, str, Sequence[Input | Output]], ...] = (
            ("in", "reads", node.inputs),
            ("out", "gives", node.outputs),
        )
        for side, relation, items in sides:
            between = sum(item.star for item in items) == 2
            for i, item in enumerate(items):
                position = f"p_{node.name}_{side}" if between else str(i)
                if isinstance(item, Input) and item.optional:
                    atoms.append(f"operand({n}, {position}, v_{item.value})")
                elif not item.star:
                    atoms.append(f"{relation}({n}, {position}, v_{item.value})")
                elif not between and item.value:
                    atoms.append(f"{relation}({n}, {position}, l_{item.value})")
            if side == "in" and not any(item.star for item in node.inputs):
                atoms.append(f"!reads({n}, {len(items)}, _)")
        return atoms

    def _present(self, node: PatternNode) -> list[str]:
        """Operands that are not optional must not be -1."""
        known = [s for operator in node.operators for s in schemas.versions(operator)]
        few = min((s.min_input for s in known), default=0)
        return [
            f"v_{item.value} >= 0"
            for i, item in enumerate(node.inputs)
            if i >= few and not item.optional
        ]

    def _distinct(self) -> list[str]:
        """Two pattern nodes are two nodes; mirror images come out once."""
        atoms: list[str] = []
        mirrored = mirrored_nodes(self.rule)
        for a, b in combinations(self.rule.match, 2):
            if a.operator != b.operator:
                continue
            if (a.name, b.name) in mirrored:
                atoms.append(f"n_{a.name} < n_{b.name}")
            elif not _feeds(a, b) and not _feeds(b, a):
                atoms.append(f"n_{a.name} != n_{b.name}")
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
            terms = [self._size_term(size) for size in part.condition.shape]
            self.needed.update(t.removeprefix("d_") for t in terms if t.startswith("d_"))
            part.atoms += shape_atoms(part.condition.value, terms)
        clause.sizes = sorted(self.needed)

    def _size_term(self, size: Expression) -> str:
        """A size as a Datalog term; `_` where nothing depends on it, `*` for a list of sizes."""
        match size:
            case Literal(value):
                return str(value)
            case Name(text) if self.sizes[text] > 1 or text in self.needed:
                return f"d_{text}"
            case Star():
                return "*"
        return "_"

    # ------------------------------------------------------------------------- conditions

    def _condition(self, condition: Condition) -> tuple[list[str], bool]:
        """The atoms that follow from a condition, and whether they imply it."""
        match condition:
            case IsConstant(value, optional):
                return [f"constant{'_or_absent' if optional else ''}(v_{value})"], True
            case IsScalar(value) if value in self.optional:
                return [f"constant_or_absent(v_{value})"], False
            case IsScalar(value):
                return [f"scalar(v_{value}, x_{value})"], True
            case HasType(value, dtypes, optional):
                return ([], False) if optional else ([type_atom(value, dtypes)], True)
            case HasShape(value, shape, optional):
                return ([], False) if optional or value in self.implied else self._shape(shape)
            case IsLiteral():
                return self._literal(condition)
            case HasAttribute():
                return self._attribute(condition)
            case HasDefaults(node, attributes):
                if not self.nodes[node].attributes:
                    return [f"!altered(n_{node}, _)"], True
                return [f"!altered(n_{node}, {quoted(name)})" for name in attributes], True
            case UsedOnlyHere(value, uses):
                return [f"private(v_{value}, {uses})"], True
            case UnusedOutputs(node, listed):
                return [f"!uses_output_beyond(n_{node}, {listed})"], True
            case IsKnown(dimension) if dimension in self.sizes:
                self.needed.add(dimension)
                return [f"d_{dimension} >= 0"], True
            case Holds(expression):
                return self.terms.comparison(expression)
        return [], False

    def _shape(self, shape: tuple[Expression, ...]) -> tuple[list[str], bool]:
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

    def _literal(self, condition: IsLiteral) -> tuple[list[str], bool]:
        atoms = [f"constant(v_{condition.value})"]
        if not isinstance(condition.literal, Literal) or isinstance(condition.literal.value, str):
            return atoms, False
        atoms = [scalar_atom(condition.value, condition.literal.value)]
        if condition.neighbour:
            atoms.append(f"fits(v_{condition.value}, v_{condition.neighbour})")
        return atoms, True

    def _attribute(self, condition: HasAttribute) -> tuple[list[str], bool]:
        node, attribute = self.nodes[condition.node], condition.attribute
        if node.choices or not schemas.is_always_set(node.operator, attribute):
            return [], False
        n, name = f"n_{node.name}", quoted(attribute)
        integer = schemas.is_integer(node.operator, attribute)
        match condition.expression:
            case Literal(int() as value) if integer:
                return [f"attribute_int({n}, {name}, {value})"], True
            case Literal(value):
                if not integer and isinstance(value, int):
                    value = float(value)
                return [f"attribute({n}, {name}, {quoted(attribute_text(value))})"], True
            case Name(text) if integer:
                self.needed.add(text)
                return [f"attribute_int({n}, {name}, d_{text})"], True
            case Name(text) if self._attribute_uses(text) == 1:
                return [], True  # it binds, and nothing has to agree with it
            case Name(text) if text in self.names.attributes:
                return [f"attribute({n}, {name}, a_{text})"], True
        return [], False

    def _attribute_uses(self, name: str) -> int:
        return sum(
            isinstance(value, Name) and value.text == name
            for node in self.rule.match
            for _, value in node.attributes
        )


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
    parts = [graph_relations(), default_facts(rules)]
    for rule in rules:
        clause = clause_of(rule)
        relation = f"match_{rule.name}"
        parts.append(f"// {rule.summary}\n{clause.text()}\n.output {relation}\n")
    return "\n".join(parts)


def default_facts(rules: Sequence[Rule]) -> str:
    """Facts that rules need: defaults of attributes they leave out, choices of operators."""
    facts: set[str] = set()
    for rule in rules:
        asked = {c.node for c in conditions(rule) if isinstance(c, HasDefaults)}
        for node in rule.match:
            if node.name not in asked:
                continue
            for operator in node.operators:
                defaults = schemas.attribute_defaults(operator, rule.opset_from, rule.opset_to)
                for name, value in ((n, v) for n, values in defaults.items() for v in values):
                    spelled = quoted(attribute_text(value))
                    fact = f"{quoted(operator)}, {quoted(name)}, {spelled}"
                    facts.add(f"default_attribute({fact}).")
    for rule in rules:
        for variable, operators in rule.choices:
            name = quoted(choice_name(rule, variable))
            facts |= {f"choice({name}, {quoted(operator)})." for operator in operators}
    return "".join(f"{fact}\n" for fact in sorted(facts))


@cache
def columns(rule: Rule) -> tuple[str, ...]:
    """The columns of a rule's match relation."""
    return clause_of(rule).columns()


@cache
def remainder(rule: Rule) -> tuple[Condition, ...]:
    """The conditions that the Datalog clause leaves to `check_conditions`."""
    return clause_of(rule).left_over
