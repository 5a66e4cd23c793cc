"""Whether the user wants to hear of NumPy's floating-point errors: then NumPy must compute."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from .trace import UnsupportedError


def _found() -> Any:
    """Return what holds the states, from NumPy 2 on: asking for them all takes a microsecond."""
    try:
        umath = importlib.import_module("numpy._core.umath")
    except ImportError:
        return None
    return getattr(umath, "_extobj_contextvar", None)


_states = _found()

# States that were seen to ask for nothing; held, so that no others can be in their place.
_silent: Any = object()


def raise_if_errors_are_asked_for() -> None:
    """Leave to NumPy what the user wants to hear of, such as a division by zero."""
    global _silent
    found = None if _states is None else _states.get()
    if found is _silent:
        return
    asked = np.geterr().values()
    if "raise" in asked or "call" in asked:
        raise UnsupportedError("np.errstate asks for errors")
    if found is not None:
        _silent = found


class _Ignored:
    """np.errstate(all="ignore") in a third of the time."""

    __slots__ = ("_token",)

    def __enter__(self) -> None:
        self._token = _states.set(_ignoring)

    def __exit__(self, *_: object) -> None:
        _states.reset(self._token)


def ignored() -> Any:
    """Return what turns NumPy's warnings off while it is entered."""
    return np.errstate(all="ignore") if _states is None else _Ignored()


with np.errstate(all="ignore"):
    _ignoring: Any = None if _states is None else _states.get()
