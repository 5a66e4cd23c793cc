"""Calls of straight functions again: the same region of other arrays, without tracing it anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .dag import Program
from .eager import raise_if_errors_are_asked_for
from .evaluate import is_sparse
from .held import Held
from .prepare import Prepared
from .runner import Runner
from .sparse_arguments import rows_at_once
from .straight import Meaning
from .trace import Trace, UnsupportedError, is_lazy, own

# What a call says that has to be traced.
MISSED: Any = object()
# Seconds that such a call takes beside its kernels.
AGAIN_S = 10e-6
# And for each sparse argument.
SPARSE_AGAIN_S = 10e-6


@dataclass(frozen=True, slots=True)
class _Made:
    """A value of the region, by its place; `scalar` where it is a number."""

    place: int
    scalar: bool


@dataclass(frozen=True, slots=True)
class _Given:
    """An argument, by its place."""

    place: int


@dataclass(frozen=True, slots=True)
class _Plain:
    """What is no array, and depends on shapes and types alone."""

    value: Any


@dataclass(frozen=True)
class Again:
    """What a call did that arguments of the same shapes, types and numbers have done, too.

    runner    of the call that was traced
    meaning   what the function depends on
    inputs    of the region: places of arguments and their types, or -1 and a number
    sparse    the places of sparse arguments
    result    what is returned: _Made, _Given or _Plain, or a tuple of such
    """

    runner: Runner
    meaning: Meaning
    prepared: Prepared
    inputs: tuple[tuple[int, Any], ...]
    sparse: frozenset[int]
    result: Any

    def call(self, given: Sequence[Any]) -> Any:
        """Return what the function returns, or MISSED where it has to be traced."""
        if self.prepared.compiled is None:
            return MISSED  # NumPy turned out to be sooner
        inputs = [value if place < 0 else given[place] for place, value in self.inputs]
        for one, (place, dtype) in zip(inputs, self.inputs, strict=True):
            if place >= 0 and one.dtype is not dtype:
                return MISSED  # of another order of bytes, perhaps
        try:
            raise_if_errors_are_asked_for()
        except UnsupportedError:
            return MISSED
        if not self.meaning.holds():
            return MISSED
        if self.sparse:
            for at, (place, _) in enumerate(self.inputs):
                if place in self.sparse:
                    inputs[at] = rows_at_once(inputs[at])
                    if inputs[at] is None:
                        return MISSED  # entries twice, or in no order
        taken = list(inputs)
        for value in self.prepared.run(inputs):
            taken.append(own(value, taken))
        return _built(self.result, taken[len(inputs) :], given, {})


def _built(result: Any, made: Sequence[Any], given: Sequence[Any], seen: dict[int, Any]) -> Any:
    match result:
        case _Made(place, scalar):
            if place not in seen:
                seen[place] = made[place][()] if scalar else made[place]
            return seen[place]
        case _Given(place):
            return given[place]
        case _Plain(value):
            return value
        case _:
            return tuple([_built(one, made, given, seen) for one in result])


@dataclass(frozen=True, slots=True)
class _Waits:
    """A value that waits for the region; two arrays that share it count as two."""

    held: Held
    scalar: bool


def sketched(raw: Any, wrapped: Sequence[Any], seen: dict[int, Any] | None = None) -> Any:
    """Return what a result is made of while it waits, None where that isn't known.

    `wrapped` are the arguments as the function got them.
    """
    seen = {} if seen is None else seen
    if type(raw) is tuple:
        parts = tuple([sketched(one, wrapped, seen) for one in raw])
        return None if None in parts else parts
    if is_lazy(raw):
        for at, one in enumerate(wrapped):
            if one is raw:
                return _Given(at)
        if raw._family is not None or seen.setdefault(id(raw._held), raw) is not raw:
            return None
        return _Waits(raw._held, raw._scalar)
    return _Plain(raw) if raw is None or type(raw) in (bool, int, float, str) else None


def may_repeat(value: Any) -> bool:
    """Whether calls with such an argument may be known again: of sparse ones, those by rows."""
    return not is_sparse(value) or value.format == "csr"


def leaves_of(wrapped: Sequence[Any]) -> dict[int, int]:
    """Return the places of arguments by the identity of what regions read of them."""
    arrays = [(at, one) for at, one in enumerate(wrapped) if hasattr(one, "_held")]
    return {id(one._held.value): at for at, one in arrays}


def again(
    trace: Trace,
    meaning: Meaning,
    given: Sequence[Any],
    sketch: Any,
    read: Mapping[int, int],
) -> Again | None:
    """Return what a call for some arguments did, None where others may differ or gain nothing.

    `read` are the places of arguments by the identity of what the region reads of them.
    """
    runner, ran = trace.runner, trace.ran
    if ran is None or len(runner.regions) != 1 or runner.notes or trace.touched:
        return None
    prepared = runner.regions[0].prepared
    if not isinstance(prepared, Prepared) or prepared.compiled is None or prepared.plan is None:
        return None
    sparse = frozenset(at for at, one in enumerate(given) if is_sparse(one))
    own_s = AGAIN_S + SPARSE_AGAIN_S * len(sparse)
    if prepared.seconds is not None and prepared.plan.cost_s + own_s > prepared.seconds[1]:
        return None
    record, wanted, inputs = ran
    if len(read) < len(sparse) + sum(type(one) is np.ndarray for one in given):
        return None  # one was given twice: other calls may give two
    if any(id(one) not in read for one in record.leaves):
        return None
    if any(not given[at].has_canonical_format for at in sparse) or _meet(prepared.traced):
        return None
    result = _placed(sketch, {id(one): at for at, one in enumerate(wanted)})
    if result is None:
        return None
    placed = [(read.get(id(one), -1), one) for one in inputs]
    kept = tuple([(at, one.dtype if at >= 0 else one) for at, one in placed])
    return Again(runner, meaning, prepared, kept, sparse, result)


def _meet(program: Program) -> bool:
    """Whether two sparse values meet: what is traced of that depends on their entries."""
    layouts = [one.layout for one in program.nodes]
    return any(sum(layouts[at] != "dense" for at in one.inputs) > 1 for one in program.nodes)


def _placed(sketch: Any, places: dict[int, int]) -> Any:
    if type(sketch) is tuple:
        parts = tuple([_placed(one, places) for one in sketch])
        return None if None in parts else parts
    if isinstance(sketch, _Waits):
        place = places.get(id(sketch.held))
        return None if place is None else _Made(place, sketch.scalar)
    return sketch
