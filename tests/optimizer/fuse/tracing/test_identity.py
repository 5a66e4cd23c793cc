"""What is the array itself, a view of it or a copy is so in a fused function, as NumPy has it."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensolog import fuse
from tests.campaigns import examples

SHAPES = [(5,), (3, 4), (1, 4), (3, 1, 2), (0, 3), (), (1,)]
TEXTS = [
    *("x.real", "np.real(x)", "x.conj()", "x.conjugate()", "np.conj(x)", "+x", "x.imag", "abs(x)"),
    *("x.squeeze()", "np.squeeze(x)", "x.squeeze(())", "np.squeeze(x, axis=())", "x[None, ...]"),
    *("np.asarray(x)", "np.asanyarray(x)", "np.ascontiguousarray(x)", "np.require(x)", "x.view()"),
    *("x.astype(float, copy=False)", "x.astype(float)", "np.atleast_1d(x)", "np.array(x)"),
    *("x.T", "x.transpose()", "x[...]", "x.reshape(x.shape)", "x.ravel()", "x.flatten()"),
    *("np.broadcast_to(x, x.shape)", "np.broadcast_arrays(x, x)[0]", "x[None].squeeze(0)"),
    *("x.__iadd__(1)", "np.clip(x, 0, 1, out=x)", "np.negative(x, x)", "np.flip(x)", "np.copy(x)"),
    *("np.real_if_close(x)", "x.byteswap(True)", "x.round(2)", "np.moveaxis(x, (), ())"),
    *("np.nan_to_num(x, copy=False)", "x.reshape(-1)", "x.copy()"),
]


def relation(result: Any, x: Any) -> tuple[Any, ...]:
    if not isinstance(result, np.ndarray):
        return (type(result),)
    shared = np.shares_memory(result, x)
    strides = [step for step, n in zip(result.strides, result.shape, strict=True) if n > 1]
    properties = result.shape, result.dtype, result.flags.writeable
    return result is x, shared, type(result), *properties, strides if result.size else []


@pytest.mark.parametrize("text", TEXTS)
def test_an_array_and_what_is_made_of_it(text: str) -> None:
    function = eval(f"lambda x: {text}", {"np": np})
    fused = fuse(function)
    for shape in SHAPES:
        x = np.arange(float(np.prod(shape))).reshape(shape)
        for called in range(2):
            first, other = x.copy(), x.copy()
            try:
                expected = function(first)
            except ValueError as error:
                with pytest.raises(type(error)):
                    fused(other)
                continue
            result = fused(other)
            assert relation(result, other) == relation(expected, first), (shape, called)
            for array in (result, expected):
                if isinstance(array, np.ndarray) and array.flags.writeable:
                    array[...] = 7.0
            np.testing.assert_array_equal(result, expected)
            np.testing.assert_array_equal(other, first)


@settings(deadline=None, max_examples=examples(40))
@given(st.lists(st.sampled_from([text for text in TEXTS if "out=" not in text]), max_size=4))
def test_what_was_computed_and_what_is_made_of_it(texts: list[str]) -> None:
    def function(x: Any) -> Any:
        y = x * 2.0
        names = {"np": np, "x": y}
        results = [eval(text, names) for text in texts]
        # What NumPy gives the memory to stays a real array, and becomes the same when it returns.
        is_numpys = ["np." in text for text in texts]
        return (
            [result is y or real for result, real in zip(results, is_numpys, strict=True)],
            y,
            results,
        )

    x = np.arange(12.0).reshape(3, 4)
    same, y, results = fuse(function)(x)
    expected_same, expected_y, expected = function(x)
    assert same == expected_same
    assert [result is y for result in results] == [result is expected_y for result in expected]
    for is_, should in zip(results, expected, strict=True):
        assert np.shares_memory(is_, y) == np.shares_memory(should, expected_y)
        np.testing.assert_array_equal(is_, should)
    np.testing.assert_array_equal(y, expected_y)
