"""How well assignments of layouts are ranked: by sums of kernels, and by what is learned.

    python -m benchmarks.layouts collect -o layouts.json.xz --graphs layouts.zip
    python -m benchmarks.layouts score layouts.json.xz --graphs layouts.zip
    python -m benchmarks.layouts score           # what lies in benchmarks/data

`collect` takes convolutional models of the zoo and drawn ones. Of each, all assignments of layouts
to operators (in blocks, or as they are) run in turns where there are at most 64, else so many drawn
ones, by one thread, the runtime's own choice of layouts switched off. Beside it stand sums of
measured kernels, which the e-graph extracts by. The graphs are files of TpuGraphs' layout
collection.

`score` leaves a part of the models out at a time. Told are Kendall's
tau, the accuracy of ordered pairs, and how much slower than the fastest the chosen one is, of sums
of measured kernels, of sums of bounds, of boosted trees that correct either (they see counts,
bounds and bytes of what is in blocks and what is not), and of a graph network, beside what a second
measurement gives: times are medians of all rounds, and there what the even rounds foretell of the
odd ones.
"""

from __future__ import annotations

import argparse
import json
import lzma
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tensolog.catalog import Catalog
from tensolog.optimizer.graph.convert import load_graph
from tensolog.optimizer.graph.infer import infer_types
from tensolog.optimizer.layouts.assignments import MOST, assignments_of
from tensolog.optimizer.layouts.timed_assignments import (
    BELOW_LAYOUTS,
    cost_graph,
    sums,
    time_assignments,
)
from tensolog.optimizer.price import Prices
from tensolog.profiles.kernels.costs import CostModel
from tensolog.profiles.learning.samples.archive import CostGraph
from tensolog.profiles.learning.samples.cost_graphs import (
    export_archives,
    load_cost_graphs,
    read_archives,
    store_cost_graph,
)
from tensolog.profiles.learning.scores.metrics import kendall_tau, ordered_pair_accuracy
from tensolog.profiles.machine import load_machine

from .rows import rows_file, table_row, write_rows
from .zoo import build

Array = np.ndarray[Any, Any]

DATA = Path(__file__).resolve().parent / "data"
# Models of the zoo, of sizes at which a run takes a few milliseconds.
ZOO: Mapping[str, Mapping[str, Any]] = {
    "squeezenet": {"image": 96},
    "resnet50": {"image": 64, "width": 32, "blocks": (1, 1, 1, 1)},
    "mobilenetv3": {"image": 96},
    "inception": {"image": 107, "divide": 2, "blocks": (1, 1, 1)},
    "resnext50": {"image": 64, "width": 64, "blocks": (1, 1, 1, 1)},
    "efficientnet": {"image": 96, "divide": 2, "rows": (0, 1, 2, 4)},
    "unet": {"image": 64, "width": 16, "depth": 3},
    "nasnet": {"image": 48, "width": 32, "blocks": (1, 1)},
}
DRAWN = 32
SIZES, CHANNELS = (14, 20, 28, 40, 56, 80), (3, 16, 24, 32, 48, 64, 96, 128)
MOST_FLOPS = 250e6
# Parts that models are left out in, and those where a network is trained.
FOLDS, NETWORK_FOLDS = 8, 4


