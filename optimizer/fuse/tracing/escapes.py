"""What leaves a call holds real arrays, wherever the call put lazy ones.

Results and arguments are looked through at once: lists, dicts and objects keep their identity, what
stands for an array in them is replaced. What else the function, or what it called, kept is looked
for only where a lazy array is still held: in an exception and its traceback, in the global names
and the closure of the function, and at last, by the garbage collector, everywhere.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import time
import traceback
from collections import deque
from functools import partial
from types import (
    AsyncGeneratorType,
    BuiltinFunctionType,
    CellType,
    CoroutineType,
    FrameType,
    FunctionType,
    GeneratorType,
    MethodType,
    ModuleType,
)
from typing import TYPE_CHECKING, Any

import numpy as np

from ..blocks.partitioned import Partitioned
from .buffers import memory_behind
from .liveness import put_in_frame
from .marker_types import PLAIN, is_lazy

if TYPE_CHECKING:
    from .trace import Trace

_NO_CONTAINERS = (type, ModuleType, BuiltinFunctionType, MethodType)
_FRAMES = {GeneratorType: "gi_frame", CoroutineType: "cr_frame", AsyncGeneratorType: "ag_frame"}
# Of exceptions: what a generator returned, what a process ends with.
_OF_EXCEPTIONS = ("value", "code")
_FIXED = frozenset(["__weakref__", "__dict__"])
# Objects within objects are looked through to this depth.
_DEPTH = 4


def result(value: Any) -> Any:
    """Return a value as it leaves the function, with real arrays that share no memory."""
    return _Leaving().value(value, _DEPTH)


def in_variable(value: Any) -> Any:
    """Return what a local variable is to hold instead of a value from now on."""
    if type(value) in PLAIN:
        return value
    return _Leaving().value(value, 1)


def in_holder(value: Any) -> None:
    """Put real arrays into what holds lazy ones, directly or in a tuple."""
    _Leaving().value(value, 2)


class _Leaving:
    """Goes through a value once; `seen` holds containers by their identity, and what they become.

    It holds the containers, too, so that no other one can have that identity meanwhile.
    """

    def __init__(self) -> None:
        self.seen: dict[int, tuple[Any, Any]] = {}

    def value(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind in PLAIN:
            return value
        if kind is np.ndarray:
            if value.dtype.hasobject:
                self._array_of_objects(value, depth)
            return value if value.base is None else memory_behind(value)
        if is_lazy(value):
            return _array(value)
        as_result = getattr(kind, "_tensolog_result", None)
        if as_result is not None:
            return as_result(value)
        if id(value) in self.seen:
            return self.seen[id(value)][1]
        if not depth:
            return value
        self.seen[id(value)] = value, value
        if isinstance(value, tuple | frozenset):
            replacement = self._tuple(value, depth)
            self.seen[id(value)] = value, replacement
            return replacement
        if isinstance(value, list | deque):
            for place, item in enumerate(value):
                replacement = self.value(item, depth)
                if replacement is not item:
                    value[place] = replacement
        elif isinstance(value, dict):
            self._dict(value, depth)
        elif isinstance(value, set):
            self._set(value, depth)
        elif isinstance(value, FunctionType):
            self._function(value, depth - 1)
        elif isinstance(value, CellType):
            self._cell(value, depth)
        elif kind in _FRAMES:
            put_in_frame(getattr(value, _FRAMES[kind]), lambda local: self.value(local, depth - 1))
        elif not isinstance(value, _NO_CONTAINERS):
            self._object(value, depth - 1)
        return value

    def _tuple(self, value: Any, depth: int) -> Any:
        items = [self.value(item, depth) for item in value]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        if isinstance(value, frozenset):
            return type(value)(items)
        make = getattr(type(value), "_make", None)
        return tuple(items) if make is None else make(items)

    def _dict(self, value: Any, depth: int) -> None:
        """Replace items in place, and all of them in order where a key is a NumPy number."""
        old_items = list(value.items())
        items = [(self.value(key, depth), self.value(item, depth)) for key, item in old_items]
        moved = any(key is not old for (key, _), (old, _) in zip(items, old_items, strict=True))
        if moved:
            value.clear()
        for (key, item), (_, old) in zip(items, old_items, strict=True):
            if moved or item is not old:
                value[key] = item

    def _set(self, value: Any, depth: int) -> None:
        items = [self.value(item, depth) for item in value]
        if any(new is not old for new, old in zip(items, value, strict=True)):
            value.clear()
            value.update(items)

    def _array_of_objects(self, value: Any, depth: int) -> None:
        if value.dtype.kind != "O" or not value.flags.writeable:
            return
        for place, item in np.ndenumerate(value):
            replacement = self.value(item, depth)
            if replacement is not item:
                value[place] = replacement

    def _function(self, value: FunctionType, depth: int) -> None:
        """Look through what a function keeps: variables of functions around it, and defaults."""
        for cell in value.__closure__ or ():
            self._cell(cell, depth)
        defaults = self.value(value.__defaults__, depth)
        if defaults is not value.__defaults__:
            value.__defaults__ = defaults
        if value.__kwdefaults__:
            self.value(value.__kwdefaults__, depth)
        self._object(value, depth)

    def _cell(self, cell: CellType, depth: int) -> None:
        try:
            content = cell.cell_contents
        except ValueError:
            return  # nothing in it yet
        replacement = self.value(content, depth)
        if replacement is not content:
            cell.cell_contents = replacement

    def _object(self, value: Any, depth: int) -> None:
        """Look through the attributes that an object has of its own."""
        if isinstance(value, partial):
            arguments = self.value(value.args, depth + 1)
            self.value(value.keywords, depth + 1)
            if arguments is not value.args:
                state = (value.func, arguments, value.keywords, value.__dict__ or None)
                value.__setstate__(state)  # type: ignore[attr-defined]
        names = [*getattr(value, "__dict__", ())]
        if isinstance(value, BaseException):
            names += ["args", "__cause__", "__context__", *_OF_EXCEPTIONS]
        for class_ in type(value).__mro__:
            slots = class_.__dict__.get("__slots__", ())
            for name in [slots] if isinstance(slots, str) else slots:
                hidden = name.startswith("__") and not name.endswith("__")
                names.append(f"_{class_.__name__.lstrip('_')}{name}" if hidden else name)
        for name in names:
            item = getattr(value, name, None)
            replacement = self.value(item, depth)
            if replacement is not item and name not in _FIXED:
                object.__setattr__(value, name, replacement)


def _array(lazy: Any) -> Any:
    if lazy._scalar:
        return lazy._value("returned")
    family = lazy._family
    if family is None or _in_blocks(family.root.value):
        return lazy._trace.returned_value(lazy._thunk)
    if family.array is not None or len(family.living()) > 1:
        return lazy._trace.memory(lazy, "returned")
    return lazy._trace.returned_value(lazy._thunk)


def _in_blocks(value: Any) -> bool:
    """Whether a value isn't in this process: views of it are values of their own, as Dask's are."""
    return isinstance(value, Partitioned) and value.source is None


# A tuple in a tuple in a … is looked for in what holds it to this depth.
_HOLDER_DEPTH = 4
_OURS = f"{__package__.rpartition('.')[0]}."


def release(trace: Trace, function: FunctionType) -> None:
    """Put real arrays in place of what a function kept beyond its arguments and results."""
    result([*(function.__closure__ or ())])
    space = function.__globals__
    for name in function.__code__.co_names:
        if name in space and not isinstance(space[name], FunctionType):
            value = space[name]
            released = result(value)
            if released is not value:
                space[name] = released
    if trace.has_living():
        begun = time.perf_counter()
        modules = _Modules()
        living_before = -1
        # What is in no object's hands any more, but in a cycle, stays.
        while trace.has_living() and len(trace.living()) != living_before:
            living_before = len(trace.living())
            _put(trace.living(), modules)
        if trace.has_living():
            _put_in_arrays_of_objects(modules)
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


class _Modules:
    """What modules have by name, which the collector doesn't know where it is frozen; read once."""

    def __init__(self) -> None:
        modules = [*sys.modules.values()]
        self.spaces = [vars(module) for module in modules if isinstance(module, ModuleType)]
        values = {id(value): value for space in self.spaces for value in [*space.values()]}.values()
        self.classes = [value for value in values if isinstance(value, type)]
        self.containers = [value for value in values if isinstance(value, dict | list)]


