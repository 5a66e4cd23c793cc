"""Each step that the layouts' planner can take is an instance of a proved rule.

What was converted (the e-nodes before) is written down in the notation of rules/blocked.rules:
blocked values as operands [n, k, h, w, b], read by tensolog.layouts.Image at the places of their
layout. There the rule that the step names must match, and what it makes of it must be the operator
that the planner made. Filters are compared with what their specification says of them.
"""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import AttributeProto, TensorProto, helper, numpy_helper
from tensolog.catalog.operators import specification
from tensolog.optimizer.egraph.congruence import NONE
from tensolog.optimizer.egraph.egraph import EGraph
from tensolog.optimizer.egraph.extraction.e_node_costs import Costs
from tensolog.optimizer.layouts import values as blocked_values
from tensolog.optimizer.layouts.blocking import POOLS
from tensolog.optimizer.layouts.filters import DENSE, OUTER, TRANSPOSED, computed
from tensolog.optimizer.layouts.layout import Layout
from tensolog.optimizer.layouts.operators.concatenations import PUSH
from tensolog.optimizer.layouts.operators.convolutions import (
    CONVOLVE,
    CONVOLVE_EACH,
    CONVOLVE_FEW,
    CONVOLVE_GROUPS,
    NORMALIZE,
)
from tensolog.optimizer.layouts.operators.elementwise import GATED, SHIFT
from tensolog.optimizer.layouts.operators.transposed_convolutions import RULE as TILE
from tensolog.optimizer.layouts.runtime import NCHWC, block_size
from tensolog.optimizer.layouts.space import space_of
from tensolog.optimizer.layouts.values import (
    ENTER,
    ENTER_LAST,
    FAMILY,
    LEAVE,
    LEAVE_LAST,
    licensed_rules,
)
from tensolog.optimizer.match.matcher import Matcher
from tensolog.rules import instantiate, load_rules
from tensolog.rules.gate.ledger.admission import applicable
from tensolog.rules.language.repetition import repeats, unrolled

from tests.campaigns import examples
from tests.optimizer.egraph.pricing import FOLD_LIMIT, Prices, graph_of
from tests.optimizer.layouts.networks import has_blocks, in_blocks, network

pytestmark = pytest.mark.skipif(not has_blocks(), reason="the runtime has no blocked kernels")

# Rules that layouts.dl names.
MAP, LIMIT, SCALE = "ConvertElementwiseToBlocks", "ConvertClipToBlocks", "ConvertScaleToBlocks"
BOTH, WITH_NUMBER = "ConvertBinaryToBlocks", "ConvertNumberToBlocks"
FROM_NUMBER, SEVERAL = "ConvertSubFromNumberToBlocks", "ConvertSumToBlocks"
KERNELS = ("ConvertGeluKernelToBlocks", "ConvertQuickGeluKernelToBlocks")

RULES = {rule.name: rule for rule in load_rules() if rule.family == FAMILY}
LAYOUTS = "tensolog.layouts"
DEFAULTS = {"auto_pad": "NOTSET", "dilations": [1, 1], "pads": [0] * 4, "strides": [1, 1]}
IMPORTS = [("", 17), ("com.microsoft", 1), (NCHWC, 1), (LAYOUTS, 1)]


