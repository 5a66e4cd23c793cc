"""Convolutions of constant weights on blocked values, with what they end in."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...egraph.congruence import NONE
from ..blocking import Blocking, Operation
from ..filters import DENSE, OUTER
from ..layout import Layout
from ..runtime import NCHWC
from . import transposed_convolutions as transposed
from .convolution_epilogues import FREE_ACTIVATIONS, Convolution, Filters, filters_of

# Rules, by how filters are laid out: over blocks of both, of outputs alone, of a channel each, and
# of groups; and of a normalization, which is a convolution of one weight a channel.
CONVOLVE, CONVOLVE_FEW = "ConvertConvToBlocks", "ConvertConvOfFewChannelsToBlocks"
CONVOLVE_EACH, CONVOLVE_GROUPS = "ConvertDepthwiseConvToBlocks", "ConvertGroupedConvToBlocks"
NORMALIZE = "ConvertBatchNormalizationToBlocks"
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

    def convolve(self, output: int, form: Convolution) -> None:
        """Give a class that is a convolution in each layout that it can be computed in."""
        blocking, values = self.blocking, self.blocking.values
        type_ = blocking.egraph.type(form.weights)
        image, result = values.image(form.image), values.image(output)
        assert type_ is not None and type_.shape is not None
        if image is None or result is None:
            blocking.refuse(form.nodes[0], "it doesn't read an image of float32, of known channels")
            return
        weights = tuple(int(size) for size in type_.shape)
        groups = int(form.attributes.get("group", 1))  # type: ignore[call-overload]
        filters = filters_of(weights, groups, values.block)
        if filters is None or weights[1] * groups != image[1][1]:
            reason = f"{groups} groups share blocks: one's infinities would meet another's channels"
            blocking.refuse(form.nodes[0], reason)
            return
        layouts = [Layout((weights[0],), values.block)]
        if groups == 1:
            layouts += self.wanted.get(blocking.egraph.find(output), [])
        for result_layout in layouts:
            self._convolve(output, form, filters, weights, groups, result_layout)

    def _convolve(
        self,
        output: int,
        form: Convolution,
        filters: Filters,
        weights: tuple[int, ...],
        groups: int,
        own: Layout,
    ) -> None:
        blocking, values = self.blocking, self.blocking.values
        channels = weights[1] * groups
        if (
            groups == 1
            and channels < values.block
            and form.summand == NONE  # no rule says that it adds within
            and blocking.is_new(form.nodes, form.activation, own, "x")
        ):
            shape = (own.width, channels, *weights[2:])
            laid = values.constant(OUTER, form.weights, shape, {"outputs": own.parts})
            self._convolved(output, form, own, form.image, laid, 1, CONVOLVE_FEW)
        layouts = values.layouts(form.image)
        if not layouts and channels >= values.block:
            blocking.refuse(form.nodes[0], "what it reads is in no layout of blocks")
        for layout in layouts:
            if not filters.is_depthwise and filters.groups > 1 and not layout.is_full:
                blocking.refuse(form.nodes[0], "its groups would begin within a block")
                continue
            result_layout = layout if filters.is_depthwise else own
            if form.summand != NONE and result_layout not in values.layouts(form.summand):
                continue
            if not blocking.is_new(form.nodes, form.activation, layout, own):
                continue
            if filters.is_depthwise:
                shape = (layout.width, 1, *weights[2:])
                laid = values.constant(OUTER, form.weights, shape, {"outputs": layout.parts})
                count = layout.width
                first = blocking.operation(form.nodes[0]).name
                rule = NORMALIZE if first == "BatchNormalization" else CONVOLVE_EACH
            else:
                inputs = layout
                if filters.groups > 1:
                    inputs = Layout((weights[1],), values.block)
                attributes = {"outputs": own.parts, "inputs": inputs.parts}
                shape = (own.width, inputs.width, *weights[2:])
                laid = values.constant(DENSE, form.weights, shape, attributes)
                count = filters.groups
                rule = CONVOLVE_GROUPS if count > 1 else CONVOLVE
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
        if reason := values.unlicensed(rule, *_ends(form)):
            blocking.refuse(form.nodes[-1], reason)
            return
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
        given = {n: v for n, v in form.attributes.items() if _tells_time(n, v)}
        key = (image, size and size.shape, groups, *sorted(given.items(), key=str))
        plainest = self._plainest.setdefault(key, class_)
        if plainest == class_:
            blocking.likes[class_] = form.nodes[0]
        elif form.activation in FREE_ACTIVATIONS:
            blocking.same[class_] = plainest
        else:
            blocking.likes[class_] = plainest
        if len(form.nodes) == 1 and blocking.operation(form.nodes[0]).name == "Conv":
            blocking.twins.setdefault(form.nodes[0], class_)


def _ends(form: Convolution) -> list[str]:
    """The rules by which a convolution ends in a sum and an activation."""
    sums = ["FuseAddIntoBlockedConv"] if form.summand != NONE else []
    return [*sums, f"Fuse{form.activation}IntoBlockedConv"] if form.activation else sums


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
    egraph, values = blocking.egraph, blocking.values
    operands = operation.operands
    weights, image = egraph.type(operands[1]), values.image(operands[0])
    if weights is None or weights.shape is None or image is None:
        blocking.refuse(operation.node, "it doesn't read an image of float32, of known channels")
        return
    sizes = [*weights.shape, *image[1][2:]]
    if len(weights.shape) != 4 or not all(isinstance(size, int) for size in sizes):
        blocking.refuse(operation.node, "its sizes are not known")
        return
    known = all(v == NONE or egraph.is_known(v) for v in operands[1:])
    given = [int(size) for size in weights.shape]
    if not known or not transposed.tiles(given, operation.attributes):
        blocking.refuse(operation.node, "its windows overlap, or its weights are computed")
        return
    for layout in values.layouts(operands[0]):
        if blocking.is_new(operation.node, layout):
            transposed.convert(values, operation.node, operation.output, operands, layout)
