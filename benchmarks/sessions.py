"""Two sessions in one process, alone and at once: what share of its throughput each keeps.

python -m benchmarks.sessions                      all pairs of all models
python -m benchmarks.sessions --only mobilenetv3   one model

Sessions are `tensolog.open_session` with all cores and with one thread, and
`tensolog.open_parallel` of one instance of one thread, of one with all cores, and of an instance
for each core. Of a pair each is asked by as many threads as it has instances, as fast as it
answers: the first alone, the second alone, both at once, in turns. Two that ask for no more cores
than there are should keep all of their throughput, and two that ask for all cores half of it.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
from tensolog.parallel.choosing.batches import drawn_feeds
from tensolog.parallel.choosing.deploy import deploy
from tensolog.parallel.deployment.deployment import Deployment
from tensolog.parallel.deployment.settings import Setting
from tensolog.profiles.machine import cores

from tensolog import open_parallel, open_session

from .frame import Row, Steps, collect, options
from .rows import table_head, table_row, write_rows
from .zoo import build

# Many short operators, and few long ones.
MODELS: dict[str, dict[str, Any]] = {
    "mobilenetv3": {},
    "bert": {"depth": 2, "width": 512, "heads": 8, "vocabulary": 512, "tokens": 64},
}
_SECONDS, _WARM_S, _ROUNDS = 0.4, 0.05, 7

Ask = Callable[[], Any]


def main() -> None:
    parser = options("sessions", __doc__, threads=(0,), names=MODELS)
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help="rounds of each pair")
    arguments = parser.parse_args()
    cases = [{"case": n, "name": n, "threads": "all"} for n in arguments.only or MODELS]

    def write(rows: Sequence[Row]) -> None:
        head = "# Two sessions in one process\n\n`python -m benchmarks.sessions`"
        write_rows(arguments.out, rows, head, table(rows))

    with tempfile.TemporaryDirectory() as folder:
        rows = collect(cases, partial(measure, Path(folder), arguments), write, arguments)
    print(table(rows))


def measure(folder: Path, arguments: Any, row: Row) -> Steps:
    """Time all pairs of sessions of a model."""
    name = row["name"]
    yield "deploying", {}
    model = folder / f"{name}.onnx"
    onnx.save(build(name, tiny=arguments.quick, **({} if arguments.quick else MODELS[name])), model)
    plan = deploy(model, folder / f"{name}-plan", budget=1)
    yield "timing pairs", {}
    pairs = []
    for kinds in itertools.combinations_with_replacement(openers(plan), 2):
        with ExitStack() as stack:
            pair = [opens(stack) for _, _, opens in kinds]
            kept = [shares(pair) for _ in range(arguments.rounds)]
        pairs.append({
            "pair": [kind for kind, _, _ in kinds],
            "cores": sum(used for _, used, _ in kinds),
            "kept": [statistics.median(times) for times in zip(*kept, strict=True)],
        })  # fmt: skip
    yield "done", {"pairs": pairs}


Opener = tuple[str, int, Callable[[ExitStack], list[Ask]]]
"""What a session is, how many cores it asks for, and how it is opened: one function per asker."""


def openers(plan: Deployment) -> Iterator[Opener]:
    """Yield the kinds of sessions."""
    allowed = cores()
    for threads in dict.fromkeys((1, allowed)):
        yield f"session, threads {threads}", threads, partial(session, plan, threads)
    settings = dict.fromkeys([(1, 1), (1, allowed), (allowed, 1)])
    for instances, threads in settings:
        setting = Setting(instances, threads, plan.batch.rows)
        pool = replace(plan, setting=setting, delay_ms=0.0)
        yield f"pool {instances} x {threads}", instances * threads, partial(pooled, pool)


def feeds_of(plan: Deployment) -> dict[str, Any]:
    return drawn_feeds(plan.inputs, {}, None)


def session(plan: Deployment, threads: int, _: ExitStack) -> list[Ask]:
    session_options = onnxruntime.SessionOptions()
    session_options.intra_op_num_threads = threads
    return [
        partial(open_session(plan.model_path, options=session_options).run, None, feeds_of(plan))
    ]


def pooled(plan: Deployment, stack: ExitStack) -> list[Ask]:
    opened = stack.enter_context(open_parallel(plan))
    return [partial(opened.run, feeds_of(plan))] * plan.setting.instances


def shares(pair: Sequence[Sequence[Ask]]) -> list[float]:
    """Return what share of its throughput alone each of two sessions has beside the other one."""
    alone = [rates([side])[0] for side in pair]
    both = rates(pair)
    return [beside / by_itself for beside, by_itself in zip(both, alone, strict=True)]


def rates(sessions: Sequence[Sequence[Ask]]) -> list[float]:
    """Ask all sessions at once for a while; answers a second of each."""
    counts = [0] * len(sessions)
    lock = threading.Lock()
    ready = threading.Barrier(sum(map(len, sessions)))

    def serve(number: int, ask: Ask) -> None:
        ready.wait()
        begin = time.perf_counter() + _WARM_S
        end = begin + _SECONDS
        done = 0
        while (now := time.perf_counter()) < end:
            ask()
            done += now >= begin
        with lock:
            counts[number] += done

    threads = [
        threading.Thread(target=serve, args=(number, ask))
        for number, asks in enumerate(sessions)
        for ask in asks
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [count / _SECONDS for count in counts]


def table(rows: Sequence[Row]) -> str:
    """Lay rows out as Markdown."""
    head = ("model", "first", "second", "cores asked for", "first keeps", "second keeps")
    lines = table_head(head)
    for row in rows:
        if "error" in row:
            lines.append(f"| {row['name']} | {row['error']} |" + " |" * (len(head) - 2))
            continue
        for pair in row["pairs"]:
            kept = [f"{share:.2f}" for share in pair["kept"]]
            cells = [row["name"], *pair["pair"], str(pair["cores"]), *kept]
            lines.append(table_row(cells))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
