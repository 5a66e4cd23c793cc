"""Convolutions by minimal filtering, alone: how long they take, and how exact they are.

    python -m benchmarks.convolutions                 # times with 1 and 2 threads, then errors
    python -m benchmarks.convolutions --only times --threads 1 --cold
    python -m benchmarks.convolutions --only errors

Times are ratios to ONNX Runtime's own convolution on blocks of channels, interleaved: below 1 is
faster. With --cold as many sessions of each take turns as fill the caches with filters, so that
these come from memory, as in a model. Errors are those of float32 against float64, relative to the
runtime's own.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tensolog.optimizer.graph.convert import load_graph, to_model
from tensolog.optimizer.graph.graph import TensorType
from tensolog.optimizer.layouts.filters import dense
from tensolog.optimizer.layouts.layout import Layout
from tensolog.optimizer.layouts.runtime import NCHWC, block_size
from tensolog.optimizer.native.convolution.blocked import convolutions
from tensolog.optimizer.native.embed import embed, place
from tensolog.optimizer.native.kernel import supply
from tensolog.optimizer.native.library import build
from tensolog.optimizer.native.loops.kernel_region import Meanings
from tensolog.profiles.sessions.execution import Execution
from tensolog.profiles.sessions.session import AS_WRITTEN, BoundRun, open_session

Array = np.ndarray


@dataclass(frozen=True)
class Size:
    """A convolution with stride 1 whose result is as large as its image."""

    where: str
    channels: int
    side: int
    made: int
    taps: tuple[int, int] = (3, 3)
    groups: int = 1

    @property
    def operations(self) -> int:
        """The additions and multiplications of it, multiplied out."""
        taps_depth = self.channels // self.groups * self.taps[0] * self.taps[1]
        return 2 * self.side**2 * self.made * taps_depth


SIZES = [
    Size("ResNet-50", 64, 56, 64),
    Size("ResNet-50", 128, 28, 128),
    Size("ResNet-50", 256, 14, 256),
    Size("ResNet-50", 512, 7, 512),
    Size("ResNeXt-50", 128, 56, 128, groups=8),
    Size("U-Net", 32, 128, 32),
    Size("VGG-16", 64, 224, 64),
    Size("VGG-16", 128, 112, 128),
    Size("VGG-16", 256, 56, 256),
    Size("VGG-16", 512, 28, 512),
    Size("VGG-16", 512, 14, 512),
    Size("Inception-v3", 96, 35, 96),
    Size("Inception-v3", 48, 35, 64, (5, 5)),
    Size("Inception-v3", 192, 17, 192, (1, 7)),
    Size("Inception-v3", 192, 17, 192, (7, 1)),
    Size("Inception-v3", 384, 8, 384, (1, 3)),
    Size("Inception-v3", 448, 8, 384),
    Size("SqueezeNet", 16, 55, 64),
    Size("SqueezeNet", 48, 13, 192),
]
# Filters that don't fit in the caches together, and how many sessions there may be of one.
COLD_BYTES, MOST_COPIES = 128 << 20, 40
DISTRIBUTIONS = ("normal", "positive", "heavy tails", "few large")


def drawn(distribution: str, shape: tuple[int, ...], seed: int) -> Array:
    """Draw numbers: `heavy tails` are Student's with 3 degrees of freedom, `few large` 1 in 100."""
    random = np.random.default_rng(seed)
    numbers = random.standard_normal(shape)
    if distribution == "positive":
        numbers = np.maximum(numbers, 0)
    elif distribution == "heavy tails":
        numbers = random.standard_t(3, shape)
    elif distribution == "few large":
        numbers *= np.where(random.random(shape) < 0.01, 100, 1)
    return numbers.astype(np.float32)


def filters(size: Size) -> Array:
    group_depth = size.channels // size.groups
    scale = (group_depth * size.taps[0] * size.taps[1]) ** -0.5
    return drawn("normal", (size.made, group_depth, *size.taps), 0) * np.float32(scale)


