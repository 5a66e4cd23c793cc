"""Convolutions of constant weights on blocked values, with what they end in."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from ...egraph.congruence import NONE
from ..blocking import Blocking, Operation
from ..filters import DENSE, OUTER
from ..layout import Layout
from ..runtime import NCHWC
from . import transposed_convolutions as transposed
from .convolution_epilogues import FREE_ACTIVATIONS, Convolution

# Rules, by how filters are laid out: over blocks of both, of outputs alone, of a channel each, and
# of groups; and of a normalization, which is a convolution of one weight a channel.
CONVOLVE, CONVOLVE_FEW = "ConvertConvToBlocks", "ConvertConvOfFewChannelsToBlocks"
CONVOLVE_EACH, CONVOLVE_GROUPS = "ConvertDepthwiseConvToBlocks", "ConvertGroupedConvToBlocks"
NORMALIZE = "ConvertBatchNormalizationToBlocks"
# But for few channels, which take no image in blocks.
WAYS = {"dense": CONVOLVE, "each": CONVOLVE_EACH, "groups": CONVOLVE_GROUPS}
CONVOLUTIONS = frozenset((CONVOLVE, CONVOLVE_FEW, CONVOLVE_EACH, CONVOLVE_GROUPS, NORMALIZE))


@dataclass
class Convolving:
    """Makes the blocked forms of convolutions."""

    blocking: Blocking
    # class -> layouts that its readers can take apart, beside its own
    wanted: dict[int, list[Layout]] = field(default_factory=dict)
    # what a convolution costs by, its image and the shape of its weights among it -> the first one
    # that ends in the least
    _plainest: dict[tuple[object, ...], int] = field(default_factory=dict)

    def convolve(self, output: int, form: Convolution, ways: Collection[str]) -> None:
        """Give a class that is a convolution in each layout that it can be computed in.

        `ways` are those to lay its filters out: over blocks of both ("dense"), of outputs alone
        ("few"), of a channel each ("each"), and of groups ("groups").
        """
        blocking, values = self.blocking, self.blocking.values
        type_ = blocking.egraph.type(form.weights)
        assert type_ is not None and type_.shape is not None
        weights = tuple(int(size) for size in type_.shape)
        layouts = [Layout((weights[0],), values.block)]
        if weights[1] == self._channels(form):
            layouts += self.wanted.get(blocking.egraph.find(output), [])
        for outputs in layouts:
            if "few" in ways and blocking.is_new(form.nodes, form.activation, outputs, "x"):
                shape = (outputs.width, *weights[1:])
                laid = values.constant(OUTER, form.weights, shape, {"outputs": outputs.parts})
                self._convolved(output, form, outputs, form.image, laid, 1, CONVOLVE_FEW)
            for way in WAYS:
                if way in ways:
                    self._convolve(output, form, way, weights, outputs)

    def _channels(self, form: Convolution) -> int:
        image = self.blocking.values.image(form.image)
        assert image is not None
        return int(image[1][1])

    def _convolve(
        self,
        output: int,
        form: Convolution,
        way: str,
        weights: tuple[int, ...],
        outputs: Layout,
    ) -> None:
        blocking, values = self.blocking, self.blocking.values
        for layout in values.layouts(form.image):
            if way == "groups" and not layout.is_full:
                blocking.refuse(form.nodes[0], "its groups would begin within a block")
                continue
            result_layout = layout if way == "each" else outputs
            if form.summand != NONE and result_layout not in values.layouts(form.summand):
                continue
            if not blocking.is_new(form.nodes, form.activation, layout, outputs):
                continue
            rule, count = WAYS[way], 1
            if way == "each":
                shape = (layout.width, 1, *weights[2:])
                laid = values.constant(OUTER, form.weights, shape, {"outputs": layout.parts})
                count = layout.width
                if blocking.operation(form.nodes[0]).name == "BatchNormalization":
                    rule = NORMALIZE
            else:
                inputs = layout
                if way == "groups":
                    inputs = Layout((weights[1],), values.block)
                    count = self._channels(form) // weights[1]
                attributes = {"outputs": outputs.parts, "inputs": inputs.parts}
                shape = (outputs.width, inputs.width, *weights[2:])
                laid = values.constant(DENSE, form.weights, shape, attributes)
            image = values.value(form.image, layout)
            self._convolved(output, form, result_layout, image, laid, count, rule)

    def _convolved(
        self,
        output: int,
        form: Convolution,
        layout: Layout,
        image: int,
        laid: int,
        groups: int,
        rule: str,
    ) -> None:
        blocking, values = self.blocking, self.blocking.values
        attributes = {**form.attributes, "group": groups}
        if form.activation:
            attributes["activation"] = form.activation
            if form.parameters:
                attributes["activation_params"] = list(form.parameters)
        operands = [image, laid]
        if form.bias != NONE:
            operands.append(values.vector(form.bias, layout, (layout.width,)))
        if form.summand != NONE:
            if layout not in values.layouts(form.summand):
                return
            operands += [NONE] * (3 - len(operands)) + [values.value(form.summand, layout)]
        class_ = values.give(output, layout, NCHWC, "Conv", attributes, operands, rule, form.nodes)
        size = blocking.egraph.type(laid)
        timed_attributes = {n: v for n, v in form.attributes.items() if _tells_time(n, v)}
        key = (image, size and size.shape, groups, *sorted(timed_attributes.items(), key=str))
        plainest = self._plainest.setdefault(key, class_)
        if plainest == class_:
            blocking.likes[class_] = form.nodes[0]
        elif form.activation in FREE_ACTIVATIONS:
            blocking.same[class_] = plainest
        else:
            blocking.likes[class_] = plainest
        if len(form.nodes) == 1 and blocking.operation(form.nodes[0]).name == "Conv":
            blocking.twins.setdefault(form.nodes[0], class_)


def _tells_time(name: str, value: object) -> bool:
    """Whether an attribute is none that is meant without it; weights tell kernel and groups."""
    defaults: dict[str, tuple[object, ...]] = {
        "dilations": ((1, 1),),
        "pads": ((0, 0, 0, 0),),
        "strides": ((1, 1),),
        "auto_pad": ("NOTSET",),
    }
    return name not in ("group", "kernel_shape") and value not in defaults.get(name, ())


def tile(blocking: Blocking, operation: Operation) -> None:
    """Compute a transposed convolution whose windows don't overlap as one of tiles."""
    values, operands = blocking.values, operation.operands
    for layout in values.layouts(operands[0]):
        if blocking.is_new(operation.node, layout):
            transposed.convert(values, operation.node, operation.output, operands, layout)
