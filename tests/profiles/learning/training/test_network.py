"""Training by segments against training on the whole, and that what leaves is what was trained."""

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from tensolog.profiles.learning.samples.examples import batch_of, example_of, segments_of
from tensolog.profiles.learning.scores.metrics import ordered_pair_accuracy

from ..cost_graphs import layout_graph, tile_graph

torch = pytest.importorskip("torch", reason="training needs torch")

from tensolog.profiles.learning.exported import cost_model  # noqa: E402
from tensolog.profiles.learning.predictor import CostPredictor  # noqa: E402
from tensolog.profiles.learning.training import network  # noqa: E402
from tensolog.profiles.learning.training.ensemble import train_ensemble  # noqa: E402
from tensolog.profiles.learning.training.segments import (  # noqa: E402
    Selection,
    Table,
    fresh_weight,
    graph_sums,
)
from tensolog.profiles.learning.training.training_loop import (  # noqa: E402
    backward,
    fit,
    loss_of,
)
from tensolog.profiles.learning.training.training_options import Training  # noqa: E402


def setup(graph, dtype=torch.float64, seed=0):
    example = example_of(graph)
    codes = np.unique(example.opcodes)
    widths = (example.features.shape[1], example.configurations.shape[2])
    shape = network.Shape(codes, *widths, width=8, embedding=4)
    parameters = network.initial(shape, [example], seed, dtype)
    for value in network.trained(parameters).values():
        value.requires_grad_(True)
    return example, shape, parameters


def gradients(parameters, loss):
    weights = network.trained(parameters)
    derivatives = torch.autograd.grad(loss, list(weights.values()), allow_unused=True)
    return dict(zip(weights, derivatives, strict=True))


def full_loss(parameters, example, chosen, codes):
    """The loss of a whole graph, without segments, tables or weights."""
    sums = network.encode(
        parameters, batch_of([(example, np.arange(example.nodes), chosen)], codes)
    )
    nodes = torch.tensor([example.nodes])
    prior, logs = (torch.as_tensor(v[None, chosen]) for v in (example.prior, example.logs))
    predicted = network.predict(parameters, sums, nodes, prior)
    scale = parameters["fixed_scale"]
    return network.time_loss(predicted / scale, logs / scale) + network.ranking_loss(
        predicted, logs
    )


def segmented_loss(parameters, selection, shape, kept, table=None, seed=0):
    table = table or Table(shape.width)
    random = np.random.default_rng(seed)
    sums = graph_sums(parameters, [selection], table, shape.codes, kept, random)
    return loss_of(parameters, [selection], sums, 1.0)


def assert_same(first, second):
    for name, value in first.items():
        torch.testing.assert_close(value, second[name], rtol=0, atol=0, msg=name)


@pytest.mark.parametrize("kept", [0.0, 0.5, 1.0])
def test_one_segment_is_full_training(kept):
    example, shape, parameters = setup(layout_graph(nodes=15))
    chosen = np.array([3, 0, 7, 5])
    (whole,) = segments_of(example, 15)
    selection = Selection(example, [whole], np.array([0]), chosen)
    expected = full_loss(parameters, example, chosen, shape.codes)
    loss = segmented_loss(parameters, selection, shape, kept)
    assert loss.item() == expected.item()
    assert_same(gradients(parameters, loss), gradients(parameters, expected))


def test_all_segments_fresh_is_full_training_where_no_edge_is_cut():
    graph = layout_graph(nodes=8, edges=[(1, 0), (3, 2), (5, 4), (7, 6)])
    example, shape, parameters = setup(graph)
    chosen = np.arange(5)
    selection = Selection(example, segments_of(example, 2), np.arange(4), chosen)
    expected = full_loss(parameters, example, chosen, shape.codes)
    loss = segmented_loss(parameters, selection, shape, 0.5)
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=0)
    computed = gradients(parameters, loss)
    for name, value in gradients(parameters, expected).items():
        torch.testing.assert_close(computed[name], value, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("kept", "fresh"), [(0.5, [0, 1, 2, 3]), (1.0, [1, 3]), (0.5, [0, 2])])
@pytest.mark.parametrize("most_nodes", [1, 3, 6, 99])
def test_segments_one_after_another_have_the_gradients_of_all_at_once(kept, fresh, most_nodes):
    example, shape, parameters = setup(layout_graph(nodes=12))
    segments, chosen = segments_of(example, 3), np.array([2, 0, 5])
    selections = [
        Selection(example, segments, np.array(fresh), chosen),
        Selection(example, segments, np.array(fresh[:1]), chosen[[1, 2, 0]]),
    ]
    random, again = (np.random.default_rng(1) for _ in range(2))
    sums = graph_sums(parameters, selections, Table(shape.width), shape.codes, kept, random)
    expected = gradients(parameters, loss_of(parameters, selections, sums, 1.0))
    training = Training(segment_nodes=most_nodes, kept=kept)
    backward(parameters, selections, Table(shape.width), shape.codes, training, again)
    for name, value in network.trained(parameters).items():
        torch.testing.assert_close(value.grad, expected[name], rtol=1e-9, atol=1e-12)


class Given:
    """Random numbers that keep what a mask says."""

    def __init__(self, mask):
        self.mask = mask

    def random(self, count):
        return np.where(self.mask[:count], 0.0, 1.0)


