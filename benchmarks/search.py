"""Seconds of search, and how they grow with the model: growth of the e-graph, and extraction.

No kernel is measured: each has a price drawn from its hash, so that alternatives win here and
there. Times are processor seconds of this process.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator

import onnx
from tensolog.optimizer.egraph.search import search
from tensolog.optimizer.graph.convert import load_graph
from tensolog.optimizer.graph.infer import infer_types
from tensolog.optimizer.match.rewrite import clean
from tensolog.optimizer.setting import Setting
from tensolog.profiles.kernel import Kernel
from tensolog.profiles.kernels.costs import Cost
from tensolog.rules import load_rules

from .zoo import build

FOLD_LIMIT = 64 * 1024
NODES_PER_LAYER = 52
HEADER = f"{'model':<22}{'nodes':>7}{'e-nodes':>9}{'classes':>9}{'rounds':>7}{'first':>8}"
HEADER += f"{'again':>8}{'gap':>7}{'cost':>7}  growth"


class DrawnPrices:
    """Prices drawn from hashes; all of them count as measured."""

    remaining_s, predictions = 0.0, None

    def __init__(self) -> None:
        self.model = self

    def cost(self, kernel: Kernel) -> Cost:
        drawn = random.Random(kernel.hash).uniform(1.0, 1000.0)
        return Cost(0.0 if kernel.is_constant else drawn, 0.0, "measured")

    def failure(self, kernel: Kernel) -> None:
        return None

    def unmeasured(self, kernels: object) -> list[Kernel]:
        return []


def models(quick: bool) -> Iterator[tuple[str, onnx.ModelProto]]:
    for nodes in (100, 1_000) if quick else (100, 1_000, 2_500, 10_000):
        depth = max(1, round(nodes / NODES_PER_LAYER))
        yield f"bert, {depth} layers", build("bert", tiny=True, depth=depth)
    for name in ("inception", "gpt2", "mobilenetv3"):
        yield name, build(name, tiny=quick)
    if not quick:
        yield "bert-base", build("bert")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small models only")
    arguments = parser.parse_args()
    print(HEADER)
    for name, model in models(arguments.quick):
        graph = load_graph(model)
        graph.types = infer_types(graph)
        clean(graph, FOLD_LIMIT)
        setting = Setting()
        rules = [
            rule
            for tag in ("always", "explore")
            for rule in setting.select(load_rules(), graph, tag)
        ]
        seconds = []
        for _ in range(2):  # the first one compiles the rules as well
            start = time.process_time()
            result = search(
                graph,
                rules,
                DrawnPrices(),  # type: ignore[arg-type]
                sizes={},
                fold_limit=FOLD_LIMIT,
                contributed=True,
                of_passes=setting.select(load_rules(), graph, "pass"),
            )
            seconds.append(time.process_time() - start)
        columns = result.egraph.columns
        print(
            f"{name:<22}{len(graph.nodes):>7}{len(columns.living()):>9}{columns.classes:>9}"
            f"{len(result.growth.sizes):>7}{seconds[0]:>8.2f}{seconds[1]:>8.2f}"
            f"{result.extraction.gap:>7.1%}{result.cost_ns / result.original_cost_ns:>7.3f}"
            f"  {result.growth.ended}",
            flush=True,
        )


if __name__ == "__main__":
    main()