class Drawn:
    """A model drawn operator by operator; `values` maps names to shapes."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Array] = {}
        size = self._any(SIZES)
        self.values = {"x": (1, self._any(CHANNELS[:6]), size, size)}
        self.used: set[str] = set()
        self.flops = 0.0

    def _any(self, of: Sequence[Any]) -> Any:
        return of[int(self.random.integers(len(of)))]

    def _constant(self, *shape: int) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = self.random.normal(size=shape).astype(np.float32) * 0.1
        return name

    def _add(self, name: str, inputs: list[str], shape: tuple[int, ...], **attributes: Any) -> str:
        output = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(name, inputs, [output], **attributes))
        self.used.update(inputs)
        self.values[output] = shape
        return output

    def convolve(self, x: str) -> None:
        _, channels, high, wide = self.values[x]
        ways = ["dense", "dense", "points"]
        ways += ["depthwise"] * (channels > 3) + ["groups"] * (channels % 8 == 0)
        way = self._any(ways)
        group = {"depthwise": channels, "groups": self._any((2, 4, 8))}.get(way, 1)
        out = channels if way == "depthwise" else self._any(CHANNELS[1:])
        out = -(-out // group) * group
        taps, stride = (1 if way == "points" else self._any((3, 3, 5))), self._any((1, 1, 1, 2))
        weights = self._constant(out, channels // group, taps, taps)
        shape = (1, out, -(-high // stride), -(-wide // stride))
        self.flops += 2.0 * np.prod(shape) * (channels // group) * taps * taps
        y = self._add(
            "Conv",
            [x, weights, self._constant(out)],
            shape,
            group=group,
            strides=[stride] * 2,
            pads=[taps // 2] * 4,
        )
        if self.random.random() < 0.6:
            self.activate(y)

    def activate(self, x: str) -> None:
        kind = self._any(("Relu", "Relu", "Sigmoid", "HardSwish", "Tanh"))
        self._add(kind, [x], self.values[x])

    def pool(self, x: str) -> None:
        _, channels, high, wide = self.values[x]
        stride = self._any((1, 2))
        shape = (1, channels, -(-high // stride), -(-wide // stride))
        kind = self._any(("MaxPool", "AveragePool"))
        self._add(kind, [x], shape, kernel_shape=[3, 3], pads=[1] * 4, strides=[stride] * 2)

    def join(self, x: str) -> None:
        others = [v for v, s in self.values.items() if s[2:] == self.values[x][2:] and v != x]
        if others:
            other = self._any(others)
            channels = self.values[x][1] + self.values[other][1]
            self._add("Concat", [x, other], (1, channels, *self.values[x][2:]), axis=1)

    def combine(self, x: str) -> None:
        others = [v for v, s in self.values.items() if s == self.values[x] and v != x]
        if others:
            self._add(self._any(("Add", "Add", "Mul")), [x, self._any(others)], self.values[x])

    def model(self) -> onnx.ModelProto:
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.values["x"])]
        outputs = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in self.values.items()
            if name not in self.used and name != "x"
        ]
        initializers = [
            numpy_helper.from_array(array, name) for name, array in self.constants.items()
        ]
        graph = helper.make_graph(self.nodes, "drawn", inputs, outputs, initializers)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def drawn_model(seed: int) -> onnx.ModelProto:
    """Draw a model of three to five convolutions with pools, concatenations and sums among them."""
    drawn = Drawn(seed)
    convolutions = int(drawn.random.integers(3, 6))
    while convolutions:
        # The newest values most: models are deeper than wide.
        names = list(drawn.values)
        x = names[-1 - min(int(drawn.random.geometric(0.6)) - 1, len(names) - 1)]
        way = drawn._any(("convolve", "convolve", "convolve", "pool", "join", "combine"))
        if way == "convolve":
            convolutions -= 1
        getattr(drawn, way)(x)
    return drawn_model(seed + 10_000) if drawn.flops > MOST_FLOPS else drawn.model()


def models(drawn: int) -> Iterator[tuple[str, Callable[[], onnx.ModelProto]]]:
    """Name all models, each with what makes it."""
    for seed in range(drawn):
        yield f"drawn{seed:02}", partial(drawn_model, seed)
    for name, arguments in ZOO.items():
        yield name, partial(build, name, **arguments)


# ------------------------------------------------------------------------------------ measuring


def measure(
    name: str, model: onnx.ModelProto, catalog: Catalog, kernel_s: float, budget_s: float
) -> dict[str, Any] | None:
    """Measure a model's assignments, and the kernels that they are made of; None without any."""
    start = time.monotonic()
    prices = Prices(CostModel(catalog, threads=1, configuration=BELOW_LAYOUTS), budget_s=kernel_s)
    graph = load_graph(model)
    graph.types = infer_types(graph)
    assignments = assignments_of(graph, prices)
    if assignments is None:
        return None
    unmeasured = assignments.measure()
    chosen = assignments.sample(MOST, seed=0)
    timed = time_assignments(assignments, chosen, threads=1, budget_s=budget_s)
    machine = load_machine(catalog)
    store_cost_graph(
        catalog, cost_graph(name, assignments, chosen, timed.times_ns, machine, threads=1)
    )
    cheapest = assignments.cheapest().blocked
    count = len(assignments.operators)
    row = {
        "name": name,
        "operators": count,
        "is_complete": 2**count <= MOST,
        "unmeasured": unmeasured,
        "cheapest": [assignment.blocked for assignment in chosen].index(cheapest)
        if cheapest in [assignment.blocked for assignment in chosen]
        else None,
        "additive_ns": [round(assignment.cost_ns) for assignment in chosen],
        "times_ns": [round(value) for value in timed.times_ns.tolist()],
        "first_ns": [round(value) for value in timed.first_ns.tolist()],
        "second_ns": [round(value) for value in timed.second_ns.tolist()],
        "sums": [
            [round(value, 1) for value in sums(assignments, assignment, machine, 1).tolist()]
            for assignment in chosen
        ],
    }
    print(
        f"{name}: {count} operators, {len(chosen)} assignments, "
        f"{min(row['times_ns']) / 1e6:.2f} to {max(row['times_ns']) / 1e6:.2f} ms, tau of sums "
        f"{kendall_tau(timed.times_ns, np.array(row['additive_ns'])):.2f}, {unmeasured} kernels "
        f"not measured, {time.monotonic() - start:.1f} s",
        file=sys.stderr,
        flush=True,
    )
    return row


