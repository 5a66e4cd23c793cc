"""Terms and their classes, against NumPy: equal vectors mean equal values, on other numbers too."""

from itertools import permutations

import numpy as np
import onnxruntime
import pytest
from tensolog.rules.generation import UnknownOperatorError
from tensolog.rules.generation.candidates import candidate_of
from tensolog.rules.generation.choices import (
    named_operators,
    operations_on,
    orders_of,
    slots_of,
)
from tensolog.rules.generation.enumeration import Enumeration
from tensolog.rules.generation.leaves import choose_inputs, sort_of
from tensolog.rules.generation.terms import Apply, Sort, Variable, model_of, variables

from .oracle import compute, random_values

FAMILIES = [
    ("MatMul", "Concat"),
    ("Add", "Mul", "Relu", "Max", "Neg"),
    ("ReduceSum", "Mul", "Transpose"),
    ("Slice", "Concat"),
    ("Where", "Less", "Not", "And"),
    ("Floor", "Add"),
]


def grown(operators, nodes=2, inputs=2, seed=0):
    pool = choose_inputs(operators, inputs)
    enumeration = Enumeration(operators, pool, seed)
    levels = [enumeration.grow(size, last=size == nodes) for size in range(1, nodes + 1)]
    return pool, enumeration, levels


@pytest.mark.parametrize("operators", FAMILIES, ids="-".join)
def test_equal_terms_are_equal_in_numpy(operators):
    _, enumeration, levels = grown(operators)
    rng = np.random.default_rng(5)
    equalities = [equality for level in levels for equality in level.equalities]
    assert equalities
    for equality in equalities:
        new_term, known = enumeration.applied(equality.e_node), enumeration.term(equality.equal_to)
        free_variables = {*variables(new_term), *variables(known)}
        for assignment in (0, 1):
            values = random_values(free_variables, rng, assignment)
            left, right = (compute(side, values, assignment) for side in (new_term, known))
            assert left.shape == right.shape, f"{new_term} == {known}"
            np.testing.assert_array_equal(left, right, f"{new_term} == {known}")


@pytest.mark.parametrize("operators", FAMILIES, ids="-".join)
def test_no_two_classes_are_equal_in_numpy(operators):
    """What NumPy can't tell apart on several numbers, characteristic vectors don't either."""
    pool, enumeration, _ = grown(operators)
    rng = np.random.default_rng(7)
    draws = [random_values(pool, rng, assignment) for assignment in (0, 1) * 20]
    seen = {}
    for number in range(len(enumeration.terms)):
        term = enumeration.term(number)
        key = []
        for assignment, values in zip((0, 1) * 20, draws, strict=True):
            array = compute(term, values, assignment)
            key.append((array.shape, array.dtype.kind, (array + 0).tobytes()))
        other = seen.setdefault(tuple(key), term)
        assert other is term, f"{other} and {term} are two classes"


def test_a_run_owes_nothing_to_luck():
    _, enumeration, _ = grown(("Add", "Relu"), seed=3)
    _, again, _ = grown(("Add", "Relu"), seed=3)
    _, other, _ = grown(("Add", "Relu"), seed=4)
    texts = [str(enumeration.term(n)) for n in range(len(enumeration.terms))]
    assert texts == [str(again.term(n)) for n in range(len(again.terms))]
    assert enumeration.digests == again.digests
    assert enumeration.digests != other.digests
    assert texts == [str(other.term(n)) for n in range(len(other.terms))]


def test_what_gives_its_operand_back_is_built_upon_no_further():
    _, enumeration, (first, second) = grown(("Transpose", "Relu"), inputs=1)
    idle, others = (
        [str(enumeration.applied(equality.e_node)) for equality in level.equalities]
        for level in (first, second)
    )
    assert any("perm=[0, 1]" in text for text in idle)
    assert others
    assert not any("perm=[0, 1]" in text for text in others)


def test_families_and_names_are_operators():
    assert "ReduceSum" in named_operators(["reduction"])
    assert named_operators(["Add", "Add"]) == ("Add",)
    with pytest.raises(UnknownOperatorError, match="Det has no meaning"):
        named_operators(["Det"])
    with pytest.raises(UnknownOperatorError, match="Plus is no operator"):
        named_operators(["Plus"])


