"""Convolutions in an e-graph with what a blocked kernel does beside them: a sum, an activation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from ...egraph.congruence import NONE
from ...egraph.egraph import EGraph
from ..runtime import ACTIVATIONS, activations

# Parameters of activations that a node does not mention.
DEFAULTS = {
    "Clip": (-3.4028235e38, 3.4028235e38),
    "HardSigmoid": (0.2, 0.5),
    "LeakyRelu": (0.01,),
}
# Done on what is in the cache, in no time. What is added is read where the result will be written;
# a kernel that is timed alone must copy it first.
FREE_ACTIVATIONS = {"", "Clip", "HardSigmoid", "HardSwish", "LeakyRelu", "Relu"}
# Ways to compute one class that are kept.
MOST_FORMS = 4


@dataclass(frozen=True)
class Convolution:
    """A class as activation(Conv(image, weights, bias) + summand); classes by number, or NONE.

    `nodes` are the e-nodes that say so, the convolution first.
    """

    nodes: tuple[int, ...]
    image: int
    weights: int
    bias: int
    attributes: Mapping[str, object]
    summand: int = NONE
    activation: str = ""
    parameters: tuple[float, ...] = ()


@dataclass(frozen=True)
class Filters:
    """How the filters of a convolution are laid out, and how many groups it has then.

    `is_depthwise`: each channel has a filter of its own, so the layout of the image stays.
    """

    groups: int
    is_depthwise: bool = False


def convolutions(
    egraph: EGraph,
    nodes: Iterable[int],
    others: Mapping[int, Convolution] = MappingProxyType({}),
) -> dict[int, list[Convolution]]:
    """Find the classes that are convolutions of constant weights, in up to MOST_FORMS ways.

    `others` are e-nodes of other operators that are convolutions.
    """
    columns = egraph.columns
    operators = egraph.vocabulary.operators
    by_kind: dict[str, list[int]] = {}
    for node in nodes:
        name = operators[columns.operator(node)].name
        if name in ("Conv", "Add") or name in activations():
            kind = name if name in ("Conv", "Add") else "activation"
            by_kind.setdefault(kind, []).append(node)
    convolutions_of: dict[int, list[Convolution]] = {}
    for node in by_kind.get("Conv", ()):
        _note(egraph, convolutions_of, node, _plain(egraph, node))
    for node, form in others.items():
        _note(egraph, convolutions_of, node, form)
    for node in by_kind.get("Add", ()):
        for a, b in {columns.operands(node)[:2], columns.operands(node)[1::-1]}:
            if a == b or egraph.type(a) != egraph.type(b):
                continue
            for form in list(convolutions_of.get(a, ())):
                if form.summand == NONE:
                    summed = replace(form, nodes=(*form.nodes, node), summand=b)
                    _note(egraph, convolutions_of, node, summed)
    for node in by_kind.get("activation", ()):
        activated = _activation(egraph, node)
        if activated is None:
            continue
        for form in list(convolutions_of.get(columns.operands(node)[0], ())):
            if not form.activation:
                name, parameters = activated
                convolution = replace(
                    form, nodes=(*form.nodes, node), activation=name, parameters=parameters
                )
                _note(egraph, convolutions_of, node, convolution)
    return convolutions_of


def _note(
    egraph: EGraph, forms_of: dict[int, list[Convolution]], node: int, form: Convolution | None
) -> None:
    (output,) = egraph.columns.outputs(node)
    forms = forms_of.setdefault(output, [])
    if form is not None and len(forms) < MOST_FORMS:
        forms.append(form)


def _plain(egraph: EGraph, node: int) -> Convolution | None:
    image, weights, *rest = egraph.columns.operands(node)
    bias = rest[0] if rest else NONE
    type_ = egraph.type(weights)
    if not egraph.is_known(weights) or type_ is None or type_.shape is None:
        return None
    if len(type_.shape) != 4 or type_.dtype != "float32":
        return None
    if bias != NONE and not egraph.is_known(bias):
        return None
    attributes = egraph.vocabulary.attributes[egraph.columns.attribute(node)].values
    return Convolution((node,), image, weights, bias, attributes)


def _activation(egraph: EGraph, node: int) -> tuple[str, tuple[float, ...]] | None:
    """The activation that an e-node is, and its parameters; None where they aren't known."""
    columns = egraph.columns
    name = egraph.vocabulary.operators[columns.operator(node)].op_type
    attributes = egraph.vocabulary.attributes[columns.attribute(node)].values
    operands = columns.operands(node)
    bounds: list[float] = []
    pairs = zip(ACTIVATIONS[name], DEFAULTS.get(name, ()), strict=True)
    for position, (key, default) in enumerate(pairs, 1):
        if position < len(operands) and operands[position] != NONE:  # the bounds of Clip
            constant = egraph.constant(operands[position])
            if constant is None:
                return None
            bounds.append(float(constant.array().reshape(-1)[0]))
        elif name == "Clip" and key not in attributes:
            return None  # a kernel has both bounds, and an infinity would not pass
        else:
            bounds.append(float(attributes.get(key, default)))  # type: ignore[arg-type]
    return name, tuple(bounds)


def filters_of(weights: tuple[int, ...], groups: int, block: int) -> Filters | None:
    """Decide how filters [m, c, h, w] of `groups` groups can be laid out; None where they can't.

    Blocks that several groups share would need filters that are 0 on the channels of the others:
    an infinity there would give NaN, where the model gives numbers.
    """
    m, c = weights[:2]
    if groups == 1:
        return Filters(1)
    if c == 1 and m == groups:
        return Filters(groups, is_depthwise=True)
    if c % block or (m // groups) % block:
        return None
    return Filters(groups)


def is_blocked_by_runtime(weights: tuple[int, ...], groups: int, block: int) -> bool:
    """Whether ONNX Runtime's own optimizer would compute a convolution in the blocked layout."""
    m, c = weights[:2]
    if groups == 1:
        return c < block or c % 4 == 0
    if c == 1 and m == groups:
        return m % block == 0
    return c % block == 0 and (m // groups) % block == 0