def collect(arguments: argparse.Namespace) -> None:
    """Measure what is not in the file yet, a model at a time, and write it after each."""
    known = read_rows(arguments.out) if arguments.out.exists() else []
    names = {row["name"] for row in known}
    graphs = list(read_archives(arguments.graphs)) if arguments.graphs.exists() else []
    end = time.monotonic() + arguments.limit
    with (
        tempfile.TemporaryDirectory(prefix="tensolog-layouts-") as folder,
        Catalog(arguments.catalog or Path(folder) / "catalog.duckdb") as catalog,
    ):
        for graph in graphs:
            store_cost_graph(catalog, graph)
        for name, make in models(arguments.drawn):
            if name in names or time.monotonic() > end:
                continue
            row = measure(name, make(), catalog, arguments.kernels, arguments.budget)
            if row is not None:
                known.append(row)
                arguments.out.write_bytes(lzma.compress(json.dumps(known).encode()))
                write_graphs(list(load_cost_graphs(catalog)), arguments.graphs)


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Read what `collect` wrote."""
    rows: list[dict[str, Any]] = json.loads(lzma.decompress(path.read_bytes()))
    return rows


def write_graphs(graphs: Sequence[CostGraph], path: Path) -> None:
    """Write graphs as npz files of one zip file."""
    with tempfile.TemporaryDirectory() as folder:
        files = export_archives(graphs, Path(folder))
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
            for file in files:
                packed.write(file, file.relative_to(folder).as_posix())


# -------------------------------------------------------------------------------------- scoring

SUMMED, BOUNDED = "sum of measured kernels", "sum of bounds"
TREES, TREES_OVER = "trees over the sum of bounds", "trees over the sum of measured kernels"
NETWORK, AGAIN = "graph network", "measured again"


def table_of(row: Mapping[str, Any], first_guess: Array) -> Array:
    """Return what trees see of each assignment: sums by kind and layout, and their first guess."""
    summed = np.array(row["sums"])
    return np.c_[
        np.log1p(summed), summed / np.maximum(summed.max(axis=0), 1.0), np.log(first_guess)
    ]


def corrected(rows: Sequence[Mapping[str, Any]], guesses: Sequence[Array]) -> list[Array]:
    """Predict each model's assignments by trees that were trained without it to correct a guess."""
    predictions: dict[int, Array] = {}
    for fold in range(FOLDS):
        unseen = [place for place in range(len(rows)) if place % FOLDS == fold]
        trees = _fitted(rows, [p for p in range(len(rows)) if p not in unseen], guesses)
        for place in unseen:
            columns = table_of(rows[place], guesses[place])
            predictions[place] = guesses[place] * np.exp(trees.predict(columns))
    return [predictions[place] for place in range(len(rows))]


