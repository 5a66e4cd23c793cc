"""The tracing of one call: which arrays wait, what is computed when, and who shares memory.

Three invariants hold. A value that a waiting expression reads isn't written before that expression
is computed: every write computes what waits first. What is held stands for the value of at most one
lazy array, and values own their memory, unless they are views: then a Family relates them. And
memory that code outside can write (a global array, or one handed out by np.asarray) is either
copied or read at once.

Expressions name values by their places in the record of the region that is being traced. So one may
be made only of operands that were read since that region began: `step`, which may end a region,
comes before `read`.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from inspect import CO_GENERATOR
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..blocks.partitioned import Partitioned
from ..program import memory_pool
from ..program.dag import shape_text
from ..program.evaluate import is_sparse
from .escapes import in_variable
from .expressions import Expression, Record, Thunk, leaf, type_name
from .liveness import caller_outside, put_in_variables, unread_references
from .marker_types import is_lazy

if TYPE_CHECKING:
    from ..arrays.lazy_array import LazyArray
    from .region_engine import Runner

# Arrays from outside of the trace up to this size are copied; larger ones are read at once.
COPIED_BYTES = 1 << 20
# A chain of more waiting operators than this is computed.
DEPTH = 64
# So is a region of more operators: planning takes longer than in proportion to them.
OPERATORS = 128
# Of the regions that end at one place in the code, so many may be new to the function in one call.
# Each is planned, and perhaps compiled: in a loop whose iterations differ that would go on.
NEW_REGIONS = 8
# And by so many seconds may a call be slower, by the model of costs, than NumPy alone.
LOST_S = 5e-3
# So long takes it to trace a view of what is there.
VIEW_S = 3e-6

View = Callable[[Any], Any]

# Regions of all traces, so that what is held in one is in no other by its number.
_epochs = itertools.count()


class Family:
    """Arrays that are views of one: what the root holds, until a write needs its memory.

    `array` is the root's memory where it exists; `exposed` says that code outside may write it, as
    it was given away, or is `lent` for now (buffers.py).
    """

    __slots__ = ("array", "given_away", "lent", "loose", "members", "root")

    def __init__(self, root: Thunk, array: Any = None) -> None:
        self.root = root
        self.array = array
        self.given_away = False
        self.lent: list[weakref.ref[Any]] = []
        self.members: list[weakref.ref[LazyArray]] = []
        self.loose: list[weakref.ref[LazyArray]] = []  # may have values that aren't the memory

    @property
    def exposed(self) -> bool:
        """Whether code outside may write the memory."""
        if self.lent:
            self.lent = [reference for reference in self.lent if reference() is not None]
        return self.given_away or bool(self.lent)

    def join(self, member: weakref.ref[LazyArray]) -> None:
        """Take an array as a member."""
        self.members.append(member)
        self.loose.append(member)

    def living(self) -> list[LazyArray]:
        """Return the members that Python still holds."""
        pairs = [(reference, reference()) for reference in self.members]
        self.members = [reference for reference, member in pairs if member is not None]
        return [member for _, member in pairs if member is not None]


class UnsupportedError(Exception):
    """Something that isn't traced; the message says what. NumPy does it at once."""


