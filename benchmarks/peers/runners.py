"""Loaded models, ready to be timed: by ONNX Runtime, OpenVINO or PyTorch, on the same inputs."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from tensolog.profiles.sessions.execution import Execution, embedded
from tensolog.profiles.sessions.session import BoundRun, open_session

Array = np.ndarray[Any, Any]
Feeds = Mapping[str, Array]
LEVEL = "onnxruntime "


class CalledRun:
    """A function without arguments as a runner: `time` gives the median of some calls."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.call = call
        call()

    def time(self, runs: int = 1) -> float:
        """Call it `runs` times; returns the median in nanoseconds."""
        times = []
        for _ in range(runs):
            start = time.perf_counter_ns()
            self.call()
            times.append(time.perf_counter_ns() - start)
        return float(statistics.median(times))


class Loader:
    """Loads entrants by name; what takes long to compile is compiled once."""

    def __init__(
        self,
        sources: Mapping[str, Path],
        feeds: Feeds,
        threads: int,
        module: Callable[[], Any],
    ) -> None:
        """Take the file of each entrant, and what builds the model's PyTorch module."""
        self.sources, self.feeds, self.threads, self.module = sources, feeds, threads, module
        self._torch: Callable[[], Any] | None = None

    def __call__(self, entrant: str) -> BoundRun | CalledRun:
        if entrant == "openvino":
            return CalledRun(openvino_call(self.sources[entrant], self.feeds, self.threads)[0])
        if entrant == "torch.compile":
            return CalledRun(self.compiled())
        execution = self.execution(entrant)
        session = open_session(self.sources[entrant], threads=self.threads, execution=execution)
        return BoundRun(session, self.feeds)

    def compiled(self) -> Callable[[], Any]:
        """Give the module compiled by PyTorch, beside the model.

        In a cache for all models, one that is stopped would leave half a library to later ones.
        """
        if self._torch is None:
            folder = self.sources["torch.compile"].parent
            os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(folder / "inductor"))
            self._torch = torch_call(self.module(), self.feeds, self.threads)
        return self._torch

    def execution(self, entrant: str) -> Execution:
        """How ONNX Runtime opens an entrant: as its name says, or as the model says of itself."""
        if entrant.startswith(LEVEL):
            return Execution(entrant.removeprefix(LEVEL))
        return embedded(self.sources[entrant])

    def outputs(self, entrant: str) -> list[Array]:
        """Run an entrant once."""
        if entrant == "openvino":
            _, results = openvino_call(self.sources[entrant], self.feeds, self.threads)
            return results()
        if entrant == "torch.compile":
            result = self.compiled()()
            return [part.numpy() for part in (result if isinstance(result, tuple) else (result,))]
        options = onnxruntime.SessionOptions()
        self.execution(entrant).apply(options, self.sources[entrant].parent)
        session = onnxruntime.InferenceSession(self.sources[entrant], options)
        wanted = {entry.name for entry in session.get_inputs()}
        inputs = {key: array for key, array in self.feeds.items() if key in wanted}
        return [np.asarray(output) for output in session.run(None, inputs)]


def openvino_call(
    path: Path, feeds: Feeds, threads: int
) -> tuple[Callable[[], Any], Callable[[], list[Array]]]:
    """Compile with OpenVINO in float32 for latency; give a call, and a call that reads outputs."""
    import openvino

    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    compiled = openvino.Core().compile_model(str(path), "CPU", settings)
    request = compiled.create_infer_request()
    for port in compiled.inputs:
        array = np.ascontiguousarray(feeds[port.get_any_name()])
        request.set_tensor(port, openvino.Tensor(array))

    def results() -> list[Array]:
        request.infer()
        return [np.array(request.get_tensor(port).data) for port in compiled.outputs]

    return request.infer, results


def torch_call(module: Any, feeds: Feeds, threads: int) -> Callable[[], Any]:
    """Compile a module with PyTorch; denormals are flushed as everywhere."""
    import torch

    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    compiled = torch.compile(module)
    inputs = [torch.from_numpy(np.array(array)) for array in feeds.values()]

    def call() -> Any:
        with torch.inference_mode():
            return compiled(*inputs)

    call()
    return call
