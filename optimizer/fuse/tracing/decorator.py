"""`@fuse`: a function over NumPy arrays whose regions run as fused kernels."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Hashable, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast, get_args, overload

import numpy as np

from ..arrays.lazy_array import LazyArray
from ..blocks.partitioned import SHARE, Partitioned, cut, is_dask_array, of_array, of_dask
from ..program.evaluate import is_sparse
from .eager import shown
from .eligibility import MODES, FuseError, Mode, asks, mode_of, target, watched
from .escapes import release, release_from, result
from .expressions import leaf, type_name
from .marker_types import PLAIN, FusedFunction
from .prepare import Heuristic, Options
from .region_engine import Engine, Runner
from .replay import (
    MISSED,
    Dependencies,
    Replay,
    dependencies_of,
    leaves_of,
    may_repeat,
    replay_of,
    result_sketch,
)
from .trace import Family, Trace

if TYPE_CHECKING:
    import duckdb

    from ..planning.fusion_plan import FusionPlan

# Imported within functions: what explains, and SciPy's objects, for who asks for them.

# Arrays beside operands in blocks are cut once, not for each region, from so many bytes on.
_CUT_BYTES = 1 << 16
# So many kinds of calls of a function are known not to need tracing.
_DIRECT = 1024
# Of lists and dicts so many items are looked at to tell calls.
_LOOKED_AT = 16
# So many are done again without tracing them.
_AGAIN = 64
# Looked at in every call, however short.
_ARRAY = np.ndarray
# Sparse formats that know the number of their entries.
_COUNTED = frozenset(["csr", "csc", "coo"])
# Their types, once they were met.
_SPARSE: set[type] = set()
P = ParamSpec("P")
R = TypeVar("R")


class Fused(FusedFunction, Generic[P, R]):
    """A function whose arrays are traced while it runs; called, it returns what NumPy would."""

    def __init__(self, decorated: Callable[P, R], options: Options, mode: Mode = "auto") -> None:
        checked = target(decorated)
        functools.update_wrapper(self, decorated, updated=())
        self._function: Callable[..., R] = checked.function
        self._code = checked.function.__code__
        self._complete = checked.complete
        self._binding = checked.binding
        self._mode = mode
        self._asks = asks(checked.function)
        self._engine = Engine(options)
        self._last = threading.local()
        self._latest: Runner | None = None
        # Calls that aren't traced, by signature, with what became of the one that was.
        self._direct: dict[Hashable, Runner] = {}
        # Those that needn't be traced again, by signature and numbers, where code doesn't bend.
        self._replays: dict[Hashable, Replay] = {}
        self._bends = False
        self._dependencies: Dependencies | None = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return what the function returns."""
        if self._complete is not None:
            return self._called(*self._complete(*args, **kwargs))
        return self._called(args, kwargs)

    def _called(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> R:
        mode = mode_of(self._mode)
        plain = self._asks or (watched() if mode == "auto" else "")
        if plain or mode == "plain":
            return self._as_it_is(plain or "asked for by mode=plain", args, kwargs)
        signature = _signature(args, kwargs)
        direct_runner = None
        if self._direct:
            direct_runner = self._direct.get(signature or _likeness((args, kwargs)))
        if direct_runner is not None:
            self._last.runner = self._latest = direct_runner
            return self._function(*args, **kwargs)
        if self._replays and signature is not None and mode != "traced":
            arguments = (*args, *kwargs.values())
            alike = self._replays.get((signature, _numbers(arguments)))
            outcome: Any = MISSED if alike is None else alike.call(arguments)
            if alike is not None and outcome is not MISSED:
                self._last.runner = self._latest = alike.runner
                return cast(R, outcome)
        if any(map(_is_traced, args)) or any(map(_is_traced, kwargs.values())):
            return self._function(*args, **kwargs)  # part of the function around it
        runner = Runner(self._engine)
        trace = Trace(runner, self._code, LazyArray)
        wrapped: list[Any] = []
        try:
            wrapped += self._wrapped(trace, args, kwargs)
            trace.keeps = self._engine.repeats = (
                signature is not None
                and mode != "traced"
                and all(map(may_repeat, (*args, *kwargs.values())))
                and self._is_straight()
            )
            read = leaves_of((*wrapped[0], *wrapped[1].values())) if trace.keeps else {}
            outcome = self._function(*wrapped[0], **wrapped[1])
            sketch = (
                result_sketch(outcome, (*wrapped[0], *wrapped[1].values())) if trace.keeps else None
            )
            wrapped.clear()
            trace.returned = True
            outcome = result(outcome)
            trace.close()
            if trace.has_living():
                result([*args, *kwargs.values()])
            if trace.has_living():
                release(trace, cast(FunctionType, self._function))
        except Exception as error:
            wrapped.clear()
            trace.returned = True
            trace.abandon()
            if trace.has_living():
                release_from(error)
                result([*args, *kwargs.values()])
            if trace.has_living():
                release(trace, cast(FunctionType, self._function))
            if isinstance(error, SystemError) and trace.refused is not None:
                raise trace.refused from None
            raise
        finally:
            trace.closed = True
            self._last.runner = self._latest = runner
        if sketch is None or runner.stopped:
            pass
        elif self._remembers(trace, signature, sketch, read, args, kwargs):
            return cast(R, outcome)
        if (runner.needless or runner.stopped) and len(self._direct) < _DIRECT:
            self._direct[signature or _likeness((args, kwargs))] = runner
        return cast(R, outcome)

    def _as_it_is(self, why: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> R:
        """Call the function over real arrays, also where it stands in another fused one."""
        runner = Runner(self._engine)
        runner.plain = why
        self._last.runner = self._latest = runner
        return self._function(*map(shown, args), **{name: shown(kwargs[name]) for name in kwargs})

    def _is_straight(self) -> bool:
        """Whether the function does the same in each call, as its names mean what they do."""
        if not self._bends and (self._dependencies is None or not self._dependencies.holds()):
            self._dependencies = dependencies_of(cast(FunctionType, self._function))
            self._bends = self._dependencies is None
        return not self._bends

    def _remembers(
        self,
        trace: Trace,
        signature: Hashable,
        sketch: Any,
        read: Mapping[int, int],
        args: Any,
        kwargs: Any,
    ) -> bool:
        """Keep what a call did for others like it; return whether that could be done."""
        arguments = (*args, *kwargs.values())
        if len(self._replays) >= _AGAIN or any(
            isinstance(number, np.generic) for number in arguments
        ):
            return False
        replay = (
            None
            if self._dependencies is None
            else replay_of(trace, self._dependencies, arguments, sketch, read)
        )
        if replay is not None:
            self._replays[signature, _numbers(arguments)] = replay
            trace.runner.repeats = True
        return replay is not None

    def _wrapped(self, trace: Trace, args: Any, kwargs: Any) -> tuple[Any, Any]:
        seen: dict[int, Any] = {}
        arguments_ = (
            tuple(_wrap(trace, argument, seen) for argument in args),
            {name: _wrap(trace, argument, seen) for name, argument in kwargs.items()},
        )
        if trace.blocks:
            _cut_alike(trace, seen)
        return arguments_

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if self._binding == "class":
            return _Method(self, owner or type(instance))
        return self if instance is None or self._binding == "nothing" else _Method(self, instance)

    def __getattr__(self, name: str) -> Any:
        # Of a function's attributes, and of an object that is called.
        if name.startswith("__") or "__wrapped__" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.__wrapped__, name)

    def __reduce__(self) -> Any:
        """Be pickled by name, as functions are; what its calls left stays in this process.

        What a partial, a method or an object became is pickled with that.
        """
        if self._complete is None:
            return self._function.__qualname__
        return Fused, (self.__wrapped__, self._engine.options, self._mode)

    @property
    def _name(self) -> str:
        return getattr(self, "__qualname__", self._code.co_qualname)

    @property
    def kernels(self) -> int:
        """How many kernels the kept structures have."""
        return sum(plan.kernels for plan in self._engine.prepared_regions())

    @property
    def plans(self) -> tuple[FusionPlan, ...]:
        """The plans of the last call's regions, in order; one of each that could be planned."""
        plans: list[FusionPlan] = []
        for region in self._runner().regions:
            plan = region.prepared.plan
            if plan is not None and plan not in plans:
                plans.append(plan)
        return tuple(plans)

    @property
    def plan(self) -> FusionPlan:
        """The plan of the last call's dearest region; FuseError where nothing was planned."""
        plans = self.plans
        if not plans:
            raise FuseError(
                f"{self._name}: nothing was planned in the last call; explain() says why"
            )
        return max(plans, key=lambda plan: plan.cost_s)

    def explain(self) -> str:
        """Return what became of the last call: its regions, their plans, what was left to NumPy.

        The last call is this thread's, where it made one. Raises FuseError before any call.
        """
        from .report import explain

        return explain(self._name, self._runner())

    def sql(self, query: str) -> duckdb.DuckDBPyRelation:
        """Answer a SQL query over the kept regions, from all calls.

        Tables: region, region_rule, program_node, and fusion_operator, fusion_cover, fusion_memo,
        fusion_partition, fusion_member, fusion_point, each with a region_id (tables.sql). Raises
        QueryError, which names them, for what is no query over them.
        """
        from .report import query as answer
        from .report import relations

        return answer(relations(self._engine.prepared_regions()), query)

    def _runner(self) -> Runner:
        runner: Runner | None = getattr(self._last, "runner", None) or self._latest
        if runner is None:
            raise FuseError(f"{self._name} wasn't called yet: call it first")
        return runner


class _Method(functools.partial[Any]):
    """A fused function with its instance; it tells of its calls as the function does."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.func, name)


def _signature(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Hashable:
    """Return what calls that do the same have in common; None where values alone can't tell."""
    parts: list[Any] = [len(args), *kwargs]
    for argument in (*args, *kwargs.values()) if kwargs else args:
        kind = type(argument)
        if kind is _ARRAY:
            parts.append(argument.shape)
            parts.append(argument.dtype)
        elif kind in _SPARSE:
            entries = argument.data
            parts += (kind, argument.shape, entries.dtype, entries.size.bit_length())
        elif kind is float or isinstance(argument, np.generic):
            parts.append(kind)
        elif kind is bool:
            parts.append((kind, argument))  # True equals 1, and means another type to NumPy
        elif argument is None or kind is int or kind is str:
            parts.append(argument)
        elif kind.__module__.startswith("scipy.sparse") and argument.format in _COUNTED:
            _SPARSE.add(kind)
            return _signature(args, kwargs)
        else:
            return None
    return tuple(parts)


def _likeness(value: Any) -> Hashable:
    """Return what a value has in common with those for which as much is gained by tracing."""
    kind: type = type(value)
    if kind in PLAIN:
        return int(value) if kind is int else kind
    if kind is _ARRAY:
        return value.shape, value.dtype
    if kind in (tuple, list):
        return (kind, len(value), *map(_likeness, value[:_LOOKED_AT]))
    if kind is dict:
        return (kind, len(value), *map(_likeness, [*value.items()][:_LOOKED_AT]))
    return kind, id(value)


def _numbers(arguments: tuple[Any, ...]) -> Hashable:
    """Return the numbers that signatures tell by their types alone; 0.0 isn't -0.0."""
    return tuple([number.hex() for number in arguments if type(number) is float])


def _is_traced(value: Any) -> bool:
    if type(value) is tuple:
        return any(map(_is_traced, value))
    traced = type(value) is LazyArray or hasattr(type(value), "_tensolog_real")
    return traced and not value._trace.closed


def _wrap(trace: Trace, value: Any, seen: dict[int, Any]) -> Any:
    """Return an argument with a lazy array in place of an array that can be traced."""
    if type(value) is tuple:
        return tuple(_wrap(trace, item, seen) for item in value)
    if type(value) is np.ndarray:
        return _wrap_array(trace, value, seen)
    if type(value) is np.memmap and value.nbytes > trace.runner.engine.most_bytes:
        return _wrap_array(trace, value, seen)
    if type(value) is LazyArray or hasattr(type(value), "_tensolog_real"):
        return _wrap(trace, result(value), seen)  # of a call that is over
    if is_dask_array(value):
        return _wrap_blocks(trace, value, seen)
    if is_sparse(value) and hasattr(value, "asformat"):
        if id(value) not in seen:
            from ..arrays.lazy_sparse import wrap

            seen[id(value)] = wrap(trace, value, trace.runner.engine.most_bytes)
        return seen[id(value)]
    return value


def _wrap_blocks(trace: Trace, value: Any, seen: dict[int, Any]) -> Any:
    """Return a lazy array in place of a dask array."""
    if not type_name(value.dtype):
        trace.runner.note(f"a dask array of type {value.dtype} isn't traced")
        return value
    trace.under_dask = True
    if id(value) not in seen:
        seen[id(value)] = _in_blocks(trace, of_dask(value))
    return seen[id(value)]


def _in_blocks(trace: Trace, value: Partitioned) -> LazyArray:
    trace.blocks.append(value)
    lazy = LazyArray(trace, leaf(value, trace.places))
    lazy._join(Family(lazy._thunk))
    return lazy


def _cut_alike(trace: Trace, seen: dict[int, Any]) -> None:
    """Cut arrays of as many rows as the largest operand in blocks as this one, once for a call."""
    largest = max(trace.blocks, key=lambda value: value.nbytes)
    for lazy in seen.values():
        value = lazy._thunk.value
        if not isinstance(value, np.ndarray) or value.nbytes < _CUT_BYTES:
            continue
        if value.shape and value.shape[0] == largest.shape[largest.axis]:
            trace.resolve(lazy._thunk, cut(value, largest.rows))
            lazy._join(Family(lazy._thunk))


def _wrap_array(trace: Trace, value: Any, seen: dict[int, Any]) -> Any:
    if not type_name(value.dtype):
        trace.runner.note(f"an argument of type {value.dtype} isn't traced")
        return value
    lazy = seen.get(id(value))
    if lazy is None and value.ndim and value.nbytes > trace.runner.engine.most_bytes:
        blocks = of_array(value, trace.runner.engine.most_bytes / SHARE)
        lazy = seen[id(value)] = _in_blocks(trace, blocks)
    elif lazy is None:
        lazy = seen[id(value)] = LazyArray(trace, leaf(value, trace.places))
        lazy._join(Family(lazy._thunk, value))
    return lazy


@overload
def fuse(
    function: Callable[P, R],
    /,
    *,
    heuristic: Heuristic = "cost",
    threads: int | None = None,
    memory: float | None = None,
    mode: Mode = "auto",
) -> Fused[P, R]: ...
@overload
def fuse(
    *,
    heuristic: Heuristic = "cost",
    threads: int | None = None,
    memory: float | None = None,
    mode: Mode = "auto",
) -> Callable[[Callable[P, R]], Fused[P, R]]: ...
def fuse(
    function: Callable[P, R] | None = None,
    /,
    *,
    heuristic: Heuristic = "cost",
    threads: int | None = None,
    memory: float | None = None,
    mode: Mode = "auto",
) -> Any:
    """Run the NumPy code of a function as fused kernels.

    The function is one in Python, a method of any kind, a partial, or an object that is called.

    Array arguments (ndarrays of numbers, SciPy's sparse arrays and matrices) are traced through
    NumPy's own protocols. What is computed waits until a value is needed: a return, an `if`,
    `float()`, printing, a loop's next iteration. Then the region up to there is planned (Boehm et
    al., PVLDB 2018), compiled, kept by shape, type and sparsity, and run. What isn't understood is
    computed by NumPy; `explain()` says what and why.

    `heuristic` is how plans are chosen: by cost, or single, all, no_redundancy, none for comparison
    (docs/fusion-plans.md).
    `threads` limits the kernels' threads (None: all). `mode` says what runs: auto, the kernels
    unless a debugger, a tracer or a measurement of coverage is active; fused, the kernels in any
    case; traced, the function itself in each call, over arrays that wait; plain, the function as it
    is. The environment variable TENSOLOG_FUSE goes before it. Raises FuseError for a generator, for
    what is no Python function, and for options without a meaning.

    Dask arrays are taken as blocks of rows, and so are arrays of more than `memory` bytes: the same
    kernels run over each block under Dask, where that costs less than to fetch it or fetching it
    would exceed `memory` (None: half of the machine's). Calls raise BlocksError where neither goes.
    """
    if threads is not None and (not isinstance(threads, int) or threads < 1):
        raise FuseError(f"threads={threads!r}: give a whole number from 1 on")
    if memory is not None and not (isinstance(memory, int | float) and memory > 0):
        raise FuseError(f"memory={memory!r}: give a number of bytes above 0")
    options = Options(heuristic, threads, memory)
    if heuristic not in get_args(Heuristic):
        raise FuseError(f"heuristic={heuristic!r} is none of {', '.join(get_args(Heuristic))}")
    if mode not in MODES:
        raise FuseError(f"mode={mode!r} is none of {', '.join(MODES)}")
    if function is not None:
        return Fused(function, options, mode)
    return lambda decorated: Fused(decorated, options, mode)
