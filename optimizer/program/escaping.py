"""Whatever holds what stood for an array when a call is over gets the array itself.

Results and arguments are looked through at once (leaving.py). What else the function, or what it
called, kept is looked for where something is still held: in an exception and its traceback, in the
global names and the closure of the function, and at last, by the garbage collector, everywhere.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import time
import traceback
from types import FrameType, FunctionType, ModuleType
from typing import Any

import numpy as np

from .leaving import in_holder, in_variable, result
from .liveness import put_in_frame
from .trace import Trace

# A tuple in a tuple in a … is looked for in what holds it to this depth.
_DEPTH = 4
_OURS = f"{__package__}."


def release(trace: Trace, function: FunctionType) -> None:
    """Put real arrays in place of what a function kept beyond its arguments and results."""
    result([*(function.__closure__ or ())])
    space = function.__globals__
    for name in function.__code__.co_names:
        if name in space and not isinstance(space[name], FunctionType):
            held = space[name]
            found = result(held)
            if found is not held:
                space[name] = found
    if trace.held():
        begun = time.perf_counter()
        known = -1
        # What is in no object's hands any more, but in a cycle, stays.
        while trace.held() and len(trace.living()) != known:
            known = len(trace.living())
            _put(trace.living())
        if trace.held():
            _put_in_arrays_of_objects()
        trace.runner.lost_s += time.perf_counter() - begun
        if trace.runner.lost_s > 0:
            trace.runner.stopped = "values were kept where a search of all objects finds them alone"


def release_from(error: BaseException) -> None:
    """Put real arrays into an exception, and into the variables of the frames that it left.

    What our own code had at hand when it was raised is forgotten: nobody else has seen it, and a
    search of all objects would find it otherwise.
    """
    raised: BaseException | None = error
    while raised is not None:
        with contextlib.suppress(Exception):
            result(raised)
        for frame, _ in traceback.walk_tb(raised.__traceback__):
            with contextlib.suppress(Exception):  # among others, that a frame runs still
                if str(frame.f_globals.get("__name__")).startswith(_OURS):
                    frame.clear()
                else:
                    put_in_frame(frame, in_variable)
        raised = raised.__context__


def _put(lazies: list[Any]) -> None:
    """Put real arrays into what holds lazy ones, and into what holds that where it is a tuple."""
    looking = {id(one) for one in lazies}
    skipped = {id(lazies)}
    holders = _referrers(lazies)
    for _ in range(_DEPTH):
        tuples: list[Any] = []
        skipped |= {id(holders), id(tuples)}
        for holder in holders:
            if id(holder) not in skipped:
                with contextlib.suppress(Exception):
                    _put_in(holder, looking, tuples)
        if not tuples:
            break
        looking |= {id(one) for one in tuples}
        holders = _referrers(tuples)


def _referrers(objects: list[Any]) -> list[Any]:
    """Return what refers to objects; modules and their classes too, where those are frozen."""
    found = gc.get_referrers(*objects)
    if gc.get_freeze_count():
        looking = {id(one) for one in objects}
        for space in [vars(one) for one in [*sys.modules.values()] if isinstance(one, ModuleType)]:
            if any(id(one) in looking for one in space.values()):
                found.append(space)
            for one in [*space.values()]:
                if isinstance(one, type) and any(
                    id(each) in looking for each in vars(one).values()
                ):
                    _put_in_class(one)
    return found


def _put_in(holder: Any, looking: set[int], tuples: list[Any]) -> None:
    """Put real arrays into what holds some of the objects that are looked for."""
    kind = type(holder)
    if kind is tuple:
        tuples.append(holder)
    elif isinstance(holder, FrameType):
        put_in_frame(holder, in_variable)
    elif kind is dict and not _is_of_class(holder):
        for name in [name for name, one in holder.items() if id(one) in looking]:
            holder[name] = in_variable(holder[name])
        if any(id(name) in looking for name in holder):
            in_holder(holder)
    elif kind is list:
        for place, one in enumerate(holder):
            if id(one) in looking:
                holder[place] = in_variable(one)
    elif kind is not dict:
        in_holder(holder)


def _is_of_class(space: dict[str, Any]) -> bool:
    """Whether a dict is that of a class, into which real arrays are put then.

    Python looks up attributes of classes in a cache, which must hear of it.
    """
    if "__module__" not in space:
        return False
    classes = [one for one in gc.get_referrers(space) if isinstance(one, type)]
    for one in classes:
        _put_in_class(one)
    return bool(classes)


def _put_in_class(one: type) -> None:
    for name, value in [*vars(one).items()]:
        found = value if callable(value) else in_variable(value)
        if found is not value:
            setattr(one, name, found)


def _put_in_arrays_of_objects() -> None:
    """Put real arrays into NumPy's arrays of objects, which the garbage collector doesn't see."""
    spaces = [vars(one) for one in [*sys.modules.values()] if isinstance(one, ModuleType)]
    classes = [one for space in spaces for one in space.values() if isinstance(one, type)]
    # What is frozen is not among the collector's objects: what modules hold is looked for by name.
    kept = [one for space in spaces for one in space.values() if isinstance(one, dict | list)]
    holders = [*gc.get_objects(), *spaces, *kept, *(dict(vars(one)) for one in classes)]
    for holder in holders:
        for one in gc.get_referents(holder):
            if type(one) is np.ndarray and one.dtype.hasobject:
                in_variable(one)
