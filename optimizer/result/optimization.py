"""What an optimization gives: the model, the plan, the numbers, and the reasons."""

from __future__ import annotations

import contextlib
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import onnx
import onnxruntime

from ...catalog import Catalog
from ...catalog.files import replacing
from ...catalog.onnx.writer import build_model
from ...catalog.store.staging import Stage
from ...profiles.sessions.deployed import open_deployed
from ...profiles.sessions.execution import DEFAULTS, Execution
from ..match.rewrite import Step
from ..race.contest import ORIGINAL
from ..race.verify import Deviation
from ..report.notebook import Text, heading, page, paragraphs, table
from ..report.schema import steps_json
from .deliverable import Deliverable
from .outcome import FEW_ROUNDS, Candidate

if TYPE_CHECKING:
    from ..explain.node_story import NodeStory, Question
    from ..explain.reasons import Reason
    from ..report.schema import DrawnGraph, OperatorCost, PredictedKernel, Summary, Target

# Imported within functions: reports and explanations, for who asks for them.


@dataclass
class Optimization:
    """The outcome of `optimize`; the model itself stays in the catalog until it is asked for.

    `plan` lists every rewrite that led to the winner, those weighed and left among them; where the
    original won, what was tried. `candidates` are what was raced, `deviations` what they differ in
    from the original, `details` the model, the options, the machine and the versions. `execution`
    is how the result is to be opened; `tensolog.open_session` does so. `libraries` are the files of
    native code that it names, to lie beside the model, as do weights of `outside_bytes`;
    `weights_files` has those of the model that was read, which no other one may replace.
    """

    plan_id: int | None
    model_id: int
    result_model_id: int
    plan: list[Step]
    candidates: list[Candidate]
    deviations: list[Deviation]
    details: Summary
    near_misses: list[Reason]
    operators: list[OperatorCost]
    predicted: list[PredictedKernel]
    graphs: tuple[DrawnGraph, DrawnGraph]
    execution: Execution = DEFAULTS
    libraries: Mapping[str, bytes] = field(default_factory=dict)
    outside_bytes: int | None = None
    weights_files: frozenset[Path] = frozenset()
    question: Question | None = None
    catalog: Catalog | None = None
    catalog_path: str = ""
    interrupted: bool = False

    def __repr__(self) -> str:
        """Say how it ended: all that there is would be megabytes."""
        return f"<{type(self).__name__}: {self.verdict}>"

    def _repr_html_(self) -> str:
        """Show in a notebook how it ended, what was raced, and what was done why."""
        from ..explain.reason_text import explain_text

        rows = [
            (
                candidate.candidate,
                candidate.nodes,
                _milliseconds(candidate.median_ns),
                "" if candidate.candidate == ORIGINAL else _interval(candidate),
                candidate.verdict,
            )
            for candidate in self.measurements
        ]
        head = ("candidate", "nodes", "latency", "time / the original's, 95 %", "")
        raced = table(head, rows, numbers=(1, 2)) if rows else ""
        story = paragraphs(explain_text(self.plan, self.near_misses))
        return page(heading(self.verdict), raced, *story)

    @property
    def chosen(self) -> str:
        """Name the winner: "original" where no plan won beyond the noise."""
        return self.details["chosen"]

    @property
    def verdict(self) -> str:
        """Say in one sentence how it ended."""
        return self.details["verdict"]

    @property
    def target(self) -> Target:
        """Say what the result was made for, and why; what leaving kernels out loses."""
        return self.details["target"]

    @property
    def nodes_before(self) -> int:
        """Count the nodes of the model that was read."""
        return self.details["nodes_before"]

    @property
    def nodes_after(self) -> int:
        """Count the nodes of the result."""
        return self.details["nodes_after"]

    @property
    def model(self) -> onnx.ModelProto:
        """Build the optimized model, its constants inline; large ones are read now."""
        with self._open() as catalog:
            return build_model(catalog, self.result_model_id, external_data=False)

    @property
    def measurements(self) -> list[Candidate]:
        """List the candidates that were timed, the original among them."""
        return [candidate for candidate in self.candidates if candidate.median_ns is not None]

    def save(self, path: str | Path) -> list[Path]:
        """Write the result, whole or not at all, as one thing to move; returns the files.

        That is one ONNX file where `path` ends in .onnx and that is enough, else a folder: of a
        result with native code, of one that has larger weights than the original, which the runtime
        maps from a file of their own, and of a path that doesn't end so. `tensolog.open_session`
        opens either; README.txt in a folder says how others do. What was written there before is
        replaced if it is a model file or a result of tensolog. Raises ModelError where it can't be
        written, and where that would replace anything else or the model that was read.
        """
        source = self.details.get("model", {}).get("path")
        deliverable = Deliverable(
            self.result_model_id,
            self.execution,
            self.libraries,
            self.outside_bytes,
            self.target["portable"],
            Path(source) if source and Path(source).exists() else None,
            self.weights_files,
            self.details["tensolog"],
        )
        with self._open() as catalog:
            return deliverable.write(catalog, path)

    def session(
        self, options: onnxruntime.SessionOptions | None = None
    ) -> onnxruntime.InferenceSession:
        """Open the result as it was measured, from files that go with the session.

        `options` are onnxruntime.SessionOptions of your own, threads for instance. Models that are
        kept are opened by `tensolog.open_session`.
        """
        # Windows removes no file that is mapped: what is left is left to it.
        folder = tempfile.TemporaryDirectory(prefix="tensolog-result-", ignore_cleanup_errors=True)
        path = Path(folder.name) / "result"
        self.save(path)
        session = open_deployed(path, options)
        weakref.finalize(session, folder.cleanup)
        return session

    def hand_over(self) -> None:
        """Move what the run has stored from its own catalog into the shared one.

        The model is read from there from now on; `plan_id`, `model_id` and `result_model_id` become
        the keys that they have there. Where it can't be done now, a CatalogWarning says so, the
        run's catalog stays open, and `plan_id` is None: the plan has no key in the shared one yet.
        """
        if not isinstance(self.catalog, Stage):
            return
        keys, home = self.catalog.merge(), self.catalog.home
        if keys is None:
            self.plan_id = None
            return
        assert self.plan_id is not None
        self.plan_id = keys.moved("plan", self.plan_id)
        self.model_id = keys.moved("model", self.model_id)
        self.result_model_id = keys.moved("model", self.result_model_id)
        self.catalog, self.catalog_path = None, home

    def report(self, path: str | Path) -> None:
        """Write the HTML report: one file that needs nothing else."""
        from ..report import render_report

        before, after = self.graphs
        text = render_report({**self.to_json(), "graphs": {"before": before, "after": after}})
        with replacing(Path(path)) as file:
            file.write(text.encode())

    def explain(self, node: str | None = None) -> Text:
        """Say in text what was applied, what was weighed and refused, and what nearly fired.

        With `node`, the name of a node of the model that was read, say what became of that one:
        see `story`.
        """
        from ..explain.reason_text import explain_text, read_as

        if node is not None:
            return Text(self.story(node).text())
        raised = read_as(self.details["opset_before"], self.details["opset_after"])
        return explain_text(self.plan, self.near_misses, self.verdict, raised)

    def story(self, node: str) -> NodeStory:
        """Look into what became of one node of the model that was read, and why not another thing.

        Costs are those that the optimization measured, else bounds. Raises OptionError where no
        node, and no value that one gives, has the name.
        """
        from ..explain.explain_model import explain_node_of

        assert self.question is not None
        with self._open() as catalog:
            return explain_node_of(catalog, self.model_id, node, self.question, self.plan)

    def to_json(self) -> Summary:
        """Give everything as plain values, as `tensolog optimize --json` prints it."""
        by_name = {candidate.candidate: candidate for candidate in self.candidates}
        summary: Summary = {
            **self.details,
            "plan_id": self.plan_id,
            "steps": steps_json(self.plan),
            "candidates": [asdict(candidate) for candidate in self.candidates],  # type: ignore[misc]
            "deviations": [
                {**asdict(deviation), "within": deviation.within}  # type: ignore[typeddict-item]
                for deviation in self.deviations
            ],
            "operators": self.operators,
            "predicted": self.predicted,
            "near_misses": [miss.near_miss_json() for miss in self.near_misses],
            "execution": self.execution.to_json(),  # type: ignore[typeddict-item]
        }
        for key, name in (("latency_before", ORIGINAL), ("latency_after", self.chosen)):
            timed = by_name.get(name)
            if timed is not None and timed.median_ns is not None:
                summary[key] = {  # type: ignore[literal-required]
                    "median_ns": timed.median_ns,
                    "spread_ns": timed.spread_ns,
                }
        return summary

    @contextlib.contextmanager
    def _open(self) -> Iterator[Catalog]:
        if self.catalog is not None:
            yield self.catalog
            return
        with Catalog(self.catalog_path, read_only=True) as catalog:
            yield catalog


def _milliseconds(time_ns: float | None) -> str:
    return "" if time_ns is None else f"{time_ns / 1e6:#.3g} ms"


def _interval(candidate: Candidate) -> str:
    ratio, low, high = candidate.ratio, candidate.ratio_low, candidate.ratio_high
    if ratio is None:
        return ""
    if low is None or high is None or candidate.samples < FEW_ROUNDS:
        return f"{ratio:.3f}"
    return f"{ratio:.3f} ({low:.3f} to {high:.3f})"
