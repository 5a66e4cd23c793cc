"""The tracing of one call: which arrays wait, what is computed when, and who shares memory.

Three invariants hold. A value that a waiting expression reads isn't written before that expression
is computed: every write computes what waits first. An expression stands for the value of at most
one lazy array, and values own their memory, unless they are views: then a Family relates them. And
memory that code outside can write (a global array, or one handed out by np.asarray) is either
copied or read at once.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from ..blocks.partitioned import Partitioned
from .evaluate import is_sparse
from .expression import Expression, constant, leaf, type_name
from .liveness import caller_outside, unread_references

if TYPE_CHECKING:
    from .lazy import LazyArray
    from .runner import Runner

# Arrays from outside of the trace up to this size are copied; larger ones are read at once.
COPIED_BYTES = 1 << 20
# A chain of more waiting operators than this is computed.
DEPTH = 64

View = Callable[[Any], Any]


class Family:
    """Arrays that are views of one: the root's expression until a write needs its memory.

    `array` is the root's memory where it exists; `exposed` says that code outside may write it.
    """

    def __init__(self, root: Expression, array: Any = None) -> None:
        self.root = root
        self.array = array
        self.exposed = False
        self.members: list[weakref.ref[LazyArray]] = []

    def living(self) -> list[LazyArray]:
        """Return the members that Python still holds."""
        found = [(reference, reference()) for reference in self.members]
        self.members = [reference for reference, member in found if member is not None]
        return [member for _, member in found if member is not None]


class UnsupportedError(Exception):
    """Something that isn't traced; the message says what. NumPy does it at once."""


class Lazy:
    """What a lazy array is, for those that can't import it."""

    __slots__ = ()


def is_lazy(value: Any) -> TypeGuard[LazyArray]:
    """Whether a value is a lazy array, of this trace or of another."""
    return isinstance(value, Lazy)


