"""Blocked values in an e-graph: classes of their own, and the enforcers that lead there and back.

Layout is a physical property of a value (Graefe and McKenna, The Volcano optimizer generator, ICDE
1993): each class of images may have, for each layout, a class of what lies in it. ReorderInput and
ReorderOutput lead from one to the other. Values with equal channels are equal here, whatever fills
up their blocks: nothing reads that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import islice, product
from typing import Any

import numpy as np
from onnx import helper

from ...rules import load_rules, promise, select_rules
from ...rules.gate.ledger.admission import applicable
from ..egraph.congruence import NONE, Row
from ..egraph.egraph import UNTYPED, EGraph
from ..egraph.interning import Attributes
from ..egraph.provenance import Application
from ..graph.graph import Shape, TensorType
from .filters import FILTERS, VECTOR
from .layout import Layout
from .runtime import NCHWC

# Rules of rules/blocked.rules, and what is one by definition.
ENTER, LEAVE, FILTER = "ReorderIntoBlocks", "ReorderOutOfBlocks", "compute filters"
ENTER_LAST, LEAVE_LAST = "ReorderChannelsLastIntoBlocks", "ReorderBlocksIntoChannelsLast"
FAMILY = "blocked"
# Layouts of one class, and ways to choose operands' layouts.
MOST_LAYOUTS, MOST_WAYS = 3, 4

Types = tuple[TensorType, TensorType]  # as named, and with sizes bound


@cache
def licensed_rules(opset: int) -> frozenset[str]:
    """The names of the rules on blocks that are proved, and valid in an operator set of ONNX.

    By the shipped ledger: what no proof speaks of licenses no step.
    """
    stated = [rule for rule in applicable() if rule.family == FAMILY]
    allow = {promise(rule) for rule in stated}  # which of them a plan may break, others decide
    chosen = select_rules(stated, opset=opset, target="onnxruntime-cpu", allow=allow)
    return frozenset(rule.name for rule in chosen)


@cache
def summaries() -> Mapping[str, str]:
    """What each step of a plan does that concerns blocks, by the name of its rule."""
    return {rule.name: rule.summary for rule in load_rules() if rule.family == FAMILY}


class UnfitError(Exception):
    """An operator that doesn't take operands in the layouts that it was to have, or may not."""


