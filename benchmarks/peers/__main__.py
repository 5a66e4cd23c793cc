"""The contest: each architecture under other optimizers and tensolog, all in one race.

python -m benchmarks.peers                       all architectures and all peers that are installed
python -m benchmarks.peers --minutes 20 --resume   what can be had in that time, and on from there
python -m benchmarks.peers --only dlrm --quick   a tiny one and a short race: a check that it works
python -m benchmarks.peers --second              the second list, which nothing is tuned for
python -m benchmarks.peers --second --small      the same in small

Ratios are times over ONNX Runtime's full optimization of the same model: below 1 is faster. Results
are written after each model. A peer that fails, or has no time left, is listed with its reason.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from tensolog.profiles.sessions.deployed import model_file

from ..child import StepError, run_step
from ..environment import results
from ..frame import Row, Steps, collect, options
from ..zoo import ARCHITECTURES, SECOND
from . import PEERS, REFERENCE, TARGETS, WORTH, installed
from .report import table, write_results
from .rewriters import REWRITERS, TUNERS

# Of a race's seconds, as many again may go by until all models are open.
OPENING_FACTOR = 2
# Who is prepared before the others, should the time of a row not be enough for all.
FIRST = (REFERENCE, *TARGETS, "openvino", "torch.compile")
# A peer with less time than this is not begun with.
LEAST_S = 5.0


def main() -> None:
    arguments = parse_arguments()
    asked = {REFERENCE, *(arguments.peers or PEERS)}
    chosen = [name for name in FIRST if name in asked and name in installed()]
    chosen += [name for name in installed() if name in asked and name not in FIRST]
    listed = SECOND if arguments.second else sorted(ARCHITECTURES, key=WORTH.index)
    missing = [name for name in arguments.peers or PEERS if name not in installed()]
    if missing:
        message = f"not installed: {', '.join(missing)} (pip install -e '.[peers]')"
        Console(stderr=True).print(message)
    names = arguments.only or listed
    cases = [{"name": name, "threads": count} for count in arguments.threads for name in names]

    def write(rows: Sequence[Row]) -> None:
        write_results(rows, arguments.out)

    print(table(collect(cases, partial(measure, arguments, chosen), write, arguments)))


def parse_arguments() -> argparse.Namespace:
    parser = options("peers", __doc__, threads=(2, 1), names=[*ARCHITECTURES, *SECOND])
    parser.add_argument("--peers", nargs="+", choices=PEERS, metavar="PEER")
    parser.add_argument("--budget", type=float, help="seconds tensolog may measure")
    parser.add_argument("--race", type=float, default=20.0, help="seconds of each race")
    parser.add_argument("--limit", type=float, default=180.0, help="seconds of each row at most")
    parser.add_argument("--second", action="store_true", help="the second list of models")
    parser.add_argument("--small", action="store_true", help="models in small")
    parser.set_defaults(out=None)
    arguments = parser.parse_args()
    if arguments.out is None:
        kind = "second" if arguments.second else "peers"
        arguments.out = results(f"{kind}-small" if arguments.small else kind)
    return arguments


def measure(arguments: argparse.Namespace, chosen: Sequence[str], case: Row) -> Steps:
    with tempfile.TemporaryDirectory(prefix="tensolog-peers-") as folder:
        yield from Entries(case["name"], case["threads"], arguments, Path(folder)).steps(chosen)


class Entries:
    """One model under some number of threads: each peer prepares it, and all that can run race."""

    def __init__(
        self, name: str, threads: int, arguments: argparse.Namespace, folder: Path
    ) -> None:
        from ..models import sources_of

        self.name, self.threads, self.folder = name, threads, folder
        self.tiny: bool = arguments.quick or arguments.small
        self.budget: float | None = 2.0 if arguments.quick else arguments.budget
        self.race_s: float = 2.0 if arguments.quick else arguments.race
        self.source = sources_of(name)[-1]
        self.original = folder / "original.onnx"
        self.refused: dict[str, str] = {}
        self.kept: list[str] = []
        self.seconds: dict[str, float] = {}
        self._end = time.monotonic() + arguments.limit

    def steps(self, chosen: Sequence[str]) -> Steps:
        """Build the model, let each peer prepare it, and race; raises StepError."""
        yield "building", {"source": self.source, "refused": self.refused}
        place = {"name": self.name, "source": self.source, "path": str(self.original)}
        run_step("build", timeout_s=self._left(), tiny=self.tiny, **place)
        entrants: dict[str, str] = {}
        deviations: dict[str, float] = {}
        for peer in chosen:
            yield peer, {}
            try:
                path = self._prepared(peer)
                deviations[peer] = self._deviation(peer, path)
                entrants[peer] = str(path)
            except StepError as error:
                if peer == REFERENCE:
                    raise
                self.refused[peer] = str(error)
        yield "racing", {}
        laps = self._raced(entrants)
        yield (
            "done",
            {
                "laps": {peer: lap | {"deviation": deviations[peer]} for peer, lap in laps.items()},
                "kept": self.kept,
                "seconds": self.seconds,
            },
        )

    def _left(self) -> float:
        """Seconds left for preparation; the race keeps its own."""
        left = self._end - OPENING_FACTOR * self.race_s - time.monotonic()
        if left < LEAST_S:
            raise StepError("no time was left for it")
        return left

    def _prepared(self, peer: str) -> Path:
        target = self.folder / f"{peer}.onnx"
        if peer in TARGETS:
            row = run_step(
                "optimize",
                timeout_s=self._left(),
                path=str(self.original),
                out=str(target),
                threads=self.threads,
                budget=self.budget,
                target=TARGETS[peer],
                catalog=str(self.folder / "catalog.duckdb"),
            )
            self.seconds[peer] = row["seconds"]
            if row["chosen"] == "original":
                self.kept.append(peer)
            return model_file(target)
        elif peer in REWRITERS or peer in TUNERS:
            where = {"path": str(self.original), "out": str(target)}
            run_step("rewrite", timeout_s=self._left(), peer=peer, threads=self.threads, **where)
        else:
            return self.original
        return target

    def _deviation(self, peer: str, path: Path) -> float:
        """Run a peer once, in a process of its own, and compare what comes out."""
        row = run_step(
            "attempt",
            timeout_s=self._left(),
            name=self.name,
            entrant=peer,
            path=str(path),
            original=str(self.original),
            kept=str(self.folder / "outputs.npz"),
            threads=self.threads,
            tiny=self.tiny,
        )
        return float(row["deviation"])

    def _raced(self, entrants: dict[str, str]) -> dict[str, Any]:
        """Race all; where that fails, those that run under ONNX Runtime alone."""
        common: dict[str, Any] = {"name": self.name, "threads": self.threads, "tiny": self.tiny}
        limit_s = max(self._end - time.monotonic(), OPENING_FACTOR * self.race_s)
        try:
            row = run_step(
                "contest", timeout_s=limit_s, entrants=entrants, budget=self.race_s, **common
            )
        except StepError as error:
            others = [peer for peer in ("openvino", "torch.compile") if peer in entrants]
            if not others:
                raise
            self.refused |= dict.fromkeys(others, f"the race with it failed: {error}")
            left = {peer: path for peer, path in entrants.items() if peer not in others}
            row = run_step(
                "contest", timeout_s=limit_s, entrants=left, budget=self.race_s, **common
            )
        laps: dict[str, Any] = row["laps"]
        return laps


if __name__ == "__main__":
    main()