class Trace:
    """One call of a fused function."""

    def __init__(self, runner: Runner, code: CodeType, kind: type[LazyArray]) -> None:
        self.runner = runner
        self.code = code
        self.kind = kind
        self.closed = False
        self.returned = False  # the function's own variables are gone
        self.under_dask = False  # an argument was a dask array
        self.blocks: list[Partitioned] = []  # the arguments in blocks
        self._arrays: list[weakref.ref[Any]] = []
        self._last_instruction = -1
        self._computed = False  # since the last iteration began

    # -- arrays ------------------------------------------------------------------------------

    def register(self, lazy: Any) -> None:
        """Remember a lazy array, and compute what waits when a loop has come around."""
        self._arrays.append(weakref.ref(lazy))

    def held(self) -> bool:
        """Whether Python still holds a lazy array somewhere."""
        return bool(self.living())

    def living(self) -> list[Any]:
        """Return the lazy arrays that Python still holds."""
        found = [(reference, reference()) for reference in self._arrays]
        self._arrays = [reference for reference, lazy in found if lazy is not None]
        return [lazy for _, lazy in found if lazy is not None]

    def step(self, expression: Expression) -> None:
        """Look at where the program stands before an operator is added.

        Going back in the function's code means another iteration. A loop that asks for a value in
        each, for its condition, ends regions there; any other ends one where it comes around.
        """
        frame = self._frame()
        if frame is not None:
            if frame.f_lasti < self._last_instruction:
                if not self._computed:
                    self.flush("the loop's next iteration")
                    expression.measure()
                self._computed = False
            self._last_instruction = frame.f_lasti
        if expression.depth > DEPTH:
            self.flush(f"a chain of {DEPTH} operators")
            expression.measure()

    def _frame(self) -> FrameType | None:
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and frame.f_code is not self.code:
            frame = frame.f_back
        return frame

    def operand(self, value: Any) -> Expression:
        """Return an operand that isn't one of this trace's lazy arrays as an expression.

        Raises UnsupportedError for what can't be read later, or not at all.
        """
        if isinstance(value, np.generic):
            name = type_name(value.dtype)
            if not name:
                raise UnsupportedError(f"a number of type {value.dtype}")
            return constant(value.item(), name)
        if type(value) in (list, tuple):
            value = np.asarray(value)
        if type(value) is not np.ndarray:
            raise UnsupportedError(f"an operand of type {type(value).__name__}")
        if not type_name(value.dtype):
            raise UnsupportedError(f"an array of type {value.dtype}")
        return self.captured(value)

    def captured(self, array: Any) -> Expression:
        """Return an array that others may write as a leaf that they can't."""
        if array.nbytes <= COPIED_BYTES:
            return leaf(array.copy())
        if not _writable(array):
            return leaf(array)
        raise UnsupportedError(
            f"an array {_shown(array)} that is no argument and could be written meanwhile"
        )

    # -- computing ---------------------------------------------------------------------------

    def force(self, expression: Expression, why: str) -> Any:
        """Compute an expression, and with it the waiting arrays that will be read."""
        if not expression.is_leaf:
            self._compute([expression], why)
        value = expression.value
        if isinstance(value, Partitioned):
            return value.gathered(self.runner.engine.options.budget, why)
        return value

    def returned_value(self, expression: Expression) -> Any:
        """Compute an expression that leaves the function: blocks that came from Dask go to Dask."""
        if not expression.is_leaf:
            self._compute([expression], "returned")
        value = expression.value
        if not isinstance(value, Partitioned) or value.source is not None:
            return self.force(expression, "returned")
        if value.given is not None:
            return value.given
        fits = value.nbytes <= self.runner.engine.options.budget
        if value.layout != "dense" or (fits and not self.under_dask):
            return self.force(expression, "returned")
        return value.as_dask()

    def flush(self, why: str) -> None:
        """Compute the waiting arrays that will be read."""
        self._compute([], why)

    def _compute(self, wanted: Sequence[Expression], why: str) -> None:
        expressions = list(wanted)
        seen = {id(one) for one in wanted}
        for expression in self._waiting():
            if id(expression) not in seen:
                seen.add(id(expression))
                expressions.append(expression)
        expressions = [one for one in expressions if not one.is_leaf]
        if not expressions:
            return
        self._computed = True
        values, taken = self.runner.run(expressions, why)
        for expression, value in zip(expressions, values, strict=True):
            if not _is_sparse_view(expression):
                value = _own(value, taken)
            expression.settle(value)
            taken.append(expression.value)

    def _waiting(self) -> Iterator[Expression]:
        """Yield what waits in arrays that will be read, and settle views of memory that is there.

        An array that only local variables hold which are never read again is left out.
        """
        waiting = [lazy for lazy in self.living() if _waits(lazy)]
        if not waiting:
            return
        unread: dict[int, int] = {}
        if not self.returned:
            unread = unread_references(caller_outside(_is_own), self.code)
        while waiting:
            lazy = waiting.pop(0)
            held = unread.get(id(lazy), 0)
            # Beside Python's variables: `lazy` here and the argument of getrefcount.
            if held and sys.getrefcount(lazy) - 2 <= held:
                continue
            family = lazy._family
            if family is not None and family.array is not None:
                lazy._expression.settle(lazy._seen_in(family.array))
                continue
            if family is not None:
                _rebase(lazy, family)
                yield family.root
            yield lazy._expression

    # -- memory ------------------------------------------------------------------------------

    def memory(self, lazy: LazyArray, why: str) -> Any:
        """Return the memory that a lazy array stands for, related to that of its views."""
        family = lazy._joined()
        if family.array is None:
            _rebase(lazy, family)
            family.array = self.force(family.root, why)
        for member in family.living():
            member._expression.settle(member._seen_in(family.array))
        return lazy._expression.value

    def writable(self, lazy: LazyArray, why: str) -> Any:
        """Return the memory of a lazy array for writing; whatever waits is computed first."""
        self.flush(why)
        return self.memory(lazy, why)

    def expose(self, lazy: LazyArray, why: str) -> Any:
        """Return the memory of a lazy array to code outside, which may read and write it."""
        self.flush(why)
        array = self.memory(lazy, why)
        lazy._joined().exposed = True
        return array

    def close(self) -> None:
        """End the trace: what still waits and is still held somewhere is computed."""
        if self.closed:
            return
        try:
            for lazy in [one for one in self.living() if not one._expression.is_leaf]:
                family = lazy._family
                if family is not None and len(family.living()) > 1:
                    self.memory(lazy, "kept beyond the call")
            self.flush("kept beyond the call")
        finally:
            self.closed = True

    def abandon(self) -> None:
        """End the trace after an exception, computing what is kept somewhere as far as it goes."""
        import contextlib

        with contextlib.suppress(Exception):
            self.close()
        self.closed = True


def _waits(lazy: Any) -> bool:
    """Whether the value, or the memory that it would share with its views, isn't there."""
    if not lazy._expression.is_leaf:
        return True
    family = lazy._family
    return family is not None and family.array is None and not family.root.is_leaf


def _rebase(lazy: Any, family: Family) -> None:
    """Let the last member of a family be its root: of what it was a view, nobody will see again."""
    if family.array is None and len(family.living()) == 1:
        family.root, lazy._views = lazy._expression, ()


def _is_sparse_view(expression: Expression) -> bool:
    """Whether SciPy's value shares memory with an argument: a sparse argument's transpose does."""
    while expression.op == "Transpose" and expression.layout != "dense":
        (expression,) = expression.operands
    return expression.is_leaf and expression.layout != "dense"


def _own(value: Any, taken: Sequence[Any]) -> Any:
    """Return a value that shares no memory with others and can be written."""
    if isinstance(value, Partitioned):
        return value.copied() if any(value is other for other in taken) else value
    if is_sparse(value):
        held = [other.data for other in taken if is_sparse(other)]
        return value.copy() if any(np.may_share_memory(value.data, one) for one in held) else value
    if not isinstance(value, np.ndarray):
        return value
    if value.base is None:  # memory of its own: shared only with itself and its views
        shared = any(value is other or getattr(other, "base", None) is value for other in taken)
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


def _is_own(module: str) -> bool:
    return module.startswith(("tensolog.", "numpy."))


def _shown(array: Any) -> str:
    return "x".join(map(str, array.shape)) or "scalar"
