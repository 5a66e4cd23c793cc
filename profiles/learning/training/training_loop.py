"""Training a graph network on cost graphs: steps over random graphs, segments, configurations.

The loss is that of log(time) and of the order of configurations of one graph. With a seed, the same
examples give the same parameters on one machine. This needs torch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import torch

from ..samples.examples import Array, Example, segments_of
from .network import (
    Parameters,
    Shape,
    Tensor,
    initial,
    predict,
    ranking_loss,
    time_loss,
    trained,
)
from .segments import Selection, Table, add_gradients, fresh_sums, graph_sums
from .training_options import Progress, Training

# A share of opcodes is hidden in each step, so that an operator that is unknown has a cost too.
_HIDDEN = 0.05
_MOST_GRADIENT = 1.0
# Where embeddings are stale, the last steps train what is behind the sums alone, on fresh sums.
_FINAL_SHARE = 0.2


def fit(
    examples: Sequence[Example],
    shape: Shape,
    training: Training,
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> Parameters:
    """Return the parameters of a network trained on the examples, of which each has a time."""
    random = np.random.default_rng(seed)
    with _one_thread():
        parameters = initial(shape, list(examples), seed)
        table = Table(shape.width)
        segments = {
            example.path: segments_of(example, training.segment_nodes) for example in examples
        }
        final = training.steps
        if training.fresh and any(len(parts) > training.fresh for parts in segments.values()):
            final -= round(_FINAL_SHARE * training.steps)
        weights = trained(parameters)
        for value in weights.values():
            value.requires_grad_(True)
        optimizer = torch.optim.AdamW(
            weights.values(), lr=training.rate, weight_decay=1e-3, fused=True
        )
        for step in range(training.steps):
            for group in optimizer.param_groups:
                group["lr"] = training.rate * _schedule(step / training.steps)
            selections = _draw(examples, segments, training, random)
            optimizer.zero_grad()
            if step < final:
                hidden = [_with_hidden_opcodes(selection, random) for selection in selections]
                backward(parameters, hidden, table, shape.codes, training, random)
            else:
                sums = torch.cat(
                    [
                        fresh_sums(
                            parameters,
                            selection.example,
                            selection.segments,
                            selection.chosen,
                            shape.codes,
                        )
                        for selection in selections
                    ]
                )
                loss_of(parameters, selections, sums, training.ranking).backward()
            torch.nn.utils.clip_grad_norm_(weights.values(), _MOST_GRADIENT)
            optimizer.step()
            if progress is not None:
                progress(step + 1, training.steps)
    return {name: value.detach() for name, value in parameters.items()}


def backward(
    parameters: Parameters,
    selections: Sequence[Selection],
    table: Table,
    codes: Array,
    training: Training,
    random: np.random.Generator,
) -> None:
    """Add the gradients of a step's loss.

    Where a graph has several segments with gradients, sums are computed first, and each segment
    once more: no more nodes than a segment's are in memory at a time.
    """
    most_nodes, kept = training.segment_nodes, training.kept
    if all(len(selection.fresh) == 1 for selection in selections):
        sums = graph_sums(parameters, selections, table, codes, kept, random)
        loss_of(parameters, selections, sums, training.ranking).backward()
        return
    with torch.no_grad():
        sums = graph_sums(parameters, selections, table, codes, kept, random, most_nodes)
    sums.requires_grad_(True)
    loss_of(parameters, selections, sums, training.ranking).backward()
    add_gradients(parameters, selections, sums.grad, codes, kept, most_nodes)


def loss_of(
    parameters: Parameters, selections: Sequence[Selection], sums: Tensor, ranking: float
) -> Tensor:
    """Return the loss of a step, from the sums over the nodes of its graphs (b, c, width)."""
    nodes = torch.tensor([selection.example.nodes for selection in selections])
    prior, logs = (
        torch.as_tensor(np.stack([values[pair.chosen] for pair, values in pairs]))
        for pairs in (
            [(selection, selection.example.prior) for selection in selections],
            [(selection, selection.example.logs) for selection in selections],
        )
    )
    predicted = predict(parameters, sums, nodes, prior)
    scale = parameters["fixed_scale"]
    loss = time_loss(predicted / scale, logs / scale)
    return loss + ranking * ranking_loss(predicted, logs)


def _draw(
    examples: Sequence[Example],
    segments: dict[str, list[Array]],
    training: Training,
    random: np.random.Generator,
) -> list[Selection]:
    """Draw the graphs, configurations and fresh segments of a step."""
    count = min(training.graphs, len(examples))
    drawn = [examples[number] for number in random.permutation(len(examples))[:count]]
    most = min(training.configurations, *(len(example.logs) for example in drawn))
    return [
        Selection(
            example,
            (parts := segments[example.path]),
            np.sort(random.permutation(len(parts))[: training.fresh]),
            random.permutation(len(example.logs))[:most],
        )
        for example in drawn
    ]


def _with_hidden_opcodes(selection: Selection, random: np.random.Generator) -> Selection:
    codes = selection.example.opcodes
    hidden = np.where(random.random(len(codes)) < _HIDDEN, -1, codes)
    return replace(selection, example=replace(selection.example, opcodes=hidden))


def _schedule(done: float) -> float:
    """Return the share of the learning rate: it rises for a twentieth, and falls as a cosine."""
    return min(done / 0.05, 1.0) * (0.01 + 0.99 * 0.5 * (1.0 + math.cos(math.pi * done)))


@contextmanager
def _one_thread() -> Iterator[None]:
    """Compute with one thread: the matrices are small, and sums of one order repeat exactly."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
