"""Which of the arrays that Python still holds will be read again?

A local variable that is never loaded again keeps its array alive, although nobody needs the value:
`Q = X * Y` in `return float(Q.sum())`. Reading the function's own code tells (a backward data flow
over its bytecode), so that such a value need not be computed.
"""

from __future__ import annotations

import ctypes
import dis
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from inspect import CO_OPTIMIZED
from types import CodeType, FrameType
from typing import Any

# Names through which a function can reach its own variables in ways that its code doesn't show.
_REFLECTION = frozenset(["locals", "eval", "exec", "vars", "dir", "_getframe", "currentframe"])


def unread_references(frame: FrameType | None, top: CodeType) -> dict[int, int]:
    """Return, by id of object, how many local variables hold it that are never read again.

    Looks at `frame` and its callers up to the innermost one that runs `top`.
    """
    frames: list[FrameType] = []
    while frame is not None:
        frames.append(frame)
        if frame.f_code is top:
            break
        frame = frame.f_back
    else:
        return {}
    counts: dict[int, int] = {}
    for frame_ in frames:
        if not frame_.f_code.co_flags & CO_OPTIMIZED:
            continue
        names = _dead_after(frame_.f_code, frame_.f_lasti)
        if not names:
            continue
        local_values = frame_.f_locals
        for name in names:
            if name in local_values:
                identity = id(local_values[name])
                counts[identity] = counts.get(identity, 0) + 1
        if sys.version_info < (3, 13):
            # A snapshot that the frame keeps: it would hold every array until the function returns.
            local_values.clear()
    return counts


def put_in_variables(
    frame: FrameType | None,
    top: CodeType,
    put: Callable[[Any], Any],
) -> None:
    """Put other values into the local variables of a frame and its callers, up to `top`."""
    while frame is not None:
        put_in_frame(frame, put)
        if frame.f_code is top:
            return
        frame = frame.f_back


def put_in_frame(frame: FrameType | None, put: Callable[[Any], Any]) -> None:
    """Put other values into the local variables of a frame that isn't one of this package's."""
    if frame is None or not frame.f_code.co_flags & CO_OPTIMIZED:
        return
    if frame.f_globals.get("__name__", "").startswith("tensolog."):
        return
    local_values = frame.f_locals
    changed = False
    for name, value in [*local_values.items()]:
        instead = put(value)
        if instead is not value:
            local_values[name], changed = instead, True
    if sys.version_info < (3, 13):
        if changed:
            # Before, these were a copy, which is written back as debuggers do it.
            ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
        local_values.clear()


@lru_cache(maxsize=1024)
def _dead_after(code: CodeType, offset: int) -> tuple[str, ...]:
    """Return the local variables that aren't read after an instruction, as far as that is known."""
    live = live_after(code).get(offset)
    if live is None:
        return ()
    # Variables that inner functions share are read in ways that this code doesn't show.
    return tuple(set(code.co_varnames) - live - set(code.co_cellvars))


@lru_cache(maxsize=1024)
def live_after(code: CodeType) -> Mapping[int, frozenset[str]]:
    """Return, by offset of an instruction, the local variables that may be read after it.

    Empty where that can't be told: handlers of exceptions, generators, or access by reflection.
    """
    if code.co_exceptiontable or _REFLECTION & set(code.co_names):
        return {}
    instructions = list(dis.get_instructions(code))
    position = {instruction.offset: i for i, instruction in enumerate(instructions)}
    after = [frozenset[str]()] * len(instructions)
    before = [frozenset[str]()] * len(instructions)
    changed = True
    while changed:
        changed = False
        for i in range(len(instructions) - 1, -1, -1):
            instruction = instructions[i]
            live: frozenset[str] = frozenset()
            if i + 1 < len(instructions) and instruction.opname not in _ENDS:
                live = before[i + 1]
            if instruction.opcode in dis.hasjrel or instruction.opcode in dis.hasjabs:
                target = position.get(instruction.argval)
                live |= before[target] if target is not None else frozenset(code.co_varnames)
            after[i] = live
            read, written = _locals_of(instruction)
            entry = (live - written) | read
            if entry != before[i]:
                before[i] = entry
                changed = True
    return {instruction.offset: after[i] for i, instruction in enumerate(instructions)}


_ENDS = frozenset(["RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE"]) | frozenset(
    ["JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP_ABSOLUTE"]
)


def _locals_of(instruction: dis.Instruction) -> tuple[frozenset[str], frozenset[str]]:
    """Return the local variables that an instruction reads and those that it overwrites."""
    name = instruction.opname
    if "_FAST" not in name:
        return frozenset(), frozenset()
    names = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
    touched = frozenset(str(variable) for variable in names)
    if name in ("STORE_FAST", "DELETE_FAST"):
        return frozenset(), touched
    # Several at once (STORE_FAST_LOAD_FAST): counted as read, which errs on the safe side.
    return touched, frozenset()


def caller_outside(is_own: Callable[[str], bool]) -> FrameType | None:
    """Return the innermost frame whose module isn't `is_own`."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_own(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    return frame