def model(size: Size, block: int) -> onnx.ModelProto:
    """Build the runtime's own operator on blocks."""
    pads = [tap // 2 for tap in size.taps] * 2
    laid = dense(
        filters(size), Layout((size.made,), block), Layout((size.channels // size.groups,), block)
    )
    node = helper.make_node(
        "Conv",
        ["x", "w"],
        ["y"],
        domain=NCHWC,
        kernel_shape=size.taps,
        pads=pads,
        group=size.groups,
    )
    image, result = ([1, c, size.side, size.side] for c in (size.channels, size.made))
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, image)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, result)],
        [numpy_helper.from_array(laid, "w")],
    )
    imports = [helper.make_opsetid("", 20), helper.make_opsetid(NCHWC, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


def forms(proto: onnx.ModelProto) -> Iterator[tuple[str, onnx.ModelProto, Execution]]:
    """Yield the runtime's operator, then each form of our own kernel, as models."""
    yield "runtime", proto, AS_WRITTEN
    graph = load_graph(proto)
    for entry in (*proto.graph.input, *proto.graph.output):
        shape = tuple(dimension.dim_value for dimension in entry.type.tensor_type.shape.dim)
        graph.types[graph.names.index(entry.name)] = TensorType("float32", shape)
    region_kernels = convolutions(Meanings(graph), graph.nodes)
    library = build([region_kernel.kernel for region_kernel in region_kernels])
    for region_kernel in region_kernels:
        changed = graph.copy()
        supply(changed, [region_kernel.kernel])
        assert place(changed, region_kernel.region.nodes, region_kernel.kernel)
        form = region_kernel.kernel.form.removeprefix("minimal filtering ").split(" ")[0]
        yield form, to_model(embed(changed, library.domain)), Execution(libraries=(library.path,))


def times(block: int, threads: int, cold: bool, rounds: int) -> None:
    where = "memory" if cold else "the caches"
    print(f"\n{threads} thread(s), filters from {where}: microseconds, GFLOP/s, ratios of tiles")
    for size in SIZES:
        x = drawn("normal", (1, size.channels, size.side, size.side), 1)
        laps: dict[str, list[float]] = {}
        runs: dict[str, list[BoundRun]] = {}
        for form, proto, execution in forms(model(size, block)):
            serialized = proto.SerializeToString()
            copies = max(2, min(MOST_COPIES, COLD_BYTES // len(serialized))) if cold else 1
            sessions = [
                open_session(serialized, threads=threads, execution=execution)
                for _ in range(copies)
            ]
            runs[form] = [BoundRun(session, {"x": x}) for session in sessions]
            laps[form] = []
        for _ in range(max(2, rounds // max(map(len, runs.values())))):
            for form, entries in runs.items():
                laps[form] += [entry.time() for entry in entries]
        runtime_ns = statistics.median(laps["runtime"])
        form_text = (
            f"{size.channels} -> {size.made} {size.side}x{size.side} {size.taps[0]}x{size.taps[1]}"
        )
        ratios = "  ".join(
            f"{form} {statistics.median(lap) / runtime_ns:.2f}"
            for form, lap in laps.items()
            if form != "runtime"
        )
        rate = size.operations / runtime_ns
        print(
            f"  {size.where:13s}{form_text:24s}{runtime_ns / 1e3:8.0f}{rate:6.0f}  {ratios}",
            flush=True,
        )


def errors(block: int) -> None:
    print("\nerrors against float64, relative to the runtime's: root mean square, largest")
    print(f"  {'filters, tiles':24s}" + "".join(f"{name:>16s}" for name in DISTRIBUTIONS))
    for taps in ((3, 3), (5, 5), (1, 3), (1, 7)):
        size = Size("", 128, 24, 32, taps)
        rows: dict[str, list[str]] = {}
        entries = [
            (form, open_session(proto.SerializeToString(), threads=1, execution=execution))
            for form, proto, execution in forms(model(size, block))
        ]
        for distribution in DISTRIBUTIONS:
            x = drawn(distribution, (1, size.channels, size.side, size.side), 1)
            exact = _exact(_plain(x, block), filters(size))
            results = {
                form: _plain(session.run(None, {"x": x})[0], block) - exact
                for form, session in entries
            }
            runtime_result = results.pop("runtime")
            for form, error in results.items():
                rms = (np.mean(error**2) / np.mean(runtime_result**2)) ** 0.5
                most = abs(error).max() / abs(runtime_result).max()
                rows.setdefault(form, []).append(f"{rms:.1f}, {most:.1f}")
        for form, cells in rows.items():
            print(f"  {taps[0]}x{taps[1]}, {form:19s}" + "".join(f"{cell:>16s}" for cell in cells))


def _plain(array: Array, block: int) -> Array:
    n, c, h, w = array.shape
    parts = array.reshape(n, c // block, h, w, block)
    return parts.transpose(0, 1, 4, 2, 3).reshape(n, c, h, w).astype(np.float64)


def _exact(image: Array, weights: Array) -> Array:
    high, wide = weights.shape[2:]
    padded = np.pad(image, ((0, 0), (0, 0), (high // 2,) * 2, (wide // 2,) * 2))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (high, wide), axis=(2, 3))
    total: Array = np.einsum(
        "nchwij,mcij->nmhw", windows, weights.astype(np.float64), optimize=True
    )
    return total


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.convolutions",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", choices=["times", "errors"], help="one part")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--cold", action="store_true", help="filters come from memory")
    parser.add_argument("--rounds", type=int, default=60, help="runs of each, default 60")
    arguments = parser.parse_args()
    block = block_size()
    if block is None:
        sys.exit("this ONNX Runtime has no kernels for blocks of channels")
    if arguments.only in (None, "times"):
        for threads in arguments.threads:
            times(block, threads, arguments.cold, arguments.rounds)
    if arguments.only in (None, "errors"):
        errors(block)


if __name__ == "__main__":
    main()
