"""Random inputs: several distributions, so that a deviation in one of them is seen."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..kernel import numpy_dtype

Array = np.ndarray[Any, Any]

# Values are drawn once up to here and repeated beyond: random numbers take longer than most models.
_PERIOD = 1 << 20
_MOST_REPLACED = 4


def _normal(rng: np.random.Generator, size: int) -> Array:
    return rng.standard_normal(size)


def _uniform(rng: np.random.Generator, size: int) -> Array:
    return rng.uniform(-1.0, 1.0, size)


def _large_mean(rng: np.random.Generator, size: int) -> Array:
    return 100.0 + rng.standard_normal(size)


def _sparse(rng: np.random.Generator, size: int) -> Array:
    return rng.standard_normal(size) * (rng.random(size) < 0.05)


def _integers(rng: np.random.Generator, size: int) -> Array:
    return rng.integers(-3, 4, size).astype(np.float64)


def _with(values: tuple[float, ...]) -> Callable[[np.random.Generator, int], Array]:
    """Draw normal numbers, a few of which are replaced: others must stay to be compared."""

    def draw(rng: np.random.Generator, size: int) -> Array:
        drawn = rng.standard_normal(size)
        count = min(size, max(1, min(_MOST_REPLACED, size // 8)))
        drawn[rng.choice(size, count, replace=False)] = np.resize(values, count)
        return drawn

    return draw


_DRAW: dict[str, Callable[[np.random.Generator, int], Array]] = {
    "normal": _normal,
    "uniform": _uniform,
    "large_mean": _large_mean,
    "sparse": _sparse,
    "integers": _integers,
    "nan": _with((np.nan,)),
    "infinite": _with((np.inf, -np.inf)),
}
NONFINITE: tuple[str, ...] = ("nan", "infinite")
"""Normal numbers with up to four NaN, or infinities of both signs, among them."""
DISTRIBUTIONS: tuple[str, ...] = tuple(name for name in _DRAW if name not in NONFINITE)
"""normal N(0, 1), uniform [-1, 1), large_mean N(100, 1), sparse 95 % zeros, integers -3 .. 3."""


def random_feeds(
    inputs: Mapping[str, tuple[str, tuple[int, ...]]],
    distribution: str = "normal",
    seed: int = 0,
    *,
    high: int = 2,
) -> dict[str, Array]:
    """Return one array for each input {name: (dtype, shape)}.

    Floats and complex numbers follow `distribution`, one of DISTRIBUTIONS or NONFINITE, else
    ValueError.
    Integers lie in [0, high), which is a valid index, token or length in nearly every model.
    Booleans are even odds, strings short words. An input's values depend on its name and the seed,
    not on the other inputs.
    """
    if distribution not in _DRAW:
        known = ", ".join(DISTRIBUTIONS)
        raise ValueError(f"unknown distribution {distribution!r}; known: {known}")
    feeds = {}
    for name, (dtype, shape) in inputs.items():
        rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
        feeds[name] = random_array(rng, dtype, shape, distribution, high=high)
    return feeds


def random_array(
    rng: np.random.Generator,
    dtype: str,
    shape: tuple[int, ...],
    distribution: str = "normal",
    *,
    low: int = 0,
    high: int = 2,
    period: int = _PERIOD,
) -> Array:
    """Return an array of `dtype` and `shape`; integers lie in [low, high).

    Values repeat after `period` elements.
    """
    size = int(np.prod(shape, dtype=np.int64))
    drawn = min(size, period)
    target = numpy_dtype(dtype)
    values: Array
    if target.kind == "O":
        words = np.array([f"word{number}" for number in range(7)], dtype=object)
        return words[rng.integers(0, len(words), size)].reshape(shape)
    if target.kind == "b":
        values = rng.random(drawn) < 0.5
    elif target.kind in "iu" or dtype in {"int4", "uint4", "int2", "uint2"}:
        values = rng.integers(low, max(low + 1, high), drawn)
    elif target.kind == "c":
        draw = _DRAW[distribution]
        values = np.empty(drawn, np.complex128)  # a product with 1j makes NaN of infinities
        values.real, values.imag = draw(rng, drawn), draw(rng, drawn)
    else:
        values = _DRAW[distribution](rng, drawn)
    values = values.astype(target)
    return (values if drawn == size else np.resize(values, size)).reshape(shape)
