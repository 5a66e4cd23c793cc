"""Outputs compared: a candidate computes what the original does, up to the original's own error.

What is within a few units in the last place of the output's scale passes. Of what is not, the
distance from the model in float64 (widen.py) is judged, beside the original's own: a candidate may
be off from it by a small multiple of what the original is, at two levels of the runtime's
optimizer, plus these few units. Where there is none in float64, or no time to run it, the original
takes its place, and the reason is told. On inputs with NaN and infinities, which elements of the
outputs are such is compared, and with what either of the two levels gives: they differ there
between themselves.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...catalog.errors import TensologError
from ...profiles.sessions.feeds import NONFINITE
from ...profiles.sessions.session import (
    AS_WRITTEN,
    DEFAULTS,
    Execution,
    RunLimitError,
    open_session,
    reason_of,
    release_memory,
    resident_bytes,
    run_session,
    trim_memory,
)
from ..setting import FINITE_MATH

# What candidates are compared with.
ORIGINAL, FLOAT64 = "original", "float64"

Array = np.ndarray[Any, Any]
Feeds = Mapping[str, Any]
"""Input -> its array; a list of those for a sequence."""
Source = Path | bytes
Wide = Callable[[], tuple[Source | None, str]]
"""The model in float64, or None, and what is to be known of it: why there is none, or what sums
run in float32 all the same."""

# How much larger than the original's error a candidate's may be, and the floor below it: rounding
# errors of two correct programs differ by such factors, wrong programs by orders of magnitude.
ERROR_FACTOR = 4.0
FLOOR_ULPS = 64.0
# An original that differs more from itself than this does so for another reason than rounding:
# relative to the output's scale, and as a share of the elements that are no floats.
LARGEST_ERROR, LARGEST_SHARE = 1e-2, 1e-2
# What a run of the original may take however little time there is, in seconds, and of the time that
# there is: what takes longer could be compared with nothing.
LEAST_RUN_S, RUN_SHARE = 10.0, 0.25
# What a run in float64 may take, in seconds.
WIDE_RUN_S = 20.0
# Runs of a model in the shortest race of two, with those that warm up.
RACE_RUNS = 10


@dataclass(frozen=True)
class Deviation:
    """Largest difference of one output from the original's, over one input distribution.

    `max_relative` is `max_absolute` divided by the output's largest magnitude. `max_error` is, in
    the same unit, how far the candidate is from `reference`: "float64", or "original" where it is
    so near to that that float64 was not asked, or `no_float64` says why it could not be; and
    `original_error` how far the original is. `tolerance` bounds `max_error`. For integers, booleans
    and strings the first three are the share of elements that differ from the original's; on the
    distributions NONFINITE, of those that are NaN or infinite in another way, and only those.
    """

    candidate: str
    distribution: str
    output: str
    max_absolute: float
    max_relative: float
    max_error: float
    tolerance: float
    original_error: float = 0.0
    reference: str = ORIGINAL
    no_float64: str = ""

    @property
    def within(self) -> bool:
        """Tell whether the difference is a matter of rounding."""
        return self.max_error <= self.tolerance


class EndlessError(TensologError):
    """The original does not end in a time that is any use."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(
            f"the original had not ended after {limit_s:.0f} s on inputs that were generated: "
            "where it does end, give a larger --budget, or smaller sizes with --input-shape"
        )


class NoTimeError(TensologError):
    """The original takes so long that no plan could be compared with it in the time there is."""


class NotOpenedError(TensologError):
    """The runtime refuses the original whatever its inputs are; says what the runtime says."""


@dataclass(frozen=True)
class SessionCost:
    """What a session takes: memory, activations included, and seconds to open it and to run.

    While it is opened it has `opening_bytes`: weights as they were, and as the runtime packs them.
    """

    size_bytes: int
    opening_bytes: int
    opening_s: float
    run_s: float


