"""The elementary functions against long doubles, in units in the last place."""

import ctypes
import math

import numpy as np
import pytest
from tensolog.optimizer.codegen import find_compiler
from tensolog.optimizer.codegen.compiler import library
from tensolog.optimizer.codegen.unit import LEVELS, unit
from tensolog.optimizer.fuse.codegen.launch import address, exported

from .build import reachable

COMPILER = find_compiler()
pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")

# What elementary.h, circular.h, hyperbolic.h and powers.h state.
BOUNDS = {
    "exp": 1.25,
    "expm1": 2.0,
    "log": 1.0,
    "log1p": 1.0,
    "tanh": 3.0,
    "sigmoid": 2.5,
    "softplus": 2.0,
    "erf": 1.5,
    "sin": 2.5,
    "cos": 2.5,
    "tan": 4.0,
    "asin": 2.5,
    "acos": 1.5,
    "atan": 2.5,
    "sinh": 2.5,
    "cosh": 1.5,
    "asinh": 2.0,
    "acosh": 2.0,
    "atanh": 2.5,
    "exp2": 1.25,
    "log2": 2.0,
    "log10": 2.0,
}
NAMES = {f"a{name}": f"arc{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "tan2")}
BOUNDS_OF_TWO = {"hypot": 1.5, "atan2": 2.5, "logaddexp": 2.0}
CIRCULAR = ["sin", "cos", "tan"]
TYPES = {64: ("double", np.float64, np.uint64), 32: ("float", np.float32, np.uint32)}


@pytest.fixture(scope="module", params=reachable())
def functions(request):
    kernels = []
    for bits, (kind, _, _) in TYPES.items():
        for name in [*BOUNDS, *BOUNDS_OF_TWO, "pow"]:
            pointers = f"{kind} *x = ({kind} *)a[0], *y = ({kind} *)a[1], *z = ({kind} *)a[2];"
            second = "" if name in BOUNDS else ", y[i]"
            loop = f"for (i64 i = 0; i < a[3]; i++) z[i] = {name}_{bits}(x[i]{second});"
            kernels.append((f"all_{name}_{bits}", f"{pointers} {loop}"))
        for name in CIRCULAR:
            copies = f"{kind} u[256], v[256]; memcpy(u, x, a[3] * sizeof *x);"
            rest = "memcpy(z, v, a[3] * sizeof *z);"
            call = f"{pointers} {copies} each_{name}_{bits}(u, v, a[3]); {rest}"
            kernels.append((f"all_each_{name}_{bits}", call))
    kernels = [(name, f"static void {name}(i64 *a) {{ {text} }}") for name, text in kernels]
    loaded = library(unit(kernels, [request.param], COMPILER), COMPILER)

    def call(name, bits, x, y=None):
        result = np.empty_like(x)
        second = 0 if y is None else address(y)
        arguments = np.array([address(x), second, address(result), len(x)], np.int64)
        exported(loaded, f"all_{name}_{bits}").call(address(arguments))
        return result

    return call


def arguments(bits):
    """All exponents, the range where functions bend, and the ends of what numbers there are."""
    _, dtype, unsigned = TYPES[bits]
    rng = np.random.default_rng(bits)
    info = np.finfo(dtype)
    patterns = rng.integers(0, 2**bits, 40_000, dtype=np.uint64).astype(unsigned).view(dtype)
    ends = [0.0, 1.0, math.inf, info.max, info.tiny, info.smallest_subnormal, info.eps, math.nan]
    near = np.concatenate([rng.normal(size=20_000) * 3, rng.normal(size=10_000) * 200])
    turns = np.pi / 4 * np.concatenate([np.arange(1000), rng.integers(0, 2**20, 10_000)])
    parts = [patterns, near, rng.uniform(-1.5, 1.5, 20_000), turns, ends, np.negative(ends)]
    if bits == 32:  # every 4099th of all numbers
        parts.append(np.arange(0, 2**32, 4099, dtype=np.uint64).astype(np.uint32).view(dtype))
    return np.concatenate([np.asarray(part, dtype) for part in parts])


def exact(name, x):
    x = x.astype(np.longdouble)
    if name == "sigmoid":
        small = np.exp(-np.abs(x))
        return np.where(x < 0, small, 1) / (1 + small)
    if name == "softplus":
        return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))
    if name == "erf":
        return np.array([math.erf(number) for number in x], np.longdouble)
    return getattr(np, NAMES.get(name, name))(x)


@pytest.mark.parametrize("bits", [64, 32])
@pytest.mark.parametrize("name", BOUNDS)
def test_within_the_stated_bound_everywhere(functions, name, bits):
    if bits == 64 and np.finfo(np.longdouble).nmant < 60:
        pytest.skip("no wider type to compare with")
    x = arguments(bits)
    if name == "erf":  # by the C library's, itself off by up to one ulp of float64
        x = np.ascontiguousarray(x[:: 4 if bits == 64 else 40])
    values = functions(name, bits, x)
    with np.errstate(all="ignore"):
        wanted = exact(name, x)
        agree(values, wanted, BOUNDS[name] + (1.0 if name == "erf" and bits == 64 else 0.0))


@pytest.mark.parametrize("bits", [64, 32])
@pytest.mark.parametrize("name", CIRCULAR)
@pytest.mark.parametrize("count", [1, 15, 256])
def test_many_elements_are_computed_as_one(functions, name, bits, count):
    """Also where a few of them are far from 0; nothing is written behind the last vector."""
    x = arguments(bits)[:count].copy()
    x[0] = -1e30
    values = functions(f"each_{name}", bits, x)
    np.testing.assert_array_equal(values, functions(name, bits, x))


