"""The shorter elementary functions of kernels against long doubles."""

import math
from functools import cache
from importlib import resources

import numpy as np
import pytest
from tensolog.optimizer import native as kernels
from tensolog.optimizer.codegen import find_compiler
from tensolog.optimizer.codegen.compiler import library
from tensolog.optimizer.codegen.unit import unit
from tensolog.optimizer.fuse.codegen.launch import address, exported

from tests.campaigns import ALL
from tests.optimizer.fuse.codegen.build import reachable

from .build import needs_compiler

pytestmark = needs_compiler
# What brief.h states, with and without fused multiply-adds: ulp of tanh, parts of 1 of sigmoid.
TANH, SIGMOID = {True: 5.2, False: 6.1}, {True: 1.75e-7, False: 2e-7}


@pytest.fixture(scope="module", params=reachable())
def functions(request):
    texts = []
    for name in ("tanh", "sigmoid"):
        loop = f"for (i64 i = 0; i < a[2]; i++) y[i] = brief_{name}_32(x[i]);"
        body = f"const float *x = (float *)a[0]; float *restrict y = (float *)a[1]; {loop}"
        texts.append((f"all_{name}", f"static void all_{name}(i64 *a) {{ {body} }}"))
    brief = resources.files(kernels).joinpath("headers", "brief.h").read_text(encoding="utf-8")
    texts[0] = (texts[0][0], brief + texts[0][1])
    compiler = find_compiler()
    loaded = library(unit(texts, [request.param], compiler), compiler)

    def call(name, x):
        result = np.empty_like(x)
        arguments = np.array([address(x), address(result), x.size], np.int64)
        exported(loaded, f"all_{name}").call(address(arguments))
        return result

    return call, request.param != "plain"


@cache
def numbers():
    """Every 257th of all numbers that are normal, or 0, and many where the functions bend.

    A run of all tests takes every 4099th, and fewer there.
    """
    x = np.arange(0, 2**32, 257 if ALL else 4099, dtype=np.uint64).astype(np.uint32)
    x = x.view(np.float32)
    x = x[np.isfinite(x) & ((x == 0) | (np.abs(x) >= np.finfo(np.float32).tiny))]
    bends = np.random.default_rng(0).uniform(-18, 18, 500_000 if ALL else 100_000)
    return np.concatenate([x, bends.astype(np.float32)])


@cache
def wanted_tanh():
    wanted = np.tanh(numbers().astype(np.longdouble))
    # In long doubles, which a thread that flushes subnormal numbers keeps: spacings of float32
    # numbers below 1e-31 are 0 there.
    _, exponent = np.frexp(wanted.astype(np.float32).astype(np.longdouble))
    return wanted, np.ldexp(np.longdouble(1), np.where(wanted == 0, -125, exponent) - 24)


@cache
def wanted_sigmoid():
    x = numbers()
    small = np.exp(-np.abs(x.astype(np.longdouble)))
    return np.where(x < 0, small, 1) / (1 + small)


def test_tanh_is_as_near_as_stated_and_never_beyond_1(functions):
    call, fused = functions
    x = numbers()
    values, (wanted, ulp) = call("tanh", x), wanted_tanh()
    assert (np.abs(values - wanted) / ulp).max() <= TANH[fused]
    assert np.abs(values).max() == 1
    np.testing.assert_array_equal(np.signbit(values), np.signbit(x))


def test_sigmoid_is_as_near_as_stated_and_never_beyond_0_and_1(functions):
    call, fused = functions
    x = numbers()
    values = call("sigmoid", x)
    assert np.abs(values - wanted_sigmoid()).max() <= SIGMOID[fused]
    assert (values.min(), values.max()) == (0, 1)
    assert not np.signbit(values).any()
    assert not values[x < -16.7].any()


@pytest.mark.parametrize("count", [1, 8, 35])
def test_what_is_no_number_and_what_has_no_end(functions, count):
    call, _ = functions
    for x, tanh, sigmoid in (
        (math.nan, math.nan, math.nan),
        (-math.nan, math.nan, math.nan),
        (math.inf, 1, 1),
        (-math.inf, -1, 0),
        (np.finfo(np.float32).max, 1, 1),
        (np.finfo(np.float32).min, -1, 0),
    ):
        array = np.full(count, x, np.float32)
        np.testing.assert_array_equal(call("tanh", array), np.full(count, tanh, np.float32))
        np.testing.assert_array_equal(call("sigmoid", array), np.full(count, sigmoid, np.float32))
