"""An e-graph as the facts that layouts.dl asks for: what runs with the model, and what is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..egraph.congruence import NONE
from ..egraph.egraph import UNTYPED
from .blocking import Blocking, Operation
from .operators.convolution_epilogues import Convolution, activation_of
from .operators.pools import enlarged, is_of_image
from .runtime import activations

Row = tuple[int | str, ...]
Facts = dict[str, list[Row]]
# The inputs of layouts.dl.
RELATIONS = (
    *("operation", "operand", "arity", "result", "attribute", "group", "filters", "image", "shape"),
    *("type", "sized", "typed", "known", "one_number", "enlarges", "averages", "normalizes"),
    *("activates", "block", "fills_blocks", "licensed"),
)
# Attributes that clauses ask for, by operator; what isn't given is empty, or what it is then.
ATTRIBUTES: Mapping[str, Mapping[str, str]] = {
    "Concat": {"axis": ""},
    "Split": {"axis": "0"},
    "Transpose": {"perm": ""},
    "ConvTranspose": {
        "auto_pad": "NOTSET",
        **dict.fromkeys(("strides", "kernel_shape", "dilations", "pads"), ""),
        **dict.fromkeys(("output_padding", "output_shape"), ""),
    },
}
# A number stands beside images of at most so many axes.
_AXES = 4


def layout_facts(
    blocking: Blocking, operations: Sequence[Operation], normalizations: Mapping[int, Convolution]
) -> Facts:
    """List the facts of some e-nodes, relation by relation.

    `normalizations` are those among them that are convolutions of one weight a channel.
    """
    values = blocking.values
    facts: Facts = {name: [] for name in RELATIONS}
    for operation in operations:
        _describe(blocking, operation, facts)
        if operation.node in normalizations:
            facts["normalizes"].append((operation.node, normalizations[operation.node].groups))
    classes = (
        c
        for operation in operations
        for c in (*operation.operands, *operation.outputs)
        if c != NONE
    )
    for class_ in dict.fromkeys(classes):
        _describe_class(blocking, class_, facts)
    most = max((int(m) for _, m, *_ in facts["filters"]), default=0)
    facts["block"] = [(values.block,)]
    facts["fills_blocks"] = [(k,) for k in range(values.block, most + 1, values.block)]
    facts["licensed"] = [(name,) for name in sorted(values.licensed())]
    return facts


def _describe(blocking: Blocking, operation: Operation, facts: Facts) -> None:
    """Add what an e-node is."""
    egraph, node, name = blocking.egraph, operation.node, operation.name
    facts["operation"].append((node, name))
    facts["arity"].append((node, len(operation.operands)))
    facts["operand"] += [(node, k, c) for k, c in enumerate(operation.operands) if c != NONE]
    facts["result"] += [(node, k, c) for k, c in enumerate(operation.outputs)]
    for attribute, default in ATTRIBUTES.get(name, {}).items():
        spelled = _spelled(operation.attributes.get(attribute, default))
        facts["attribute"].append((node, attribute, spelled))
    if name in ("Conv", "ConvTranspose"):
        facts["group"].append((node, int(operation.attributes.get("group", 1))))
    if name in activations() and activation_of(egraph, operation) is not None:
        facts["activates"].append((node, name))
    if name == "Resize" and enlarged(blocking, operation) is not None:
        facts["enlarges"].append((node,))
    if name == "ReduceMean" and is_of_image(blocking, operation):
        facts["averages"].append((node,))


def _describe_class(blocking: Blocking, class_: int, facts: Facts) -> None:
    """Add what is known of a value."""
    egraph, type_ = blocking.egraph, blocking.egraph.type(class_)
    if egraph.is_known(class_):
        facts["known"].append((class_,))
    if type_ is None:
        return
    if egraph.sized[egraph.find(class_)] != UNTYPED:
        facts["typed"].append((class_,))
    shape = type_.shape
    if shape is None:
        return
    text = _spelled(shape)
    facts["type"].append((class_, f"{type_.dtype}[{text}]"))
    if egraph.is_known(class_) and len(shape) <= _AXES and all(size == 1 for size in shape):
        facts["one_number"].append((class_,))
    if type_.dtype != "float32":
        return
    facts["shape"].append((class_, text))
    if egraph.is_known(class_) and len(shape) == _AXES and _are_known(shape):
        facts["filters"].append((class_, int(shape[0]), int(shape[1]), _spelled(shape[2:])))
    image = blocking.values.image(class_)
    if image is not None:
        facts["image"].append((class_, int(image[1][1]), text))
        if _are_known(shape[2:]):
            facts["sized"].append((class_,))


def _are_known(sizes: Iterable[object]) -> bool:
    return all(isinstance(size, int) for size in sizes)


def _spelled(value: object) -> str:
    """Spell an attribute or a shape."""
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