def _fitted(
    rows: Sequence[Mapping[str, Any]], known: Sequence[int], guesses: Sequence[Array]
) -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor

    table = np.concatenate([table_of(rows[place], guesses[place]) for place in known])
    corrections = [np.log(np.array(rows[p]["times_ns"]) / guesses[p]) for p in known]
    # Assignments of one model are ranked: what all of them have in common tells nothing.
    centred = np.concatenate([correction - correction.mean() for correction in corrections])
    weights = np.concatenate(
        [np.full(len(correction), 1 / len(correction)) for correction in corrections]
    )
    return HistGradientBoostingRegressor(
        max_iter=200, learning_rate=0.05, min_samples_leaf=8, max_leaf_nodes=12, random_state=0
    ).fit(table, centred, weights)


def networked(
    graphs: Mapping[str, CostGraph], names: Sequence[str], steps: int
) -> dict[str, Array]:
    """Predict each model's assignments by a graph network that was trained without a part."""
    from tensolog.profiles.learning.predictor import CostPredictor
    from tensolog.profiles.learning.samples.examples import example_of
    from tensolog.profiles.learning.training.ensemble import train_ensemble, without
    from tensolog.profiles.learning.training.training_options import Training

    examples = {name: example_of(graphs[name]) for name in names}
    predictions: dict[str, Array] = {}
    for fold in range(NETWORK_FOLDS):
        unseen = [name for place, name in enumerate(names) if place % NETWORK_FOLDS == fold]
        known = without(list(examples.values()), [examples[name] for name in unseen])
        model = train_ensemble(known, training=Training(steps=steps), members=2)
        predictor = CostPredictor(model.SerializeToString())
        for name in unseen:
            predictions[name] = predictor.predict(examples[name]).times_ns
        print(f"trained {fold + 1} of {NETWORK_FOLDS}", file=sys.stderr, flush=True)
    return predictions


def score(
    rows: Sequence[Mapping[str, Any]], graphs: Mapping[str, CostGraph], steps: int
) -> list[dict[str, Any]]:
    """Return the scores of each model of costs on each model that it was trained without."""
    measured = [np.array(row["additive_ns"], float) for row in rows]
    groups = len(rows[0]["sums"][0]) // 6
    bounds = [
        np.array(row["sums"]).reshape(-1, groups, 2, 3)[..., 1].sum(axis=(1, 2)) for row in rows
    ]
    over_bounds, over_sums = corrected(rows, bounds), corrected(rows, measured)
    network = networked(graphs, [row["name"] for row in rows], steps) if steps else {}
    scored = []
    for place, row in enumerate(rows):
        predictions = {
            SUMMED: measured[place],
            BOUNDED: bounds[place],
            TREES: over_bounds[place],
            TREES_OVER: over_sums[place],
            **({NETWORK: network[row["name"]]} if steps else {}),
        }
        times, second = np.array(row["times_ns"]), np.array(row["second_ns"])
        for name, predicted in predictions.items():
            scored.append(_scored(row, name, times, predicted))
        scored.append(_scored(row, AGAIN, second, np.array(row["first_ns"])))
    return scored