def test_an_operator_takes_part_by_its_specification_alone():
    matrix = sort_of("float32", (0, 1))
    operations = dict(operations_on("Transpose", (matrix,)))
    assert {tuple(dict(op.attributes).get("perm", (1, 0))) for op in operations} == {(0, 1), (1, 0)}
    assert Sort("bool", matrix.shapes) in dict(operations_on("Less", (matrix, matrix))).values()
    assert not operations_on("MatMul", (matrix, matrix))
    images = choose_inputs(("Conv",), 2)
    assert [len(image.sort.shapes[0]) for image in images] == [4, 4, 4]


@pytest.mark.parametrize(
    ("op_type", "stated"),
    [
        ("AveragePool", {"count_include_pad": 1, "kernel_shape": (3, 3), "pads": (1, 1, 1, 1)}),
        ("Conv", {"pads": (1, 1, 1, 1), "strides": (2, 2)}),
        ("Pad", {1: (0, 0, 1, 1, 0, 0, 1, 1)}),
    ],
)
def test_what_may_be_stated_is_what_the_runtime_takes(op_type, stated):
    """Windows and pads on all sides among it, and shapes are those of ONNX Runtime."""
    (slots,) = slots_of(op_type)
    image = Variable("X", sort_of("float32", (0, 1, 2, 3)))
    operands = (image, *choose_inputs((op_type,), 2)[2:3])[: len(slots)]
    fit = operations_on(op_type, tuple(operand.sort for operand in operands))
    assert stated in [dict(operation.attributes) | dict(operation.contents) for operation, _ in fit]
    terms = [Apply(operation, tuple(operands)) for operation, _ in fit]
    session = onnxruntime.InferenceSession(model_of(terms).SerializeToString())
    feeds = {operand.name: np.ones(operand.sort.shapes[0], np.float32) for operand in operands}
    assert [array.shape for array in session.run(None, feeds)] == [s.shapes[0] for _, s in fit]


@pytest.mark.parametrize("axis", [0, 1])
def test_the_halves_of_a_concatenation_are_split_along_its_axis(axis):
    sort = sort_of("float32", (0, 1))
    joined = {
        dict(op.attributes)["axis"]: result_sort
        for op, result_sort in operations_on("Concat", (sort,) * 2)
    }
    splits = [operation for operation, _ in operations_on("Split", (joined[axis],))]
    assert [operation.output for operation in splits] == [0, 1]
    assert all(dict(operation.attributes) == {"axis": axis} for operation in splits)


def test_pads_of_rows_and_of_columns_are_choices_beside_pads_of_both():
    image, kernel = sort_of("float32", (0, 1, 2, 3)), sort_of("float32", (4, 1, -2, -2))
    stated = [dict(operation.attributes) for operation, _ in operations_on("Conv", (image, kernel))]
    pads = [said["pads"] for said in stated if set(said) == {"pads"}]
    assert pads == [(1, 1, 1, 1), (0, 1, 0, 1), (1, 0, 1, 0)]


def test_an_order_of_dimensions_is_always_stated():
    """One that is left out is another one at each rank, of which a law speaks at a single one."""
    assert orders_of("Transpose") == {"perm"}
    assert not orders_of("Conv") | orders_of("Resize")
    for rank, count in ((2, 2), (3, 6)):
        sort = sort_of("float32", tuple(range(rank)))
        stated = [operation for operation, _ in operations_on("Transpose", (sort,))]
        assert {dict(operation.attributes)["perm"] for operation in stated} == set(
            permutations(range(rank))
        )
        assert len(stated) == count and not any(operation.options for operation in stated)
    ((number, _),) = operations_on("Transpose", (sort_of("float32", ()),))
    assert not number.attributes


def test_no_image_is_the_kernel_of_an_image():
    image, kernel = sort_of("float32", (0, 1, 2, 3)), sort_of("float32", (4, 1, -2, -2))
    ((_, joined),) = [
        application
        for application in operations_on("Concat", (image, image))
        if application[0].attributes == (("axis", 0),)
    ]
    assert operations_on("Conv", (joined, kernel))
    assert not operations_on("Conv", (joined, image))


def test_a_candidate_has_all_variables_on_the_left():
    pool, enumeration, levels = grown(("Sub", "Add"), inputs=3)
    candidates = [
        candidate_of(
            enumeration.applied(equality.e_node), enumeration.term(equality.equal_to), pool
        )
        for level in levels
        for equality in level.equalities
    ]
    assert None in candidates  # X - X = Y - Y
    for candidate in candidates:
        if candidate is not None:
            assert set(variables(candidate.right)) <= set(variables(candidate.left))
            assert candidate.left.nodes >= candidate.right.nodes