class Verifier:
    """The original's outputs on several inputs, on disk, and what deviates from them by how much.

    One session is open at a time: large models are verified in the memory of one.
    """

    def __init__(
        self,
        original: Source,
        feeds: Mapping[str, Feeds],
        *,
        threads: int,
        reference_threads: int | None = None,
        wide: Wide | None = None,
        end: float = math.inf,
    ) -> None:
        """Run the original; raises what ONNX Runtime raises where it can't run on these feeds.

        Raises NotOpenedError where it can't even be opened.

        Candidates run on `threads`, the original and the model in float64 on `reference_threads`
        where that is given. `wide` gives the model in float64, and is asked where something is in
        doubt.
        `end`, a time of the clock, bounds what that may take: raises EndlessError where a run does
        not end, NoTimeError where it is so long that nothing else could be done by then.
        """
        self._folder = tempfile.TemporaryDirectory(prefix="tensolog-verify-")
        self._feeds = dict(feeds)
        self._threads = threads
        self._reference_threads = threads if reference_threads is None else reference_threads
        self._end = end
        self.outputs: list[str] = []
        try:
            self.session = self._store("original", original, DEFAULTS, self._feeds)
            self._check_time()
            self._store("plain", original, AS_WRITTEN, self._feeds)
        except RunLimitError as error:
            raise EndlessError(error.limit_s) from error
        self._wide = wide
        self._widened: set[str] = set()
        self._no_float64 = "" if wide is not None else "these inputs are compared without it"
        self._narrow = ""

    @property
    def verifying_s(self) -> float:
        """Seconds that a candidate takes at least: a session opened, and a run on each input."""
        return self.session.opening_s + len(self._feeds) * self.session.run_s

    def close(self) -> None:
        """Remove the stored outputs."""
        self._folder.cleanup()

    def deviations(
        self,
        name: str,
        candidate: Source,
        execution: Execution = DEFAULTS,
        *,
        among: Collection[str] | None = None,
    ) -> list[Deviation]:
        """Compare a candidate's outputs; raises what ONNX Runtime raises where it can't run.

        On all distributions, or on those `among` some.
        """
        chosen = [name for name in self._feeds if among is None or name in among]
        self._store("candidate", candidate, execution, chosen)
        near = {
            (distribution, position): self._compared(name, distribution, position)
            for distribution in chosen
            for position in range(len(self.outputs))
        }
        doubtful = dict.fromkeys(
            distribution
            for (distribution, _), deviation in near.items()
            if not deviation.within
            and distribution not in NONFINITE
            and math.isfinite(deviation.max_error)
        )
        self.widen(doubtful)
        return [
            deviation
            if deviation.within or distribution not in doubtful
            else self._compared(name, distribution, position, judging=True)
            for (distribution, position), deviation in near.items()
        ]

    def _compared(
        self, name: str, distribution: str, position: int, *, judging: bool = False
    ) -> Deviation:
        """Compare an output of the candidate that was run last: with the original, or `judging`."""
        output = self.outputs[position]
        original, plain, candidate = (
            self.output(kind, distribution, position) for kind in ("original", "plain", "candidate")
        )
        if distribution in NONFINITE:
            off = nonfinite_share(candidate, (original, plain))
            return Deviation(name, distribution, output, off, off, off, 0.0)
        if not judging:
            originals = (original, plain) if original.dtype.kind not in "fc" else (original,)
            differences = compare(candidate, originals, original)
            return Deviation(name, distribution, output, *differences)
        is_wide = distribution in self._widened
        reference = self.output(FLOAT64, distribution, position) if is_wide else original
        differences = compare(candidate, (original, plain), reference)
        return Deviation(
            name,
            distribution,
            output,
            *differences,
            reference=FLOAT64 if is_wide else ORIGINAL,
            no_float64=self._narrow if is_wide else self._no_float64,
        )

    def widen(self, distributions: Iterable[str]) -> None:
        """Run the model in float64 on some inputs, as far as there is time."""
        missing = [name for name in distributions if name not in self._widened]
        if not missing or self._wide is None or self._no_float64:
            return
        source, narrow = self._wide()
        if source is None:
            self._no_float64 = narrow
            return
        self._narrow = narrow
        try:
            self._store(FLOAT64, source, AS_WRITTEN, missing)
            self._widened |= set(missing)
        except RunLimitError as error:
            self._no_float64 = f"a run in float64 takes more than {error.limit_s:.0f} s"
        except Exception as error:  # what no operator set promises
            self._no_float64 = f"it does not run in float64: {reason_of(error)}"

    def _store(
        self, kind: str, source: Source, execution: Execution, distributions: Iterable[str]
    ) -> SessionCost:
        trim_memory()  # what was freed before must not hide what the session takes
        before, start = resident_bytes(), time.monotonic()
        threads = self._threads if kind == "candidate" else self._reference_threads
        try:
            session = open_session(
                source, threads=threads, execution=execution, flush_denormals=False
            )
        except Exception as error:
            if kind != "original":
                raise
            raise NotOpenedError(reason_of(error)) from error
        opening_s, run_s = time.monotonic() - start, 0.0
        opening_bytes = resident_bytes() - before
        self.outputs = [entry.name for entry in session.get_outputs()]
        for distribution in list(distributions):
            feeds = self._feeds[distribution]
            wide = {entry.name: entry.type for entry in session.get_inputs()}
            cast = {
                name: array.astype(np.float64) if wide.get(name) == "tensor(double)" else array
                for name, array in feeds.items()
                if name in wide
            }
            start = time.monotonic()
            try:
                limit_s = self._limit_s()
                if kind == FLOAT64:
                    limit_s = min(WIDE_RUN_S, limit_s or math.inf)
                results = run_session(session, cast, limit_s=limit_s)
            except RunLimitError:
                if kind != "original" or distribution not in NONFINITE:
                    raise
                # A loop that waits for a number never ends: there is nothing to compare with.
                del self._feeds[distribution]
                continue
            except Exception:
                if kind == "candidate" or distribution not in NONFINITE:
                    raise
                del self._feeds[distribution]  # an operator that refuses such numbers
                continue
            run_s = time.monotonic() - start  # the first ones also reserve memory: the last counts
            for position, array in enumerate(results):
                np.save(self._path(kind, distribution, position), _storable(array))
        trim_memory()
        cost = SessionCost(resident_bytes() - before, opening_bytes, opening_s, run_s)
        del session
        release_memory()
        return cost

    def _limit_s(self) -> float | None:
        """Give the seconds that a run may take now; None where nothing bounds it."""
        remaining_s = self._end - time.monotonic()
        return None if math.isinf(remaining_s) else max(LEAST_RUN_S, RUN_SHARE * remaining_s)

    def _check_time(self) -> None:
        """Raise NoTimeError where verifying a plan and racing it takes longer than there is."""
        cost, often = self.session, len(self._feeds)
        needed_s = 5 * cost.opening_s + (3 * often + 2 * RACE_RUNS) * cost.run_s
        if time.monotonic() + needed_s > self._end and needed_s > LEAST_RUN_S:
            raise NoTimeError(
                f"a run of it takes {cost.run_s:.1f} s, and to verify and race a plan takes "
                f"{needed_s:.0f} s or more, which a larger budget gives"
            )

    def output(self, kind: str, distribution: str, position: int) -> Array:
        """Give an output of the original, "plain", in float64, or of the last candidate."""
        path = self._path(kind, distribution, position)
        return np.asarray(np.load(path, allow_pickle=True))

    def _path(self, kind: str, distribution: str, position: int) -> Path:
        return Path(self._folder.name) / f"{kind}.{distribution}.{position}.npy"


