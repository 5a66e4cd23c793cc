"""Which parameters count axes: those that mean the same from both ends, and no others."""

from itertools import combinations

import pytest
from tensolog.catalog.operators import ShapeError, specification, specified
from tensolog.catalog.operators.axes import axis_parameters, counted

OPSETS = (9, 12, 17, 21)
RANK = 3
# What operators need besides, so that they have a meaning: attributes, and inputs that are lists.
BESIDES = {
    "GatherElements": {},
    "LpNormalization": {"p": 2},
    "OneHot": {},
    "ScatterElements": {},
}


def meanings(op, opset, spelled):
    """What an operator means with a parameter spelled in each way; None where it has no meaning."""
    described = specification("", op, opset)
    name, position, values = spelled
    inputs = max((len(block.inputs) for block in described.blocks), default=0)
    outcomes = []
    for value in values:
        outcome = None
        for tensors in range(1, inputs + 2):
            shapes = [tuple(f"d{i}" for i in range(RANK))] * tensors
            known = {} if position is None else {position: value}
            attributes = {**BESIDES.get(op, {}), **({} if position is not None else {name: value})}
            if position is not None:
                shapes = [*shapes[:position], *[None] * (position - len(shapes)), (1,)]
            try:
                outcome = described.expand(shapes, attributes, values=known)
                break
            except ShapeError:
                continue
        outcomes.append(outcome)
    return outcomes


def parameters_of(op, opset):
    """Every integer that an operator takes: its name, and the position of an input."""
    for block in specification("", op, opset).blocks:
        for attribute in block.attributes:
            if attribute.type in ("int", "ints"):
                yield attribute.name, None, attribute.type == "ints"
        for position, input_ in enumerate(block.inputs):
            if input_.kind != "tensor":
                yield input_.name, position, input_.kind == "ints"


def cases():
    for op in specified():
        for opset in OPSETS:
            described = specification("", op, opset)
            if described is not None and described.blocks:
                for name, position, is_list in dict.fromkeys(parameters_of(op, opset)):
                    yield op, opset, name, position, is_list


@pytest.mark.parametrize("op", sorted({op for op, *_ in cases()} - {"Shape"}))
def test_a_parameter_counts_axes_where_both_ends_mean_the_same(op):
    """Complete and sound: what means one thing from either end, and another at each axis, is one.

    Of Shape, `start` and `end` do that as well: they are bounds, which may lie outside.
    """
    for _, opset, name, position, is_list in (case for case in cases() if case[0] == op):
        listed = {
            axis_parameter.name: axis_parameter for axis_parameter in axis_parameters("", op, opset)
        }
        pairs = []
        for axis in range(RANK):
            pair = [axis, axis - RANK - (op == "Unsqueeze")]  # whose axes are those of the result
            values = [[axis] for axis in pair] if is_list else pair
            pairs.append(meanings(op, opset, (name, position, values)))
        agree = all(front == end for front, end in pairs)
        fronts = [front for front, _ in pairs]
        if None not in fronts and all(a != b for a, b in combinations(fronts, 2)):
            assert (name in listed) == agree, (op, opset, name)
        elif name in listed:
            assert agree, (op, opset, name)


@pytest.mark.parametrize(
    ("op", "opset", "names"),
    [
        ("ReduceSum", 13, {"axes"}),
        ("ReduceMean", 17, {"axes"}),
        ("Split", 18, {"axis"}),
        ("CumSum", 14, {"axis"}),
        ("DepthToSpace", 13, set()),
        ("Transpose", 13, set()),
        ("ReverseSequence", 10, set()),
    ],
)
def test_axes_of_operators(op, opset, names):
    assert {axis_parameter.name for axis_parameter in axis_parameters("", op, opset)} == names


def test_axes_of_no_operator():
    assert axis_parameters("", "NoSuchOperator", 21) == ()
    assert axis_parameters("", "Det", 21) == ()  # opaque


def test_the_rank_that_axes_are_counted_in():
    (squeeze,) = axis_parameters("", "Squeeze", 13)
    (unsqueeze,) = axis_parameters("", "Unsqueeze", 13)
    assert squeeze.rank_of([4, 1], 2) == 4
    assert unsqueeze.rank_of([4, 1], 2) == 6
    assert squeeze.rank_of([None, 1], 2) is None


@pytest.mark.parametrize(
    ("axis", "rank", "expected"), [(-1, 3, 2), (2, 3, 2), (-4, 3, -4), (5, 3, 5)]
)
def test_an_axis_that_no_tensor_has_stays(axis, rank, expected):
    assert counted(axis, rank) == expected