class Trace:
    """One call of a fused function."""

    def __init__(self, runner: Runner, code: CodeType, kind: type[LazyArray]) -> None:
        self.runner = runner
        self.code = code
        self.kind = kind
        self.closed = False
        self.returned = False  # the function's own variables are gone
        self.under_dask = False  # an argument was a dask array
        self.refused: Exception | None = None  # why some memory wasn't lent
        self.touched = False  # the function asked for memory, to be seen or written
        self.keeps = False  # the first region is kept in `ran`
        self.ran: tuple[Record, tuple[Thunk, ...], tuple[Any, ...]] | None = None
        self.blocks: list[Partitioned] = []  # the arguments in blocks
        self.places = runner.engine.places()
        self.record = Record(self.places)
        self.epoch = next(_epochs)  # the number of the region that is being traced
        self._arrays: list[weakref.ref[Any]] = []  # the lazy ones; each adds itself
        self._leaked: Counter[int] = Counter()  # references that NumPy lost, by identity
        self._crowded = 256  # when there are so many, those that are gone are left out
        self._pending: list[weakref.ref[Any]] = []  # those that may wait
        self._steps = 0  # operators in the region
        self._new: Counter[tuple[CodeType, int]] = Counter()  # regions by where they ended
        # Of the function, and by their identity of the generators that it runs.
        self._last_instructions: dict[int, int] = {}
        self._computed = False  # since the last iteration began

    # -- arrays ------------------------------------------------------------------------------

    def has_living(self) -> bool:
        """Whether Python still holds a lazy array somewhere."""
        return bool(self.living())

    def living(self) -> list[Any]:
        """Return the lazy arrays that Python still holds."""
        arrays = []
        for reference in self._arrays:
            lazy = reference()
            # Beside references that were lost: `lazy` here and the argument of getrefcount.
            if lazy is not None and sys.getrefcount(lazy) - 2 > self._leaked[id(lazy)]:
                arrays.append(lazy)
        self._arrays = [reference for reference in self._arrays if reference() is not None]
        return arrays

    def leak(self, lazy: Any) -> None:
        """Know of a reference to a lazy array that NumPy lost: nobody has it, and it stays."""
        self._leaked[id(lazy)] += 1

    def add(self, lazy: Any) -> None:
        """Know of a lazy array, or of one that stands for another value from now on."""
        reference = weakref.ref(lazy)
        self._arrays.append(reference)
        self._pending.append(reference)
        if len(self._arrays) > self._crowded:
            self._arrays = [reference for reference in self._arrays if reference() is not None]
            self._crowded = 2 * len(self._arrays) + 256

    def step(self) -> None:
        """Look at where the program stands before an operator is added.

        Going back in the function's code, or in that of a generator, means another iteration. A
        loop that asks for a value in each, for its condition, ends regions there; any other ends
        one where it comes around.
        Raises UnsupportedError where tracing stops with that.
        """
        self._steps += 1
        if self._steps > OPERATORS:
            self.flush(f"{OPERATORS} operators")
            self.stop_if_it_loses()
        # Between here and the program lie who asks and what Python, or NumPy, called.
        frame: FrameType | None = sys._getframe(3)
        code = self.code
        while frame is not None:
            is_function = frame.f_code is code
            if is_function or frame.f_code.co_flags & CO_GENERATOR:
                place, offset = 0 if is_function else id(frame), frame.f_lasti
                if offset < self._last_instructions.get(place, -1):
                    if not self._computed:
                        self.flush("the loop's next iteration")
                    self._computed = False
                self._last_instructions[place] = offset
            if is_function:
                break
            frame = frame.f_back
        if self.closed:
            raise UnsupportedError("tracing stopped")

    def read(self, thunk: Thunk) -> Expression:
        """Return what stands for a value in the region that is being traced."""
        if thunk.epoch == self.epoch:
            assert thunk.expression is not None
            return thunk.expression
        if thunk.value is None:
            self._compute_left(thunk)
        assert not isinstance(thunk.kind, Expression)
        thunk.expression = self.record.place(thunk.value, thunk.kind)
        thunk.epoch = self.epoch
        return thunk.expression

    def thunk_of(self, expression: Expression) -> Thunk:
        """Return what holds the value of an expression of this region, which waits."""
        return Thunk(expression, self.epoch)

    def resolve(self, thunk: Thunk, value: Any) -> None:
        """Give it its value."""
        thunk.resolve(value, self.places.kind(value))

    def operand(self, value: Any) -> Expression:
        """Return an operand that isn't one of this trace's lazy arrays as an expression.

        Raises UnsupportedError for what can't be read later, or not at all.
        """
        if isinstance(value, np.generic):
            name = type_name(value.dtype)
            if not name:
                raise UnsupportedError(f"a number of type {value.dtype}")
            return self.places.number(self.record.number(value), name)
        return self.read(self.outside(value))

    def outside(self, value: Any) -> Thunk:
        """Return an array, or a list, that isn't this trace's; see operand."""
        if type(value) in (list, tuple):
            if _has_lazy(value):
                # Its values would be computed: what was read for this operator would be of a
                # region that is over.
                raise UnsupportedError("a list of traced values")
            value = np.asarray(value)
        if type(value) is not np.ndarray:
            raise UnsupportedError(f"an operand of type {type(value).__name__}")
        if not type_name(value.dtype):
            raise UnsupportedError(f"an array of type {value.dtype}")
        return self.captured(value)

    def captured(self, array: Any) -> Thunk:
        """Return an array that others may write as one that they can't."""
        if array.nbytes <= COPIED_BYTES:
            return leaf(array.copy(), self.places)
        if not _writable(array):
            return leaf(array, self.places)
        raise UnsupportedError(
            f"an array {shape_text(array.shape)} that is no argument and could be written meanwhile"
        )

    # -- computing ---------------------------------------------------------------------------

    def force(self, thunk: Thunk, why: str) -> Any:
        """Compute a value, and with it the waiting arrays that will be read."""
        self._force(thunk, why)
        value = thunk.value
        if isinstance(value, Partitioned):
            return value.gathered(self.runner.engine.options.budget, why)
        return value

    def returned_value(self, thunk: Thunk) -> Any:
        """Compute what leaves the function: blocks that came from Dask go to Dask."""
        self._force(thunk, "returned")
        value = thunk.value
        if not isinstance(value, Partitioned) or value.source is not None:
            return self.force(thunk, "returned")
        if value.original is not None:
            return value.original
        fits = value.nbytes <= self.runner.engine.options.budget
        if value.layout != "dense" or (fits and not self.under_dask):
            return self.force(thunk, "returned")
        return value.as_dask()

    def _force(self, thunk: Thunk, why: str) -> None:
        if thunk.origin is not None:
            self._compute_left(thunk)
        elif thunk.value is None:
            self._compute([thunk], why)

    def flush(self, why: str) -> None:
        """Compute the waiting arrays that will be read."""
        self._compute([], why)

    def _compute(self, wanted: Sequence[Thunk], why: str) -> None:
        """Compute the region that is being traced, and begin another one."""
        waiting, unread = self._waiting()
        uncomputed = [thunk for thunk in dict.fromkeys([*wanted, *waiting]) if thunk.value is None]
        if uncomputed:
            self._computed = True
            self._run(self.record, uncomputed, why)
        for thunk in unread:
            if thunk.value is None and thunk.origin is None:
                assert thunk.expression is not None
                thunk.origin, thunk.epoch = self.record.only(thunk.expression), -1
        self.record = Record(self.places)
        self.epoch = next(_epochs)
        self._pending = [reference for reference in self._pending if _waits(reference())]
        steps, self._steps = self._steps, 0
        if uncomputed and not self.closed:
            self._look_at_the_cost(why)
        elif not uncomputed:
            self.runner.lost_s += VIEW_S * steps  # they made views alone

    def _look_at_the_cost(self, why: str) -> None:
        """Stop where tracing the call takes longer than it can gain."""
        if not self.runner.regions[-1].cached:
            frame = caller_outside(_is_own)
            place = (self.code if frame is None else frame.f_code, frame.f_lasti if frame else 0)
            self._new[place] += 1
            if self._new[place] > NEW_REGIONS:
                self.stop(f"more than {NEW_REGIONS} different regions end at one place ({why})")
                return
        self.stop_if_it_loses()

    def stop_if_it_loses(self) -> None:
        """Stop where NumPy alone would be further by now."""
        if self.runner.lost_s > LOST_S and not self.closed:
            self.stop("NumPy alone was done sooner with what was traced")

    def stop(self, why: str) -> None:
        """Go on without tracing: what waits is computed, and variables get real arrays."""
        if self.closed or self.runner.stopped:
            return
        self.runner.stopped = why
        self.close("tracing stops")
        if not self.returned:
            put_in_variables(caller_outside(_is_own), self.code, in_variable)

    def _compute_left(self, thunk: Thunk) -> None:
        """Compute what was left out of its region, from the values that this one read."""
        assert thunk.origin is not None
        self._run(thunk.origin, [thunk], "left out before")

    def _run(self, record: Record, wanted: Sequence[Thunk], why: str) -> None:
        expressions = tuple([thunk.kind for thunk in wanted if type(thunk.kind) is Expression])
        values, taken = self.runner.run(record, expressions, why)
        if self.keeps:
            self.keeps, self.ran = False, (record, tuple(wanted), tuple(taken))
        for thunk, expression, value in zip(wanted, expressions, values, strict=True):
            if not _is_sparse_view(expression):
                value = unshared(value, taken)
            self.resolve(thunk, value)
            thunk.owns_entries = not _is_sparse_view(expression)
            taken.append(value)

    def _of_this_region(self, thunk: Thunk) -> list[Thunk]:
        """Return what waits in the region that is being traced; what was left out is computed."""
        if thunk.value is not None:
            return []
        if thunk.origin is None:
            return [thunk]
        self._compute_left(thunk)
        return []

    def _waiting(self) -> tuple[list[Thunk], list[Thunk]]:
        """Return what waits in arrays that will be read; views of memory that is there are settled.

        Then that which waits in an array that only local variables hold which are never read again.
        """
        waiting = _waiting_of(self._pending)
        thunks: list[Thunk] = []
        others: list[Thunk] = []
        if not waiting:
            return thunks, others
        unread: dict[int, int] = {}
        if not self.returned:
            unread = unread_references(caller_outside(_is_own), self.code)
        while waiting:
            lazy = waiting.pop(0)
            thunk, family = lazy._thunk, lazy._family
            holders = unread.get(id(lazy), 0)
            # Beside Python's variables: `lazy` here and the argument of getrefcount.
            if holders and sys.getrefcount(lazy) - 2 <= holders:
                others += [thunk] if family is None else [thunk, family.root]
                continue
            if family is not None and family.array is not None:
                self.resolve(thunk, lazy._seen_in(family.array))
                continue
            if family is not None:
                _rebase(lazy, family)
                thunks += self._of_this_region(family.root)
            thunks += self._of_this_region(thunk)
        return thunks, others

    # -- memory ------------------------------------------------------------------------------

    def memory(self, lazy: LazyArray, why: str) -> Any:
        """Return the memory that a lazy array stands for, related to that of its views."""
        self.touched |= not self.returned
        family = lazy._joined()
        if family.array is None:
            _rebase(lazy, family)
            family.array = self.force(family.root, why)
        loose, family.loose = family.loose, []
        for reference in loose:
            member = reference()
            if member is not None and not _is_memory(member._thunk.value, family.array):
                self.resolve(member._thunk, member._seen_in(family.array))
        return lazy._thunk.value

    def writable(self, lazy: LazyArray, why: str) -> Any:
        """Return the memory of a lazy array for writing; whatever waits is computed first."""
        self.flush(why)
        return self.memory(lazy, why)

    def expose(self, lazy: LazyArray, why: str) -> Any:
        """Return the memory of a lazy array to code outside, which may read and write it."""
        self.flush(why)
        array = self.memory(lazy, why)
        lazy._joined().given_away = True
        return array

    def close(self, why: str = "kept beyond the call") -> None:
        """End the trace: what still waits and is still held somewhere is computed."""
        if self.closed:
            return
        if not self.has_living():
            self.closed = True
            return
        try:
            for lazy in [
                lazy_array for lazy_array in self.living() if lazy_array._thunk.value is None
            ]:
                family = lazy._family
                if family is not None and len(family.living()) > 1:
                    self.memory(lazy, why)
            self.flush(why)
        finally:
            self.closed = True

    def abandon(self) -> None:
        """End the trace after an exception, computing what is kept somewhere as far as it goes."""
        with contextlib.suppress(Exception):
            self.close()
        self.closed = True


