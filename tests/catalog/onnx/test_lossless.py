"""Import and export give an equal message, whatever the fields hold."""

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import AttributeProto, TensorProto, helper, numpy_helper, parser
from tensolog.catalog import Catalog, ModelError
from tensolog.catalog.onnx.reader import read_model, read_models, store_model
from tensolog.catalog.onnx.writer import build_model, build_models, skeleton_model
from tensolog.catalog.store.constants import load_constant
from tensolog.catalog.tensors import data_type, dtype_name, size_bytes

from tests.campaigns import examples

NUMERIC = sorted(set(TensorProto.DataType.values()) - {TensorProto.UNDEFINED, TensorProto.STRING})
TYPED = {
    "float_data": (st.floats(width=32), [TensorProto.FLOAT]),
    "double_data": (st.floats(), [TensorProto.DOUBLE]),
    "int64_data": (st.integers(-(2**63), 2**63 - 1), [TensorProto.INT64]),
    "uint64_data": (st.integers(0, 2**64 - 1), [TensorProto.UINT64, TensorProto.UINT32]),
    "int32_data": (
        st.integers(-(2**31), 2**31 - 1),
        [TensorProto.INT32, TensorProto.INT8, TensorProto.BOOL, TensorProto.BFLOAT16],
    ),
}
TEXT = st.text(max_size=6)


def same(left: onnx.ModelProto, right: onnx.ModelProto) -> bool:
    """Equal bytes: unlike ==, this tells NaNs and zeros of either sign apart."""
    return left.SerializeToString(deterministic=True) == right.SerializeToString(deterministic=True)


def maybe(draw, message, **fields):
    """Set each field, or leave it absent."""
    for name, values in fields.items():
        if draw(st.booleans()):
            setattr(message, name, draw(values))


def metadata(draw, message):
    for _ in range(draw(st.integers(0, 1))):
        maybe(draw, message.metadata_props.add(), key=TEXT, value=TEXT)


@st.composite
def tensors(draw, name=""):
    tensor = TensorProto(dims=draw(st.lists(st.integers(0, 3), max_size=3)))
    tensor.data_type = draw(st.sampled_from(NUMERIC))
    count = int(np.prod(tensor.dims))
    kind = draw(st.sampled_from(["raw", "typed", "string"]))
    if kind == "raw":
        size = size_bytes(dtype_name(tensor.data_type), tensor.dims)
        tensor.raw_data = draw(st.binary(min_size=size, max_size=size))
    elif kind == "string":
        tensor.data_type = TensorProto.STRING
        items = st.lists(st.binary(max_size=4), min_size=count, max_size=count)
        tensor.string_data.extend(draw(items))
    else:
        field = draw(st.sampled_from(sorted(TYPED)))
        values, types = TYPED[field]
        tensor.data_type = draw(st.sampled_from(types))
        items = draw(st.lists(values, min_size=count, max_size=count))
        getattr(tensor, field).extend(items)
    if name or draw(st.booleans()):
        tensor.name = name
    maybe(draw, tensor, doc_string=TEXT, data_location=st.just(TensorProto.DEFAULT))
    metadata(draw, tensor)
    return tensor


@st.composite
def types(draw, depth=2):
    kind = onnx.TypeProto()
    maybe(draw, kind, denotation=TEXT)
    choice = draw(st.sampled_from(["tensor", "sparse", "sequence", "map", "optional", "none"]))
    if choice in ("tensor", "sparse") or not depth:
        tensor = kind.sparse_tensor_type if choice == "sparse" else kind.tensor_type
        maybe(draw, tensor, elem_type=st.sampled_from(NUMERIC))
        if draw(st.booleans()):
            tensor.shape.SetInParent()
            for _ in range(draw(st.integers(0, 3))):
                dim = tensor.shape.dim.add()
                maybe(draw, dim, denotation=TEXT)
                size = draw(st.integers(-1, 9))
                if size >= 7:
                    dim.dim_param = draw(st.sampled_from(["n", "batch", ""]))
                elif size >= 0:
                    dim.dim_value = size
    elif choice == "sequence":
        kind.sequence_type.elem_type.CopyFrom(draw(types(depth - 1)))
    elif choice == "optional":
        kind.optional_type.elem_type.CopyFrom(draw(types(depth - 1)))
    elif choice == "map":
        kind.map_type.key_type = TensorProto.STRING
        kind.map_type.value_type.CopyFrom(draw(types(depth - 1)))
    return kind