def compare(
    candidate: Array, originals: Sequence[Array], reference: Array
) -> tuple[float, float, float, float, float]:
    """Return absolute and relative difference, the error, the tolerance for it, the original's own.

    See Deviation.

    Where the original gives NaN or an infinity, the candidate must give the same. Of originals
    those count that have the candidate's shape: how many boxes remain may hang on a last bit.
    """
    originals = [original for original in originals if original.shape == candidate.shape]
    if not originals:
        return np.inf, np.inf, np.inf, 0.0, 0.0
    if reference.shape != candidate.shape:
        reference = originals[0]
    if candidate.dtype.kind not in "fc":
        differs = share(candidate != originals[0])
        original_share = min(share(originals[-1] != originals[0]), LARGEST_SHARE)
        return differs, differs, differs, ERROR_FACTOR * original_share, original_share
    if candidate.size == 0:
        return 0.0, 0.0, 0.0, 0.0, 0.0
    original = originals[0]
    with np.errstate(all="ignore"):
        finite = np.isfinite(original)
        same = np.array_equal(candidate[~finite], original[~finite], equal_nan=True)
        if not same or not np.isfinite(candidate[finite]).all():
            return np.inf, np.inf, np.inf, 0.0, 0.0
        measured = reference if np.isfinite(reference[finite]).all() else original
        scale = float(np.abs(measured[finite]).max(initial=0.0)) or 1.0
        if largest(original[finite] - measured[finite]) > LARGEST_ERROR * scale:
            measured = original  # a step lies between them, or a bucket: it isn't rounding
            scale = float(np.abs(measured[finite]).max(initial=0.0)) or 1.0
        absolute = largest(candidate[finite] - original[finite])
        original_share = max(largest(run[finite] - measured[finite]) for run in originals)
        original_share = min(original_share, LARGEST_ERROR * scale) / scale
        off = largest(candidate[finite] - measured[finite])
        floor = FLOOR_ULPS * float(np.finfo(original.dtype).eps)
        relative = absolute / (largest(original[finite]) or 1.0)
        return (
            absolute,
            relative,
            off / scale,
            ERROR_FACTOR * original_share + floor,
            original_share,
        )


