"""Simulated times of plans over two devices, against what they take.

python -m benchmarks.simulation --only bert        one architecture
python -m benchmarks.simulation --quick            tiny versions: a check that it works

Each of two processes has a core. Kernels are measured at the sizes that the parts of plans have,
devices and the link as `tensolog devices measure` does, and the undivided model and four pieces of
it on one device; nothing is fitted to what divided plans take. All plans of a model are open and
timed in turns, in random order: one request at a time (latency), and as many as
may be under way (period, the time for each of them).
"""

from __future__ import annotations

import itertools
import random
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from tensolog.catalog import Catalog
from tensolog.parallel.calibration import calibrate
from tensolog.parallel.choosing.batches import drawn_feeds
from tensolog.parallel.choosing.serving_race import timed
from tensolog.parallel.cuts.operator_cuts import cuts_of
from tensolog.parallel.measure import measure_machine
from tensolog.parallel.partitioner import part
from tensolog.parallel.search.config_space import Space
from tensolog.parallel.search.pipelines import staged
from tensolog.parallel.serving.instance import Start
from tensolog.parallel.serving.pinning import here
from tensolog.parallel.serving.worker_group import WorkerGroup, starts_of
from tensolog.parallel.simulation.placement import Config, whole_on
from tensolog.parallel.simulation.simulator import Simulation
from tensolog.parallel.simulation.tasks import Plan, Problem
from tensolog.parallel.simulation.times import Times
from tensolog.parallel.workload import read_workload, slots_of
from tensolog.profiles.kernels.costs import CostModel

from .frame import Row, Steps, collect, options
from .rows import write_rows
from .zoo import ARCHITECTURES, build

# Models reduced so that a request takes some milliseconds, by arguments of their builders.
_BLOCKS = {"batch": 2, "depth": 3, "width": 256, "heads": 4, "vocabulary": 512, "tokens": 64}
REDUCED: dict[str, dict[str, Any]] = {
    "squeezenet": {"batch": 2, "image": 112, "classes": 100},
    "resnet50": {"batch": 2, "image": 64, "width": 32, "classes": 100},
    "mobilenetv3": {"batch": 2, "image": 128, "classes": 100},
    "bert": _BLOCKS,
    "gpt2": _BLOCKS,
    "inception": {"batch": 2, "image": 107, "divide": 2, "blocks": (1, 1, 1), "classes": 100},
    "nasrnn": {"batch": 8, "steps": 6, "width": 256},
    "dlrm": {"batch": 64},
}
_SIX = ("bert", "gpt2", "squeezenet", "inception", "nasrnn", "dlrm")
CUTS = (0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9)
_MIXED, _PIECES = 5, 4
_ROUNDS, _SECONDS, _RUNS = 9, 0.06, 3
_DIFFERENT = 0.05  # plans whose times differ by less are not ordered
_LIMIT_S = 60.0
_MEASURES = ("latency", "period")


def main() -> None:
    parser = options("simulation", __doc__, threads=(1,))
    parser.add_argument("--catalog", type=Path, help="where measured kernels are kept")
    parser.add_argument("--kernels", type=float, default=60.0, help="seconds to measure kernels")
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help="rounds of all plans")
    arguments = parser.parse_args()
    cases = [{"case": n, "name": n, "threads": 1} for n in arguments.only or _SIX]

    def write(rows: Sequence[Row]) -> None:
        head = "# Simulated and measured times of plans\n\n`python -m benchmarks.simulation`"
        write_rows(arguments.out, rows, head, table(rows))

    with (
        tempfile.TemporaryDirectory() as folder,
        Catalog(arguments.catalog or ":memory:") as catalog,
    ):
        rows = collect(cases, partial(measure, arguments, Path(folder), catalog), write, arguments)
    print(table(rows))


