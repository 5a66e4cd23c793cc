"""Fused against NumPy: equal up to what rounding of the inputs alone would change.

The tolerance of an element is 128 times the largest change that relative perturbations of all
inputs by one unit in the last place cause in NumPy's own result (three random ones), plus 512
units in the last place of the element and 16 of the largest element (units of the least precise
type among the result's and the inputs'). Types and shapes are the same, and NaNs and infinities
stand in the same places, unless the perturbations move those too.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


class DifferenceError(AssertionError):
    """A fused function returned something else than NumPy."""


def compare(function: Callable[..., Any], fused: Callable[..., Any], inputs: Sequence[Any]) -> None:
    """Raise DifferenceError where `fused` doesn't return what `function` does for the inputs.

    It is called twice, with a call for other values between: what a call remembers must not show.
    """
    with np.errstate(all="ignore"):
        copies = [_copied(input_) for input_ in inputs]
        expected = _flat(function(*copies))
        mutated = [argument for argument in copies if isinstance(argument, np.ndarray)]
        spreads = [np.zeros(np.shape(part)) for part in expected]
        for attempt in range(3):
            rng = np.random.default_rng(attempt)
            other = _flat(function(*[_perturbed(input_, rng) for input_ in inputs]))
            for position, (left, right) in enumerate(zip(expected, other, strict=True)):
                if np.shape(left) == np.shape(right):
                    change = np.abs(_real(left) - _real(right))
                    both = np.isnan(_real(left)) & np.isnan(_real(right))
                    same = both | (_real(left) == _real(right))
                    change = np.where(same, 0.0, np.where(np.isnan(change), np.inf, change))
                    spreads[position] = np.maximum(spreads[position], change)
    _agrees(fused, inputs, expected, mutated, spreads)
    with np.errstate(all="ignore"):
        fused(*[_perturbed(input_, np.random.default_rng(0)) for input_ in inputs])
    _agrees(fused, inputs, expected, mutated, spreads)


def _agrees(
    fused: Callable[..., Any],
    inputs: Sequence[Any],
    expected: Sequence[Any],
    mutated: Sequence[Any],
    spreads: Sequence[Any],
) -> None:
    copies = [_copied(input_) for input_ in inputs]
    with np.errstate(all="ignore"):
        results = _flat(fused(*copies))
    # A float32 function of a float32 argument may be off by a unit before it meets float64.
    coarsest = max(map(_unit, inputs), default=0.0)
    if len(results) != len(expected):
        raise DifferenceError(f"{len(results)} results instead of {len(expected)}")
    for position, (is_, should, spread) in enumerate(zip(results, expected, spreads, strict=True)):
        _same(f"result {position}", is_, should, spread, coarsest)
    written = [argument for argument in copies if isinstance(argument, np.ndarray)]
    for is_, should in zip(written, mutated, strict=True):
        _same("an argument", is_, should, np.abs(_real(should)) * 1e-4, coarsest)


def _unit(value: Any) -> float:
    """Return one unit in the last place of 1 in a value's type; of whole numbers, of float64."""
    kind = getattr(value, "dtype", np.dtype(float))
    return float(np.finfo(kind).eps) if kind.kind == "f" else 2.3e-16


def _same(subject: str, result: Any, expected: Any, spread: Any, coarsest: float) -> None:
    if type(result) is not type(expected):
        raise DifferenceError(
            f"{subject} is a {type(result).__name__}, not {type(expected).__name__}"
        )
    if not isinstance(expected, np.ndarray | np.generic):
        if not isinstance(expected, float | str) and not hasattr(expected, "tocsr"):
            if result != expected:
                raise DifferenceError(f"{subject} is {result}, not {expected}")
            return
        result, expected = _dense(result), _dense(expected)
    if result.dtype != expected.dtype or result.shape != expected.shape:
        raise DifferenceError(
            f"{subject} is {result.dtype}{result.shape}, not {expected.dtype}{expected.shape}"
        )
    left, right = _real(result), _real(expected)
    unit = max(_unit(expected), coarsest)
    finite = right[np.isfinite(right)]
    largest = float(np.abs(finite).max()) if finite.size else 0.0
    allowed = 128 * spread + 512 * unit * np.abs(right) + 16 * unit * largest
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    with np.errstate(all="ignore"):
        bad = ~same & ~(np.abs(left - right) <= allowed) & np.isfinite(allowed)
        bad |= ~same & np.isfinite(spread) & (np.isfinite(left) != np.isfinite(right))
    if bad.any():
        place = tuple(int(i) for i in np.argwhere(bad)[0]) if bad.ndim else ()
        raise DifferenceError(
            f"{subject} at {place} is {left[place]}, not {right[place]} "
            f"({int(bad.sum())} of {bad.size} differ; allowed {np.asarray(allowed)[place]:.3g})"
        )


def _dense(value: Any) -> Any:
    return value.toarray() if hasattr(value, "tocsr") else np.asarray(value)


def _real(value: Any) -> Any:
    """Return numbers as float64; of what is none, an array without elements."""
    dense = np.asarray(_dense(value))
    with np.errstate(all="ignore"):
        if dense.dtype.kind == "c":
            dense = np.stack([dense.real, dense.imag])
        return dense.astype(np.float64) if dense.dtype.kind in "fiub" else np.zeros(0)


def _flat(value: Any) -> list[Any]:
    if isinstance(value, tuple | list):
        return [part for item in value for part in _flat(item)]
    if isinstance(value, dict):
        return [part for item in value.values() for part in _flat(item)]
    return [value]


def _copied(value: Any) -> Any:
    """Return a copy of the same strides, read-only where it is."""
    if not isinstance(value, np.ndarray):
        return copy.deepcopy(value)
    if not value.flags.writeable:
        return value
    if value.flags.c_contiguous or value.flags.f_contiguous:
        return value.copy(order="K")
    base = value.base if isinstance(value.base, np.ndarray) else value
    memory = base.copy(order="K")
    start = value.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    return np.ndarray(value.shape, value.dtype, memory, start, value.strides)


def _perturbed(value: Any, rng: np.random.Generator) -> Any:
    if hasattr(value, "tocsr"):
        perturbed = value.copy() if hasattr(value, "data") else value.tocsr()
        perturbed.data = _perturbed(perturbed.data, rng)
        return perturbed.asformat(value.format)
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
        return copy.deepcopy(value)
    unit = np.finfo(value.dtype).eps
    signs = rng.choice([-1.0, 1.0], size=value.shape)
    return (value * (1 + unit * signs)).astype(value.dtype)
