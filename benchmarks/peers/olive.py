"""Olive as a peer: its peephole pass, then its tuning of ONNX Runtime's session, on the CPU.

Its passes that change precision are left out: what runs in this contest computes in float32. The
number of threads is the contest's, so that what is tuned is the runtime's optimization level.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
from tensolog.profiles.sessions.execution import LEVELS, Execution, embed

SYSTEM = {
    "systems": {
        "cpu": {
            "type": "LocalSystem",
            "accelerators": [{"device": "cpu", "execution_providers": ["CPUExecutionProvider"]}],
        }
    },
    "host": "cpu",
    "target": "cpu",
    "log_severity_level": 4,
}
LEVEL_NAMES = {int(level): name for name, level in LEVELS.items()}


def optimize_with_olive(path: Path, threads: int) -> onnx.ModelProto:
    """Return the model that Olive writes; its metadata say at which level Olive opens it."""
    os.environ["OLIVE_DISABLE_TELEMETRY"] = "1"
    from olive.workflows import run

    with tempfile.TemporaryDirectory(prefix="tensolog-olive-") as name:
        folder = Path(name)
        peephole = {"passes": {"peephole": {"type": "OnnxPeepholeOptimizer"}}}
        rewritten = run(_workflow(folder / "rewritten", path, peephole)).get_best_candidate()
        # A workflow of its own: the engine of 0.13 fails where two points share a pass before it.
        tuning = _tuning(onnx.load(path, load_external_data=False), threads)
        source = Path(rewritten.model_path)
        tuned = run(_workflow(folder / "tuned", source, tuning)).get_best_candidate()
        model = onnx.load(tuned.model_path)
        options = tuned.get_inference_config()["session_options"]
    embed(model, Execution(LEVEL_NAMES[options["graph_optimization_level"]]))
    return model


def _workflow(folder: Path, model: Path, passes: dict[str, Any]) -> dict[str, Any]:
    places = {"output_dir": str(folder), "cache_dir": str(folder.with_suffix(".cache"))}
    return {**SYSTEM, **places, **passes, "input_model": _model(model)}


def _model(path: Path) -> dict[str, str]:
    return {"type": "ONNXModel", "model_path": str(path)}


def _tuning(model: onnx.ModelProto, threads: int) -> dict[str, Any]:
    """Search all levels by latency over inputs like the model's; free dimensions are 1."""
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [entry for entry in model.graph.input if entry.name not in constants]
    types = [entry.type.tensor_type for entry in inputs]
    data = {
        "type": "dummy_dataset",
        "input_names": [entry.name for entry in inputs],
        "input_shapes": [_sizes(kind) for kind in types],
        "input_types": [
            onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type).name for kind in types
        ],
        "max_samples": 32,
    }
    latency = {
        "name": "latency",
        "type": "latency",
        "data_config": "inputs",
        "sub_types": [{"name": "avg", "priority": 1}],
    }
    tune = {
        "type": "OrtSessionParamsTuning",
        "data_config": "inputs",
        "intra_thread_num_list": threads,
        "inter_thread_num_list": 1,
        "execution_mode_list": 0,
        "opt_level_list": sorted(LEVEL_NAMES),
    }
    return {
        "data_configs": [
            {"name": "inputs", "type": "DummyDataContainer", "load_dataset_config": data}
        ],
        # Its type is named since the engine of 0.13 asks it for one.
        "evaluators": {"time": {"type": "OnnxEvaluator", "metrics": [latency]}},
        "evaluator": "time",
        "passes": {"tune": tune},
        "search_strategy": {"execution_order": "joint", "sampler": "sequential"},
    }


def _sizes(kind: onnx.TypeProto.Tensor) -> Sequence[int]:
    return [dimension.dim_value or 1 for dimension in kind.shape.dim]