def measure(arguments: Any, folder: Path, catalog: Catalog, row: Row) -> Steps:
    """Simulate and run plans of a model."""
    name = row["name"]
    yield "building", {}
    model = reduced(name) if not arguments.quick else build(name, tiny=True)
    workload = read_workload(model)
    yield "measuring the machine", {}
    cluster = measure_machine(2, 1)
    problem = Problem(workload, cluster, Times(cluster))
    space = Space(problem, [cuts_of(operator.kernel) for operator in workload.operators])
    plans = dict(plans_of(space))
    kernels = {
        part.kernel
        for plan in plans.values()
        for number, config in enumerate(plan)
        for part in problem.parts(number, config)
    }
    yield "measuring kernels", {"plans": len(plans), "kernels": len(kernels)}
    costs = CostModel(catalog, threads=1)
    costs.measure(sorted(kernels, key=lambda kernel: kernel.hash), budget_s=arguments.kernels)
    missing = len(costs.unmeasured(kernels))
    yield "measuring the model", {"unmeasured": missing}
    whole, pieces = folder / f"{name}.onnx", folder / f"{name}-pieces"
    pieces.mkdir()
    onnx.save(model, whole)
    calibration = calibrate(
        Problem(workload, cluster, Times(cluster, catalog)),
        whole,
        drawn_feeds(slots_of(workload)[0], {}, None),
        pieces,
    )
    times = Times(cluster, catalog, calibration)
    problem = Problem(workload, cluster, times, of_average=calibration.of_average)
    simulated = [Simulation(problem, plan) for plan in plans.values()]
    yield (
        "running plans",
        {"factor": calibration.factor, "pieces": sorted(set(calibration.of_average))},
    )
    latency, period = run_plans(problem, plans, model, folder / name, arguments.rounds)
    judged_row = {
        "names": list(plans),
        "simulated_latency_ms": [simulation.latency_s * 1e3 for simulation in simulated],
        "latency_ms": latency,
        "simulated_period_ms": [1e3 / simulation.requests_per_s() for simulation in simulated],
        "period_ms": period,
    }
    yield "done", judged_row | judged(judged_row)


def reduced(name: str) -> onnx.ModelProto:
    return ARCHITECTURES[name].builder(**REDUCED[name])


def plans_of(space: Space) -> Iterator[tuple[str, Plan]]:
    """Yield plans of all kinds for two devices."""
    count = len(space.cuts)
    operators = space.problem.workload.operators
    both = (0, 1)
    seconds = [space.problem.times.operator(operator.kernel, 0) for operator in operators]
    ends = np.cumsum(seconds) / sum(seconds)
    yield "one device", tuple(whole_on(0) for _ in range(count))
    for share in CUTS:
        yield (
            f"pipeline at {share:.0%}",
            tuple(whole_on(int(end > share)) for end in ends),
        )
    kinds = {
        "data": ("sample",),
        "parameter": ("parameter",),
        "reduction": ("reduction",),
        "attribute": ("attribute",),
        "one weird trick": ("parameter", "sample"),
        "reduction, else data": ("reduction", "sample"),
    }
    divided = {
        kind: tuple(space.by_kind(number, both, order) for number in range(count))  # type: ignore[arg-type]
        for kind, order in kinds.items()
    }
    yield from divided.items()
    alone: list[Sequence[Config]] = [[whole_on(device)] * count for device in both]
    choices = [*alone, *(divided[kind] for kind in ("data", "parameter", "reduction"))]
    draw = random.Random(0)
    for number in range(_MIXED):
        pieces = staged([whole_on(0)] * count, seconds, [(piece,) for piece in range(_PIECES)])
        chosen = [draw.choice(choices) for _ in range(_PIECES)]
        yield (
            f"mixed {number + 1}",
            tuple(chosen[piece.devices[0]][place] for place, piece in enumerate(pieces)),
        )