def _scored(row: Mapping[str, Any], name: str, times: Array, predicted: Array) -> dict[str, Any]:
    tau = kendall_tau(times, predicted)
    return {
        "name": row["name"],
        "operators": row["operators"],
        "assignments": len(times),
        "is_complete": row["is_complete"],
        "model": name,
        "tau": 0.0 if np.isnan(tau) else tau,
        "opa": ordered_pair_accuracy(times, predicted),
        "slowdown": float(times[int(np.argmin(predicted))] / times.min() - 1),
        "spread": float(times.max() / times.min()),
    }


def table(scored: Sequence[Mapping[str, Any]]) -> str:
    """Lay scores out in Markdown: means of all, then tau and slowdown of each model."""
    names = list(dict.fromkeys(row["model"] for row in scored))
    lines = [
        "| | tau, mean | tau, median | least tau | OPA, mean | chosen is slower: mean "
        "| median | most | within 3 % | of those tried in full |",
        "|---" * 10 + "|",
    ]
    for name in names:
        rows_of_model = [row for row in scored if row["model"] == name]
        taus = np.array([row["tau"] for row in rows_of_model])
        slower = np.array([row["slowdown"] for row in rows_of_model])
        complete = np.array([row["is_complete"] for row in rows_of_model])
        lines.append(
            f"| {name} | {taus.mean():.3f} | {np.median(taus):.3f} | {taus.min():.2f} "
            f"| {np.mean([row['opa'] for row in rows_of_model]):.3f} | {slower.mean():.1%} "
            f"| {np.median(slower):.1%} | {slower.max():.1%} "
            f"| {(slower <= 0.03).sum()} of {len(rows_of_model)} "
            f"| {(slower[complete] <= 0.03).sum()} of {complete.sum()} |"
        )
    lines += ["", f"| model | operators | assignments | worst over best | {' | '.join(names)} |"]
    lines.append("|---" * (4 + len(names)) + "|")
    for model in dict.fromkeys(row["name"] for row in scored):
        rows_of_model = {row["model"]: row for row in scored if row["name"] == model}
        first = rows_of_model[names[0]]
        count = f"{first['assignments']}{'' if first['is_complete'] else ' drawn'}"
        cells = [model, str(first["operators"]), count, f"{first['spread']:.2f}"]
        cells += [
            f"{rows_of_model[name]['tau']:.2f}, {rows_of_model[name]['slowdown']:.1%}"
            for name in names
        ]
        lines.append(table_row(cells))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.layouts", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("collect", help="measure assignments of layouts")
    making.add_argument("--drawn", type=int, default=DRAWN, help="models that are drawn")
    making.add_argument("--kernels", type=float, default=20.0, help="seconds for a model's kernels")
    making.add_argument("--budget", type=float, default=3.0, help="seconds for its assignments")
    making.add_argument("--limit", type=float, default=1e9, help="seconds; goes on when run anew")
    making.add_argument("--catalog", type=Path, help="where kernels that were measured are kept")
    making.add_argument("-o", "--out", type=Path, required=True)
    making.add_argument("--graphs", type=Path, required=True, help="zip file of cost graphs")
    scoring = commands.add_parser("score", help="say how well they are ranked")
    scoring.add_argument("rows", type=Path, nargs="?", default=DATA / "layouts.json.xz")
    scoring.add_argument("--graphs", type=Path, default=DATA / "layouts.zip")
    scoring.add_argument("--steps", type=int, default=150, help="of the network; 0: none")
    scoring.add_argument("--out", type=rows_file)
    arguments = parser.parse_args()
    if arguments.command == "collect":
        collect(arguments)
        return
    rows = read_rows(arguments.rows)
    graphs = {
        graph.path.rsplit("/", 1)[-1].removesuffix(".npz"): graph
        for graph in read_archives(arguments.graphs)
    }
    scored = score(rows, graphs, arguments.steps)
    print(table(scored))
    if arguments.out is not None:
        head = "# Layouts, ranked\n\n`python -m benchmarks.layouts score`, "
        head += f"{len(rows)} models, one thread"
        write_rows(arguments.out, scored, head, table(scored))


if __name__ == "__main__":
    main()
