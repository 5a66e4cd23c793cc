"""One program's race: NumPy, the fused function under each heuristic and the peers in one process.

Every round times each contender once, in random order; ratios are medians over rounds, paired with
the fused function's time of the same round. Results are compared before anything is timed.
"""

from __future__ import annotations

import os
import random
import time
from typing import Any

import numpy as np

from .algorithms import ALGORITHMS
from .peers import PEERS, MissingError, Run
from .programs import PROGRAMS, read_bytes

HEURISTICS = ("cost", "all", "no_redundancy")
# Bytes that are read to measure how fast memory is: more than the caches hold.
_READ = 256 << 20


def limit_processors(threads: int) -> None:
    """Keep this process, with all its thread pools, to so many processors."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])


def measure(name: str, threads: int, size: str, rounds: int, peers: bool) -> dict[str, Any]:
    """Time one program or algorithm; run in a process whose BLAS has `threads` threads.

    `size` is quick, default or full. The row has milliseconds (`<contender>_ms`), how many times
    longer than the fused function each took (`<contender>_ratio`), and what it needed.
    """
    import tensolog

    row: dict[str, Any] = {"program": name, "threads": threads, "size": size}
    contenders: dict[str, Run] = {}
    expected: Any = None
    if name in ALGORITHMS:
        for contender, run in ALGORITHMS[name](size, threads).items():
            expected = run() if contender == "numpy" else expected
            _compare(expected, run(), 1e-6)
            contenders[contender] = run
        missing: dict[str, str] = {}
    else:
        program = PROGRAMS[name]
        rows = {"default": program.rows, "full": program.full}.get(size, program.rows // 100)
        arguments = program.draw(np.random.default_rng(0), rows)
        function = program.make(np)
        expected = function(*arguments)
        contenders["numpy"] = lambda: function(*arguments)
        row["rows"], row["bound"] = rows, program.bound
        row["bytes"] = read_bytes(arguments)
        for heuristic in HEURISTICS:
            fused = tensolog.fuse(heuristic=heuristic, threads=threads)(function)  # type: ignore[call-overload]
            start = time.perf_counter()
            found = fused(*arguments)
            row[f"first_{heuristic}_s"] = time.perf_counter() - start
            _compare(expected, found, 1e-8)
            contenders[heuristic] = lambda fused=fused: fused(*arguments)
            chosen = fused.sql("SELECT template FROM fusion_operator").fetchall()
            row[f"templates_{heuristic}"] = [template for (template,) in chosen]
        missing = _add_peers(contenders, program, arguments, threads, expected) if peers else {}
        contenders["read"] = _reading(threads)
    row["missing"] = missing
    _race(contenders, rounds, row)
    return row


def _add_peers(
    contenders: dict[str, Run], program: Any, arguments: Any, threads: int, expected: Any
) -> dict[str, str]:
    """Add the peers that give the right result; return why the others don't."""
    missing: dict[str, str] = {}
    for peer, prepare in PEERS.items():
        try:
            run = prepare(program, arguments, threads)
            _compare(expected, run(), 1e-6)
            contenders[peer] = run
        except MissingError as reason:
            missing[peer] = str(reason)
        except Exception as failure:  # a peer's limits are its own
            missing[peer] = (str(failure).strip() or type(failure).__name__).splitlines()[0][:120]
    return missing


def _reading(threads: int) -> Run:
    import tensolog

    filled = np.ones(_READ // 8)
    fused = tensolog.fuse(threads=threads)(lambda x: x.sum())
    return lambda: fused(filled)


def _compare(expected: Any, found: Any, tolerance: float) -> None:
    for one, other in zip(_parts(expected), _parts(found), strict=True):
        wanted = np.asarray(one)
        scale = np.max(np.abs(wanted), initial=0.0)
        np.testing.assert_allclose(
            np.asarray(other), wanted, rtol=tolerance, atol=tolerance * scale
        )


def _parts(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


def _race(contenders: dict[str, Run], rounds: int, row: dict[str, Any]) -> None:
    for run in contenders.values():
        run()
    times: dict[str, list[float]] = {contender: [] for contender in contenders}
    order, shuffle = list(contenders), random.Random(0)
    for _ in range(rounds):
        shuffle.shuffle(order)
        for contender in order:
            start = time.perf_counter()
            contenders[contender]()
            times[contender].append(time.perf_counter() - start)
    for contender, taken in times.items():
        row[f"{contender}_ms"] = 1e3 * float(np.median(taken))
        if contender != "read":
            row[f"{contender}_ratio"] = float(np.median(np.divide(taken, times["cost"])))
    if "read" in times:
        row["bytes_per_s"] = _READ / float(np.median(times["read"]))