def run_plans(
    problem: Problem, plans: dict[str, Plan], model: onnx.ModelProto, folder: Path, rounds: int
) -> tuple[list[float], list[float]]:
    """Time all plans in turns: milliseconds of a request alone, and of each of several at a time.

    Of each round the median, of these the least: whatever else runs makes all else slower. Raises
    AssertionError where a plan computes something else.
    """
    inputs, outputs = slots_of(problem.workload)
    feeds = drawn_feeds(inputs, {}, None)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    expected = session.run([slot.name for slot in outputs], feeds)
    groups: list[WorkerGroup] = []
    try:
        for number, (name, plan) in enumerate(plans.items()):
            parted = part(problem, plan, name)
            place = folder / str(number)
            place.mkdir(parents=True)
            parted.write(place)
            partition = parted.partition
            processors = {
                d.name: p for d, p in zip(problem.cluster.devices, here(2, 1), strict=True)
            }
            places = [processors[device] for device in partition.devices]
            starts = starts_of(partition, Start(place / "model.onnx", 1), places)
            groups.append(WorkerGroup(partition, starts, partition.slots))
        for group in groups:
            group.ready()
        lanes = [group.lanes() for group in groups]
        batch = {name: [array] for name, array in feeds.items()}
        for name, own_lanes in zip(plans, lanes, strict=True):
            for lane in own_lanes:
                results = lane.run(batch, _LIMIT_S)
                for slot, array in zip(outputs, expected, strict=True):
                    scale = float(np.abs(array).max()) + 1e-6
                    assert np.abs(results[slot.name] - array).max() < 1e-3 * scale, name
        latencies: list[list[float]] = [[] for _ in groups]
        periods: list[list[float]] = [[] for _ in groups]
        order = list(range(len(groups)))
        for _ in range(rounds):
            random.shuffle(order)
            for number in order:
                own_lanes = lanes[number]
                alone = timed(own_lanes[:1], feeds, _SECONDS, _RUNS, _LIMIT_S)
                latencies[number].append(float(np.median(alone[0])))
                busy = timed(own_lanes, feeds, _SECONDS, _RUNS, _LIMIT_S)
                periods[number].append(1 / sum(1 / float(np.median(times)) for times in busy))
    finally:
        for group in groups:
            group.close()
    return tuple([min(times) / 1e6 for times in side] for side in (latencies, periods))  # type: ignore[return-value]


def judged(row: Row) -> Row:
    """Compare the simulated times with the measured ones, for both measures."""
    scores: Row = {}
    for quantity in _MEASURES:
        times, simulated = (
            np.array(row[key]) for key in (f"{quantity}_ms", f"simulated_{quantity}_ms")
        )
        scores[f"{quantity}_tau"] = tau_of_different(times, simulated)
        scores[f"{quantity}_regret"] = float(times[int(np.argmin(simulated))] / times.min() - 1)
        scores[f"{quantity}_error"] = float(np.median(np.abs(simulated / times - 1)))
    return scores


def tau_of_different(times: Any, simulated: Any) -> float:
    """Return Kendall's tau over the pairs whose measured times differ by more than 5 %."""
    right = wrong = 0
    for a, b in itertools.combinations(range(len(times)), 2):
        if max(times[a], times[b]) > (1 + _DIFFERENT) * min(times[a], times[b]):
            agrees = (times[a] - times[b]) * (simulated[a] - simulated[b])
            right, wrong = right + (agrees > 0), wrong + (agrees < 0)
    return (right - wrong) / max(1, right + wrong)


def table(rows: Sequence[Row]) -> str:
    """Lay out how well plans are ordered, and below that all times."""
    head = (
        "| model | plans | kernels | | tau | regret | median error |\n|---|--:|--:|---|--:|--:|--:|"
    )
    lines = [head]
    for row in rows:
        if "names" not in row:
            lines.append(f"| {row['name']} | {row.get('error', '')} |")
            continue
        for quantity in _MEASURES:
            lines.append(
                f"| {row['name']} | {row['plans']} | {row['kernels']} | {quantity} "
                f"| {row[f'{quantity}_tau']:.2f} | {row[f'{quantity}_regret']:.1%} "
                f"| {row[f'{quantity}_error']:.1%} |"
            )
    for row in rows:
        if "names" not in row:
            continue
        lines += ["", f"## {row['name']}", ""]
        lines += ["| plan | latency, ms | simulated | period, ms | simulated |"]
        lines += ["|---|--:|--:|--:|--:|"]
        columns = (
            "names",
            "latency_ms",
            "simulated_latency_ms",
            "period_ms",
            "simulated_period_ms",
        )
        for name, *times in zip(*(row[column] for column in columns), strict=True):
            lines.append(f"| {name} | {' | '.join(f'{time:.2f}' for time in times)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
