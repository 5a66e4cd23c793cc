"""Roofline bounds: no kernel is faster than its bytes and its arithmetic allow.

Source: Williams, Waterman and Patterson, Roofline, Communications of the ACM 52(4), 2009.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ..kernel import Kernel, TensorSpec, numpy_dtype
from ..machine import Machine
from .kernel_model import output_shapes

# They need read no more of input 0 than they write.
_READS_WHAT_IT_WRITES = frozenset(
    {
        "CenterCropPad", "Compress", "Expand", "Gather", "GatherElements", "GatherND", "Pad",
        "Resize", "Slice", "Tile", "Upsample",
    }
)  # fmt: skip
# ONNX Runtime's own operators that do what a standard one does, and more: its first inputs too.
_DOES_AT_LEAST = {
    ("com.microsoft", "FusedConv"): "Conv",
    ("com.microsoft", "FusedGemm"): "Gemm",
    ("com.microsoft", "FusedMatMul"): "MatMul",
    ("com.microsoft.nchwc", "Conv"): "Conv",
}
_SHARED_ATTRIBUTES = {
    "Conv": {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"},
    "Gemm": {"transA", "transB"},
    "MatMul": set(),
}
# They read of their tables what is looked up.
_LOOKS_UP = frozenset({"EmbedLayerNormalization"})
# They read the shape of their input, not the input.
_READS_NOTHING = frozenset({"ConstantOfShape", "EyeLike", "RandomNormalLike", "Shape", "Size"})
# They may stop early, write part of a buffer in place, or choose what to read.
_UNBOUNDED = frozenset({"If", "Loop", "Scan", "ScatterElements", "ScatterND", "Scatter"})

# The peak is measured on a MatMul, perhaps at a busy moment; convolutions were seen 8 % above it.
_HEADROOM = 1.25
_OPSET = 17


@dataclass(frozen=True)
class Work:
    """What a kernel must move and compute: bytes, and float operations."""

    bytes: float
    flops: float


def work(kernel: Kernel) -> Work:
    """Return the least bytes moved and operations done; unknown operators count bytes only."""
    if kernel.is_view or kernel.is_constant or kernel.op_type in _UNBOUNDED:
        return Work(0.0, 0.0)
    standard = _standard(kernel)
    outputs = output_shapes(standard)
    written = sum(_bytes(*output) for output in outputs if output is not None)
    read = kernel.input_bytes
    first = kernel.inputs[0]
    if kernel.op_type in _LOOKS_UP:
        read = 0
    elif first is not None and kernel.domain == "":
        if kernel.op_type in _READS_NOTHING:
            read = 0
        elif kernel.op_type in _READS_WHAT_IT_WRITES:
            read = read - first.size_bytes + min(first.size_bytes, written)
            if None in outputs:
                read = 0
    return Work(float(read + written), _flops(standard))


def _standard(kernel: Kernel) -> Kernel:
    """Return the standard kernel that an operator of the runtime's does at least, or itself."""
    name = _DOES_AT_LEAST.get((kernel.domain, kernel.op_type))
    if name is None or any(kernel.attribute(f"transBatch{side}") for side in "AB"):
        return kernel
    inputs = list(kernel.inputs[:2])
    if name == "MatMul":
        for place, side in enumerate("AB"):
            spec = inputs[place]
            if spec is not None and kernel.attribute(f"trans{side}") and len(spec.shape) > 1:
                turned = (*spec.shape[:-2], spec.shape[-1], spec.shape[-2])
                inputs[place] = replace(spec, shape=turned)
    shared = _SHARED_ATTRIBUTES[name]
    attributes = tuple(entry for entry in kernel.attributes if entry[0] in shared)
    return Kernel("", name, _OPSET, attributes, tuple(inputs))


def bound_ns(kernel: Kernel, machine: Machine, threads: int = 1) -> float:
    """Return a lower bound of the kernel's time in ns on this machine, dispatch not counted.

    Threads are taken to scale perfectly, up to the machine's cores; bandwidth is the cache's.
    """
    done = work(kernel)
    scale = max(1, min(threads, machine.cores)) * 1e-9
    peak = machine.peak * _HEADROOM * _speedup(kernel)
    return max(done.bytes / (machine.bandwidth * scale), done.flops / (peak * scale))


def _flops(kernel: Kernel) -> float:
    """Count multiplications and additions of contractions; 0 for every other operator."""
    left, right = _spec(kernel, 0), _spec(kernel, 1)
    if left is None or right is None or kernel.domain != "":
        return 0.0
    if kernel.op_type in {"QLinearMatMul", "QLinearConv"}:
        right = _spec(kernel, 3) or right
    output = output_shapes(kernel)[0]
    results = 0 if output is None else math.prod(output[1])
    if kernel.op_type in {"MatMul", "MatMulInteger", "QLinearMatMul"} and left.shape:
        return 2.0 * results * left.shape[-1]
    if kernel.op_type == "Gemm" and len(left.shape) == 2:
        return 2.0 * results * left.shape[0 if kernel.attribute("transA", 0) else 1]
    if kernel.op_type in {"Conv", "ConvInteger", "QLinearConv"}:
        return 2.0 * results * math.prod(right.shape[1:])
    if kernel.op_type == "ConvTranspose":
        return 2.0 * left.size * math.prod(right.shape[1:])
    return 0.0


def _speedup(kernel: Kernel) -> float:
    """Narrow types run that much faster than float32 at best: vector lanes, and dot products."""
    first = _spec(kernel, 0)
    size = 4 if first is None else numpy_dtype(first.dtype).itemsize
    return max(1.0, (4 / size) * (2 if size == 1 else 1))


def _spec(kernel: Kernel, position: int) -> TensorSpec | None:
    return kernel.inputs[position] if position < len(kernel.inputs) else None


def _bytes(dtype: str, shape: tuple[int, ...]) -> int:
    return TensorSpec(dtype, shape).size_bytes