@pytest.mark.parametrize("bits", [64, 32])
def test_circular_functions_at_ends_and_zeros(functions, bits):
    dtype = TYPES[bits][1]
    x = np.array([0.0, -0.0, math.inf, -math.inf, math.nan], dtype)
    sin, cos, tan = (functions(name, bits, x) for name in CIRCULAR)
    assert (cos[:2] == 1).all()
    for results in (sin, tan):
        assert (results[:2] == 0).all()
        assert np.signbit(results[:2]).tolist() == [False, True]
    assert np.isnan([sin[2:], cos[2:], tan[2:]]).all()
    many = arguments(bits)
    for name in CIRCULAR[:2]:
        assert np.nanmax(np.abs(functions(name, bits, many))) <= 1


@pytest.mark.parametrize("bits", [64, 32])
@pytest.mark.parametrize("name", BOUNDS_OF_TWO)
def test_functions_of_two_within_their_bounds(functions, name, bits):
    dtype, rng = TYPES[bits][1], np.random.default_rng(2)
    with np.errstate(all="ignore"):
        ends = [0.0, 1.0, math.inf, math.nan, 5e-324, 1e-40, 3e38, 1e300]
        ends = np.array([*ends, *np.negative(ends)]).astype(dtype)
    left, right = np.meshgrid(ends, ends)
    some = arguments(bits)
    x = np.concatenate([left.ravel(), some, rng.normal(size=50_000).astype(dtype) * 9])
    y = np.concatenate(
        [right.ravel(), rng.permutation(some), rng.normal(size=50_000).astype(dtype)]
    )
    with np.errstate(all="ignore"):
        values = functions(name, bits, x, y)
        wanted = getattr(np, NAMES.get(name, name))(*(v.astype(np.longdouble) for v in (x, y)))
        if name == "logaddexp":  # of which the operands' units are asked: its result may cancel
            near = np.isfinite(values) & np.isfinite(wanted)
            larger = np.minimum(np.maximum(np.abs(x), np.abs(y)), np.finfo(dtype).max / 2)
            unit = np.spacing(np.maximum(larger, dtype(1)))
            error = np.abs(values.astype(np.longdouble) - wanted)[near] / unit[near]
            assert error.max() <= BOUNDS_OF_TWO[name], f"{error.max()} ulp"
            values, wanted = values[~near], wanted[~near]
        agree(values, wanted, BOUNDS_OF_TWO[name])


@pytest.mark.parametrize("bits", [64, 32])
def test_whole_powers_and_their_logarithms_are_exact(functions, bits):
    dtype = TYPES[bits][1]
    info = np.finfo(dtype)
    powers = np.arange(info.minexp - info.nmant, info.maxexp).astype(dtype)
    values = functions("exp2", bits, powers)
    np.testing.assert_array_equal(values, np.ldexp(dtype(1), powers.astype(int)))
    np.testing.assert_array_equal(functions("log2", bits, values), powers)
    tens = np.arange(0, 23 if bits == 64 else 11).astype(dtype)
    np.testing.assert_array_equal(functions("log10", bits, np.power(dtype(10), tens)), tens)


def agree(values, wanted, bound):
    rounded = wanted.astype(values.dtype)
    np.testing.assert_array_equal(np.isnan(values), np.isnan(rounded))
    number = ~np.isnan(rounded)
    np.testing.assert_array_equal(np.signbit(values[number]), np.signbit(rounded[number]))
    finite = np.isfinite(rounded) & np.isfinite(values)
    # an infinity may stand for what is that close to the largest number, and the other way round
    edge = number & ~finite & (values != rounded)
    assert (np.abs(wanted[edge]) > np.finfo(values.dtype).max * (1 - 1e-6)).all()
    error = np.abs(values[finite].astype(np.longdouble) - wanted[finite])
    ulp = error / np.spacing(np.abs(rounded[finite])).astype(np.longdouble)
    assert ulp.max(initial=0) <= bound, f"{ulp.max()} ulp"


@pytest.mark.parametrize("bits", [64, 32])
def test_pow_within_its_bound(functions, bits):
    _, dtype, unsigned = TYPES[bits]
    rng = np.random.default_rng(1)
    ends = [0.0, 1.0, 2.0, 3.0, 0.5, 1.5, math.inf, 5e-324, 1e300, 2.0**53, 2.0**24 + 1, math.nan]
    with np.errstate(all="ignore"):
        some = np.array([*ends, *np.negative(ends)]).astype(dtype)
    left, right = np.meshgrid(some, some)
    patterns = rng.integers(0, 2**bits, 30_000, dtype=np.uint64).astype(unsigned).view(dtype)
    x = np.concatenate([left.ravel(), patterns, np.exp(rng.normal(size=30_000) * 20).astype(dtype)])
    y = np.concatenate([right.ravel(), rng.normal(size=60_000).astype(dtype) * 10])
    with np.errstate(all="ignore"):
        wanted = np.power(x.astype(np.longdouble), y.astype(np.longdouble))
        agree(functions("pow", bits, x, y), wanted, 1.25 if bits == 64 else 0.51)


def test_processors_are_told_apart_at_run_time():
    text = "static void answer(i64 *a) { a[0] = (i64)exp_64(1.0); }"
    loaded = library(unit([("answer", text)], list(LEVELS), COMPILER), COMPILER)
    place = (ctypes.c_int64 * 1)()
    exported(loaded, "answer").call(ctypes.addressof(place))
    assert place[0] == 2