@pytest.mark.parametrize("kept", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("fresh", [1, 2, 4])
def test_sums_are_right_on_average(kept, fresh):
    """Over all choices of fresh segments and of what is dropped, with a table of today."""
    example, shape, parameters = setup(layout_graph(nodes=12))
    segments, chosen = segments_of(example, 3), np.arange(2)
    count = len(segments)
    table = Table(shape.width)
    parts = [(example, nodes, chosen) for nodes in segments]
    true = network.encode(parameters, batch_of(parts, shape.codes)).detach()
    choices = list(combinations(range(count), fresh))
    mean = torch.zeros_like(true[0])
    for choice in choices:
        for mask in product([True, False], repeat=count - fresh):
            mask = np.array(mask, bool)
            likely = np.prod(np.where(mask, kept, 1.0 - kept)) / len(choices)
            if likely:
                selection = Selection(example, segments, np.array(choice), chosen)
                keeps = Given(np.r_[mask, True])
                with torch.no_grad():
                    sums = graph_sums(parameters, [selection], table, shape.codes, kept, keeps)
                mean += likely * sums[0]
    torch.testing.assert_close(mean, true.sum(dim=0), rtol=1e-9, atol=1e-9)
    assert fresh_weight(1.0, count, fresh) == 1.0
    assert fresh_weight(0.0, count, fresh) == count / fresh


def test_stale_segments_have_no_gradients():
    """What is fresh has the gradients of its own part, whatever the others were."""
    example, shape, parameters = setup(layout_graph(nodes=12))
    chosen = np.arange(3)
    segments = segments_of(example, 4)
    selection = Selection(example, segments, np.array([1]), chosen)
    table = Table(shape.width)
    random = np.random.default_rng(0)
    sums = graph_sums(parameters, [selection], table, shape.codes, 1.0, random)
    computed = gradients(parameters, sums.sum())
    alone = network.encode(parameters, batch_of([(example, segments[1], chosen)], shape.codes))
    for name, value in gradients(parameters, alone.sum()).items():
        if value is not None:
            torch.testing.assert_close(computed[name], value)


def test_embeddings_are_stale_until_they_are_fresh_again():
    example, shape, parameters = setup(layout_graph(nodes=12))
    segments, chosen = segments_of(example, 6), np.arange(3)
    table, random = Table(shape.width), np.random.default_rng(0)
    first = Selection(example, segments, np.array([0]), chosen)
    graph_sums(parameters, [first], table, shape.codes, 1.0, random)
    values, known = table.rows(example, 2, torch.float64)
    assert known[:, chosen].all() and not known[:, 3:].any()
    before = values.clone()
    with torch.no_grad():
        parameters["start"] += 1.0
    graph_sums(parameters, [first], table, shape.codes, 1.0, random)
    assert not torch.equal(values[0, chosen], before[0, chosen])
    torch.testing.assert_close(values[1], before[1], rtol=0, atol=0)


def test_what_leaves_is_what_was_trained():
    graph = layout_graph(nodes=7)
    example, shape, parameters = setup(graph, torch.float32)
    arrays = {name: value.detach().numpy() for name, value in parameters.items()}
    metadata = {"codes": shape.codes.tolist(), "hops": None, "prior_feature": None}
    metadata |= {"segment_nodes": 99, "interval": {"coverage": 0.9, "factor": 1.0}}
    model = CostPredictor(cost_model([arrays], metadata).SerializeToString())
    chosen = np.arange(len(example.logs))
    sums = network.encode(parameters, batch_of([(example, np.arange(7), chosen)], shape.codes))
    predicted = network.predict(
        parameters, sums, torch.tensor([7]), torch.as_tensor(example.prior[None])
    )
    np.testing.assert_allclose(
        model.member_logs(example)[0], predicted[0].detach().numpy(), rtol=1e-5, atol=1e-5
    )


def test_pairs_are_ranked_by_hand():
    predicted, times = torch.tensor([[1.0, 3.0, 2.0]]), torch.tensor([[0.0, 1.0, 1.0]])
    expected = np.mean([np.log1p(np.exp(-2.0)), np.log1p(np.exp(-1.0))])
    assert network.ranking_loss(predicted, times).item() == pytest.approx(expected)
    assert network.ranking_loss(predicted, torch.ones(1, 3)).item() == 0.0


def test_a_seed_trains_the_same_twice():
    example, shape, _ = setup(tile_graph())
    training = Training(steps=8, segment_nodes=2)
    first, second = (fit([example], shape, training, seed=3) for _ in range(2))
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


def test_an_ensemble_learns_graphs_it_has_not_seen():
    graphs = [layout_graph(f"layout/net{seed}.npz", seed=seed, count=24) for seed in range(7)]
    examples = [example_of(graph) for graph in graphs]
    model = train_ensemble(examples[1:], members=2, training=Training(steps=120))
    predictor = CostPredictor(model.SerializeToString())
    left_out = examples[0]
    predicted = predictor.predict(left_out)
    assert ordered_pair_accuracy(np.exp(left_out.logs), predicted.times_ns) > 0.8
    assert predictor.metadata["interval"]["left_out"] == "architectures"
    assert 1.0 < predictor.metadata["interval"]["factor"] < 3.0
    assert len(predictor.metadata["codes"]) == 4
    strange = replace(left_out, opcodes=left_out.opcodes + 100, features=left_out.features + 1000.0)
    # Of what it has never seen it says something that times can be.
    logs = np.log(predictor.predict(strange).times_ns)
    assert np.abs(logs - np.mean([example.logs.mean() for example in examples])).max() < 10
