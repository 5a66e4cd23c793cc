"""What `tensolog deploy` chooses, against all settings, and OpenVINO's hint for throughput.

python -m benchmarks.deploy --only mobilenetv3    one architecture
python -m benchmarks.deploy --quick               tiny versions
python -m benchmarks.deploy --optimize            with --optimize, to deploy_optimized.json

All settings of instances x threads x batch that keep to the cores are timed in turns, in random
order, in six rounds of a quarter of a second. The best of so many noisy numbers flatters itself: it
and what was chosen are timed once more, in turns, and that is the ratio told, with its interval of
99 %. OpenVINO serves as many requests at a time as its hint asks for, of one row and of as many as
were chosen, in turns with the choice.

With `--optimize` no settings are looked through: models are deployed as they are and with
`--optimize`, and both and OpenVINO, which has the original, are timed in turns.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from tensolog.parallel.choosing.batches import drawn_feeds
from tensolog.parallel.choosing.deploy import deploy
from tensolog.parallel.choosing.ready_instances import Crews
from tensolog.parallel.choosing.serving_race import Contender, Terms, lead, race
from tensolog.parallel.deployment.deployment import Deployment
from tensolog.parallel.deployment.settings import Measured, Setting, batch_ladder, grid, summarize

from .environment import results
from .frame import Row, Steps, collect, options
from .rows import table_head, table_row, write_rows
from .zoo import build

MODELS = (
    "mobilenetv3", "squeezenet", "efficientnet", "inception", "resnet50", "nasnet",
    "dlrm", "nasrnn", "bert", "vit",
)  # fmt: skip
# Batches of large models take seconds: these are tried with fewer rows.
MOST_ROWS = {"mobilenetv3": 8, "squeezenet": 8, "efficientnet": 8, "nasrnn": 16, "dlrm": 16}
_FEW_ROWS = 4
_WINDOW_S, _RUNS, _ROUNDS = 0.25, 3, 6
_PEER_ROUNDS, _PEER_S = 15, 0.5
_FINAL, _FINAL_S = Terms(_WINDOW_S, _RUNS, most_rounds=20), 12.0


def main() -> None:
    parser = options("deploy", __doc__, threads=(0,))
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help="rounds of all settings")
    parser.add_argument("--max-batch", type=int, help="rows of the largest batch")
    parser.add_argument("--optimize", action="store_true", help="deploy with --optimize")
    arguments = parser.parse_args()
    names = arguments.only or MODELS
    cases = [{"case": name, "name": name, "threads": "all"} for name in names]
    shown, title, option = table, "Deployments", ""
    if arguments.optimize:
        shown, title, option = optimized_table, "Deployments with --optimize", " --optimize"
        if arguments.out == results("deploy"):
            arguments.out = results("deploy_optimized")

    def write(rows: Sequence[Row]) -> None:
        head = f"# {title}\n\n`python -m benchmarks.deploy{option}`"
        write_rows(arguments.out, rows, head, shown(rows))

    with tempfile.TemporaryDirectory() as folder:
        asked = (Path(folder), arguments.quick, arguments.max_batch)
        measured = partial(measure, *asked, arguments.rounds)
        if arguments.optimize:
            measured = partial(measure_optimized, *asked)
        rows = collect(cases, measured, write, arguments)
    print(shown(rows))


def measure(folder: Path, tiny: bool, most_rows: int | None, rounds: int, row: Row) -> Steps:
    """Deploy a model, time all settings, and OpenVINO where it is installed."""
    name = row["name"]
    yield "building", {}
    model = folder / f"{name}.onnx"
    onnx.save(build(name, tiny=tiny, dynamic=True), model)
    most = most_rows or MOST_ROWS.get(name, 16 if tiny else _FEW_ROWS)
    yield "deploying", {"most_rows": most}
    start = time.monotonic()
    plan = deploy(model, folder / f"{name}-plan", most_rows=most)
    deploy_s = time.monotonic() - start
    yield "timing all settings", {"chosen": str(plan.setting), "deploy_s": deploy_s}
    start = time.monotonic()
    timed = exhaustive(plan, most, rounds)
    grid_s = time.monotonic() - start
    best = max(timed.values(), key=lambda entry: entry.rows_per_s).setting
    times = {
        "size": "tiny" if tiny else "full",
        "settings": len(timed),
        "best": str(best),
        "grid_s": grid_s,
        "of_one": timed[plan.setting].rows_per_s / timed[plan.baseline.setting].rows_per_s,
        "of_time": deploy_s / grid_s,
    }
    yield "racing the best of all", times
    yield "racing OpenVINO", against(plan, best)
    yield "done", against_openvino(plan)


def measure_optimized(folder: Path, tiny: bool, most_rows: int | None, row: Row) -> Steps:
    """Deploy a model as it is, and optimized for each target; time these and OpenVINO in turns."""
    name = row["name"]
    yield "building", {}
    model = folder / f"{name}.onnx"
    onnx.save(build(name, tiny=tiny, dynamic=True), model)
    most = most_rows or MOST_ROWS.get(name, 16 if tiny else _FEW_ROWS)
    yield "deploying", {"size": "tiny" if tiny else "full", "most_rows": most}
    plans = {"original": deploy(model, folder / f"{name}-plan", most_rows=most)}
    yield "deploying with --optimize", {}
    plans["optimized"] = deploy(model, folder / f"{name}-fast", most_rows=most, optimize=True)
    yield (
        "racing OpenVINO",
        {"chosen": {kind: f"{plan.variant}, {plan.setting}" for kind, plan in plans.items()}},
    )
    rates, peer, refused = in_turns(plans, plans["original"])
    yield "done", {"rows_per_s": rates, "openvino": peer, "refused": refused}


def exhaustive(plan: Deployment, most_rows: int, rounds: int) -> dict[Setting, Measured]:
    """Time all settings, round by round, in random order."""
    cores = plan.machine["cores"]
    settings = list(grid(cores, batch_ladder(plan.batch.is_free, plan.batch.rows, most_rows)))
    times: dict[Setting, list[list[list[float]]]] = {setting: [] for setting in settings}
    shuffle = random.Random(0).shuffle
    with Crews(plan.model_path, cores, cache(partial(request, plan))) as crews:
        for _ in range(rounds):
            shuffle(settings)
            for setting in settings:
                times[setting].append(crews.time(setting, _WINDOW_S, _RUNS))
        return {
            setting: summarize(setting, times_of, crews.memory_bytes(setting))
            for setting, times_of in times.items()
        }


def against(plan: Deployment, best: Setting) -> Row:
    """Time the choice and the best of all settings in turns; the interval of their ratio."""
    if best == plan.setting:
        return {"of_best": 1.0, "of_best_low": 1.0, "of_best_high": 1.0}
    with Crews(plan.model_path, plan.machine["cores"], cache(partial(request, plan))) as crews:
        pair = [
            Contender(setting, partial(crews.time, setting)) for setting in (plan.setting, best)
        ]
        race(pair, "throughput", budget_s=_FINAL_S, terms=_FINAL)
    ratio = lead(*pair, "throughput")
    return {"of_best": ratio.value, "of_best_low": ratio.low, "of_best_high": ratio.high}


def request(plan: Deployment, rows: int) -> dict[str, Any]:
    return drawn_feeds(plan.inputs, {}, rows if plan.batch.is_free else None)


def against_openvino(plan: Deployment) -> Row:
    """Time the choice and OpenVINO in turns; nothing where it is not installed, or refuses."""
    rates, peer, refused = in_turns({"ours": plan}, plan)
    if refused:
        return {"openvino": refused}
    return {"of_openvino": rates["ours"] / peer} if peer else {}


def in_turns(
    plans: Mapping[str, Deployment], original: Deployment
) -> tuple[dict[str, float], float, str]:
    """Time deployments and OpenVINO on the original model in turns.

    Returns the medians of rows a second, the better one of OpenVINO's at one row and at those of
    the original's setting (0 where it is not installed), and why it refuses the model.
    """
    cores = original.machine["cores"]
    batch = original.batch
    shuffle = random.Random(0).shuffle
    queues, refused = {}, ""
    if find_spec("openvino") is not None:
        sizes = sorted({1, original.setting.batch}) if batch.is_free else [batch.rows]
        try:
            queues = {rows: openvino_queue(original, rows, cores) for rows in sizes}
        except Exception as error:  # whatever it raises is its reason to refuse
            refused = " ".join(str(error).split())[:80]
    peers: dict[int, list[float]] = {rows: [] for rows in queues}
    ours: dict[str, list[float]] = {kind: [] for kind in plans}
    with ExitStack() as stack:
        crews = {
            kind: stack.enter_context(Crews(plan.model_path, cores, cache(partial(request, plan))))
            for kind, plan in plans.items()
        }
        turns = [*plans, *queues]
        for _ in range(_PEER_ROUNDS):
            shuffle(turns)  # who comes after whom is not to count
            for turn in turns:
                if isinstance(turn, int):
                    peers[turn].append(turn * queue_rate(queues[turn]))
                    continue
                setting = plans[turn].setting
                run_times = crews[turn].time(setting, _PEER_S, _RUNS)
                ours[turn].append(summarize(setting, [run_times], 0).rows_per_s)
    peer = max((float(np.median(rates)) for rates in peers.values()), default=0.0)
    return {kind: float(np.median(rates)) for kind, rates in ours.items()}, peer, refused


def openvino_queue(plan: Deployment, rows: int, cores: int) -> Any:
    """Compile a model by the hint for throughput, in float32; a queue of as many requests."""
    import openvino

    feeds = request(plan, rows)
    model = openvino.Core().read_model(str(plan.model_path))
    model.reshape({name: list(array.shape) for name, array in feeds.items()})
    settings = {
        "PERFORMANCE_HINT": "THROUGHPUT",
        "INFERENCE_NUM_THREADS": cores,
        "INFERENCE_PRECISION_HINT": "f32",
    }
    compiled = openvino.Core().compile_model(model, "CPU", settings)
    queue = openvino.AsyncInferQueue(compiled)
    for queued in queue:
        for port in compiled.inputs:
            array = np.ascontiguousarray(feeds[port.get_any_name()])
            queued.set_tensor(port, openvino.Tensor(array))
    queue_rate(queue, 0.05)  # warm
    return queue


def queue_rate(queue: Any, seconds: float = _PEER_S) -> float:
    """Return runs a second, with all requests of a queue busy."""
    start, runs = time.perf_counter(), 0
    while time.perf_counter() - start < seconds or runs < _RUNS * len(queue):
        queue.start_async()
        runs += 1
    queue.wait_all()
    return runs / (time.perf_counter() - start)


def _name(row: Row) -> str:
    return str(row["name"]) + (", tiny" if row.get("size") == "tiny" else "")


def table(rows: Sequence[Row]) -> str:
    """Lay rows out as Markdown."""
    head = ("model", "chosen", "best of all", "throughput / best's", "/ one instance's",
            "/ OpenVINO's", "settings", "time / that of all settings")  # fmt: skip
    lines = table_head(head)
    for row in rows:
        name = _name(row)
        if "error" in row:
            lines.append(f"| {name} | {row['error']} |" + " |" * (len(head) - 2))
            continue
        ratio = f"{row['of_best']:.2f}"
        if "of_best_low" in row:
            ratio += f" ({row['of_best_low']:.2f} to {row['of_best_high']:.2f})"
        peer = f"{row['of_openvino']:.2f}" if "of_openvino" in row else row.get("openvino", "–")
        numbers = [ratio, f"{row['of_one']:.2f}", peer, str(row["settings"])]
        cells = [name, row["chosen"], row["best"], *numbers, f"{row['of_time']:.2f}"]
        lines.append(table_row(cells))
    return "\n".join(lines)


def optimized_table(rows: Sequence[Row]) -> str:
    """Lay rows out as Markdown: throughput over that of OpenVINO, and of the original."""
    head = ("model", "original", "with --optimize", "original / OpenVINO's",
            "optimized / OpenVINO's", "optimized / original's")  # fmt: skip
    lines = table_head(head)
    for row in rows:
        name = _name(row)
        if "error" in row:
            lines.append(f"| {name} | {row['error']} |" + " |" * (len(head) - 2))
            continue
        rates, peer, chosen = row["rows_per_s"], row["openvino"], row["chosen"]
        cells = [name, chosen["original"], chosen["optimized"]]
        for kind in ("original", "optimized"):
            cells.append(f"{rates[kind] / peer:.2f}" if peer else row["refused"] or "–")
        lines.append(f"| {' | '.join(cells)} | {rates['optimized'] / rates['original']:.2f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