def nonfinite_share(candidate: Array, originals: Sequence[Array]) -> float:
    """Give the share of elements that are NaN or infinite as in none of the originals.

    Of what holds no floats, it is the share of elements that are as in none of them.
    """
    if any(candidate.shape != original.shape for original in originals):
        return 1.0
    kinds = [_kinds(array) for array in (candidate, *originals)]
    return share(np.logical_and.reduce([kinds[0] != kind for kind in kinds[1:]]))


def _kinds(array: Array) -> Array:
    """Number the kinds of floats: finite, NaN, and the infinities by their signs."""
    if array.dtype.kind not in "fcV":
        return array
    if array.dtype.kind == "V":  # types of 16 bits and fewer that NumPy does not have
        array = array.astype(np.float32)
    kinds: Array = np.isnan(array) + 2 * np.isinf(array)
    return kinds if array.dtype.kind == "c" else np.add(kinds, np.isposinf(array))


def largest(difference: Array) -> float:
    """Give the largest magnitude, 0 of nothing, infinity where it is not a number."""
    value = float(np.abs(difference).max(initial=0.0))
    return value if np.isfinite(value) else np.inf


def share(differs: Array) -> float:
    """Give the share of true elements."""
    return float(np.mean(differs)) if np.size(differs) else 0.0


def failures(deviations: Sequence[Deviation]) -> Iterator[str]:
    """Say of each deviation beyond its tolerance what it is."""
    for deviation in deviations:
        if not deviation.within and deviation.distribution in NONFINITE:
            yield (
                f"output {deviation.output!r} is NaN or infinite where the original is not, or the "
                f"other way round, in {deviation.max_relative:.1%} of its elements on "
                f"{deviation.distribution} inputs (--allow {FINITE_MATH} lets that pass)"
            )
        elif not deviation.within:
            yield _beyond(deviation)


def _beyond(deviation: Deviation) -> str:
    """Say how far a candidate is from what it was compared with, and how far the original is."""
    where = f"on {deviation.distribution} inputs"
    if math.isinf(deviation.max_error):
        return (
            f"output {deviation.output!r} has another shape {where}, or infinities or NaN in other "
            "places, than the original"
        )
    text = f"output {deviation.output!r} is off by {deviation.max_error:.1e} of its scale"
    if deviation.reference == FLOAT64:
        narrow = f", with {deviation.no_float64}" if deviation.no_float64 else ""
        return (
            f"{text} from float64{narrow} {where}, the original by {deviation.original_error:.1e} "
            f"(tolerance {deviation.tolerance:.1e}, {ERROR_FACTOR:.0f} times that and "
            f"{FLOOR_ULPS:.0f} units in the last place)"
        )
    why = f"; not compared in float64: {deviation.no_float64}" if deviation.no_float64 else ""
    return f"{text} from the original {where} (tolerance {deviation.tolerance:.1e}{why})"


def _storable(result: object) -> Array:
    """Make one array of a result; a sequence's or map's parts follow one another."""
    if isinstance(result, np.ndarray):
        return result
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, list):
        parts = [_storable(part).reshape(-1) for part in result]
        return np.concatenate(parts) if parts else np.empty(0)
    return np.asarray(result)
