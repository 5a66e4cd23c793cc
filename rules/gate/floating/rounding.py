"""How much a rule's target rounds off, against how much its source does."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..onnx_models import NotRunError, SideModels
from .input_families import FAMILIES, feeds
from .reference import reference_of, reference_outputs
from .witness import Witness

Array = NDArray[Any]

# Errors of two correct programs differ by small factors, now and then by more; below a few units in
# the last place of the largest output a ratio says nothing.
UNSAFE_RATIO, UNSAFE_ONCE = 8.0, 64.0
UNSAFE_ULPS = 16.0
FEEDS = 6


@dataclass(frozen=True)
class Rounding:
    """Errors in one element type on one family of inputs, in units of the largest output.

    Where the outputs of a run are small, because operands cancel or the function is near 0, the
    unit is the largest output that ordinary numbers give.

    `ratio`: the target's largest error on an instance over the source's, each at least one unit in
    the last place; the largest over the instances, the third quartile and the median. `equal`: all
    bits were. `lost` shows where the target is not finite though the source is, or where integers
    or truth values differ; "" for nowhere.
    `witness` is a run that shows it: the loss, or else that bits differ.
    """

    dtype: str
    family: str
    samples: int
    source_error: float
    target_error: float
    max_ratio: float
    upper_ratio: float
    median_ratio: float
    equal: bool
    lost: str = ""
    witness: Witness | None = field(default=None, compare=False, repr=False)

    @property
    def verdict(self) -> Literal["equal", "rounds", "unsafe"]:
        """Say whether the bits are equal, rounded otherwise, or lost."""
        if self.equal:
            return "equal"
        if self.lost:
            return "unsafe"
        large = self.target_error > UNSAFE_ULPS * float(np.finfo(self.dtype).eps)
        far = self.upper_ratio > UNSAFE_RATIO or self.max_ratio > UNSAFE_ONCE
        return "unsafe" if large and far else "rounds"


@dataclass
class _Errors:
    """What the runs of one instance on one family came to."""

    samples: int = 0
    source: float = 0.0
    target: float = 0.0
    equal: bool = True
    measured: bool = False
    lost: str = ""
    # The inputs of the worst run, or else of the first whose bits differ.
    shown: dict[str, Array] | None = None

    def add(
        self,
        drawn: dict[str, Array],
        source: Sequence[Array],
        target: Sequence[Array],
        truth: list[Array] | None,
        ordinary: Sequence[float],
    ) -> None:
        self.samples += 1
        for i, (result, other) in enumerate(zip(source, target, strict=True)):
            if self.equal and not same_bits(result, other):
                self.equal, self.shown = False, drawn
            if not self.lost and (lost := _lost(result, other)):
                self.lost, self.shown = lost, drawn
            if truth is None or result.dtype.kind != "f" or result.shape != other.shape:
                continue
            measured = errors(result, other, truth[i], ordinary[i])
            if measured is not None:
                self.measured = True
                self.source = max(self.source, measured[0])
                if measured[1] > self.target and not self.lost and not self.equal:
                    self.shown = drawn
                self.target = max(self.target, measured[1])

    def ratio(self, ulp: float) -> float:
        """The target's largest error over the source's; infinite where the target lost a value."""
        return math.inf if self.lost else max(self.target, ulp) / max(self.source, ulp)


def same_bits(array: Array, other: Array) -> bool:
    """Tell whether two arrays are equal bit by bit, but for the payloads of NaNs."""
    return (
        array.shape == other.shape
        and array.dtype == other.dtype
        and bool(np.array_equal(array, other, equal_nan=array.dtype.kind == "f"))
        and (
            array.dtype.kind != "f"
            or bool((np.signbit(array) == np.signbit(other))[array == 0].all())
        )
    )


def errors(
    source: Array, target: Array, truth: Array, ordinary: float = 0.0
) -> tuple[float, float] | None:
    """Return the largest errors of both sides, relative to the largest magnitude of the truth, or
    to an `ordinary` one if that is larger.

    Elements that overflow on either side, or that have no finite truth, are left out; None where
    nothing is left or all is 0. An error below the smallest positive number counts as none.
    """
    finite = np.isfinite(source) & np.isfinite(target) & np.isfinite(truth)
    if not finite.any():
        return None
    wide, limits = truth[finite], np.finfo(source.dtype)
    scale = max(np.abs(wide).max(), ordinary, float(limits.smallest_normal))
    if not wide.any():
        return None
    shares = []
    for side in (source, target):
        error = np.abs(side[finite].astype(truth.dtype) - wide).max()
        shares.append(0.0 if error <= limits.smallest_subnormal else float(error / scale))
    return shares[0], shares[1]


def _lost(source: Array, target: Array) -> str:
    """Show an element that no rounding explains: no longer finite, or another integer or truth."""
    if source.shape != target.shape:
        return ""
    numbers = source.dtype.kind == "f"
    lost = np.isfinite(source) & ~np.isfinite(target) if numbers else source != target
    places = np.argwhere(lost)
    if not len(places):
        return ""
    index = tuple(map(int, places[0]))
    before, other = source[index], target[index]
    return f"{before:.9g} becomes {other:.9g}" if numbers else f"{before} becomes {other}"


def roundings(pairs: Sequence[SideModels], dtype: str, seed: int) -> list[Rounding]:
    """Compare both sides of instances of a rule on all families; nothing where none of them runs.

    Raises TargetError where ONNX Runtime runs a source and not its target.
    """
    results: dict[str, list[tuple[SideModels, _Errors]]] = {family: [] for family in FAMILIES}
    for number, pair in enumerate(pairs):
        try:
            for family, runs in _errors(pair, dtype, (seed, number)).items():
                results[family].append((pair, runs))
        except NotRunError:
            continue
    return [_rounding(dtype, family, runs) for family, runs in results.items() if runs]


def _errors(pair: SideModels, dtype: str, seed: tuple[int, int]) -> dict[str, _Errors]:
    stick = reference_of(pair, dtype)
    errors_by_family = {family: _Errors() for family in FAMILIES}
    ordinary = [0.0] * len(pair.outputs)
    for position, family in enumerate(FAMILIES):
        runs = []
        for turn in range(FEEDS):
            rng = np.random.default_rng([*seed, position, turn])
            drawn = feeds(pair.operands, rng, family)
            runs.append((drawn, *pair.run(drawn), reference_outputs(stick, drawn)))
        if family == "normal":
            ordinary = _largest([truth for *_, truth in runs if truth is not None], ordinary)
        for drawn, source, target, truth in runs:
            errors_by_family[family].add(drawn, source, target, truth, ordinary)
    return errors_by_family


def _largest(truths: Sequence[list[Array]], known: list[float]) -> list[float]:
    """Return the largest finite magnitude of each output."""
    for truth in truths:
        for i, array in enumerate(truth):
            if array.dtype.kind == "f" and array.size:
                finite = array[np.isfinite(array)]
                known[i] = max(known[i], float(np.abs(finite).max(initial=0.0)))
    return known


def _rounding(dtype: str, family: str, runs: Sequence[tuple[SideModels, _Errors]]) -> Rounding:
    ulp = float(np.finfo(dtype).eps)
    all_errors = [errors_of_run for _, errors_of_run in runs]
    measured = [errors_of_run for errors_of_run in all_errors if errors_of_run.measured]
    ratios = [
        max(errors_of_run.target, ulp) / max(errors_of_run.source, ulp)
        for errors_of_run in measured
    ]
    rounding = Rounding(
        dtype,
        family,
        sum(errors_of_run.samples for errors_of_run in all_errors),
        max((errors_of_run.source for errors_of_run in measured), default=0.0),
        max((errors_of_run.target for errors_of_run in measured), default=0.0),
        max(ratios, default=1.0),
        float(np.quantile(ratios, 0.75)) if ratios else 1.0,
        statistics.median(ratios) if ratios else 1.0,
        all(errors_of_run.equal for errors_of_run in all_errors),
        next((errors_of_run.lost for errors_of_run in all_errors if errors_of_run.lost), ""),
    )
    return replace(rounding, witness=_witness(runs, rounding.verdict == "unsafe", ulp))


def _witness(
    runs: Sequence[tuple[SideModels, _Errors]], unsafe: bool, ulp: float
) -> Witness | None:
    """Choose the smallest of the instances that show it; the worst where no single one does."""
    shown = [
        (pair, errors_of_run) for pair, errors_of_run in runs if errors_of_run.shown is not None
    ]
    if not shown:
        return None
    if unsafe:
        far = [
            (pair, errors_of_run)
            for pair, errors_of_run in shown
            if errors_of_run.lost
            or (
                errors_of_run.ratio(ulp) > UNSAFE_RATIO and errors_of_run.target > UNSAFE_ULPS * ulp
            )
        ]
        shown = far or [max(shown, key=lambda two: two[1].ratio(ulp))]
    pair, errors_of_run = min(
        shown, key=lambda two: sum(a.size for a in (two[1].shown or {}).values())
    )
    return Witness(pair.source, pair.target, errors_of_run.shown or {})