def _put(lazies: list[Any], modules: _Modules) -> None:
    """Put real arrays into what holds lazy ones, and into what holds that where it is a tuple."""
    looking = {id(lazy) for lazy in lazies}
    skipped = {id(lazies)}
    holders = _referrers(lazies, modules)
    for _ in range(_HOLDER_DEPTH):
        tuples: list[Any] = []
        skipped |= {id(holders), id(tuples)}
        for holder in holders:
            if id(holder) not in skipped:
                with contextlib.suppress(Exception):
                    _put_in(holder, looking, tuples)
        if not tuples:
            break
        looking |= {id(tuple_) for tuple_ in tuples}
        holders = _referrers(tuples, modules)


def _referrers(objects: list[Any], modules: _Modules) -> list[Any]:
    """Return what refers to objects; modules and their classes too, where those are frozen."""
    referrers = gc.get_referrers(*objects)
    if gc.get_freeze_count():
        looking = {id(object_) for object_ in objects}

        def has(space: Any) -> bool:
            return any(id(value) in looking for value in [*space.values()])

        referrers += filter(has, modules.spaces)
        for class_ in modules.classes:
            if has(vars(class_)):
                _put_in_class(class_)
    return referrers


def _put_in(holder: Any, looking: set[int], tuples: list[Any]) -> None:
    """Put real arrays into what holds some of the objects that are looked for."""
    kind = type(holder)
    if kind is tuple:
        tuples.append(holder)
    elif isinstance(holder, FrameType):
        put_in_frame(holder, in_variable)
    elif kind is dict and not _is_of_class(holder):
        for name in [name for name, value in holder.items() if id(value) in looking]:
            holder[name] = in_variable(holder[name])
        if any(id(name) in looking for name in holder):
            in_holder(holder)
    elif kind is list:
        for place, value in enumerate(holder):
            if id(value) in looking:
                holder[place] = in_variable(value)
    elif kind is not dict:
        in_holder(holder)


def _is_of_class(space: dict[str, Any]) -> bool:
    """Whether a dict is that of a class, into which real arrays are put then.

    Python looks up attributes of classes in a cache, which must hear of it.
    """
    if "__module__" not in space:
        return False
    classes = [referrer for referrer in gc.get_referrers(space) if isinstance(referrer, type)]
    for class_ in classes:
        _put_in_class(class_)
    return bool(classes)


def _put_in_class(class_: type) -> None:
    for name, value in [*vars(class_).items()]:
        replacement = value if callable(value) else in_variable(value)
        if replacement is not value:
            setattr(class_, name, replacement)


def _put_in_arrays_of_objects(modules: _Modules) -> None:
    """Put real arrays into NumPy's arrays of objects, which the garbage collector doesn't see.

    What is frozen is not among the collector's objects: what modules hold is looked for by name.
    """
    classes = (dict(vars(class_)) for class_ in modules.classes)
    for holder in [*gc.get_objects(), *modules.spaces, *modules.containers, *classes]:
        for referent in gc.get_referents(holder):
            if type(referent) is np.ndarray and referent.dtype.hasobject:
                in_variable(referent)
