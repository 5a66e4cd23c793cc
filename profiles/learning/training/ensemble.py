"""An ensemble of graph networks, each trained without a part of the architectures.

The part that a member was not trained on says how far its predictions lie from the truth: that
makes the interval (see predictor.py). What leaves is an ONNX model. This needs torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx

from ...machine import Machine
from ..errors import LearningError
from ..exported import cost_model
from ..predictor import COVERAGE, CostPredictor, conformal_factor, graph_signature, summary
from ..samples.archive import CostGraph
from ..samples.examples import Array, Example, example_of
from ..samples.kernel_graphs import PRIOR_FEATURE, prior_feature_of
from ..samples.kernel_samples import Sample, examples_of
from .training_options import Progress, Training

MEMBERS = 4
# Of a graph's configurations, so many at most say how far predictions lie from the truth.
_MOST_ERRORS = 256


def train_ensemble(
    examples: Sequence[Example],
    *,
    hops: int | None = None,
    prior_feature: int | None = None,
    training: Training | None = None,
    members: int = MEMBERS,
    seed: int = 0,
    described: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> onnx.ModelProto:
    """Train on cost graphs and return the ONNX model.

    `hops` and `prior_feature` are those that the examples were made with, `described` goes into the
    metadata. Raises LearningError without torch, or for graphs of different features.
    """
    try:
        # torch takes a second to import, and comes with an extra only.
        from .network import Shape
        from .training_loop import fit
    except ImportError as error:
        raise LearningError(
            "training a graph network needs torch: pip install 'tensolog[learn]'"
        ) from error
    used = training or Training()
    features, configured = widths_of(examples)
    left_out, folds = _folds(examples, members)
    codes = np.unique(np.concatenate([example.opcodes for example in examples]))
    shape = Shape(codes, features, configured)
    common = {
        "codes": codes.tolist(),
        "hops": hops,
        "prior_feature": prior_feature,
        "segment_nodes": used.segment_nodes,
        **(described or {}),
    }
    trained: list[dict[str, Array]] = []
    errors: list[Array] = []
    for number, (training_examples, unseen) in enumerate(folds):

        def tell(done: int, total: int, number: int = number) -> None:
            if progress is not None:
                progress(number * total + done, len(folds) * total)

        parameters = fit(training_examples, shape, used, seed=seed + number, progress=tell)
        trained.append({name: value.numpy() for name, value in parameters.items()})
        alone = CostPredictor(
            cost_model(
                trained[-1:], common | {"interval": {"coverage": COVERAGE, "factor": 1.0}}
            ).SerializeToString()
        )
        for example in unseen:
            few = subset(example, np.arange(len(example.logs))[:: _stride(example)])
            errors.append(np.abs(alone.member_logs(few)[0] - few.logs))
    factor = conformal_factor(np.concatenate(errors), COVERAGE) if errors else float("inf")
    interval = {"coverage": COVERAGE, "left_out": left_out}
    # JSON has no infinity; so wide is an interval of which nothing is known.
    interval["factor"] = min(factor, 1e9)
    return cost_model(trained, common | {"interval": interval})


def train_on_kernels(
    samples: Sequence[Sample],
    machine: Machine,
    threads: int,
    *,
    training: Training | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> onnx.ModelProto:
    """Train on the measured kernels of models, and note in the model which ones they were."""
    distinct = list({sample.kernel.hash: sample for sample in samples}.values())
    examples = examples_of(distinct, machine, threads)
    described = {
        "machine": machine.name,
        "threads": threads,
        "known": _trained_graphs([sample.kernel.label() for sample in distinct], examples),
    }
    return train_ensemble(
        examples,
        prior_feature=PRIOR_FEATURE,
        training=training,
        seed=seed,
        described=described,
        progress=progress,
    )


def train_on_graphs(
    graphs: Iterable[CostGraph],
    *,
    hops: int | None = None,
    training: Training | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> onnx.ModelProto:
    """Train on graphs with timed configurations; what has none is left out."""
    examples, prior = timed_examples(graphs, hops)
    return train_ensemble(
        examples,
        hops=hops,
        prior_feature=prior,
        training=training,
        seed=seed,
        described={"known": _trained_graphs([example.path for example in examples], examples)},
        progress=progress,
    )


def timed_examples(
    graphs: Iterable[CostGraph], hops: int | None = None
) -> tuple[list[Example], int | None]:
    """Return graphs with timed configurations as a network reads them, and their prior feature."""
    examples, prior = [], None
    for graph in graphs:
        if len(graph.arrays["config_runtime"]) and len(graph.arrays["node_opcode"]):
            prior = prior_feature_of(graph)
            examples.append(example_of(graph, hops=hops, prior=prior))
    return examples, prior


def _trained_graphs(labels: Sequence[str], examples: Sequence[Example]) -> list[dict[str, Any]]:
    """Describe what was trained on, so that the nearest of it can be named."""
    return [
        {
            "label": label,
            "time_ns": round(float(np.exp(example.logs.min())), 1),
            "signature": graph_signature(example),
            "summary": [round(float(value), 3) for value in summary(example)],
        }
        for label, example in zip(labels, examples, strict=True)
    ]


def subset(example: Example, chosen: Array) -> Example:
    """Return a graph with some of its configurations."""
    return replace(
        example,
        configurations=example.configurations[chosen],
        prior=example.prior[chosen],
        logs=example.logs[chosen],
    )


def without(examples: Sequence[Example], unseen: Sequence[Example]) -> list[Example]:
    """Return the examples whose graph is none of those, whatever architecture they are of."""
    contents = {example.content for example in unseen}
    return [example for example in examples if example.content not in contents]


def _stride(example: Example) -> int:
    return max(1, len(example.logs) // _MOST_ERRORS)


def widths_of(examples: Sequence[Example]) -> tuple[int, int]:
    """Return how many features nodes and configurations have; LearningError where they differ."""
    if not examples:
        raise LearningError(
            "there are no graphs with timed configurations: measure kernels with tensolog costs "
            "collect, or read files with tensolog costs import"
        )
    widths = {
        (example.features.shape[1], example.configurations.shape[2]): example.path
        for example in examples
    }
    if len(widths) > 1:
        (first, first_name), (second, other) = list(widths.items())[:2]
        raise LearningError(
            f"{first_name} has {first[0]} features of nodes and {first[1]} of configurations, "
            f"and {other} "
            f"{second[0]} and {second[1]}: learn from one collection at a time"
        )
    return next(iter(widths))


def _folds(
    examples: Sequence[Example], members: int
) -> tuple[str, list[tuple[list[Example], list[Example]]]]:
    """Return what is left out, and for each member what it is trained on and what it is not.

    Architectures are left out, graphs where all are of one, configurations where there is one
    graph; nothing where there is but one configuration.
    """
    architectures = sorted({example.architecture for example in examples})
    if len(architectures) > 1:
        groups = np.array([architectures.index(example.architecture) for example in examples])
        omitted = "architectures"
    elif len(examples) > 1:
        groups, omitted = np.arange(len(examples)), "graphs"
    else:
        (example,) = examples
        order = np.random.default_rng(0).permutation(len(example.logs))
        parts = np.array_split(order, members)
        if min(len(part) for part in parts) == 0:
            return "nothing", [([example], [])] * members
        return "configurations", [
            (
                [subset(example, np.sort(np.concatenate(parts[:number] + parts[number + 1 :])))],
                [subset(example, np.sort(part))],
            )
            for number, part in enumerate(parts)
        ]
    folds = []
    for number in range(min(members, groups.max() + 1)):
        unseen = [
            example
            for example, group in zip(examples, groups, strict=True)
            if group % members == number
        ]
        if training_examples := without(examples, unseen):
            folds.append((training_examples, unseen))
    if not folds:  # all have the same graphs
        return "nothing", [(list(examples), [])] * members
    return omitted, folds
