"""A selection of e-nodes as a graph: names of the model kept, what the outside sees above all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from ..graph.graph import Graph, Node
from .congruence import NONE
from .egraph import EGraph
from .extraction.e_node_costs import givers_of
from .extraction.problem import Selection, in_order


def build(
    egraph: EGraph,
    selection: Selection,
    roots: tuple[int, ...],
    named: Mapping[int, str] = MappingProxyType({}),
) -> Graph:
    """The graph that computes a selection.

    Values keep their names where the model has some for a class; where the outside asks for
    several values of one class, the others are copies. `named` are e-nodes that are no nodes of the
    model, with what they are called.
    """
    return _Builder(egraph, selection, roots, named).build()


class _Builder:
    def __init__(
        self,
        egraph: EGraph,
        selection: Selection,
        roots: tuple[int, ...],
        named: Mapping[int, str],
    ) -> None:
        self.egraph, self.selection, self.named = egraph, selection, named
        self.order = in_order(selection, roots)
        self.graph = egraph.graph.copy()
        for number in list(self.graph.nodes):
            self.graph.remove_node(number)
        self.value_of: dict[int, int] = {}
        self.nodes: set[int] = set()
        chosen = {selection[class_].node for class_ in self.order}
        captors = [egraph.origin[node] for node in sorted(chosen) if node in egraph.origin]
        captured = {v for number in captors for v in egraph.graph.nodes[number].captures}
        self.pinned = dict.fromkeys((*self.graph.graph_outputs, *sorted(captured)))
        self.names = self._names()
        self.shallow: Mapping[int, int] | None = None

    def _names(self) -> dict[int, list[int]]:
        """Class -> the model's values in it that a node may give, pinned ones first."""
        names: dict[int, list[int]] = {}
        computed = set(self.egraph.graph.producer)
        for value in (*self.pinned, *sorted(computed - set(self.pinned))):
            if value in computed:
                names.setdefault(self.egraph.find(value), []).append(value)
        return names

    def build(self) -> Graph:
        """Leaves first, then nodes in order, then copies for the outside."""
        for value in (*self.graph.graph_inputs, *self.graph.constants):
            self.value_of.setdefault(self.egraph.find(value), value)
        for class_ in self.order:
            self._add(self.selection[class_].node)
        for value in self.pinned:
            if value not in self.egraph.graph.producer:
                continue
            source = self._value(self.egraph.find(value))
            if source != value:
                self.graph.add_node(Node("Identity", "", (source,), (value,), {}))
        return self.graph

    def _value(self, class_: int) -> int:
        """The value of a class; constants that nobody computed yet are computed by nodes."""
        if class_ == NONE:
            return NONE
        if class_ not in self.value_of:
            constant = self.egraph.constant(class_)
            type_ = self.egraph.type(class_)
            if constant is not None:
                value = self.graph.new_value("constant", type_)
                self.graph.set_constant(value, constant)
                self.value_of[class_] = value
            elif self.egraph.is_known(class_):
                self._add(self._constant_node(class_))
            else:  # a leaf that is no input: a default that the caller may override
                self.value_of[class_] = class_
        return self.value_of[class_]

    def _constant_node(self, class_: int) -> int:
        """An e-node that computes a known class from constants, with the fewest steps."""
        if self.shallow is None:
            self.shallow = _shallowest(self.egraph)
        return self.shallow[class_]

    def _add(self, node: int) -> None:
        if node in self.nodes:
            return
        self.nodes.add(node)
        egraph, columns = self.egraph, self.egraph.columns
        number = egraph.origin.get(node)
        attributes, operands = egraph.written(node)
        if number is not None:
            operands = operands[: len(egraph.graph.nodes[number].inputs)]
        for operand in operands:  # a chain of constants may be deep, but never a whole model
            self._value(operand)
        inputs = tuple(self._value(operand) for operand in operands)
        outputs = tuple(self._output(node, class_) for class_ in columns.outputs(node))
        if number is not None:
            first_written = egraph.graph.nodes[number]
            self.graph.add_node(replace(first_written, inputs=inputs, outputs=outputs))
            return
        op = egraph.vocabulary.operators[columns.operator(node)]
        protos = egraph.vocabulary.attributes[attributes].protos
        application = egraph.made_by.get(node)
        rule, name = application.rule if application else "", self.named.get(node, "")
        new = Node(op.op_type, op.domain, inputs, outputs, protos, name=name, rule=rule)
        self.graph.add_node(new)

    def _output(self, node: int, class_: int) -> int:
        """The value that an e-node gives: that of the class if it is chosen for it."""
        if class_ == NONE:
            return NONE
        type_ = self.egraph.type(class_)
        chosen = self.selection.get(class_)
        is_chosen = chosen is not None and chosen.node == node
        is_constant = self.shallow is not None and self.shallow.get(class_) == node
        if not (is_chosen or is_constant) or class_ in self.value_of:
            return self.graph.new_value("unused", type_)
        names = self.names.get(class_, [])
        application = self.egraph.made_by.get(node)
        if names:
            value = names[0]
            if type_ is not None:
                self.graph.types[value] = type_
        else:
            value = self.graph.new_value(f"{application.rule if application else 'made'}/y", type_)
        self.value_of[class_] = value
        return value


def _shallowest(egraph: EGraph) -> dict[int, int]:
    """Known class -> the e-node that computes it from constants in the fewest steps.

    Where none can be computed in advance (the runtime takes no tensor of 4 bits), one that runs
    with the model.
    """
    columns = egraph.columns
    depth = {egraph.find(value): 0 for value in egraph.constants}
    best: dict[int, int] = {}
    givers = {c: nodes for c, nodes in givers_of(egraph).items() if egraph.is_known(c)}
    changed = True
    while changed:
        changed = False
        for class_, nodes in givers.items():
            for node in [node for node in nodes if egraph.foldable[node]] or nodes:
                operands = [value for value in columns.operands(node) if value != NONE]
                if not all(value in depth for value in operands):
                    continue
                steps = 1 + max((depth[value] for value in operands), default=0)
                if class_ not in depth or steps < depth[class_]:
                    depth[class_], best[class_] = steps, node
                    changed = True
    return best
