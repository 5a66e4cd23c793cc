"""C code that takes an array's memory by the buffer protocol gets it inside of fused functions."""

import base64
import ctypes
import gc
import hashlib
import io
import pickle
import struct
import sys
import zlib
from typing import Any

import numpy as np
import pytest

from tensolog import fuse

X = np.random.default_rng(0).normal(size=(6, 4))
NAMES = {
    module.__name__: module for module in (hashlib, io, struct, pickle, zlib, base64, ctypes)
} | {"np": np}
TEXTS = [
    *("hashlib.sha256(x).hexdigest()", "hashlib.md5(x * 2).digest()", "bytes(x)", "bytearray(x)"),
    *("memoryview(x * 2).tolist()", "memoryview(x).shape", "memoryview(x).format", "bytes(x[1])"),
    *("io.BytesIO().write(x)", "zlib.crc32(x + 1)", "base64.b64encode(x)", "b''.join([x, x * 2])"),
    *("np.frombuffer(x).sum()", "np.frombuffer(x * 2, np.uint8)", "pickle.loads(pickle.dumps(x))"),
    *("bytes(x.min())", "memoryview(x.max()).nbytes", "hashlib.sha256(x[1, 2]).digest()"),
    *("pickle.dumps(x * 2, 5)", "pickle.loads(pickle.dumps(pickle.PickleBuffer(x), 5))[:2]"),
    *("bytes(memoryview(x.T.copy()))", "x.__array_interface__['shape']", "memoryview(x.T).strides"),
    *("np.asarray(x)", "np.asarray(x * 2).T", "np.array(x)", "np.array([x.sum(), 1.0])"),
    *("np.ctypeslib.as_array(np.ctypeslib.as_ctypes(x))", "np.from_dlpack(x * 2)"),
    *("bytes((x > 0))", "memoryview(x.astype('f4')).format", "bytes(x.astype(int))"),
    "[memoryview(one).nbytes for one in (x + 1, x.T.copy())]",
]
STATEMENTS = [
    "struct.pack_into('d', x, 8, 7.0); found = x * 2",
    "y = x * 2; struct.pack_into('d', x, 0, 7.0); found = y + x",
    "m = memoryview(x); y = x * 2; m[0, 0] = 5.0; z = x * 2; m[0, 0] = 6.0; found = y, z, x + 1",
    "y = x[1:]; memoryview(x).cast('B').cast('d')[4] = 9.0; found = y.sum(axis=0), y",
    "io.BytesIO(b'\\x01' * 192).readinto(x); found = x + 1",
    "y = x + 1; io.BytesIO(b'\\x01' * 192).readinto(y); found = y * 2, x",
    "z = (ctypes.c_double * 24).from_buffer(x); z[3] = 1.5; y = x * 2; z[3] = 2.5; found = y, x",
    "m = memoryview(x * 2); y = x * 2; found = y.sum(), m[0, 0]",
    "q = np.frombuffer(x); y = x * 2; q[0] = 3.0; found = y, x * 1, q.sum()",
]


def agree(result: Any, expected: Any) -> None:
    assert type(result) is type(expected)
    if isinstance(expected, tuple | list):
        for first, other in zip(result, expected, strict=True):
            agree(first, other)
    elif isinstance(expected, np.ndarray | np.generic):
        assert result.dtype == expected.dtype
        np.testing.assert_allclose(result, expected)
    else:
        assert result == expected


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("heuristic", ["cost", "all"])
def test_what_takes_memory_gets_it(text: str, heuristic: Any) -> None:
    function = eval(f"lambda x: {text}", NAMES)
    fused = fuse(function, heuristic=heuristic)
    for _ in range(3):
        agree(fused(X.copy()), function(X.copy()))


@pytest.mark.parametrize("text", STATEMENTS)
@pytest.mark.parametrize("heuristic", ["cost", "all"])
def test_what_is_written_so_is_seen_as_numpy_has_it(text: str, heuristic: Any) -> None:
    space = dict(NAMES)
    exec(f"def function(x):\n    {text}\n    return found", space)
    function: Any = space["function"]
    fused = fuse(function, heuristic=heuristic)
    for _ in range(3):
        mine, plain_argument = X.copy(), X.copy()
        agree(fused(mine), function(plain_argument))
        np.testing.assert_array_equal(mine, plain_argument)


def test_a_function_that_hashes_is_fused_around_it() -> None:
    def function(x: Any) -> Any:
        y = np.exp(x) * 2
        return hashlib.sha256(y).hexdigest(), (y * y).sum(axis=0)

    fused = fuse(function, heuristic="all")
    digest, sums = fused(X)
    assert len(digest) == 64
    np.testing.assert_allclose(sums, ((np.exp(X) * 2) ** 2).sum(axis=0))
    assert fused.explain().count("a generated kernel") == 2, fused.explain()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("hashlib.sha256(x.T)", ValueError),
        ("memoryview(x.T).cast('B')", TypeError),
        ("struct.pack_into('d', x[:, ::2], 0, 1.0)", TypeError),
        ("hashlib.sha256(x[:, ::2])", ValueError),
        ("int.from_bytes([x])", TypeError),
    ],
)
def test_what_numpy_refuses_is_refused(text: str, kind: type[Exception]) -> None:
    function = eval(f"lambda x: {text}", NAMES)
    for call in (function, fuse(function)):
        with pytest.raises(kind) as caught:
            call(X.copy())
    assert not isinstance(caught.value, SystemError)


def test_what_may_not_be_written_isnt() -> None:
    fixed = X.copy()
    fixed.flags.writeable = False
    function = eval("lambda x: struct.pack_into('d', x, 0, 1.0)", NAMES)
    for call in (function, fuse(function)):
        with pytest.raises(TypeError):
            call(fixed)
    assert fuse(lambda x: memoryview(x).readonly)(fixed)
    np.testing.assert_array_equal(fixed, X)


def test_memory_is_let_go_of() -> None:
    kept: list[Any] = []

    def function(x: Any) -> Any:
        y = x * 2
        kept.append(sys.getrefcount(y))
        digest = hashlib.sha256(y).digest()
        kept.append(sys.getrefcount(y))
        return digest

    fused = fuse(function)
    for _ in range(3):
        fused(X)
    gc.collect()
    assert kept[0::2] == kept[1::2]