def declare(draw, values, name, known=None):
    value = values.add(name=name)
    known = {} if known is None else known  # one type a name: others would be refused
    if draw(st.booleans()) and "w" not in name and "s" not in name:
        value.type.CopyFrom(known.setdefault(name, draw(types())))
    maybe(draw, value, doc_string=TEXT)
    metadata(draw, value)


@st.composite
def attributes(draw, name, depth, outer, *, in_function=False):
    attribute = AttributeProto(name=name)
    kinds = ["i", "f", "s", "t", "ints", "floats", "strings", "tensors", "tp", "sparse", "g", "gs"]
    kind = draw(st.sampled_from([*kinds, "ref"] if in_function else kinds))
    if kind == "i":
        attribute.i = draw(st.integers(-(2**63), 2**63 - 1))
    elif kind == "f":
        attribute.f = draw(st.floats(width=32))
    elif kind == "s":
        attribute.s = draw(st.binary(max_size=5))
    elif kind == "t":
        attribute.t.CopyFrom(draw(tensors()))
    elif kind == "ints":
        attribute.ints.extend(draw(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3)))
    elif kind == "floats":
        attribute.floats.extend(draw(st.lists(st.floats(width=32), max_size=3)))
    elif kind == "strings":
        attribute.strings.extend(draw(st.lists(st.binary(max_size=3), max_size=2)))
    elif kind == "tensors":
        attribute.tensors.extend(draw(st.lists(tensors(), max_size=2)))
    elif kind == "tp":
        attribute.tp.CopyFrom(draw(types()))
    elif kind == "ref":
        attribute.ref_attr_name = draw(TEXT)
    elif kind == "sparse":
        attribute.sparse_tensor.values.CopyFrom(draw(tensors()))
        attribute.sparse_tensor.dims.append(3)
    elif depth and kind == "g":
        attribute.g.CopyFrom(draw(graphs(depth - 1, outer)))
    elif depth:
        attribute.graphs.extend(draw(st.lists(graphs(depth - 1, outer), max_size=2)))
    types_of = {"i": 2, "f": 1, "s": 3, "t": 4, "ints": 7, "floats": 6, "g": 5, "gs": 10}
    maybe(draw, attribute, doc_string=TEXT, type=st.just(types_of.get(kind, 0)))
    return attribute


def nodes(draw, target, names, depth, outer, prefix, *, in_function=False):
    for index in range(draw(st.integers(0, 3))):
        node = target.add(op_type=draw(st.sampled_from(["Op", "Other", "Ö"])))
        known = [*outer, *names, ""]
        node.input.extend(draw(st.lists(st.sampled_from(known), max_size=3)))
        for slot in range(draw(st.integers(0, 2))):
            around = [*outer, *names]
            attribute = attributes(f"a{slot}", depth, around, in_function=in_function)
            node.attribute.append(draw(attribute))
        for slot in range(draw(st.integers(0, 2))):
            name = draw(st.sampled_from(["", f"{prefix}{index}_{slot}"]))
            node.output.append(name)
            names += [name] if name else []
        node.domain = "my.ops"
        maybe(draw, node, name=TEXT, doc_string=TEXT, overload=TEXT)
        metadata(draw, node)
        if draw(st.booleans()):
            maybe(draw, node.device_configurations.add(), configuration_id=TEXT)


@st.composite
def graphs(draw, depth=2, outer=()):
    graph = onnx.GraphProto()
    maybe(draw, graph, name=TEXT, doc_string=TEXT)
    prefix = f"level{depth}_"
    known = {}
    names = [f"{prefix}in{index}" for index in range(draw(st.integers(0, 2)))]
    for name in names:
        declare(draw, graph.input, name, known)
    for index in range(draw(st.integers(0, 2))):
        name = f"{prefix}w{index}"
        graph.initializer.append(draw(tensors(name)))
        names.append(name)
    if draw(st.booleans()):
        sparse = graph.sparse_initializer.add(dims=[3])
        sparse.values.CopyFrom(draw(tensors(f"{prefix}s")))
        sparse.indices.CopyFrom(draw(tensors()))
        names.append(f"{prefix}s")
    nodes(draw, graph.node, names, depth, list(outer), prefix)
    for name in draw(st.lists(st.sampled_from([*names, "stray"]), max_size=3)):
        declare(draw, graph.value_info, name, known)
    if names:
        for name in draw(st.lists(st.sampled_from(names), max_size=2)):
            declare(draw, graph.output, name, known)
    for _ in range(draw(st.integers(0, 1))):
        graph.quantization_annotation.add(tensor_name=draw(TEXT))
    metadata(draw, graph)
    return graph


