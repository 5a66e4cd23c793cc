"""Axes that a result keeps: against what changes in it where an operand changes at one place."""

import numpy as np
import pytest
from tensolog.optimizer.fuse.program.dag import Node
from tensolog.optimizer.fuse.program.evaluate import evaluate
from tensolog.optimizer.fuse.program.kept_axes import kept_axes

CALL = {"function": "numpy.maximum.accumulate", "options": (("axis", 1),)}
ANY = {"function": "numpy.any", "options": (("axis", 0),)}
# An operator, the shapes of its operands, its attributes.
CASES = [
    ("Add", [(3, 5), (5,)], {}),
    ("Sub", [(3, 1), (3, 5)], {}),
    ("Exp", [(2, 3, 5)], {}),
    ("Expand", [(5,)], {"shape": (3, 5)}),
    ("MatMul", [(3, 5), (5, 7)], {}),
    ("MatMul", [(5,), (5, 7)], {}),
    ("MatMul", [(3, 5), (5,)], {}),
    ("MatMul", [(5,), (5,)], {}),
    ("Transpose", [(2, 3, 5)], {"perm": (2, 0, 1)}),
    ("Unsqueeze", [(3, 5)], {"axes": (0, 2)}),
    ("Squeeze", [(3, 1, 5, 1)], {"axes": (1, 3)}),
    ("Reshape", [(3, 5)], {"shape": (15,)}),
    ("Reshape", [(3, 5)], {"shape": (3, 1, 5)}),
    ("Reshape", [(2, 3, 5)], {"shape": (6, 5)}),
    ("Reshape", [(6, 5)], {"shape": (3, 2, 5)}),
    ("Slice", [(3, 5)], {"starts": (1,), "ends": (5,), "axes": (1,), "steps": (2,)}),
    ("Concat", [(3, 5), (3, 7)], {"axis": 1}),
    ("CumSum", [(3, 5)], {"axis": 0}),
    ("ReduceSum", [(2, 3, 5)], {"axes": (1,), "keepdims": 0}),
    ("ReduceMean", [(2, 3, 5)], {"axes": (0, 2), "keepdims": 1}),
    ("ReduceMax", [(3, 5)], {"axes": (0, 1), "keepdims": 0}),
    ("Call", [(3, 5)], CALL),
    ("Call", [(3, 5)], {"function": "numpy.cbrt"}),
    ("Call", [(3, 5)], ANY),
]


@pytest.mark.parametrize(("op", "shapes", "attributes"), CASES)
def test_an_axis_is_kept_where_each_place_of_it_is_made_of_the_same_place(op, shapes, attributes):
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(-1, 1, size=shape) for shape in shapes]
    if attributes is ANY:
        arrays = [array > 2 for array in arrays]  # each one that is true shows
    inputs, shape = tuple(range(len(arrays))), attributes.get("shape", ())
    drawn = Node(len(arrays), op, inputs, attributes, shape, arrays[0].dtype.name)
    before = evaluate(drawn, arrays)
    node = Node(drawn.id, op, inputs, attributes, before.shape, before.dtype.name)
    for position, array in enumerate(arrays):
        operand = Node(position, "Input", shape=array.shape, dtype=array.dtype.name)
        kept = kept_axes(node, operand, position)
        expected = {
            axis: to
            for axis, extent in enumerate(array.shape)
            for to, other in enumerate(before.shape)
            if extent == other != 1 and _goes_with(node, arrays, position, axis, to)
        }
        assert {axis: to for axis, to in kept.items() if array.shape[axis] != 1} == expected


def _goes_with(node, arrays, position, axis, to):
    """Whether each place of an operand along an axis changes the result at that place alone."""
    before = evaluate(node, arrays)
    for place in range(before.shape[to]):
        changed = [array.copy() for array in arrays]
        window = (slice(None),) * axis + (place,)
        changed[position][window] = True if changed[position].dtype == bool else 9.0
        differs = np.moveaxis(evaluate(node, changed) != before, to, 0)
        if [axis for axis, row in enumerate(differs) if row.any()] != [place]:
            return False
    return True
