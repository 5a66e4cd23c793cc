"""Tensors written and read by two that share memory come out as they went in."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tensolog.parallel.serving.shared_memory import SharedMemory

pytestmark = pytest.mark.skipif(os.name == "nt", reason="descriptors are not inherited there")

DTYPES = st.sampled_from(["float32", "float64", "float16", "bool", "int8", "uint64", "object"])
ARRAYS = DTYPES.flatmap(
    lambda dtype: arrays.arrays(
        dtype,
        arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5),
        elements=st.text(max_size=3) if dtype == "object" else None,
    )
)


@given(st.lists(st.dictionaries(st.sampled_from("abc"), ARRAYS), min_size=1, max_size=3))
def test_what_is_written_is_read(messages):
    writer = SharedMemory()
    reader = SharedMemory(os.dup(writer.descriptor))
    try:
        for message in messages:
            read = reader.read(writer.write({name: [array] for name, array in message.items()}))
            assert read.keys() == message.keys()
            for name, array in message.items():
                assert read[name].dtype == array.dtype
                np.testing.assert_array_equal(read[name], array)
            del read
    finally:
        writer.close()
        reader.close()


def test_parts_are_joined_and_memory_grows():
    writer = SharedMemory()
    reader = SharedMemory(os.dup(writer.descriptor))
    for rows in (1, 1000, 100_000, 3):
        parts = [np.full((rows, 2), number, np.float32) for number in range(3)]
        read = reader.read(writer.write({"x": parts}))["x"]
        np.testing.assert_array_equal(read, np.concatenate(parts))
    writer.close()
    reader.close()
