"""One program's race: NumPy, the fused function under each heuristic and the peers in one process.

In every round each contender takes a turn (race.py); ratios are medians over rounds, paired with
the fused function's time of the same round. Results are compared before anything is timed.
"""

from __future__ import annotations

import math
import os
import time
from typing import Any

import numpy as np

from .algorithms import ALGORITHMS, Algorithm
from .peers import PEERS, MissingError, Run
from .programs import PROGRAMS, read_bytes
from .race import race

HEURISTICS = ("cost", "all", "no_redundancy")
# Bytes that are read to measure how fast memory is: more than the caches hold.
_READ = 256 << 20
# Runs over perturbed data, and how many times what they change a result may be off.
_PERTURBED = 3
_SPREAD = 8.0


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
    missing: dict[str, str] = {}
    if name in ALGORITHMS:
        algorithm = ALGORITHMS[name]
        data = algorithm.data(size)
        contenders = algorithm.contenders(data, threads)
        expected = contenders["numpy"]()
        allowed = _spreads(algorithm, data, expected)
        for contender in HEURISTICS:
            row[f"deviation_{contender}"] = _deviation(expected, contenders[contender](), allowed)
        row["outcome"] = float(np.sum(np.square(_parts(expected)[0])))
    else:
        program = PROGRAMS[name]
        rows = {"default": program.rows, "full": program.full}.get(size, program.rows // 100)
        arguments = program.draw(np.random.default_rng(0), rows)
        function = program.make(np)
        expected = function(*arguments)
        contenders["numpy"] = lambda: function(*arguments)
        row["rows"], row["bound"] = rows, program.bound
        row["bytes"] = read_bytes(arguments)
        chosen: dict[str, Any] = {}
        for heuristic in HEURISTICS:
            fused = tensolog.fuse(heuristic=heuristic, threads=threads)(function)  # type: ignore[call-overload]
            start = time.perf_counter()
            result = fused(*arguments)
            row[f"first_{heuristic}_s"] = time.perf_counter() - start
            _compare(expected, result, 1e-8)
            contenders[heuristic] = lambda fused=fused: fused(*arguments)
            row[f"templates_{heuristic}"] = [
                getattr(step, "template", "plain") for plan in fused.plans for step in plan.steps
            ]
            chosen[heuristic] = [plan.steps for plan in fused.plans]
            row[f"same_{heuristic}"] = chosen[heuristic] == chosen["cost"]
        if peers:
            missing = _add_peers(contenders, program, arguments, threads, expected)
        contenders["read"] = _reading(threads)
    row["missing"] = missing
    _raced(contenders, rounds, row)
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


def _compare(expected: Any, result: Any, tolerance: float) -> None:
    for part, other in zip(_parts(expected), _parts(result), strict=True):
        wanted = np.asarray(part)
        scale = np.max(np.abs(wanted), initial=0.0)
        np.testing.assert_allclose(
            np.asarray(other), wanted, rtol=tolerance, atol=tolerance * scale
        )


def _spreads(algorithm: Algorithm, data: tuple[Any, ...], expected: Any) -> list[Any]:
    """Return how far NumPy's own results move when the data do by a unit in the last place.

    Iterations that haven't converged multiply what rounding changes, whoever computes them. After
    two rounds of ALS-CG over 300 x 300 NumPy's products of factors are 1e-2 away from those in
    extended precision, the fused ones as far, and both 1e-4 from each other; the loss has settled.
    """
    spreads = [np.zeros(np.shape(part)) for part in _parts(expected)]
    for attempt in range(_PERTURBED):
        rng = np.random.default_rng(attempt)
        moved = algorithm.contenders(tuple(_moved(operand, rng) for operand in data), 1)["numpy"]()
        changes = [np.abs(a - b) for a, b in zip(_parts(moved), _parts(expected), strict=True)]
        spreads = [np.maximum(a, b) for a, b in zip(spreads, changes, strict=True)]
    return [spread.max(initial=0.0) for spread in spreads]


def _moved(value: Any, rng: np.random.Generator) -> Any:
    """Return an array, or a sparse one, each of its numbers a unit in the last place off."""
    if hasattr(value, "tocsr"):
        moved = value.copy()
        moved.data = _moved(value.data, rng)
        return moved
    return value * (1 + np.finfo(value.dtype).eps * rng.choice([-1.0, 1.0], size=value.shape))


def _deviation(expected: Any, result: Any, spreads: list[Any]) -> float:
    """Return the largest difference, as a share of what is allowed; raise where it is above 1.

    Allowed is 1e-8 of the largest element, and a few times what perturbed data change.
    """
    worst = 0.0
    for part, other, spread in zip(_parts(expected), _parts(result), spreads, strict=True):
        off = float(np.max(np.abs(np.asarray(other) - part), initial=0.0))
        allowed = 1e-8 * float(np.max(np.abs(part), initial=0.0)) + _SPREAD * float(spread)
        worst = max(worst, off / allowed if allowed else math.inf * off)
    if not worst <= 1:
        raise AssertionError(f"off by {worst:.3g} of what rounding explains")
    return worst


def _parts(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


def _raced(contenders: dict[str, Run], rounds: int, row: dict[str, Any]) -> None:
    for run in contenders.values():
        run()
    times = race(contenders, rounds)
    for contender, taken in times.items():
        row[f"{contender}_ms"] = 1e3 * float(np.median(taken))
        if contender != "read":
            row[f"{contender}_ratio"] = float(np.median(taken / times["cost"]))
    if "read" in times:
        row["bytes_per_s"] = _READ / float(np.median(times["read"]))
