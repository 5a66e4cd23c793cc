"""Functions of C that ask a lazy array for its memory: `hashlib.sha256(x)`, `memoryview(x)`.

They ask the object's type (PEP 3118). From Python 3.12 on a class answers by `__buffer__` (PEP
688); before, only a type made in C has the slot, which is filled by ctypes here. Either way the
request goes on to the array that a lazy one stands for, as the protocol allows ("redirect"): what
waits is computed, and code outside may write that memory while it has it. NumPy asks so, too, where
it makes an array of an object, before it looks for `__array__`.
"""

from __future__ import annotations

import ctypes
import sys
import weakref
from typing import Any

import numpy as np


class Lent(np.ndarray[Any, Any]):
    """A view of `memory` that is handed to code outside, and is there as long as that has it."""

    memory: Any = None


def lend(lazy: Any) -> Any:
    """Return the array, or NumPy's number, of which code outside gets the memory."""
    if lazy._scalar:
        return lazy._value("its memory is asked for")
    memory = lazy._trace.writable(lazy, "its memory is asked for")
    lent = memory.view(Lent)
    lent.memory = memory
    lazy._joined().lent.append(weakref.ref(lent))
    return lent


def memory_behind(array: Any) -> Any:
    """Return the array of which NumPy made another one by its memory; the other one if it differs.

    `np.asarray(x)` is x itself where x is an array.
    """
    base = array.base
    lent: Any = base.obj if type(base) is memoryview else None
    if type(lent) is not Lent:
        return array
    memory = lent.memory
    same = array.__array_interface__ == memory.__array_interface__
    return memory if same and array.dtype == memory.dtype else array


def _answer(lazy: Any, view: int, flags: int) -> int:
    """Fill a Py_buffer, as bf_getbuffer does; what was raised is kept for the call's end.

    An exception can't leave a callback of ctypes. C code that says itself what it can't take does
    so; other code ends in a SystemError, in place of which the call raises what is kept.
    """
    try:
        _get_buffer(lend(lazy), view, flags)
    except Exception as error:
        ctypes.c_void_p.from_address(view + ctypes.sizeof(ctypes.c_void_p)).value = None
        lazy._trace.refused = error
        return -1
    return 0


def _buffer(lazy: Any, flags: int) -> memoryview:
    """Answer as `__buffer__` does."""
    return memoryview(lend(lazy))


def _let_go(lazy: Any, view: Any) -> None:
    """Do nothing: what was lent is let go of by itself.

    Without this, NumPy would take memory that nothing holds (np.frombuffer).
    """


def answer_for(kind: type) -> None:
    """Have a class of lazy arrays answer requests for memory."""
    if sys.version_info >= (3, 12):
        kind.__buffer__ = _buffer  # type: ignore[attr-defined]
        kind.__release_buffer__ = _let_go  # type: ignore[attr-defined]
        return
    slots = _slots(kind)
    if slots is not None:
        slots[0] = ctypes.cast(_get, ctypes.c_void_p).value
        slots[1] = ctypes.cast(_release, ctypes.c_void_p).value


# Pointers of a type object before tp_as_buffer, from tp_name on; the head of all objects is before.
_BEFORE = 17


def _slots(kind: type) -> Any:
    """Return bf_getbuffer and bf_releasebuffer of a class, which are empty; None otherwise.

    The layout of type objects is the same in all releases of CPython 3.11, in which alone it is
    asked for. That bytes have the slot, and int hasn't, is looked at all the same.
    """
    if sys.implementation.name != "cpython":
        return None
    if not _protocol(bytes) or _protocol(int):
        return None
    protocol = _protocol(kind)
    if not protocol:
        return None
    slots = (ctypes.c_void_p * 2).from_address(protocol)
    return slots if not any(slots) else None


def _protocol(kind: type) -> int | None:
    """Return the address of a type's functions for buffers, None where it has none."""
    head = object.__basicsize__ + ctypes.sizeof(ctypes.c_ssize_t)
    place = id(kind) + head + _BEFORE * ctypes.sizeof(ctypes.c_void_p)
    return ctypes.c_void_p.from_address(place).value


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int]
_get_buffer.restype = ctypes.c_int
# Held as long as this module is, since types point to them.
_get = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_int)(_answer)
_release = ctypes.PYFUNCTYPE(None, ctypes.py_object, ctypes.c_void_p)(_let_go)
