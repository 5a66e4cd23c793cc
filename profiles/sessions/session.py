"""ONNX Runtime sessions as tensolog times them: inputs and outputs bound once, nothing copied."""

from __future__ import annotations

import ctypes
import gc
import json
import mmap
import re
import statistics
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from ...catalog.errors import TensologError
from ...catalog.interruption import endable
from .denormals import flushed_denormals
from .execution import AS_WRITTEN, DEFAULTS, LEVELS, Execution

__all__ = [
    "AS_WRITTEN",
    "DEFAULTS",
    "LEVELS",
    "RUNTIME",
    "BoundRun",
    "Execution",
    "RunLimitError",
    "open_session",
    "operators_timed",
    "reason_of",
    "release_memory",
    "resident_bytes",
    "run_session",
    "runtime_version",
    "trim_memory",
]

RUNTIME = "onnxruntime"
# Runs of so many nanoseconds end by themselves before anybody has waited.
_SHORT_NS = 20e6
# How the names of a profile's events end that are of an operator's run.
_TIMED = "_kernel_time"
_CODES = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : |Load model from \S+ failed: ?")
MOST_LETTERS = 300
# Whether a thread's own time is told finely enough; on some systems it is in steps of 16 ms.
OWN_TIME = time.get_clock_info("thread_time").resolution <= 1e-6


def runtime_version() -> str:
    """Return the version of the ONNX Runtime that measures."""
    return str(onnxruntime.__version__)


STOP_SPINNING = "session.force_spinning_stop"
SPIN_DURATION = "session.intra_op.spin_duration_us"
# How long threads spin that go on after a run. By default they count turns, which takes 2.3 ms on
# one processor and 33 ms on another; beyond a pause between two calls it makes no difference.
SPINNING_US = 2000


def open_session(
    source: Path | str | bytes,
    *,
    threads: int,
    execution: Execution = DEFAULTS,
    flush_denormals: bool = True,
    spins: bool = False,
    optimized_path: Path | None = None,
    profile_prefix: Path | None = None,
    constants: Mapping[str, np.ndarray[Any, Any]] | None = None,
) -> Any:
    """Open a CPU session; raises what ONNX Runtime raises.

    `execution` is how, and if it says so of how many threads: what a model's metadata says of it
    counts for nothing here. Threads keep spinning inside a run, but stop when the run ends, unless
    it `spins` on as ONNX Runtime has it by default, for SPINNING_US at most: with several sessions
    in one process, the idle threads of one took up to 3/4 of the speed of the others.
    `flush_denormals` concerns its worker threads; the calling thread is flushed by
    denormals.flushed_denormals. With `optimized_path` the runtime writes the model as it runs it
    there, with `profile_prefix` its profile. `constants` gives the data of external initializers.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = execution.threads_of(threads)
    options.inter_op_num_threads = 1
    execution.apply(options, source.parent if isinstance(source, Path) else None)
    options.log_severity_level = 4
    options.add_session_config_entry("session.set_denormal_as_zero", str(int(flush_denormals)))
    options.add_session_config_entry(STOP_SPINNING, str(int(not spins)))
    if spins:
        options.add_session_config_entry(SPIN_DURATION, str(SPINNING_US))
    if optimized_path is not None:
        options.optimized_model_filepath = str(optimized_path)
    if profile_prefix is not None:
        options.enable_profiling = True
        options.profile_file_prefix = str(profile_prefix)
    values = [ort_value(array) for array in (constants or {}).values()]
    if constants:
        options.add_external_initializers(list(constants), values)
    if hasattr(options, "set_load_cancellation_flag"):  # from ONNX Runtime 1.21 on
        endable(options, lambda waiting: waiting.set_load_cancellation_flag(True))
    model = source if isinstance(source, bytes) else str(source)
    # The option also flips the calling thread, for good, if this is the process's first session.
    with flushed_denormals():
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    session.tensolog_constants = values  # the runtime reads them in place: they live as long
    return session


def operators_timed(session: Any) -> list[dict[str, Any]]:
    """End a session's profile; return what it says of each operator that ran.

    `name` is that of the node, and `args` say the operator and the types of its outputs.
    """
    events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    return [
        {**event, "name": event["name"].removesuffix(_TIMED)}
        for event in events
        if event.get("cat") == "Node" and event["name"].endswith(_TIMED)
    ]


class RunLimitError(TensologError):
    """A run had not ended in the time that it was given."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(f"it had not ended after {limit_s:.0f} s")
        self.limit_s = limit_s


def run_session(
    session: Any,
    feeds: Mapping[str, Any],
    names: Sequence[str] | None = None,
    *,
    limit_s: float | None = None,
) -> list[Any]:
    """Run a session once, on those of `feeds` that it takes; a signal ends the run.

    Returns the outputs named, by default all. Raises RunLimitError where the run takes longer than
    `limit_s` seconds, and what ONNX Runtime raises.
    """
    wanted = {entry.name for entry in session.get_inputs()}
    model_feeds = {name: array for name, array in feeds.items() if name in wanted}
    options = _endable_options()
    if limit_s is None:
        return list(session.run(names, model_feeds, options))
    late = threading.Timer(limit_s, _terminate, (options,))
    late.daemon = True
    late.start()
    try:
        return list(session.run(names, model_feeds, options))
    except Exception as error:
        if options.terminate:
            raise RunLimitError(limit_s) from error
        raise
    finally:
        late.cancel()


