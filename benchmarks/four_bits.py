"""Products with weights of 4 bits: ONNX Runtime's operator, at two accuracy levels, and a kernel.

    python benchmarks/four_bits.py --rows 1 2 8 64

Layers as a decoder has them, up and down again, together larger than the caches; each entrant has
a session of its own, and they run in turns. Ratios are of medians, over the runtime's at level 0.
"""

from __future__ import annotations

import argparse
import json
import time
from statistics import median

import numpy as np
import onnxruntime
from onnx import ModelProto, TensorProto, helper, numpy_helper
from tensolog.optimizer.codegen.unit import native_level
from tensolog.optimizer.graph.convert import load_graph, to_model
from tensolog.optimizer.graph.infer import infer_types
from tensolog.optimizer.native.fuse_graph import fused_graph
from tensolog.optimizer.native.library import Library


def layers(count: int, depth: int, width: int, size: int, level: int, zeros: bool) -> ModelProto:
    """A model of `count` pairs of products, from `depth` to `width` columns and back."""
    rng = np.random.default_rng(0)
    nodes, constants, last = [], [], "x"
    for i in range(2 * count):
        k, n = (depth, width) if i % 2 == 0 else (width, depth)
        blocks = -(-k // size)
        arrays = {
            f"w{i}": rng.integers(0, 256, (n, blocks, size // 2), np.uint8),
            f"s{i}": rng.uniform(0.5, 1.5, (n, blocks)).astype(np.float32) / 5 / k**0.5,
        }
        if zeros:
            arrays[f"z{i}"] = rng.integers(0, 256, (n, -(-blocks // 2)), np.uint8)
        attributes = {"K": k, "N": n, "bits": 4, "block_size": size, "accuracy_level": level}
        output = f"y{i}"
        nodes.append(
            helper.make_node(
                "MatMulNBits", [last, *arrays], [output], domain="com.microsoft", **attributes
            )
        )
        constants += [numpy_helper.from_array(array, name) for name, array in arrays.items()]
        last = output
    graph = helper.make_graph(
        nodes,
        "layers",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", depth])],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, ["n", depth])],
        constants,
    )
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def opened(model: ModelProto, threads: int, library: Library | None = None):
    """Open a session whose threads don't spin, so that entrants don't slow each other."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.force_spinning_stop", "1")
    if library is not None:
        options.register_custom_ops_library(str(library.path))
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def main() -> None:
    """Print a line of JSON for each number of rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 2, 8, 64])
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--depth", type=int, default=2048)
    parser.add_argument("--width", type=int, default=5632)
    parser.add_argument("--block", type=int, default=32)
    parser.add_argument("--zeros", action="store_true", help="give zero points")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    shape = (arguments.layers, arguments.depth, arguments.width, arguments.block)
    models = {level: layers(*shape, level, arguments.zeros) for level in (0, 4)}
    graph = load_graph(models[0])
    graph.types = infer_types(graph)
    fused, library = fused_graph(graph, levels=(native_level(),))
    sessions = {
        "level 0": opened(models[0], arguments.threads),
        "level 4": opened(models[4], arguments.threads),
        "kernel": opened(to_model(fused), arguments.threads, library),
    }
    weights = 2 * arguments.layers * arguments.depth * arguments.width
    for rows in arguments.rows:
        x = np.random.default_rng(1).standard_normal((rows, arguments.depth)).astype(np.float32)
        times: dict[str, list[float]] = {name: [] for name in sessions}
        for _ in range(arguments.rounds):
            for name, session in sessions.items():
                for _ in range(2):  # the first takes threads and caches back
                    start = time.perf_counter()
                    session.run(None, {"x": x})
                times[name].append(time.perf_counter() - start)
        ms = {name: 1000 * median(seconds) for name, seconds in times.items()}
        ratios = {name: round(time_ms / ms["level 0"], 3) for name, time_ms in ms.items()}
        speed = weights * (0.5 + 4 / arguments.block) / ms["kernel"] / 1e6
        row = {"rows": rows, "ms": round(ms["level 0"], 2), **ratios, "GB/s": round(speed, 1)}
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
