"""What a reader of the numbers has to know: model, options, machine, versions."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from importlib import metadata
from typing import TYPE_CHECKING

import onnx
import onnxruntime

from ...catalog import Catalog
from ...profiles.machine import machine_id
from ..graph.convert import tensor_type

if TYPE_CHECKING:
    from ..report.schema import Device, Headline, Summary, Target
    from ..state import State


def details(headline: Headline, state: State, result_id: int, target: Target) -> Summary:
    """Collect what a reader of the numbers has to know: model, options, machine, versions."""
    catalog, setting, skeleton, sizes = state.catalog, state.setting, state.skeleton, state.sizes
    (name, path, size_bytes), (_, _, size_after_bytes) = (
        catalog.connection.execute(
            "SELECT name, source_path, size_bytes FROM model WHERE model_id = ?", [number]
        ).fetchall()[0]
        for number in (state.model_id, result_id)
    )
    bound = {
        entry.name: [size if isinstance(size, int) else sizes.get(size, -1) for size in shape]
        for entry in skeleton.graph.input
        if (type_ := tensor_type(entry.type, entry.name)) and (shape := type_.shape) is not None
        if any(isinstance(size, str) for size in shape)
    }
    return {
        "tensolog": headline["tensolog"],
        "chosen": headline["chosen"],
        "verdict": headline["verdict"],
        "nodes_before": headline["nodes_before"],
        "nodes_after": headline["nodes_after"],
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "model": {
            "name": name,
            "path": path,
            "size_bytes": size_bytes,
            "producer": f"{skeleton.producer_name} {skeleton.producer_version}".strip(),
            "opsets": {entry.domain: entry.version for entry in skeleton.opset_import},
            "inputs": {entry.name: _type_text(entry) for entry in skeleton.graph.input},
            "outputs": {entry.name: _type_text(entry) for entry in skeleton.graph.output},
        },
        "size_after_bytes": size_after_bytes,
        "target": target,
        "opset_before": state.original.graph.opset(),
        "opset_after": state.winner.graph.opset(),
        "options": {
            "target": setting.target,
            "threads": setting.threads,
            "budget_s": setting.budget,
            "allow": list(setting.allow),
            "input_shapes": bound,
            "seed": setting.seed,
        },
        "device": _device(catalog),
        "versions": {
            **{name: version_of(name) for name in ("onnxruntime", "onnx", "duckdb", "numpy")},
            "python": platform.python_version(),
        },
        "phases": dict(state.phases.seconds),
    }


def _type_text(entry: onnx.ValueInfoProto) -> str:
    type_ = tensor_type(entry.type, entry.name)
    if type_ is None:
        return "no tensor"
    if type_.shape is None:
        return type_.dtype
    shown = ("?" if str(size).startswith("?") else str(size) for size in type_.shape)
    return f"{type_.dtype}[{', '.join(shown)}]"


def _device(catalog: Catalog) -> Device:
    rows = catalog.connection.execute(
        "SELECT name, cores, memory_bytes, instruction_set, bandwidth_bytes_per_s, "
        "peak_flops_per_s FROM device WHERE device_id = ?",
        [machine_id(catalog)],
    ).fetchall()
    if not rows:
        return {}
    (row,) = rows
    return {
        "name": row[0],
        "cores": row[1],
        "memory_bytes": row[2],
        "instruction_set": row[3],
        "bandwidth_bytes_per_s": row[4],
        "peak_flops_per_s": row[5],
    }


def version_of(package: str) -> str:
    """Give the version of an installed package."""
    if package == "onnxruntime":
        return str(onnxruntime.__version__)
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "unknown"
