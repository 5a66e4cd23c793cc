"""What a report is made of: the dictionary that `render_report` draws and `--json` prints.

`Optimization.to_json()` gives a `Summary`; with `graphs` added it is a `Report`. Every key but
those of `Headline` may be missing: its section is left out. Times are nanoseconds, `None` where
nothing was measured. Names come from models and are never trusted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, TypedDict

from ..match import rewrite
from ..rewrites.unproved import is_unproved


class Latency(TypedDict):
    """End-to-end time of one run of the whole model."""

    median_ns: float
    spread_ns: float


class Model(TypedDict, total=False):
    """The model that was read."""

    name: str
    path: str | None
    size_bytes: int
    producer: str
    opsets: dict[str, int]
    inputs: dict[str, str]
    outputs: dict[str, str]


class Options(TypedDict, total=False):
    """What the user asked for."""

    target: str
    threads: int
    budget_s: float
    allow: list[str]
    input_shapes: dict[str, list[int]]
    seed: int


class Target(TypedDict):
    """What the result was made for, and why that was chosen."""

    asked: str  # what `--target` said: auto, or one of the targets
    chosen: str
    reason: str
    portable: bool  # whether one plain file was asked for
    advice: str  # where native kernels are left out: what they usually gain, and how to have them
    install: str  # the command that installs what they need; '' where nothing is missing


class Step(TypedDict):
    """One substitution (or built-in pass), in the order in which they were tried."""

    position: int
    rule: str
    nodes: list[str]  # names of the nodes it matched
    removed: int
    added: int
    cost_before_ns: float | None
    cost_after_ns: float | None
    accepted: bool
    reason: str
    equal: NotRequired[str]  # exact | rounding | partial
    correction: NotRequired[str]  # where a partial equivalence differs, and what makes it whole
    proved: NotRequired[bool]  # false where rewrites/unproved.py states it
    summary: NotRequired[str]  # what the rule does, one sentence


class Candidate(TypedDict):
    """One plan measured end to end; the original is one of them."""

    candidate: str
    nodes: int
    predicted_ns: float | None
    median_ns: float | None  # the original's, times the ratio: raced when the machine was the same
    spread_ns: float | None
    ratio: float | None  # its time / the original's time, paired by round: below 1 is faster
    ratio_low: float | None  # 95 % interval
    ratio_high: float | None
    samples: int
    verdict: str  # chosen, or why not, in a few words


class Deviation(TypedDict):
    """Largest difference of one output from the original's, over one input distribution."""

    candidate: str
    distribution: str
    output: str
    max_absolute: float
    max_relative: float  # max_absolute / the output's largest magnitude
    max_error: float  # difference from the reference, in the same unit
    tolerance: float  # of max_error: what the original's own error allows
    original_error: float  # the original's difference from the reference
    reference: str  # float64, or original: near to it, or as no_float64 says
    no_float64: str  # why there is none, or what of it runs in float32
    within: bool


class OperatorCost(TypedDict):
    """Where the time goes: all nodes of one operator together."""

    op_type: str
    calls_before: int
    calls_after: int
    before_ns: float
    after_ns: float
    bounded: bool  # a kernel of it was not measured: its lower bound stands in


class PredictedKernel(TypedDict):
    """A kernel of the original or of the winner that was predicted, and not measured."""

    kernel: str
    time_ns: float
    least_ns: float  # of its interval, and
    most_ns: float


class NearMiss(TypedDict):
    """A place where a rule would have fired, had one condition held."""

    rule: str
    nodes: list[str]
    condition: str
    detail: NotRequired[str]  # the values that broke it


class Execution(TypedDict):
    """How the result is to be opened; where the model is, its metadata says so too."""

    level: str  # ONNX Runtime's graph optimization level: all | extended | basic | disabled
    options: dict[str, str]  # session config entries
    libraries: list[str]  # paths of custom-operator libraries
    threads: NotRequired[int]  # that compute an operator; 0, or none: as many as one likes


class Device(TypedDict, total=False):
    """The machine that everything was measured on."""

    name: str
    cores: int
    memory_bytes: int
    instruction_set: str
    bandwidth_bytes_per_s: float
    peak_flops_per_s: float


class Node(TypedDict):
    """One node of a drawn graph. Edges follow from equal value names."""

    id: int
    name: str
    op: str  # "Conv", or with a domain "com.microsoft:FusedConv"
    inputs: list[str]  # value names; '' = absent; values no node makes are inputs or constants
    outputs: list[str]
    shape: NotRequired[list[int | str] | None]  # of the first output
    dtype: NotRequired[str | None]
    attributes: NotRequired[dict[str, str]]  # short texts
    cost_ns: NotRequired[float | None]
    cost_source: NotRequired[str]  # measured | predicted | bound
    # In `after`: the rule that made the node. In `before`: the rule that removed it.
    rule: NotRequired[str | None]


class DrawnGraph(TypedDict):
    """The main graph of a model; subgraphs count as part of the node that holds them."""

    nodes: list[Node]
    inputs: list[str]
    outputs: list[str]
    constants: NotRequired[dict[str, str]]  # value name -> "float32 64x3x7x7"


class Graphs(TypedDict):
    """The model before and after. Equal graphs are drawn once."""

    before: DrawnGraph
    after: DrawnGraph


class Headline(TypedDict):
    """The part without which there is nothing to say."""

    tensolog: str  # version
    chosen: str  # name of the candidate that was written; "original" when nothing won
    verdict: str  # one sentence for people
    nodes_before: int  # as in the file: those named Constant count
    nodes_after: int


class Summary(Headline, total=False):
    """What `tensolog optimize --json` prints: one JSON object."""

    created_at: str  # ISO 8601, UTC
    plan_id: int | None  # None where the plan is not in the catalog yet, and a warning says so
    model: Model
    size_after_bytes: int  # of the result, as `model.size_bytes` of what was read
    opset_before: int  # operator set of the file
    opset_after: int  # of the result: a newer one where more rules can be applied to that
    options: Options
    target: Target
    latency_before: Latency | None
    latency_after: Latency | None
    steps: list[Step]
    candidates: list[Candidate]
    deviations: list[Deviation]
    operators: list[OperatorCost]
    predicted: list[PredictedKernel]  # those that take most first
    near_misses: list[NearMiss]
    execution: Execution
    device: Device
    versions: dict[str, str]  # onnxruntime, onnx, python, …
    phases: dict[str, float]  # seconds spent in each phase, in order


class Report(Summary, total=False):
    """A summary and the two graphs: what the HTML report draws."""

    graphs: Graphs


def steps_json(plan: Sequence[rewrite.Step]) -> list[Step]:
    """Give the steps as plain values."""
    return [
        {
            "position": position,
            "rule": step.rule,
            "nodes": list(step.nodes),
            "removed": step.removed,
            "added": step.added,
            "cost_before_ns": step.cost_before_ns,
            "cost_after_ns": step.cost_after_ns,
            "accepted": step.accepted,
            "reason": step.reason,
            "equal": step.equal,
            "proved": not is_unproved(step.rule),
            "summary": step.summary,
            **({"correction": step.correction} if step.correction else {}),  # type: ignore[typeddict-item]
        }
        for position, step in enumerate(plan)
    ]
