"""Whether a call is fused at all: what its user asks for, and who watches the function run."""

from __future__ import annotations

import dis
import os
import sys
from types import CodeType, FunctionType
from typing import Literal, get_args

from .callables import FuseError

# auto      fused, but for functions that a debugger, a tracer or a measurement of coverage watches
# fused     fused whoever watches
# traced    the function itself runs in each call, over arrays that wait
# plain     the function itself runs, over the arrays that were given
Mode = Literal["auto", "fused", "traced", "plain"]
MODES: tuple[Mode, ...] = get_args(Mode)
# Goes before the argument `mode`.
SWITCH = "TENSOLOG_FUSE"
# Tools of sys.monitoring that look at lines: debuggers, coverage, and those without a purpose of
# their own. Profilers are to see what runs without them.
_WATCHING = (0, 1, 3, 4)
# What stands for an array can't answer to, or what asks for the function itself: builtins, methods.
_ASKING = {
    "memoryview": "memoryview(), which takes real arrays",
    "breakpoint": "breakpoint()",
    "set_trace": "set_trace()",
    "shuffle": "shuffle(), which exchanges the rows of real arrays",
}
_METHODS = frozenset(["set_trace", "shuffle"])

# What os.environ looks names up in, where it is as in CPython: asking for a name that isn't there
# takes microseconds otherwise, in every call.
_VARIABLES = getattr(os.environ, "_data", None)
_NAME = getattr(os.environ, "encodekey", str)(SWITCH)


def mode_of(asked: Mode) -> Mode:
    """Return the mode that holds: the environment's, where it has one. Raises FuseError."""
    if (_VARIABLES is not None and _NAME not in _VARIABLES) or SWITCH not in os.environ:
        return asked
    told = os.environ[SWITCH].strip().lower()
    for mode in MODES:
        if told == mode:
            return mode
    if told:
        raise FuseError(f"{SWITCH}={told} is none of {', '.join(MODES)}")
    return asked


def watched() -> str:
    """Return who watches functions run in this thread; "" for nobody."""
    if sys.gettrace() is not None:
        return "a debugger or a tracer is active (sys.gettrace)"
    if sys.version_info >= (3, 12):
        for tool in _WATCHING:
            name = sys.monitoring.get_tool(tool)
            if name is not None:
                return f"{name} is active (sys.monitoring)"
    return ""


def asks(function: FunctionType) -> str:
    """Return what a function's own code asks that only real arrays answer; "" for nothing."""
    found = _asked(function.__code__)
    return f"it calls {found}" if found else ""


def _asked(code: CodeType) -> str:
    for one in dis.get_instructions(code):
        called = one.opname in ("LOAD_GLOBAL", "LOAD_NAME") or one.argval in _METHODS
        if called and one.argval in _ASKING and one.opname.startswith("LOAD_"):
            return _ASKING[one.argval]
    inner = (one for one in code.co_consts if isinstance(one, CodeType))
    return next(filter(None, map(_asked, inner)), "")