def _endable_options() -> Any:
    """Make the options of a run that a signal ends, between two operators, in a loop's body too."""
    options = onnxruntime.RunOptions()
    options.log_severity_level = 4
    return endable(options, _terminate)


def _terminate(options: Any) -> None:
    options.terminate = True


def reason_of(error: Exception) -> str:
    """Say in a line what the runtime says, without its codes and the path of the copy it read."""
    return _CODES.sub("", " ".join(str(error).split()))[:MOST_LETTERS]


Outputs = tuple[tuple[int, tuple[int, ...]], ...]
"""The type of elements, as ONNX numbers them, and the shape of each output."""


class BoundRun:
    """A session with its inputs and outputs bound to fixed buffers; `time` runs it.

    `feeds` are the arrays that it reads: what is written into one of them in place is read by the
    next run.
    """

    def __init__(
        self,
        session: Any,
        feeds: Mapping[str, np.ndarray[Any, Any]],
        *,
        own_time: bool = OWN_TIME,
        outputs: Outputs | None = None,
    ) -> None:
        """Bind `feeds` (by input name) and run twice, first to learn the types of the outputs.

        Where these are known as `outputs`, of another such run with feeds of the same shapes, the
        first run is spared. `own_time` says whether a single thread is timed by its own clock, see
        `time`.
        """
        self._session = session
        alone = session.get_session_options().intra_op_num_threads == 1
        self._clock = time.thread_time_ns if alone and own_time else time.perf_counter_ns
        self.feeds = {entry.name: feeds[entry.name] for entry in session.get_inputs()}
        self._values: Sequence[Any] | None = None
        # Python's wrapper of a run takes longer where it is given options, longer than some models:
        # only runs that last have them.
        self._options = _endable_options()
        try:
            self._binding = self._bind(outputs)
            taken = self.time()
        except Exception:  # strings, sequences and optionals can't be bound: run them unbound
            self._binding = self._values = None
            taken = self.time()
        if taken < _SHORT_NS:
            self._options = None

    @property
    def outputs(self) -> Outputs | None:
        """Return the types of the outputs; None where they can't be bound."""
        if self._values is None:
            return None
        return tuple((value.element_type(), tuple(value.shape())) for value in self._values)

    def _bind(self, output_types: Outputs | None) -> Any:
        values = {name: ort_value(array) for name, array in self.feeds.items()}
        names = [entry.name for entry in self._session.get_outputs()]
        if output_types is None:
            outputs = self._session.run_with_ort_values(names, values, self._options)
        else:
            make = onnxruntime.OrtValue.ortvalue_from_shape_and_type
            outputs = [make(list(shape), element_type) for element_type, shape in output_types]
        self._values = outputs
        binding = self._session.io_binding()
        for name, value in values.items():
            binding.bind_ortvalue_input(name, value)
        for name, value in zip(names, outputs, strict=True):
            binding.bind_ortvalue_output(name, value)
        return binding

    def time(self, runs: int = 1) -> float:
        """Run `runs` times; returns the median in nanoseconds.

        Each run is clocked by itself: a time slice lost to another process (4 ms here) falls on one
        of them, and would more than double the mean of a short lap. Where all work is done by the
        calling thread, its own time counts, which stands still while others have the processor.
        """
        clock = self._clock
        session, options = self._session, self._options
        run: Callable[[], object]
        if self._binding is None:
            run = partial(session.run, None, self.feeds, options)
        else:
            run = partial(session.run_with_iobinding, self._binding, options)
        times = []
        for _ in range(runs):
            start = clock()
            run()
            times.append(clock() - start)
        return float(statistics.median(times))


def ort_value(array: np.ndarray[Any, Any]) -> Any:
    """Return an array as a value of the runtime, which reads and writes the array's memory."""
    if array.dtype.kind in "biufO" or array.dtype.kind in "SU":
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)
    from ..kernel import element_type  # loads onnx

    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(
        array, element_type(array.dtype.name)
    )


# Growth that is looked into, and the least memory that was in use since the last look.
_GROWTH_BYTES = 32 << 20
_least_bytes = 0


def release_memory() -> None:
    """Give the memory of sessions that are gone back to the system.

    The C library keeps freed blocks for later, a whole session's weights if it may; where it can be
    told to let them go, it is. What refers to itself is looked for only where memory has grown
    since the last look, which goes through all objects there are: a quarter of a second for small
    models, as often as a session is closed.
    """
    global _least_bytes
    trim_memory()
    used_bytes = resident_bytes()
    if used_bytes == 0 or used_bytes > _least_bytes + _GROWTH_BYTES:
        gc.collect()
        trim_memory()
        _least_bytes = resident_bytes()
    else:
        _least_bytes = min(_least_bytes, used_bytes)


def trim_memory() -> None:
    """Give back what was freed already: enough where nothing refers to itself, and far quicker."""
    trim = getattr(_c_library(), "malloc_trim", None)
    if trim is not None:
        trim(0)


def resident_bytes() -> int:
    """Return the memory that this process has in use now; 0 where the system does not say."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    except OSError:
        return 0
    return int(pages) * mmap.PAGESIZE


@lru_cache(maxsize=1)
def _c_library() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(None) if sys.platform == "linux" else None
    except OSError:
        return None
