"""Channels joined and taken apart in blocks, and activations taken before they are joined."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ....rules import Rule
from ....rules.compiler.bindings import Bindings
from ...egraph.saturation.application import apply_matches
from ...egraph.saturation.e_matching import EMatcher
from ...egraph.saturation.egraph_view import View
from ...graph.graph import constant_of
from ..blocking import Blocking, Operation
from ..layout import Layout

JOIN, SPLIT = "JoinBlocks", "SplitBlocks"
# Rules of rules/activation.rules.
PUSH = ("PushActivationThroughConcat", "PushClipThroughConcat")
# The opset from which Split takes the sizes of its parts as an operand.
_SIZES_READ = 13


def join(blocking: Blocking, operation: Operation) -> None:
    """Join channels: each part with a block of its own."""
    values, operands = blocking.values, operation.operands
    for way in values.ways(operands):
        if blocking.is_new(operation.node, way):
            layout = Layout.of(
                [p for layout_of_input in way for p in layout_of_input.parts], values.block
            )
            reads = [
                values.value(c, operand_layout)
                for c, operand_layout in zip(operands, way, strict=True)
            ]
            description = (operation.output, layout, "", "Concat", {"axis": 1}, reads)
            values.give(*description, JOIN, (operation.node,))


def split(blocking: Blocking, operation: Operation) -> None:
    """Take channels apart where each part begins with a block."""
    values, image = blocking.values, operation.operands[0]
    sizes = parts_of(blocking, operation)
    cuts = [(layout, layout.cut(sizes)) for layout in values.layouts(image)]
    if not any(parts for _, parts in cuts):
        blocking.refuse(operation.node, "in no layout does each part begin with a block")
    for layout, parts in cuts:
        if parts is None or not blocking.is_new(operation.node, layout):
            continue
        attributes: dict[str, object] = {"axis": 1}
        reads = [values.value(image, layout)]
        widths = tuple(part.width for part in parts)
        if blocking.egraph.inference.opset("") >= _SIZES_READ:
            constant = constant_of(np.array(widths))
            reads.append(blocking.egraph.leaf(constant, ("shape", widths)))
        else:
            attributes["split"] = list(widths)
        description = (operation.outputs, parts, "Split", attributes, reads)
        values.give_parts(*description, SPLIT, operation.node)


def parts_of(blocking: Blocking, operation: Operation) -> list[int]:
    """The channels of each result of a Split into images."""
    images = [blocking.values.image(value) for value in operation.outputs]
    return [int(image[1][1]) for image in images if image is not None]


def split_layouts(blocking: Blocking, splits: Iterable[Operation]) -> Mapping[int, list[Layout]]:
    """Class -> layouts in which it can be split as it is, where its channels alone would not do."""
    layouts_of: dict[int, list[Layout]] = {}
    block = blocking.values.block
    for operation in splits:
        sizes = parts_of(blocking, operation)
        if Layout((sum(sizes),), block).cut(sizes) is None:
            layouts = layouts_of.setdefault(operation.operands[0], [])
            layout = Layout.of(sizes, block)
            if layout not in layouts:
                layouts.append(layout)
    return layouts_of


def push(blocking: Blocking, rules: Sequence[Rule]) -> list[int]:
    """Take activations of joined values before they are joined; the e-nodes made.

    What is joined may end in them at no cost, as a convolution does.
    """
    values, egraph = blocking.values, blocking.egraph
    matcher = EMatcher(egraph, [rule for rule in rules if rule.name in PUSH])
    view = View(egraph)
    matches = [
        match
        for match in matcher.find(0)
        if all(values.image(value) for value in Bindings(match, view).lists["A"])
    ]
    applied = apply_matches(egraph, matches)
    values.applications += applied
    values.unite_pairs()
    return list(dict.fromkeys(node for application in applied for node in application.target_nodes))