@dataclass
class BlockedValues:
    """The blocked classes of an e-graph, and what leads into them and out."""

    egraph: EGraph
    block: int
    # class -> its layouts, each with the class of what lies in it
    blocked: dict[int, dict[Layout, int]] = field(default_factory=dict)
    applications: list[Application] = field(default_factory=list)
    # classes that may be entered
    may_enter: set[int] = field(default_factory=set)
    # class -> the e-nodes that lead into its plain layout and out of it
    entering: dict[int, int] = field(default_factory=dict)
    leave_nodes: dict[int, int] = field(default_factory=dict)
    _nodes_by_row: dict[Row, int] = field(default_factory=dict)
    _pairs: list[tuple[int, int]] = field(default_factory=list)

    # ------------------------------------------------------------------------------- licences

    def licensed(self) -> frozenset[str]:
        """The names of the rules that license steps here."""
        return licensed_rules(self.egraph.inference.opset(""))

    def _require(self, rule: str) -> None:
        if rule not in self.licensed():
            raise UnfitError(f"{rule} is not proved, or not valid in its operator set")

    # -------------------------------------------------------------------------------- reading

    def image(self, class_: int) -> tuple[TensorType, Shape] | None:
        """The type of a class of images of float32 whose channels are known, and its shape."""
        if class_ == NONE or self.egraph.is_known(class_):
            return None
        type_ = self.egraph.type(class_)
        if type_ is None or type_.shape is None or len(type_.shape) != 4:
            return None
        if self.egraph.sized[self.egraph.find(class_)] == UNTYPED:
            return None
        if type_.dtype != "float32" or not isinstance(type_.shape[1], int):
            return None
        return type_, type_.shape

    def layouts(self, class_: int) -> list[Layout]:
        """The layouts that a class can be had in; one is entered if need be."""
        class_ = self.egraph.find(class_)
        image = self.image(class_)
        if image is None:
            return []
        channels = int(image[1][1])
        plain = Layout((channels,), self.block)
        if class_ not in self.entering and class_ in self.may_enter:
            node = self.give(class_, plain, NCHWC, "ReorderInput", {}, (class_,), ENTER, ())
            self.entering[class_] = node
        return list(self.blocked.get(class_, {}))[:MOST_LAYOUTS]

    def value(self, class_: int, layout: Layout) -> int:
        """The class of what lies in a layout."""
        return self.egraph.find(self.blocked[self.egraph.find(class_)][layout])

    def ways(self, classes: Sequence[int]) -> list[tuple[Layout, ...]]:
        """Choices of a layout for each of some classes."""
        return list(islice(product(*(self.layouts(c) for c in classes)), MOST_WAYS))

    def every(self) -> Iterator[tuple[int, Layout, int]]:
        """Each class with each of its layouts, and the class of what lies in it."""
        for class_, layouts in self.blocked.items():
            for layout, value in layouts.items():
                yield class_, layout, self.egraph.find(value)

    # --------------------------------------------------------------------------------- making

    def node(
        self,
        domain: str,
        op_type: str,
        attributes: Mapping[str, Any],
        operands: Sequence[int],
        types: Types | None,
    ) -> int:
        """An e-node of one output, of the given type: as named and with sizes bound."""
        return self._node(domain, op_type, attributes, operands, [types])

    def _node(
        self,
        domain: str,
        op_type: str,
        attributes: Mapping[str, Any],
        operands: Sequence[int],
        types: Sequence[Types | None],
    ) -> int:
        """An e-node of so many outputs."""
        vocabulary = self.egraph.vocabulary
        protos = {name: helper.make_attribute(name, value) for name, value in attributes.items()}
        row = (
            vocabulary.operator(domain, op_type),
            vocabulary.attribute(Attributes(protos, (True,) * len(types))),
            tuple(self.egraph.find(value) for value in operands),
        )
        # Each pass asks for the same ones: what is alive still is what there is for its operands.
        node = self._nodes_by_row.get(row)
        if node is None or not self.egraph.columns.is_alive(node):
            (node,) = self.egraph.intern([row])
            if node is None:
                raise UnfitError(f"{op_type} doesn't take these operands")
            self._nodes_by_row[row] = node
        outputs = self.egraph.columns.outputs(node)
        for output, output_types in zip(outputs, types, strict=True):
            if output_types is not None and not self._has_shape(output):
                self.egraph.types[output] = vocabulary.type(output_types[0])
                self.egraph.sized[output] = vocabulary.type(output_types[1])
        return node

    def _has_shape(self, class_: int) -> bool:
        """Whether a shape was inferred: of operators in blocks only the type is."""
        number = self.egraph.types[class_]
        return number != UNTYPED and self.egraph.vocabulary.types[number].shape is not None

    def types(self, class_: int, width: int) -> Types:
        """The types of a class with another number of channels."""
        types = []
        for numbers in (self.egraph.types, self.egraph.sized):
            type_ = self.egraph.vocabulary.types[numbers[class_]]
            assert type_.shape is not None
            types.append(replace(type_, shape=(type_.shape[0], width, *type_.shape[2:])))
        return types[0], types[1]

    def give(
        self,
        class_: int,
        layout: Layout,
        domain: str,
        op_type: str,
        attributes: Mapping[str, Any],
        operands: Sequence[int],
        rule: str,
        sources: tuple[int, ...],
    ) -> int:
        """State that an e-node gives a class in a layout; a plain one can be left.

        Raises UnfitError where the rule licenses no step.
        """
        self._require(rule)
        class_ = self.egraph.find(class_)
        types = self.types(class_, layout.width)
        node = self.node(domain, op_type, attributes, operands, types)
        (output,) = self.egraph.columns.outputs(node)
        self.note(rule, sources, [node], [(class_, output)])
        self._record_blocked(class_, layout, output, is_left=rule not in (ENTER, ENTER_LAST))
        return node

    def give_parts(
        self,
        classes: Sequence[int],
        layouts: Sequence[Layout],
        op_type: str,
        attributes: Mapping[str, Any],
        operands: Sequence[int],
        rule: str,
        source: int,
    ) -> int:
        """State that an e-node of ONNX gives several classes, each in a layout.

        Raises UnfitError where the rule licenses no step.
        """
        self._require(rule)
        classes = [self.egraph.find(class_) for class_ in classes]
        pairs = list(zip(classes, layouts, strict=True))
        types = [self.types(class_, layout.width) for class_, layout in pairs]
        node = self._node("", op_type, attributes, operands, types)
        outputs = self.egraph.columns.outputs(node)
        self.note(rule, (source,), [node], list(zip(classes, outputs, strict=True)))
        for (class_, layout), output in zip(pairs, outputs, strict=True):
            self._record_blocked(class_, layout, output, is_left=True)
        return node

    def _record_blocked(self, class_: int, layout: Layout, output: int, *, is_left: bool) -> None:
        outputs_by_layout = self.blocked.setdefault(class_, {})
        if layout in outputs_by_layout:
            self._pairs.append((outputs_by_layout[layout], output))
        else:
            outputs_by_layout[layout] = output
        is_left = is_left and LEAVE in self.licensed()
        if is_left and layout.is_plain and class_ not in self.leave_nodes:
            type_pair = self.types(class_, layout.channels)
            self.leave_nodes[class_] = self.leave(class_, output, layout, type_pair)

    def leave(
        self,
        class_: int,
        output: int,
        layout: Layout,
        types: Types,
        last: bool = False,
    ) -> int:
        """State that a blocked class, read by ReorderOutput, gives a class; the e-node.

        Raises UnfitError where the rule licenses no step.
        """
        self._require(LEAVE_LAST if last else LEAVE)
        attributes = {"channels": layout.channels, **({"channels_last": 1} if last else {})}
        node = self.node(NCHWC, "ReorderOutput", attributes, (output,), types)
        (value,) = self.egraph.columns.outputs(node)
        self._pairs.append((class_, value))
        self.note(LEAVE_LAST if last else LEAVE, (), [node], [(class_, value)])
        return node

    def note(
        self,
        rule: str,
        sources: tuple[int, ...],
        target_nodes: list[int],
        united: list[tuple[int, int]],
    ) -> None:
        """Record what was made, and that it is what something else is."""
        application = Application(
            rule,
            sources,
            target_nodes=target_nodes,
            united=united,
            equal="rounding",
            summary=summaries().get(rule, ""),
            always=True,
        )
        self.applications.append(application)
        for node in target_nodes:
            if node not in self.egraph.origin:
                self.egraph.made_by.setdefault(node, application)

    def unite(self, pairs: list[tuple[int, int]]) -> None:
        """State that classes are one, from the next `unite_pairs` on."""
        self._pairs += pairs

    def unite_pairs(self) -> None:
        """Let what is one class be one; constants in new orders are known."""
        pairs = np.array(self._pairs, np.int64).reshape(-1, 2)
        self._pairs = []
        self.egraph.unite(pairs[:, 0], pairs[:, 1])
        find = self.egraph.find
        merged: dict[int, dict[Layout, int]] = {}
        for class_, layouts in self.blocked.items():
            united = merged.setdefault(find(class_), {})
            for layout, value in layouts.items():
                united.setdefault(layout, find(value))
        self.blocked = merged
        self.may_enter = {find(c) for c in self.may_enter}
        self.entering = {find(c): node for c, node in self.entering.items()}
        self.leave_nodes = {find(c): node for c, node in self.leave_nodes.items()}

    def constant(self, kind: str, source: int, shape: Shape, attributes: Mapping[str, Any]) -> int:
        """The class of a constant that is computed from another one when the plan is written."""
        type_ = TensorType("float32", shape)
        all_attributes = {"block": self.block, **attributes}
        node = self.node(FILTERS, kind, all_attributes, (source,), (type_, type_))
        (output,) = self.egraph.columns.outputs(node)
        self.egraph.declare_known(node)
        self.egraph.made_by.setdefault(node, Application(FILTER, (), always=True))
        return output

    def vector(self, source: int, layout: Layout, shape: tuple[int, ...]) -> int:
        """The class of a constant for each channel, 0 where there is none."""
        attributes = {"outputs": layout.parts, "shape": shape}
        return self.constant(VECTOR, source, shape, attributes)
