"""What can be computed on blocked values: e-nodes from blocked class to blocked class.

A convolution or pool is one e-node more beside the model's own; what acts element by element does
so on blocked values alike. So where a plan enters the layout, what stays in it and where it leaves
is decided by extraction, together with everything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..egraph.columns import NONE
from ..egraph.egraph import UNTYPED, EGraph
from ..graph import constant_of
from . import transposed
from .convolutions import FREE_ACTIVATIONS, Convolution, convolutions, filters_of
from .filters import DENSE, OUTER
from .layout import Layout
from .runtime import ENTERING_CHANNELS, NCHWC
from .upsampling import upsampling
from .values import ENTER, BlockedValues, UnfitError

CONVOLVE, POOL = "ConvertConvToBlocks", "ConvertPoolToBlocks"
MAP, SCALE, JOIN = "ConvertElementwiseToBlocks", "ConvertScaleToBlocks", "JoinBlocks"
PUSH = "PushActivationThroughConcat"
POOLS = {"MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool"}
# Without one of these nothing is gained in blocks.
BLOCKED = {"Conv", "ConvTranspose", *POOLS}
# Element by element, and finite wherever their operands are: what fills up blocks stays harmless.
UNARY = {
    "Abs", "Celu", "Clip", "Elu", "Erf", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish",
    "Neg", "Relu", "Selu", "Sigmoid", "Softplus", "Softsign", "Swish", "Tanh", "ThresholdedRelu",
    "com.microsoft:Gelu", "com.microsoft:QuickGelu",
}  # fmt: skip
BINARY = {"Add", "Sub", "Mul", "Max", "Min", "Sum"}
SCALES = {"Mul", "Add"}
GATE = ("com.microsoft", "QuickGelu")
TO_LAST, TO_SECOND = (0, 2, 3, 1), (0, 3, 1, 2)
# Passes over the e-nodes, so that layouts of parts spread.
PASSES = 8


@dataclass
class Blocking:
    """Blocked classes and e-nodes of one e-graph; `grow` makes them all."""

    egraph: EGraph
    values: BlockedValues
    # e-node of a convolution or pool -> the blocked one that does the same and no more
    twins: dict[int, int] = field(default_factory=dict)
    # blocked convolution -> one that computes as much: without what it ends in, or the model's
    likes: dict[int, int] = field(default_factory=dict)
    # class -> what its Sigmoid is taken of
    _sigmoids: dict[int, int] = field(default_factory=dict)
    # blocked convolution -> the one without a sum and an activation that take no time of their own
    same: dict[int, int] = field(default_factory=dict)
    _plainest: dict[tuple[int, int], int] = field(default_factory=dict)
    _done: set[tuple[object, ...]] = field(default_factory=set)

    def grow(self) -> None:
        """Add everything that can be computed in blocks."""
        egraph = self.egraph
        operators = egraph.vocabulary.operators
        nodes = [
            int(node)
            for node in egraph.columns.living()
            if not operators[egraph.columns.operator(int(node))].is_virtual
        ]
        nodes += self._push(nodes)
        for node in nodes:
            if operators[egraph.columns.operator(node)].name == "Sigmoid":
                self._sigmoids[egraph.columns.outputs(node)[0]] = egraph.columns.operands(node)[0]
        forms = convolutions(egraph, nodes)
        names = {operators[egraph.columns.operator(node)].name for node in nodes}
        if not forms and not names & BLOCKED:
            return
        for _ in range(PASSES):
            before = len(self._done)
            for node in nodes:
                try:
                    self._convert(node, forms)
                except UnfitError:  # it stays as it is
                    continue
            self.values.settle()
            if len(self._done) == before:
                return

    def _push(self, nodes: Sequence[int]) -> list[int]:
        """Activations of joined values, taken before they are joined; the e-nodes made.

        What is joined may end in them at no cost, as a convolution does.
        """
        columns, vocabulary = self.egraph.columns, self.egraph.vocabulary
        named = [(node, vocabulary.operators[columns.operator(node)].name) for node in nodes]
        joins = {columns.outputs(node)[0]: node for node, name in named if name == "Concat"}
        made: list[int] = []
        for node, name in named:
            if name not in FREE_ACTIVATIONS or columns.operands(node)[0] not in joins:
                continue
            joined, *rest = columns.operands(node)
            join, output = joins[joined], columns.outputs(node)[0]
            if not all(self.values.image(value) for value in columns.operands(join)):
                continue
            own = vocabulary.attributes[columns.attribute(node)].values
            parts = [
                self.values.node("", name, own, (value, *rest), None)
                for value in columns.operands(join)
            ]
            values = [columns.outputs(part)[0] for part in parts]
            together = vocabulary.attributes[columns.attribute(join)].values
            whole = self.values.node("", "Concat", together, values, None)
            united = [(output, columns.outputs(whole)[0])]
            self.values.note(PUSH, (join, node), [*parts, whole], united)
            self.values.unite(united)
            made += [*parts, whole]
        self.values.settle()
        return list(dict.fromkeys(made))

    def _is_new(self, *key: object) -> bool:
        if key in self._done:
            return False
        self._done.add(key)
        return True

    # ------------------------------------------------------------------------------ operators

    def _convert(self, node: int, forms: Mapping[int, Sequence[Convolution]]) -> None:
        egraph, columns = self.egraph, self.egraph.columns
        outputs = [value for value in columns.outputs(node) if value != NONE]
        if len(outputs) != 1:
            return
        (output,) = outputs
        name = egraph.vocabulary.operators[columns.operator(node)].name
        attributes = egraph.vocabulary.attributes[columns.attribute(node)].values
        operands = columns.operands(node)
        if name == "Transpose":
            self._transpose(node, output, operands[0], attributes)
            return
        if self.values.image(output) is None:
            return
        for form in forms.get(output, ()):
            if form.nodes[-1] == node:
                self._convolve(output, form)
        if name in POOLS:
            self._pool(node, output, operands[0], name, attributes)
        elif name == "ReduceMean" and self._is_of_image(operands, attributes):
            self._pool(node, output, operands[0], "GlobalAveragePool", {})
        elif name == "Resize":
            images = self.values.image(operands[0]), self.values.image(output)
            if images[0] is not None and images[1] is not None:
                shapes = images[0][1], images[1][1]
                own = upsampling(self.egraph, operands, attributes, *shapes)
                if own is not None:
                    self._pool(node, output, operands[0], "Upsample", own)
        elif name == "ConvTranspose":
            self._tile(node, output, attributes, operands)
        elif name == "Concat" and attributes.get("axis") in (1, -3):
            self._join(node, output, operands)
        elif name in UNARY or name in BINARY:
            self._map(node, output, name, attributes, operands)

    def _convolve(self, output: int, form: Convolution) -> None:
        type_ = self.egraph.type(form.weights)
        image = self.values.image(form.image)
        result = self.values.image(output)
        assert type_ is not None and type_.shape is not None
        if image is None or result is None:
            return
        weights = tuple(int(size) for size in type_.shape)
        groups = int(form.attributes.get("group", 1))  # type: ignore[call-overload]
        filters = filters_of(weights, groups, self.values.block)
        if filters is None or weights[1] * groups != image[1][1]:
            return
        channels = weights[1] * groups
        own = Layout((weights[0],), self.values.block)
        if (
            groups == 1
            and channels < self.values.block
            and self._is_new(form.nodes, form.activation, "x")
        ):
            shape = (own.width, channels, *weights[2:])
            laid = self.values.constant(OUTER, form.weights, shape, {"outputs": own.parts})
            self._convolved(output, form, own, form.image, laid, 1)
        for layout in self.values.layouts(form.image):
            if not filters.is_depthwise and filters.groups > 1 and not layout.is_full:
                continue
            result_layout = layout if filters.is_depthwise else own
            if form.summand != NONE and result_layout not in self.values.layouts(form.summand):
                continue
            if not self._is_new(form.nodes, form.activation, layout):
                continue
            if filters.is_depthwise:
                shape = (layout.width, 1, *weights[2:])
                laid = self.values.constant(OUTER, form.weights, shape, {"outputs": layout.parts})
                count = layout.width
            else:
                inputs = layout
                if filters.groups > 1:
                    inputs = Layout((weights[1] * filters.merged,), self.values.block)
                attributes = {
                    "outputs": own.parts,
                    "inputs": inputs.parts,
                    "groups": groups,
                    "merged": filters.merged,
                }
                shape = (own.width, inputs.width, *weights[2:])
                laid = self.values.constant(DENSE, form.weights, shape, attributes)
                count = filters.groups
            image_ = self.values.value(form.image, layout)
            self._convolved(output, form, result_layout, image_, laid, count, filters.merged)

    def _convolved(
        self,
        output: int,
        form: Convolution,
        layout: Layout,
        image: int,
        laid: int,
        groups: int,
        merged: int = 1,
    ) -> None:
        attributes = {**form.attributes, "group": groups}
        if form.activation:
            attributes["activation"] = form.activation
            if form.parameters:
                attributes["activation_params"] = list(form.parameters)
        operands = [image, laid]
        if form.bias != NONE:
            operands.append(self.values.vector(form.bias, layout, (layout.width,)))
        if form.summand != NONE:
            if layout not in self.values.layouts(form.summand):
                return
            operands += [NONE] * (3 - len(operands)) + [self.values.value(form.summand, layout)]
        made = self.values.give(
            output, layout, NCHWC, "Conv", attributes, operands, CONVOLVE, form.nodes
        )
        plainest = self._plainest.setdefault((image, laid), made)
        if plainest == made:
            if merged == 1:
                self.likes[made] = form.nodes[0]
        elif form.activation in FREE_ACTIVATIONS:
            self.same[made] = plainest
        else:
            self.likes[made] = plainest
        if len(form.nodes) == 1:
            self.twins.setdefault(form.nodes[0], made)

    def _pool(
        self, node: int, output: int, image: int, name: str, attributes: Mapping[str, Any]
    ) -> None:
        """Windows over an image: a kernel of blocks that takes any layout and leaves it."""
        for layout in self.values.layouts(image):
            if self._is_new(node, layout):
                value = self.values.value(image, layout)
                given = (output, layout, NCHWC, name, attributes, (value,))
                made = self.values.give(*given, POOL, (node,))
                self.twins.setdefault(node, made)

    def _is_of_image(self, operands: Sequence[int], attributes: Mapping[str, Any]) -> bool:
        """Whether a reduction is over height and width, and keeps them as one."""
        axes = attributes.get("axes")
        if len(operands) > 1 and operands[1] != NONE:
            constant = self.egraph.constant(operands[1])
            axes = None if constant is None else constant.array().reshape(-1).tolist()
        kept = attributes.get("keepdims", 1) == 1
        return kept and axes is not None and sorted(axis % 4 for axis in axes) == [2, 3]

    def _tile(
        self, node: int, output: int, attributes: Mapping[str, object], operands: Sequence[int]
    ) -> None:
        weights, image = self.egraph.type(operands[1]), self.values.image(operands[0])
        if weights is None or weights.shape is None or image is None:
            return
        sizes = [*weights.shape, *image[1][2:]]
        if len(weights.shape) != 4 or not all(isinstance(size, int) for size in sizes):
            return
        known = all(v == NONE or self.egraph.is_known(v) for v in operands[1:])
        if known and transposed.tiles([int(size) for size in weights.shape], attributes):
            for layout in self.values.layouts(operands[0]):
                if self._is_new(node, layout):
                    transposed.convert(self.values, node, output, operands, layout)

    def _join(self, node: int, output: int, operands: Sequence[int]) -> None:
        for way in self.values.ways(operands):
            if self._is_new(node, way):
                layout = Layout.of([p for one in way for p in one.parts], self.values.block)
                values = [self.values.value(c, own) for c, own in zip(operands, way, strict=True)]
                self.values.give(output, layout, "", "Concat", {"axis": 1}, values, JOIN, (node,))

    def _map(
        self,
        node: int,
        output: int,
        name: str,
        attributes: Mapping[str, Any],
        operands: Sequence[int],
    ) -> None:
        """Element by element: numbers stay, all images lie in one layout."""
        shape = self.values.image(output)
        assert shape is not None
        images, others = [], []
        for value in operands:
            image = self.values.image(value)
            if image is not None and image[1] == shape[1]:
                images.append(value)
            elif value != NONE and not self._is_number(value):
                others.append(value)
        if not images:
            return
        if others:
            if name in SCALES and len(operands) == 2:
                self._scale(node, output, name, images[0], others[0])
            return
        domain, _, op_type = name.rpartition(":")
        gated = self._gated(operands) if name == "Mul" else NONE
        for layout in self.values.layouts(images[0]):
            if all(layout in self.values.layouts(value) for value in images) and self._is_new(
                node, layout
            ):
                values = [self.values.value(v, layout) if v in images else v for v in operands]
                self.values.give(output, layout, domain, op_type, attributes, values, MAP, (node,))
                if gated != NONE:  # the runtime will fuse the two: what they cost is what it costs
                    own = {"alpha": 1.0}
                    value = self.values.value(gated, layout)
                    self.values.give(output, layout, *GATE, own, (value,), MAP, (node,))

    def _gated(self, operands: Sequence[int]) -> int:
        """The class x of x * Sigmoid(x); NONE where it isn't one."""
        if len(operands) == 2:
            for x, factor in (operands, operands[::-1]):
                if self._sigmoids.get(factor) == x:
                    return x
        return NONE

    def _is_number(self, value: int) -> bool:
        type_ = self.egraph.type(value)
        return (
            self.egraph.is_known(value)
            and type_ is not None
            and type_.shape is not None
            and len(type_.shape) <= 4
            and all(size == 1 for size in type_.shape)
        )

    def _scale(self, node: int, output: int, name: str, image: int, factor: int) -> None:
        """A factor or summand for each channel: a convolution of one weight a channel."""
        found = self.values.image(image)
        type_ = self.egraph.type(factor)
        if found is None or type_ is None or type_.shape is None or type_.dtype != "float32":
            return
        channels = int(found[1][1])
        one_each = type_.shape[-3:] == (channels, 1, 1)
        for layout in self.values.layouts(image):
            values = (layout.width, 1, 1, 1)
            bias: tuple[int, ...] = ()
            if self.egraph.is_known(factor):
                if not one_each or type_.shape[:-3] not in ((), (1,)):
                    return
                weights = self.values.vector(factor, layout, values)
                if name == "Add":
                    bias = (self.values.vector(factor, layout, (layout.width,)),)
                    ones = constant_of(np.ones(values, np.float32))
                    weights = self.egraph.leaf(ones, ("ones", layout.width))
            elif name == "Mul" and type_.shape == (1, channels, 1, 1) and found[1][0] == 1:
                if layout not in self.values.layouts(factor):
                    continue
                target = self.egraph.leaf(constant_of(np.array(values)), ("shape", values))
                reshaped = self.values.node(
                    "", "Reshape", {}, (self.values.value(factor, layout), target), None
                )
                self.values.note(SCALE, (node,), [reshaped], [])
                (weights,) = self.egraph.columns.outputs(reshaped)
            else:
                return
            if self._is_new(node, layout):
                attributes = {"group": layout.width, "kernel_shape": [1, 1]}
                operands = (self.values.value(image, layout), weights, *bias)
                self.values.give(
                    output, layout, NCHWC, "Conv", attributes, operands, SCALE, (node,)
                )

    def _transpose(
        self, node: int, output: int, operand: int, attributes: Mapping[str, object]
    ) -> None:
        """Between blocks and channels that come last, one operator leads both ways."""
        perm: object = attributes.get("perm")
        find = self.egraph.find
        if perm == TO_LAST and find(operand) in self.values.blocked:
            image = self.values.image(operand)
            numbers = (self.egraph.types[find(output)], self.egraph.sized[find(output)])
            if image is None or UNTYPED in numbers:
                return
            layout = Layout((int(image[1][1]),), self.values.block)
            if layout in self.values.blocked[find(operand)] and self._is_new(node):
                first, second = (self.egraph.vocabulary.types[number] for number in numbers)
                value = self.values.value(operand, layout)
                self.values.leave(find(output), value, layout, (first, second), last=True)
        elif perm == TO_SECOND and (image := self.values.image(output)) is not None:
            channels = int(image[1][1])
            if channels % ENTERING_CHANNELS == 0 and self._is_new(node):
                layout = Layout((channels,), self.values.block)
                last = {"channels_last": 1}
                self.values.give(
                    output, layout, NCHWC, "ReorderInput", last, (operand,), ENTER, (node,)
                )