def _has_lazy(value: list[Any] | tuple[Any, ...]) -> bool:
    return any(is_lazy(item) or (type(item) in (list, tuple) and _has_lazy(item)) for item in value)


def _waits(lazy: Any) -> bool:
    """Whether the value, or the memory that it would share with its views, isn't there."""
    if lazy is None:
        return False
    if lazy._thunk.value is None:
        return True
    family = lazy._family
    return family is not None and family.array is None and family.root.value is None


def _rebase(lazy: Any, family: Family) -> None:
    """Let the last member of a family be its root: of what it was a view, nobody will see again."""
    if family.array is None and len(family.living()) == 1:
        family.root, lazy._views = lazy._thunk, ()


def _waiting_of(pending: Sequence[weakref.ref[Any]]) -> list[Any]:
    # By their identity: arrays, and references to them, are compared by elements.
    return list({id(lazy): lazy for reference in pending if _waits(lazy := reference())}.values())


def _is_memory(value: Any, memory: Any) -> bool:
    """Whether a value is memory, or a view of it."""
    return isinstance(value, np.ndarray) and np.may_share_memory(value, memory)


def _is_sparse_view(expression: Expression) -> bool:
    """Whether SciPy's value shares memory with an argument: a sparse argument's transpose does."""
    while expression.op == "Transpose" and expression.layout != "dense":
        (expression,) = expression.operands
    return expression.op == "Input" and expression.layout != "dense"


def unshared(value: Any, taken: Sequence[Any]) -> Any:
    """Return a value that shares no memory with others and can be written."""
    if isinstance(value, Partitioned):
        return value.copied() if any(value is other for other in taken) else value
    if is_sparse(value):
        entries = [other.data for other in taken if is_sparse(other)]
        return (
            value.copy()
            if any(np.may_share_memory(value.data, entry) for entry in entries)
            else value
        )
    if not isinstance(value, np.ndarray):
        return value
    if memory_pool.is_alone(value):
        shared = False
        for other in taken:
            if value is other or getattr(other, "base", None) is value:
                shared = True
    else:
        arrays = (other for other in taken if isinstance(other, np.ndarray))
        shared = any(np.may_share_memory(value, other) for other in arrays)
    return value.copy() if shared or not value.flags.writeable else value


def _writable(array: Any) -> bool:
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return True
        array = array.base
    return array is not None


@cache
def _is_own(module: str) -> bool:
    return module.startswith(("tensolog.", "numpy."))
