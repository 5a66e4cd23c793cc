"""The differential fuzzer as a command: random programs, fused against NumPy.

    python -m tests.optimizer.fuse.fuzz --seeds 0 2000 [--heuristic all] [--keep-going 3]

Prints each seed that differs with its program, shortened as far as it still does, and ends with
the number of programs, how many of them ran a kernel, and how many differed.
"""

from __future__ import annotations

import argparse
import sys
import traceback
import warnings
from typing import Any

from tensolog.optimizer.fuse.planning import fusion_planner
from tensolog.optimizer.fuse.tracing import prepare
from tensolog.optimizer.fuse.tracing.decorator import fuse

from .compare import DifferenceError, compare
from .random_programs import Case, random_case


def failure(case: Case, heuristic: Any) -> tuple[str | None, bool]:
    """Return what is wrong with the fused function, and whether it ran a kernel."""
    function = case.function()
    fused = fuse(heuristic=heuristic)(function)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            compare(function, fused, list(case.inputs.values()))
    except DifferenceError as difference:
        return str(difference), fused.kernels > 0
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error} ({last.filename}:{last.lineno})"
        return text, fused.kernels > 0
    return None, fused.kernels > 0


def shorten(case: Case, heuristic: Any) -> Case:
    """Return the case with statements and results left out as long as it fails."""
    lines = case.source.splitlines()
    head, body, last = lines[0], lines[1:-1], lines[-1]
    results = [name for name in last.strip()[len("return (") : -1].split(", ") if name.strip(", ")]
    results = [result.rstrip(",") for result in results]

    def attempt(body: list[str], results: list[str]) -> Case | None:
        text = "\n".join([head, *body, f"    return ({', '.join(results)},)", ""])
        shorter = Case(case.seed, text, case.inputs)
        try:
            function = shorter.function()
            function(*[input_.copy() for input_ in case.inputs.values()])
        except Exception:
            return None
        return shorter if failure(shorter, heuristic)[0] is not None else None

    for result in list(results):
        if len(results) > 1:
            fewer = [name for name in results if name != result]
            if attempt(body, fewer):
                results = fewer
    for line in list(reversed(body)):
        fewer = [statement for statement in body if statement is not line]
        if attempt(fewer, results):
            body = fewer
    return attempt(body, results) or case


def main() -> int:
    """Run the seeds that the command line names; the exit code is 1 where one differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", nargs=2, type=int, default=(0, 200))
    parser.add_argument("--heuristic", default="cost")
    parser.add_argument("--keep-going", type=int, default=5, metavar="FAILURES")
    options = parser.parse_args()
    # Its arrays are small, and kernels are what it is for.
    prepare.TRACING_S, fusion_planner._FEW = 0.0, 0
    failed = kernels = ran = 0
    for seed in range(*options.seeds):
        case = random_case(seed)
        ran += 1
        wrong, native = failure(case, options.heuristic)
        kernels += native
        if wrong is None:
            continue
        failed += 1
        short = shorten(case, options.heuristic)
        again = failure(short, options.heuristic)[0]
        print(f"seed {seed}: {again or wrong}\n{short.source}")
        used = [name for name in case.inputs if name in short.source.split(":", 1)[1]]
        for name in used:
            array = case.inputs[name]
            sparse = hasattr(array, "tocsr")
            layout = f"{array.format} nnz {array.nnz}" if sparse else f"strides {array.strides}"
            print(f"  {name}: {array.dtype}{array.shape} {layout}")
        sys.stdout.flush()
        if failed >= options.keep_going:
            break
    print(f"{ran} programs, {kernels} with kernels, {failed} differ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