@st.composite
def models(draw):
    model = onnx.ModelProto(graph=draw(graphs()))
    model.opset_import.add(domain="my.ops", version=1)
    if draw(st.booleans()):
        model.opset_import.add(version=draw(st.integers(7, onnx.defs.onnx_opset_version())))
    maybe(
        draw,
        model,
        ir_version=st.integers(3, onnx.IR_VERSION),
        producer_name=TEXT,
        producer_version=TEXT,
        domain=TEXT,
        model_version=st.integers(-(2**63), 2**63 - 1),
        doc_string=TEXT,
    )
    metadata(draw, model)
    for index in range(draw(st.integers(0, 1))):
        function = model.functions.add(name=f"f{index}", domain="my.functions")
        function.input.extend(["x", "y"])
        names = ["x", "y"]
        nodes(draw, function.node, names, 0, [], "f_", in_function=True)
        function.output.extend(draw(st.lists(st.sampled_from(names), max_size=2)))
        function.opset_import.add(domain="my.ops", version=1)
        function.attribute.extend(["alpha"])
        function.attribute_proto.append(draw(attributes("beta", 0, [])))
        maybe(draw, function, doc_string=TEXT, overload=TEXT)
        for name in names[:1]:
            declare(draw, function.value_info, name)
        metadata(draw, function)
    if draw(st.booleans()):
        model.training_info.add(algorithm=draw(graphs(0)))
    if draw(st.booleans()):
        maybe(draw, model.configuration.add(num_devices=2), name=TEXT)
    if draw(st.booleans()):  # a field of a later release
        model.MergeFromString(b"\xc2\x3e\x03new")
    return model


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(batch=st.lists(models(), min_size=1, max_size=5))
def test_random_models_come_back_equal(batch, catalog):
    before = [model.SerializeToString(deterministic=True) for model in batch]
    results = read_models(catalog, batch)
    after = [model.SerializeToString(deterministic=True) for model in batch]
    assert before == after, "the caller's model was changed"
    for result in results:
        if isinstance(result, ModelError):
            raise result
    built = build_models(catalog, results)
    assert all(same(*pair) for pair in zip(built, batch, strict=True))


@settings(max_examples=examples(30), deadline=None, suppress_health_check=list(HealthCheck))
@given(model=models(), inline=st.sampled_from([-1, 8, 1 << 16]))
def test_skeletons_are_stored_as_the_models_they_stand_for(model, inline, catalog):
    skeleton = skeleton_model(catalog, read_model(catalog, model), inline_bytes=inline)
    assert same(build_model(catalog, store_model(catalog, skeleton)), model)


@settings(max_examples=examples(10), deadline=None, suppress_health_check=list(HealthCheck))
@given(model=models(), text=TEXT, location=st.sampled_from([None, TensorProto.DEFAULT]))
def test_random_models_with_large_tensors_come_back_equal(model, text, location, catalog):
    large = model.graph.initializer.add(name="large", data_type=TensorProto.UINT8, dims=[1 << 17])
    large.raw_data = bytes(1 << 17)
    large.doc_string = text
    if location is not None:
        large.data_location = location
    for source in (model, model.SerializeToString()):
        model_id = read_model(catalog, source)
        assert same(build_model(catalog, model_id), model)
        skeleton = skeleton_model(catalog, model_id)
        assert skeleton.ByteSize() < 1 << 17
        assert same(build_model(catalog, store_model(catalog, skeleton)), model)


def test_models_stored_together_come_back_each_as_it_was(catalog, relu):
    other = onnx.ModelProto()
    other.CopyFrom(relu)
    other.graph.node[0].op_type = "Tanh"
    wrong = onnx.ModelProto()
    wrong.CopyFrom(relu)
    wrong.graph.node[0].input[0] = "nowhere"
    first, error, second = read_models(catalog, [relu, wrong, other])
    assert isinstance(error, ModelError)
    assert build_models(catalog, [second, first]) == [other, relu]


