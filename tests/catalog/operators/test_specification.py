"""Specifications against ONNX's schemas, their opset ranges, shapes, and what is derived."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.defs
import pytest
from tensolog.catalog.errors import TensologError
from tensolog.catalog.operators import (
    OpaqueOperatorError,
    ShapeError,
    Specification,
    classifications,
    specification,
    specified,
)
from tensolog.catalog.operators.definition import _called
from tensolog.catalog.terms.index_notation import Symbol
from tensolog.catalog.terms.numpy_evaluator import EvaluationError
from tensolog.catalog.terms.syntax_tree import Literal


def described() -> list[tuple[onnx.defs.OpSchema, Specification]]:
    """Every version in ONNX of every operator that a specification covers."""
    covered = []
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "" and not schema.deprecated:
            meaning = specification("", schema.name, schema.since_version)
            if meaning is not None and meaning.opaque is None:
                covered.append((schema, meaning))
    return covered


def spec(op_type: str, opset: int = 21) -> Specification:
    meaning = specification("", op_type, opset)
    assert meaning is not None
    return meaning


def test_a_hundred_operators_have_a_meaning() -> None:
    assert len({schema.name for schema, _ in described()}) >= 100


def test_every_name_is_an_operator_with_a_class() -> None:
    # not the schemas: an older release of onnx doesn't know all of them
    assert {("", name) for name in specified()} <= set(classifications())
    for _, meaning in described():
        assert ("", meaning.op_type) in classifications()
        assert meaning.kind not in ("opaque", "control")


def test_attributes_and_defaults_are_those_of_the_schema() -> None:
    for schema, meaning in described():
        where = f"{schema.name} {schema.since_version}"
        for block in meaning.blocks:
            declared = {attribute.name: attribute for attribute in block.attributes}
            assert set(declared) == set(schema.attributes), where
            for name, attribute in schema.attributes.items():
                parameter = declared[name]
                assert parameter.optional == (not attribute.required), f"{where} {name}"
                if attribute.default_value.type and isinstance(parameter.default, Literal):
                    value = onnx.helper.get_attribute_value(attribute.default_value)
                    wanted = value.decode() if isinstance(value, bytes) else value
                    same = parameter.default.value == wanted or (
                        isinstance(wanted, float)
                        and parameter.default.value == pytest.approx(wanted, rel=1e-6)
                    )
                    assert same, f"{where} {name}"


def test_number_of_inputs_is_that_of_the_schema() -> None:
    for schema, meaning in described():
        where = f"{schema.name} {schema.since_version}"
        most = {len(block.inputs) for block in meaning.blocks}
        if not any(declared.variadic for block in meaning.blocks for declared in block.inputs):
            assert max(most) == schema.max_input, where
        required = {sum(not input_.optional for input_ in block.inputs) for block in meaning.blocks}
        assert min(required) == schema.min_input, where


def test_softmax_flattens_before_13() -> None:
    data = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    (old,) = spec("Softmax", 11).evaluate([data])
    (new,) = spec("Softmax", 13).evaluate([data])
    assert old.sum(axis=(1, 2)) == pytest.approx(1)
    assert new.sum(axis=2) == pytest.approx(1)


def test_axes_move_from_attribute_to_input() -> None:
    data = np.ones((2, 3), np.float32)
    assert spec("ReduceMax", 13).shapes([(2, 3)], {"axes": [1], "keepdims": 0}) == [(2,)]
    with pytest.raises(ShapeError, match="no attribute axes"):
        spec("ReduceMax", 18).shapes([(2, 3)], {"axes": [1]})
    (result,) = spec("ReduceMax", 18).evaluate([data, np.array([1])], {"keepdims": 0})
    assert result.shape == (2,)


def test_group_normalization_scales_by_group_in_18() -> None:
    shapes = [(1, 4, 3), (2,), (2,)]
    assert spec("GroupNormalization", 18).shapes(shapes, {"num_groups": 2}) == [(1, 4, 3)]
    with pytest.raises(ShapeError, match="c: 4 = 2"):
        spec("GroupNormalization", 21).shapes(shapes, {"num_groups": 2})


def test_shapes_of_unknown_dimensions() -> None:
    assert spec("MatMul").shapes([("b", "m", "k"), ("k", "n")]) == [
        (Symbol("b"), Symbol("m"), Symbol("n"))
    ]
    reshaped = spec("Reshape").shapes([("b", 4, 6), (3,)], values={1: [0, 3, 8]})
    assert reshaped == [(Symbol("b"), 3, 8)]
    assert spec("Transpose").shapes([("a", 2, "c")]) == [(Symbol("c"), 2, Symbol("a"))]
    assert spec("Concat").shapes([("a", 2), ("a", 3)], {"axis": 1}) == [(Symbol("a"), 5)]


@pytest.mark.parametrize(
    ("op_type", "shapes", "attributes", "reason"),
    [
        ("MatMul", [(2, 3), (4, 5)], {}, "k: 3 = 4"),
        ("Add", [(2, 3), (2, 4)], {}, "3 and 4 don't broadcast"),
        ("PRelu", [(3,), (2, 3)], {}, "doesn't fit"),
        ("Gemm", [(2, 3), (3, 4), (3, 1)], {}, "don't broadcast"),
        ("Conv", [(1, 3, 5), (4, 3, 2, 2)], {}, "rank.k. = rank.d."),
        ("Conv", [(1, 4, 5), (3, 2, 2)], {"group": 2}, "m % group = 0"),
        ("Concat", [(2, 3), (3, 3)], {"axis": 1}, "p: 2 = 3"),
        ("Transpose", [(2, 3)], {"perm": [0, 0]}, "no permutation"),
        ("Flatten", [(2, 3)], {"axis": 3}, "outside of rank 2"),
        ("Softmax", [(2, 3)], {"axis": -3}, "outside of rank 2"),
        ("Relu", [(2,), (2,)], {}, "takes 1 inputs"),
        ("Relu", [(2,)], {"alpha": 1.0}, "no attribute alpha"),
        ("DepthToSpace", [(1, 3, 2, 2)], {"blocksize": 2}, "c % "),
        ("Reshape", [(2, 3), (1,)], {}, "contents of shape must be known"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(
    op_type: str, shapes: list[tuple[int, ...]], attributes: dict[str, object], reason: str
) -> None:
    with pytest.raises(ShapeError, match=reason):
        spec(op_type).shapes(shapes, attributes)


def test_absent_inputs_may_be_named_or_left_out() -> None:
    shapes = [(2, 3), (3, 4)]
    assert spec("Gemm").shapes(shapes) == spec("Gemm").shapes([*shapes, None]) == [(2, 4)]
    rotary = [(1, 2, 5, 4), (1, 5, 2), (1, 5, 2)]
    assert spec("RotaryEmbedding", 23).shapes([*rotary, None]) == [(1, 2, 5, 4)]


def test_an_index_outside_is_refused() -> None:
    with pytest.raises(EvaluationError, match="outside of axis 0"):
        spec("Gather").evaluate([np.zeros(3, np.float32), np.array([3])])


def test_flops_and_bytes() -> None:
    assert spec("MatMul").flops([(2, 3, 4), (4, 5)]) == 2 * 2 * 3 * 4 * 5
    assert spec("MatMul").bytes([(3, 4), (4, 5)]) == 4 * (12 + 20 + 15)
    convolution = spec("Conv").flops([(1, 64, 56, 56), (64, 64, 3, 3)], {"pads": [1] * 4})
    assert convolution == pytest.approx(2 * 64 * 64 * 9 * 56 * 56, rel=0.01)
    assert spec("Transpose").flops([(3, 4)]) == 0
    assert spec("Add").flops([(3, 1), (4,)]) == 12


def test_sparse_safety() -> None:
    assert spec("Mul").sparse_safe == ("A", "B")
    assert spec("Add").sparse_safe == ()
    assert spec("Div").sparse_safe == ("A",)
    assert spec("MatMul").sparse_safe == ("A", "B")
    assert spec("Relu").sparse_safe == ("X",)
    assert spec("Exp").sparse_safe == spec("Cos").sparse_safe == spec("Sigmoid").sparse_safe == ()
    assert spec("ReduceSum").sparse_safe == ("X",)


_OF_OTHER_TYPES = {"BitShift", "Cast", "CastLike", "DequantizeLinear", "QuantizeLinear"}
_SAFE = {
    schema.name
    for schema, meaning in described()
    if meaning.kind == "elementwise" and meaning.sparse_safe and schema.name not in _OF_OTHER_TYPES
}


@pytest.mark.parametrize("op_type", sorted(_SAFE))
def test_zeros_pass_where_it_is_said(op_type: str) -> None:
    meaning = spec(op_type, onnx.defs.onnx_opset_version())
    names = [declared.name for declared in meaning.blocks[0].inputs if not declared.optional]
    for name in meaning.sparse_safe:
        data = [np.zeros(5) if name == other else np.linspace(0.5, 2, 5) for other in names]
        if meaning.op_type.startswith("Bitwise"):
            data = [array.astype(np.int64) for array in data]
        if op_type in ("And", "Xor", "Or", "Not"):
            data = [array > 0 for array in data]
        (result, *_) = meaning.evaluate(data, outputs=1)
        assert not result.any(), name


def test_opaque_operators_say_why() -> None:
    meaning = spec("Det")
    assert meaning.opaque == "a determinant is no sum over a box of indices"
    with pytest.raises(OpaqueOperatorError, match="Det is opaque"):
        meaning.shapes([(3, 3)])


def test_unknown_operators_have_no_specification() -> None:
    assert specification("", "NoSuchOperator", 21) is None
    assert specification("my.domain", "Gelu", 1) is None
    assert specification("com.microsoft", "Relu", 1) is None
    assert specification("", "Gelu", 19) is None
    assert specification("ai.onnx", "Relu", 21) is not None


def test_hash_depends_on_the_text() -> None:
    assert spec("Relu").hash != spec("Elu").hash
    assert spec("Relu").hash == spec("Relu", 20).hash
    assert len(spec("Relu").hash) == 64


def test_hash_depends_on_called_functions_only() -> None:
    def called(name: str) -> str:
        return " ".join(_called([block.text for block in spec(name).blocks]))

    assert "def same_total" in called("Conv")  # through pad_before
    assert "def sigmoid" not in called("Conv")
    assert called("Relu") == ""


@pytest.mark.parametrize("value", ["x", 1.5, -7, [], ["x"], None, [None]])
@pytest.mark.parametrize("op_type", ["Conv", "Transpose", "Softmax", "MaxPool", "Einsum", "Gemm"])
def test_attributes_of_a_wrong_kind_are_refused(op_type: str, value: object) -> None:
    meaning = spec(op_type)
    shapes = [(1, 2, 3, 4), (2, 2, 1, 1)][: len(meaning.blocks[0].inputs)]
    for attribute in meaning.blocks[0].attributes:
        try:
            meaning.shapes(shapes, {attribute.name: value})
        except TensologError as error:
            assert str(error)
