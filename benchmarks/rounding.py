"""Plans with all kernels that are possible, judged as any plan is: how many round too much?

python -m benchmarks.rounding FILE.onnx...    of models in files
python -m benchmarks.rounding --second        of the second list, small

Nothing is raced: every region is fused, products included, and what the model gives then over
several distributions of inputs is compared with the original, and with the model in float64 beside
the original's own distance (race/verify.py). Kernels are compiled without most optimizations, which
changes no number.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
from tensolog.optimizer.codegen.compiler import FLAGS
from tensolog.optimizer.codegen.unit import native_level
from tensolog.optimizer.graph.convert import load_graph, to_model
from tensolog.optimizer.graph.free_sizes import not_given
from tensolog.optimizer.graph.graph import Graph
from tensolog.optimizer.graph.infer import infer_types
from tensolog.optimizer.graph.widen import widen
from tensolog.optimizer.native.fuse_graph import fused_graph
from tensolog.optimizer.native.library import DOMAIN
from tensolog.optimizer.native.runtime_answers import optimized_nodes
from tensolog.optimizer.race.index_range import index_limit
from tensolog.optimizer.race.verify import Deviation, Verifier, failures
from tensolog.optimizer.rewrites.compute_in_float32 import in_float32
from tensolog.profiles.sessions.execution import Execution
from tensolog.profiles.sessions.feeds import DISTRIBUTIONS, random_feeds

from .zoo.second import SECOND, build_second

THREADS = 2
# What free dimensions are.
FREE_SIZE = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.rounding")
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--second", action="store_true", help="the second list, small")
    arguments = parser.parse_args()
    if not arguments.files and not arguments.second:
        parser.error("name files, or --second")
    judged = refused = 0
    print("| model | kernels | largest error, of what is allowed | verdict |\n|---|---|---|---|")
    for name, model in models(arguments.files, arguments.second):
        count, deviations = deviations_of(model)
        if not count:
            print(f"| {name} | 0 | | |", flush=True)
            continue
        worst = max(
            (
                deviation.max_error / deviation.tolerance
                for deviation in deviations
                if deviation.tolerance
            ),
            default=0,
        )
        verdict = next(failures(deviations), "")
        judged, refused = judged + 1, refused + bool(verdict)
        print(f"| {name} | {count} | {worst:.2f} | {verdict or 'accepted'} |", flush=True)
    print(f"\n{judged} plans with kernels, {refused} of them refused")
    sys.exit(bool(refused))


def models(files: list[Path], second: bool) -> Iterator[tuple[str, onnx.ModelProto]]:
    """Yield the models that were asked for, by name."""
    for path in files:
        yield path.stem, onnx.load(path)
    for name in SECOND if second else ():
        yield name, build_second(name)


def deviations_of(model: onnx.ModelProto) -> tuple[int, list[Deviation]]:
    """Count the kernels of a model with all of its regions fused, and compare what it gives."""
    graph = load_graph(model)
    graph.types = infer_types(graph)
    base, source = in_float32(graph) or graph, model.SerializeToString()
    fused = fused_graph(
        base,
        levels=(native_level(),),
        flags=["-O1" if flag == "-O3" else flag for flag in FLAGS],
        optimized=optimized_nodes(source, Execution(), THREADS) if base is graph else None,
    )
    if fused is None:
        return 0, []
    changed, library = fused
    count = sum(node.domain.startswith(DOMAIN) for node in changed.nodes.values())
    wide = widen(model, _double)
    wide_source = None if wide is None else wide.SerializeToString()
    verifier = Verifier(
        source,
        {kind: feeds(graph, kind, seed) for seed, kind in enumerate(DISTRIBUTIONS)},
        threads=THREADS,
        wide=lambda: (wide_source, ""),
    )
    with closing(verifier):
        opened = Execution(libraries=(library.path,))
        return count, verifier.deviations("fused", to_model(changed).SerializeToString(), opened)


def feeds(graph: Graph, distribution: str, seed: int) -> dict[str, np.ndarray]:
    """Draw inputs; integers that are indices range over what they index."""
    drawn: dict[str, np.ndarray] = {}
    defaults = {tensor.name for tensor in graph.base.graph.initializer}
    sizes = dict.fromkeys(not_given(graph, {}), FREE_SIZE)
    for value in graph.graph_inputs:
        name, type_ = graph.names[value], graph.types[value]
        if name not in defaults:
            shape = tuple(s if isinstance(s, int) else FREE_SIZE for s in type_.shape or ())
            limit = index_limit(graph, value, sizes)
            drawn |= random_feeds({name: (type_.dtype, shape)}, distribution, seed, high=limit)
    return drawn


def _double(tensor: onnx.TensorProto) -> onnx.TensorProto:
    array = numpy_helper.to_array(tensor).astype(np.float64)
    return numpy_helper.from_array(array, tensor.name)


if __name__ == "__main__":
    main()