@pytest.mark.parametrize("dtype", NUMERIC)
@pytest.mark.parametrize("raw", [True, False])
def test_tensors_of_every_type_load_as_onnx_loads_them(dtype, raw, catalog):
    count = 7
    size = size_bytes(dtype_name(dtype), [count])
    data = np.random.default_rng(dtype).integers(0, 2, size, np.uint8).tobytes()
    tensor = TensorProto(name="t", data_type=dtype, dims=[count], raw_data=data)
    if not raw:
        values = numpy_helper.to_array(tensor)
        try:
            tensor = helper.make_tensor("t", dtype, [count], values)
        except (TypeError, ValueError, KeyError) as error:
            pytest.skip(f"onnx makes no typed tensor of it: {error}")
    graph = helper.make_graph([], "g", [], [], [tensor])
    model_id = read_model(catalog, helper.make_model(graph))
    assert build_model(catalog, model_id).graph.initializer[0] == tensor
    ((key, name),) = catalog.sql(
        "SELECT constant_hash, constant.dtype FROM initializer JOIN graph USING (graph_id) "
        "JOIN constant USING (constant_hash) WHERE model_id = ?",
        [model_id],
    ).fetchall()
    loaded = load_constant(catalog, key)
    expected = numpy_helper.to_array(tensor)
    assert (loaded.dtype, loaded.shape) == (expected.dtype, expected.shape)
    assert loaded.tobytes() == expected.tobytes()
    assert data_type(name) == dtype
    assert not loaded.flags.writeable


def test_strings_load_as_text(catalog):
    tensor = helper.make_tensor("t", TensorProto.STRING, [2, 1], [b"a\0b", "é".encode()])
    model_id = read_model(catalog, helper.make_model(helper.make_graph([], "g", [], [], [tensor])))
    assert build_model(catalog, model_id).graph.initializer[0] == tensor
    ((key,),) = catalog.sql(
        "SELECT constant_hash FROM initializer JOIN graph USING (graph_id) WHERE model_id = ?",
        [model_id],
    ).fetchall()
    assert load_constant(catalog, key).tolist() == [["a\0b"], ["é"]]


def test_equal_tensors_are_one_constant():
    weights = np.arange(6, dtype=np.float32).reshape(2, 3)
    raw = numpy_helper.from_array(weights, "raw")
    typed = helper.make_tensor("typed", TensorProto.FLOAT, [2, 3], weights.ravel())
    other_shape = numpy_helper.from_array(weights.reshape(3, 2), "other")
    model = helper.make_model(helper.make_graph([], "g", [], [], [raw, typed, other_shape]))
    with Catalog(":memory:") as catalog:
        assert build_model(catalog, read_model(catalog, model)) == model
        assert len(catalog.sql("FROM constant").fetchall()) == 2


def test_inputs_of_nodes_resolve_through_the_graphs_around_them(catalog):
    model = parser.parse_model(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (bool c, float[2] x) => (float[2] y) {
            h = Neg(x)
            y = If (c) <
                then_branch = t () => (float[2] a) { a = Add(h, x) },
                else_branch = e () => (float[2] b) { h2 = Abs(h)
                    b = If (c) <then_branch = tt () => (float[2] d) { d = Neg(h2) },
                                else_branch = ee () => (float[2] f) { f = Neg(x) }> }
            >
        }"""
    )
    model_id = read_model(catalog, model)
    assert build_model(catalog, model_id) == model
    rows = catalog.sql(
        "SELECT graph.name, node.op_type, node_input.name, defining.name FROM node_input "
        "JOIN node USING (node_id) JOIN graph USING (graph_id) JOIN value USING (value_id) "
        "JOIN graph AS defining ON defining.graph_id = value.graph_id WHERE graph.model_id = ?",
        [model_id],
    ).fetchall()
    assert ("t", "Add", "h", "g") in rows
    assert ("tt", "Neg", "h2", "e") in rows
    assert ("ee", "Neg", "x", "g") in rows
    parents = dict(
        catalog.sql(
            "SELECT graph.name, node.op_type FROM graph LEFT JOIN node "
            "ON node_id = parent_node_id WHERE model_id = ?",
            [model_id],
        ).fetchall()
    )
    assert parents == {"g": None, "t": "If", "e": "If", "tt": "If", "ee": "If"}


def test_inferred_types_are_stored_and_not_exported(catalog):
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[batch, 3] x) => (float[m, k] y) '
        "{ h = Relu(x)  y = Transpose(h) }"
    )
    model_id = read_model(catalog, model)
    assert build_model(catalog, model_id) == model
    rows = catalog.sql(
        "SELECT value.name, dtype, type_source, list(coalesce(symbol, size::VARCHAR) ORDER BY axis)"
        " FROM value JOIN graph USING (graph_id) JOIN dimension USING (value_id) "
        "WHERE model_id = ? GROUP BY ALL",
        [model_id],
    ).fetchall()
    inferred_types = {name: tuple(rest) for name, *rest in rows}
    assert inferred_types["x"] == ("float32", "declared", ["batch", "3"])
    assert inferred_types["h"] == ("float32", "inferred", ["batch", "3"])
    assert inferred_types["y"][1] == "inferred"
