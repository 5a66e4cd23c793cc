"""Inference of shapes takes no time that grows with the length of a list."""

import onnx
import onnx.shape_inference
import pytest
from tensolog.catalog.onnx import long_lists
from tensolog.catalog.onnx.long_lists import LONGEST, infer_with_data

HUGE = 2**36


def parsed(body, signature="(float[4] x) => (float[n] y)", functions="", opsets='"" : 18'):
    return onnx.parser.parse_model(
        f"<ir_version: 9, opset_import: [{opsets}]> g {signature} "
        f"<int64 zero = {{0}}, int64 one = {{1}}, int64 many = {{{HUGE}}}, "
        f"int64[1] longs = {{{HUGE}}}, int64[1] zeros = {{0}}> {{ {body} }} {functions}"
    )


def shapes(model):
    return {
        value.name: [dim.dim_value or dim.dim_param for dim in value.type.tensor_type.shape.dim]
        for value in (*model.graph.value_info, *model.graph.output)
    }


BODIES = {
    "range": "r = Range(zero, many, one) y = Cast<to = 1>(r)",
    "constant": "y = ConstantOfShape(longs) z = Add(y, y)",
    "expanded": "r = Expand(one, longs) q = Mul(r, one) y = Cast<to = 1>(q)",
    "counted": "r = Range(zero, many, one) s = Size(r) c = Cast<to = 1>(s) y = Add(x, c)",
    "sliced": "r = Range(zero, many, one) s = Slice(r, longs, longs) y = Cast<to = 1>(s)",
    "joined": "r = Range(zero, many, one) s = Concat<axis = 0>(r, r) y = Cast<to = 1>(s)",
    "of a computed length": "b = Mul(longs, one) r = ConstantOfShape(b) y = Cast<to = 1>(r)",
    "of a length of that": (
        "b = Mul(longs, one) r = Expand(one, b) s = Size(r) u = Unsqueeze(s, zeros)"
        " q = Expand(one, u) y = Cast<to = 1>(q)"
    ),
    "in a branch": (
        "y = If (c) <then_branch = t () => (float[a] p) { r = Range(zero, many, one)"
        " p = Cast<to = 1>(r) }, else_branch = e () => (float[b] q) { q = Relu(x) }>"
    ),
}


@pytest.mark.parametrize("case", BODIES)
def test_of_long_lists_no_elements_are_noted(case):
    signature = "(float[4] x, bool c) => (float[n] y)"
    model = parsed(BODIES[case], signature)
    inferred = infer_with_data(model)  # without the limit it takes all memory
    assert [node.output for node in inferred.graph.node] == [n.output for n in model.graph.node]
    assert inferred.graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT


def test_the_operator_set_may_be_imported_by_its_other_name():
    model = parsed(BODIES["range"], opsets='"ai.onnx" : 18')
    assert shapes(infer_with_data(model))["r"] == [HUGE]


def test_functions_that_read_long_lists_are_left_alone():
    model = parsed(
        "r = Range(zero, many, one) y = my.cast(r)",
        functions='<domain: "my", opset_import: ["" : 18]> cast(x) => (y) { y = Cast<to = 1>(x) }',
        opsets='"" : 18, "my" : 1',
    )
    assert shapes(infer_with_data(model))["r"] == [HUGE]


def test_what_has_no_long_lists_beside_them_is_inferred_by_values_still():
    """The shape of z is computed; where a list is long, its length and what lies behind stay."""
    body = """
        d = Shape(w) m = Mul(d, two) z = ConstantOfShape(m)
        r = Cast<to = 1>(longer) u = Unsqueeze(r, axes) y = Relu(u) q = Add(longer, longer)
    """
    signature = (
        f"(float[3,5] w, int64[{LONGEST + 1}] longer) => (float[a,b] z, float[e,f] y, int64[g] q)"
        " <int64[1] two = {2}, int64[1] axes = {0}>"
    )
    text = f'<ir_version: 9, opset_import: ["" : 18]> g {signature} {{ {body} }}'
    model = onnx.parser.parse_model(text)
    inferred = infer_with_data(model, strict_mode=True, check_type=True)
    onnx.checker.check_model(inferred)
    known = shapes(inferred)
    assert known["z"] == [6, 10]
    assert known["r"] == known["q"] == [LONGEST + 1]
    assert known["u"] == known["y"] == [1, LONGEST + 1]
    assert {value.name for value in inferred.graph.input} == {"w", "longer"}


def test_short_lists_are_read_as_ever(monkeypatch):
    model = parsed("s = Shape(x) d = Add(s, s) y = ConstantOfShape(d)")
    asked = []
    infer = onnx.shape_inference.infer_shapes
    monkeypatch.setattr(
        long_lists.onnx.shape_inference,
        "infer_shapes",
        lambda proto, **options: asked.append(proto) or infer(proto, **options),
    )
    assert shapes(infer_with_data(model))["y"] == [8]
    assert all(proto is model for proto in asked)


def test_a_type_error_is_still_one():
    model = parsed("r = Range(zero, many, one) c = Cast<to = 1>(r) y = Add(c, zero)")
    with pytest.raises(onnx.shape_inference.InferenceError):
        infer_with_data(model, check_type=True, strict_mode=True)
