"""The contest: each architecture under other optimizers and tensolog, all in one race.

python -m benchmarks.peers                       all architectures and all peers that are installed
python -m benchmarks.peers --only dlrm --quick   a tiny one and a short race: a check that it works

Ratios are times over ONNX Runtime's full optimization of the same model: below 1 is faster.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ..child import StepError, run_step
from ..zoo import ARCHITECTURES
from . import PEERS, REFERENCE, installed
from .report import load_rows, table, write_results
from .rewriters import REWRITERS

RESULTS = Path(__file__).resolve().parent.parent / "results"


def main() -> None:
    arguments = parse_arguments()
    chosen = [name for name in installed() if name in (arguments.peers or PEERS)]
    missing = [name for name in arguments.peers or PEERS if name not in installed()]
    console = Console(stderr=True)
    if missing:
        console.print(f"not installed: {', '.join(missing)} (pip install -e '.[peers]')")
    names = arguments.only or list(ARCHITECTURES)
    rows = load_rows(arguments.out) if arguments.resume else []
    done = {(row["name"], row["threads"]) for row in rows}
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(TextColumn("{task.description}"), *columns, console=console) as progress:
        task = progress.add_task("peers", total=len(names) * len(arguments.threads))
        for name in names:
            with tempfile.TemporaryDirectory() as folder:
                for threads in arguments.threads:
                    progress.update(task, description=f"{name}, {threads} threads")
                    if (name, threads) not in done:
                        rows.append(contest(name, threads, chosen, arguments, Path(folder)))
                        write_results(rows, arguments.out)
                    progress.advance(task)
    print(table(rows))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="tiny models, short races")
    parser.add_argument("--only", nargs="+", choices=ARCHITECTURES, metavar="NAME")
    parser.add_argument("--peers", nargs="+", choices=PEERS, metavar="PEER")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--budget", type=float, help="seconds tensolog may measure")
    parser.add_argument("--race", type=float, default=30.0, help="seconds of each race")
    parser.add_argument("--out", type=Path, default=RESULTS / "peers.json")
    parser.add_argument("--resume", action="store_true", help="keep the rows that OUT holds")
    return parser.parse_args()


def contest(
    name: str, threads: int, chosen: list[str], arguments: argparse.Namespace, folder: Path
) -> dict[str, Any]:
    """Make a row: build the model if need be, let each peer prepare it, and race them all."""
    from ..models import sources_of

    source = sources_of(name)[-1]
    original = folder / "original.onnx"
    row: dict[str, Any] = {"name": name, "source": source, "threads": threads, "refused": {}}
    if not original.exists():
        run_step("build", name=name, source=source, path=str(original), tiny=arguments.quick)
    entrants: dict[str, str] = {}
    for peer in chosen:
        made = folder / f"{peer}.onnx"
        try:
            if peer == "tensolog":
                run_step(
                    "optimize",
                    path=str(original),
                    out=str(made),
                    threads=threads,
                    budget=2.0 if arguments.quick else arguments.budget,
                    catalog=str(folder / f"catalog-{threads}.duckdb"),
                )
            elif peer in REWRITERS:
                if not made.exists():
                    run_step("rewrite", peer=peer, path=str(original), out=str(made))
            elif peer == "torch.compile" and source == "onnx":
                row["refused"][peer] = "there is no module of it"
                continue
            else:
                made = original
        except StepError as error:
            row["refused"][peer] = str(error)
            continue
        entrants[peer] = str(made)
    assert REFERENCE in entrants, "the reference takes part in every race"
    try:
        row |= run_step(
            "contest",
            name=name,
            entrants=entrants,
            threads=threads,
            budget=2.0 if arguments.quick else arguments.race,
            refused=row["refused"],
            tiny=arguments.quick,
        )
    except StepError as error:
        row["error"] = str(error)
    return row


if __name__ == "__main__":
    main()