class Notation:
    """A model in the notation of the rules, made of an e-graph's e-nodes."""

    def __init__(self, values):
        self.values, self.egraph = values, values.egraph
        self.nodes, self.inputs, self.constants = [], {}, {}
        self.where = {value: (plain, layout) for plain, layout, value in values.every()}

    def shape(self, class_):
        number = self.egraph.sized[self.egraph.find(class_)]
        return list(self.egraph.vocabulary.types[number].shape)

    def blocked(self, value):
        """A blocked value as an operand; its shape in index notation."""
        n, width, h, w = self.shape(value)
        block = self.values.block
        return self.operand(f"v{value}", [n, width // block, h, w, block])

    def operand(self, name, shape):
        """An operand of float32."""
        self.inputs[name] = shape
        return name

    def constant(self, array):
        """A constant; equal ones are one, as operands of a rule are."""
        array = np.asarray(array)
        for name, known in self.constants.items():
            if known.dtype == array.dtype and np.array_equal(known, array):
                return name
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        return name

    def op(self, op_type, inputs, domain="", **attributes):
        name = f"{op_type}{len(self.nodes)}"
        node = helper.make_node(op_type, inputs, [name], domain=domain, **attributes)
        self.nodes.append(node)
        return name

    def places(self, layout):
        return self.constant(layout.places)

    def image(self, value):
        """What is read of a blocked value."""
        _, layout = self.where[self.egraph.find(value)]
        return self.op("Image", [self.blocked(value), self.places(layout)], LAYOUTS)

    def graph(self, output):
        """The graph that gives one value."""
        proto = helper.make_graph(
            self.nodes,
            "step",
            [
                helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
                for name, shape in self.inputs.items()
            ],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
            [numpy_helper.from_array(array, name) for name, array in self.constants.items()],
        )
        imports = [helper.make_opsetid(*entry) for entry in IMPORTS]
        return graph_of(helper.make_model(proto, opset_imports=imports, ir_version=8))


def grown(model):
    """What can be computed in blocks of a model's e-graph; None where nothing can."""
    egraph = EGraph(graph_of(model), {}, FOLD_LIMIT)
    passes = [rule for rule in load_rules() if rule.tag == "pass"]
    space = space_of(egraph, Costs(egraph, Prices(0, in_blocks)), block_size(), rules=passes)
    return None if space is None else space.blocking


def made_by(rule, notation, output):
    """The operators that a rule makes in the place of an output, in order."""
    graph = notation.graph(output)
    stated = RULES[rule]
    if repeats(stated):
        stated = unrolled(stated, sum(node.op_type == "Image" for node in notation.nodes))
    (match, *_) = Matcher([stated]).find(graph)
    return [(node.op_type, node.domain, plain(node)) for node in instantiate(match, graph).nodes]


def plain(node):
    return {name: listed(value) for name, value in node.attributes.items()}


def listed(value):
    value = value.decode() if isinstance(value, bytes) else value
    return list(value) if isinstance(value, tuple) else value


def emitted(blocking, node):
    """An e-node that was made, as `made_by` tells operators."""
    operation = blocking.operation(node)
    domain, _, op_type = operation.name.rpartition(":")
    return op_type, domain, {n: listed(v) for n, v in operation.attributes.items()}


def same_window(first, second, kernel):
    """Whether two operators are one where what they don't say has its default."""
    filled = [
        {**DEFAULTS, "kernel_shape": list(kernel), "group": 1, **attributes}
        for _, _, attributes in (first, second)
    ]
    for attributes in filled:
        attributes.pop("activation_params", None) if not attributes.get("activation") else None
        if not attributes.get("activation"):
            attributes.pop("activation", None)
    numbers = [attributes.pop("activation_params", []) for attributes in filled]
    assert np.allclose(*numbers)
    return first[:2] == second[:2] and filled[0] == filled[1]


def activation(notation, blocking, node, value):
    """The activation that an e-node is, on another value."""
    operation = blocking.operation(node)
    bounds = [
        notation.constant(blocking.egraph.constant(bound).array())
        for bound in operation.operands[1:]
    ]
    return notation.op(operation.name, [value, *bounds], **dict(operation.attributes))


def check_convolution(blocking, step):
    """A convolution, with what it ends in, is what the rules make of it one after the other."""
    values, egraph = blocking.values, blocking.egraph
    (new_node,) = step.target_nodes
    operation = blocking.operation(new_node)
    result = emitted(blocking, new_node)
    (output,) = operation.outputs
    layout = Notation(values).where[egraph.find(output)][1]
    source = blocking.operation(step.nodes[0])
    kernel = tuple(egraph.type(operation.operands[1]).shape[2:4])
    few = step.rule == CONVOLVE_FEW
    notation = Notation(values)
    attributes = {**DEFAULTS, "kernel_shape": list(kernel), **dict(source.attributes)}
    width, inputs, block = layout.width, int(source_channels(blocking, source)), values.block
    bias = notation.operand("A", [width])
    if few:
        x = notation.operand("X", notation.shape(source.operands[0]))
        v = notation.operand("V", [width, inputs, *kernel])
        notation.op("OuterFilter", [v], LAYOUTS, block=block)
    else:
        x = notation.image(operation.operands[0])
        is_depthwise = step.rule == CONVOLVE_EACH
        v = notation.operand("V", [width, 1 if is_depthwise else inputs, *kernel])
    read = [
        notation.op("Channels", [array, notation.places(layout)], LAYOUTS) for array in (v, bias)
    ]
    y = notation.op("Conv", [x, *read], **attributes)
    others = [n for n in step.nodes[1:] if blocking.operation(n).name != "Add"]
    first = next(op for op in made_by(step.rule, notation, y) if op[:2] == ("Conv", NCHWC))
    bare = (
        result[0],
        result[1],
        {n: v for n, v in result[2].items() if not n.startswith("activation")},
    )
    assert same_window(first, bare, kernel)
    if len(others) < len(step.nodes) - 1:
        check_end(blocking, "FuseAddIntoBlockedConv", operation, bare, kernel, bare, None, few)
    for act in others:
        rule = f"Fuse{blocking.operation(act).name}IntoBlockedConv"
        check_end(blocking, rule, operation, bare, kernel, result, act, few)


def check_end(blocking, rule, operation, bare, kernel, result, act, few=False):
    """A blocked convolution and what follows is one that ends in it.

    `few`: its image has so few channels that it is read as it is.
    """
    notation = Notation(blocking.values)
    b = blocking.values.block
    n, width, h, w = notation.shape(operation.operands[0])
    m, c = blocking.egraph.type(operation.operands[1]).shape[:2]
    if few:
        image, filters = [n, width, h, w], [m // b, c, *kernel, b]
    else:
        outer = bare[2].get("group", 1) > 1 and c == 1
        image = [n, width // b, h, w, b]
        filters = [m // b, 1, *kernel, b] if outer else [m // b, c // b, *kernel, b, b]
    z = notation.operand("Z", image)
    reads = [z, notation.operand("W", filters), notation.operand("B", [m])]
    y = notation.op("Conv", reads, NCHWC, **{**DEFAULTS, "kernel_shape": list(kernel), **bare[2]})
    none = helper.make_attribute("activation_params", [], attr_type=AttributeProto.FLOATS)
    notation.nodes[-1].attribute.append(none)
    if act is None:
        _, oh, ow = notation.shape(operation.outputs[0])[1:]
        summand = notation.operand("S", [n, m // b, oh, ow, b])
        y = notation.op("Add", [y, summand])
    else:
        y = activation(notation, blocking, act, y)
    (stated,) = made_by(rule, notation, y)
    assert same_window(stated, result, kernel)


def source_channels(blocking, source):
    return blocking.egraph.type(source.operands[1]).shape[1]


def check_one(blocking, step):
    """An operator on images and numbers is what its rule makes of it."""
    values, egraph = blocking.values, blocking.egraph
    new_node = step.target_nodes[-1]
    operation = blocking.operation(new_node)
    notation = Notation(values)
    (source,) = map(blocking.operation, step.nodes)
    images = {}
    for value in operation.operands:
        plain_class, _ = notation.where.get(egraph.find(value), (NONE, None))
        images[plain_class] = value
    reads = []
    for value in source.operands:
        class_ = egraph.find(value)
        if class_ in images and class_ != NONE:
            reads.append(notation.image(images[class_]))
        elif value == NONE:
            reads.append("")
        else:
            reads.append(notation.constant(egraph.constant(value).array()))
    domain, _, op_type = source.name.rpartition(":")
    y = notation.op(op_type, reads, domain, **dict(source.attributes))
    stated = made_by(step.rule, notation, y)[0]
    result = emitted(blocking, new_node)
    assert stated[:2] == result[:2]
    assert all(stated[2].get(n, DEFAULTS.get(n)) == v for n, v in result[2].items())


def check_normalization(blocking, step):
    """A normalization is a convolution of one weight a channel, with what it ends in."""
    (new_node,) = step.target_nodes
    operation, result = blocking.operation(new_node), emitted(blocking, new_node)
    notation = Notation(blocking.values)
    source = blocking.operation(step.nodes[0])
    x = notation.image(operation.operands[0])
    layout = notation.where[blocking.egraph.find(operation.operands[0])][1]
    reads = [
        notation.op(
            "Channels",
            [notation.operand(name, [layout.width]), notation.places(layout)],
            LAYOUTS,
        )
        for name in ("G", "H", "M", "V")
    ]
    y = notation.op("BatchNormalization", [x, *reads], **dict(source.attributes))
    first = next(op for op in made_by(step.rule, notation, y) if op[:2] == ("Conv", NCHWC))
    bare = (*result[:2], {n: v for n, v in result[2].items() if not n.startswith("activation")})
    assert same_window(first, bare, (1, 1))
    for act in step.nodes[1:]:
        if blocking.operation(act).name != "Add":
            rule = f"Fuse{blocking.operation(act).name}IntoBlockedConv"
            check_end(blocking, rule, operation, bare, (1, 1), result, act)
        else:
            check_end(blocking, "FuseAddIntoBlockedConv", operation, bare, (1, 1), bare, None)


def check_scale(blocking, step):
    """What is one a channel is the weight or the bias of a convolution."""
    result = emitted(blocking, step.target_nodes[-1])
    if result[0] != "Conv":  # the order of the weights, noted by itself
        return
    operation = blocking.operation(step.target_nodes[-1])
    notation = Notation(blocking.values)
    x = notation.image(operation.operands[0])
    layout = notation.where[blocking.egraph.find(operation.operands[0])][1]
    source = blocking.operation(step.nodes[0])
    if step.rule == "ConvertGateToBlocks":
        b = blocking.values.block
        gate = notation.operand("V", [1, layout.width // b, 1, 1, b])
        factor = notation.op("Image", [gate, notation.places(layout)], LAYOUTS)
    else:
        operands = [notation.operand("V", [layout.width]), notation.places(layout)]
        numbers = notation.op("Channels", operands, LAYOUTS)
        shape = notation.constant(np.array([layout.channels, 1, 1]))
        factor = notation.op("Reshape", [numbers, shape])
    y = notation.op(source.name, [x, factor])
    first = next(op for op in made_by(step.rule, notation, y) if op[:2] == ("Conv", NCHWC))
    assert same_window(first, result, (1, 1))


def check_tiles(blocking, step):
    """Tiles that a convolution computes as channels are laid side by side."""
    made = [emitted(blocking, node) for node in step.target_nodes]
    if len(made) == 1:  # the last of its operators, noted by itself
        return
    source = blocking.operation(step.nodes[0])
    convolution = blocking.operation(step.target_nodes[0])
    c, m, *kernel = (int(size) for size in blocking.egraph.type(source.operands[1]).shape)
    notation = Notation(blocking.values)
    layout = Layout((m,), blocking.values.block)
    filters, bias = (
        notation.op("Channels", [array, notation.places(layout)], LAYOUTS)
        for array in (
            notation.operand("V", [layout.width, c, *kernel]),
            notation.operand("A", [layout.width]),
        )
    )
    read = [notation.op("Transpose", [filters], perm=[1, 0, 2, 3]), bias]
    x = notation.image(convolution.operands[0])
    y = notation.op("ConvTranspose", [x, *read], **dict(source.attributes))
    found = made_by(step.rule, notation, y)
    blocked = next(operator for operator in found if operator[:2] == ("Conv", NCHWC))
    assert same_window(blocked, made[0], (1, 1))
    assert found[found.index(blocked) + 1 : -2] == made[1:]


def check_silu(blocking, step):
    """x times Sigmoid(x) is the runtime's kernel."""
    (new_node,) = step.target_nodes
    notation = Notation(blocking.values)
    x = notation.image(blocking.operation(new_node).operands[0])
    y = notation.op("Mul", [x, notation.op("Sigmoid", [x])])
    assert made_by(step.rule, notation, y)[0] == emitted(blocking, new_node)


def check_join(blocking, step):
    """Channels that are joined lie behind one another, as the rule says of two at a time."""
    (new_node,) = step.target_nodes
    operation = blocking.operation(new_node)
    assert emitted(blocking, new_node) == ("Concat", "", {"axis": 1})
    notation = Notation(blocking.values)
    layouts = [notation.where[blocking.egraph.find(v)][1] for v in operation.operands]
    whole = notation.where[blocking.egraph.find(operation.outputs[0])][1]
    starts = np.cumsum([0, *(layout.width for layout in layouts)])
    places = [layout.places + start for layout, start in zip(layouts, starts, strict=False)]
    assert whole.width == starts[-1]
    assert np.array_equal(whole.places, np.concatenate(places))
    images = [notation.image(value) for value in operation.operands[:2]]
    if len(set(images)) == 2:
        made_of_two = made_by(step.rule, notation, notation.op("Concat", images, axis=1))
        assert made_of_two[0] == ("Concat", "", {"axis": 1})
        first, second = (attributes for op, _, attributes in made_of_two if op == "Image")
        assert (first["width"], second["first"]) == (layouts[0].width,) * 2


def check_split(blocking, step):
    """Channels that are taken apart lie where they did, counted from the parts before."""
    (new_node,) = step.target_nodes
    operation = blocking.operation(new_node)
    notation = Notation(blocking.values)
    whole = notation.where[blocking.egraph.find(operation.operands[0])][1]
    layouts = [notation.where[blocking.egraph.find(v)][1] for v in operation.outputs]
    starts = np.cumsum([0, *(layout.width for layout in layouts)])
    places = [layout.places + start for layout, start in zip(layouts, starts, strict=False)]
    assert operation.name == "Split" and operation.attributes["axis"] == 1
    assert whole.width == starts[-1] and np.array_equal(whole.places, np.concatenate(places))
    assert all(layout.width % blocking.values.block == 0 for layout in layouts)


def check_reorder(blocking, step):
    """Plain layouts alone are entered and left, by the operator that the rule names."""
    (new_node,) = step.target_nodes
    op_type, domain, attributes = emitted(blocking, new_node)
    into = ("Into" in step.rule and "Last" not in step.rule) or step.rule.startswith("ReorderCh")
    assert (op_type, domain) == ("ReorderInput" if into else "ReorderOutput", NCHWC)
    assert attributes.get("channels_last", 0) == int("Last" in step.rule)
    notation = Notation(blocking.values)
    operation = blocking.operation(new_node)
    value = operation.outputs[0] if into else operation.operands[0]
    layout = notation.where[blocking.egraph.find(value)][1]
    assert layout.is_plain and attributes.get("channels", layout.channels) == layout.channels


CHECKS = {
    **dict.fromkeys((CONVOLVE, CONVOLVE_FEW, CONVOLVE_EACH), check_convolution),
    NORMALIZE: check_normalization,
    "JoinBlocks": check_join,
    "SplitBlocks": check_split,
    "ConvertSiluToBlocks": check_silu,
    TILE: check_tiles,
    **dict.fromkeys((SCALE, SHIFT, GATED), check_scale),
    **dict.fromkeys((ENTER, ENTER_LAST, LEAVE, LEAVE_LAST), check_reorder),
    **dict.fromkeys((MAP, LIMIT, BOTH, SEVERAL, WITH_NUMBER, FROM_NUMBER), check_one),
    **dict.fromkeys((f"Convert{name}ToBlocks" for name in (*POOLS, "Resize")), check_one),
}
# Compared with the runtime alone, by test_plans.py: groups of channels, and a mean by its axes.
UNCHECKED = {CONVOLVE_GROUPS, "ConvertReduceMeanToBlocks", *KERNELS}


@settings(max_examples=examples(40), deadline=None)
@given(seed=st.integers(0, 10**6), batch=st.sampled_from([1, 2]), sized=st.booleans())
def test_steps_are_instances_of_rules(seed, batch, sized):
    blocking = grown(network(seed, batch=batch, sized=sized).model())
    if blocking is None:
        return
    for step in blocking.values.applications:
        if step.rule in CHECKS:
            CHECKS[step.rule](blocking, step)
        else:
            assert step.rule in UNCHECKED | set(PUSH)


def test_what_steps_may_name_is_stated():
    assert set(CHECKS) | UNCHECKED <= set(RULES)


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_filters_are_laid_out_as_it_is_specified(data):
    block = data.draw(st.sampled_from([2, 4, 8]))
    parts = st.lists(st.integers(1, 9), min_size=1, max_size=3)
    outputs, inputs = (Layout.of(data.draw(parts), block) for _ in range(2))
    kernel = tuple(data.draw(st.integers(1, 3)) for _ in range(2))
    shape = (outputs.channels, inputs.channels, *kernel)
    weights = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    whole = np.zeros((outputs.width, *shape[1:]), np.float32)
    whole[outputs.places] = weights
    layout_attributes = {"block": block, "outputs": outputs.parts, "inputs": inputs.parts}
    dense = specification(LAYOUTS, "DenseFilter", 1)
    attributes = {"block": block, "width": inputs.width}
    (expected,) = dense.evaluate([whole, inputs.places], attributes)
    assert np.array_equal(computed(DENSE, weights, layout_attributes).ravel(), expected.ravel())
    (expected,) = specification(LAYOUTS, "OuterFilter", 1).evaluate([whole], {"block": block})
    assert np.array_equal(computed(OUTER, weights, layout_attributes).ravel(), expected.ravel())
    # of a transposed convolution of tiles each pixel of the filters is an output by itself
    each_pixel = whole.transpose(2, 3, 0, 1).reshape(-1, inputs.channels, 1, 1)
    (expected,) = dense.evaluate([each_pixel, inputs.places], attributes)
    tiled = {
        **layout_attributes,
        "outputs": Layout.of(outputs.parts * math.prod(kernel), block).parts,
    }
    laid = computed(TRANSPOSED, weights.transpose(1, 0, 2, 3), tiled)
    assert np.array_equal(laid.ravel(), expected.ravel())
    # what the rules read of filters by places is what the model has
    (read,) = specification(LAYOUTS, "Channels", 1).evaluate([whole, outputs.places])
    assert np.array_equal(read, weights)


NEAREST = {
    "mode": "nearest", "nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric",
}  # fmt: skip
LINEAR = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}


def enlarged(attributes, scales=None, sizes=None):
    """The scales of the blocked operators that the rule makes of a Resize of 20 channels."""
    notation = Notation(SimpleNamespace(egraph=None, every=list))
    places = notation.constant(np.arange(20))
    x = notation.op("Image", [notation.operand("Z", [1, 3, 4, 6, 8]), places], LAYOUTS)
    by = "" if scales is None else notation.constant(np.array(scales, np.float32))
    to = [] if sizes is None else [notation.constant(np.array(sizes, np.int64))]
    graph = notation.graph(notation.op("Resize", [x, "", by, *to], **attributes))
    return [
        list(node.attributes["scales"])
        for match in Matcher([RULES["ConvertResizeToBlocks"]]).find(graph)
        for node in instantiate(match, graph).nodes
        if node.op_type == "Upsample"
    ]


def test_images_are_enlarged_by_whole_factors():
    assert enlarged(NEAREST, scales=[1, 1, 2, 3]) == [[1, 1, 2, 3]]
    assert enlarged(NEAREST, sizes=[1, 20, 8, 18]) == [[1, 1, 2, 3]]
    for transform in ("asymmetric", "half_pixel", "align_corners"):
        changed = {**LINEAR, "coordinate_transformation_mode": transform}
        assert enlarged(changed, scales=[1, 1, 2, 3]) == [[1, 1, 2, 3]]


@pytest.mark.parametrize(
    ("attributes", "operands"),
    [
        (NEAREST, {"scales": [1, 1, 2.5, 3]}),
        (NEAREST, {"scales": [1, 1, 0.5, 3]}),
        (NEAREST, {"scales": [2, 1, 2, 3]}),
        (NEAREST, {"scales": [1, 2, 2, 3]}),
        (NEAREST, {"sizes": [1, 20, 9, 18]}),
        (NEAREST, {"sizes": [1, 20, 2, 18]}),
        (NEAREST, {"sizes": [2, 20, 8, 18]}),
        ({**NEAREST, "nearest_mode": "ceil"}, {"scales": [1, 1, 2, 3]}),
        ({**NEAREST, "coordinate_transformation_mode": "half_pixel"}, {"scales": [1, 1, 2, 3]}),
        ({**LINEAR, "coordinate_transformation_mode": "pytorch_half_pixel"},
         {"scales": [1, 1, 2, 3]}),
        ({**LINEAR, "mode": "cubic"}, {"scales": [1, 1, 2, 3]}),
        ({**LINEAR, "exclude_outside": 1}, {"scales": [1, 1, 2, 3]}),
    ],
)  # fmt: skip
def test_an_image_that_is_resized_otherwise_is_not_enlarged_in_blocks(attributes, operands):
    assert enlarged(attributes, **operands) == []


EVERY_RULE = frozenset(RULES)
ENDS = {f"Fuse{name}IntoBlockedConv": name for name in ("Relu", "Clip", "Sigmoid", "HardSigmoid")}


def steps_without(model, missing, monkeypatch):
    """The rules of the steps, and what convolutions end in, where some rules license none."""
    licensed = EVERY_RULE - set(missing)
    monkeypatch.setattr(blocked_values, "licensed_rules", lambda opset: licensed)
    blocking = grown(model)
    if blocking is None:
        return set()
    names = {step.rule for step in blocking.values.applications}
    for step in blocking.values.applications:
        for node in step.target_nodes:
            operation = blocking.operation(node)
            if operation.name == f"{NCHWC}:Conv":
                names.add(f"Fuse{operation.attributes.get('activation')}IntoBlockedConv")
                if len(operation.operands) > 3:
                    names.add("FuseAddIntoBlockedConv")
    return names & EVERY_RULE


@pytest.mark.parametrize("seed", range(4))
def test_a_rule_that_is_not_valid_licenses_no_step(seed, monkeypatch):
    model = network(seed, length=10).model()
    names = steps_without(model, (), monkeypatch)
    assert CONVOLVE in names or CONVOLVE_EACH in names or CONVOLVE_FEW in names
    for name in sorted(names):
        assert name not in steps_without(model, {name}, monkeypatch)


def test_what_a_convolution_may_not_end_in_stays_beside_it(monkeypatch):
    """The activation alone is left out: what it acts on is still computed in blocks."""
    models = [network(seed, length=10).model() for seed in range(6)]
    tried = 0
    for model in models:
        names = steps_without(model, (), monkeypatch)
        for name in sorted(names & set(ENDS)):
            others = steps_without(model, {name}, monkeypatch)
            assert names - others == {name}
            tried += 1
    assert tried


def test_the_ledger_and_the_operator_set_say_which_rules_are_valid(monkeypatch):
    valid = licensed_rules(17)
    assert valid == {rule.name for rule in applicable() if rule.family == FAMILY}
    assert valid - licensed_rules(13) == {"FuseHardSwishIntoBlockedConv"}  # an operator of 14
    fewer = [rule for rule in applicable() if rule.name != CONVOLVE]
    monkeypatch.setattr(blocked_values, "applicable", lambda: fewer)
    licensed_rules.cache_clear()
    assert valid - licensed_rules(17) == {CONVOLVE}
    licensed_rules.cache_clear()
