"""The ONNX model of costs against NumPy, and what ONNX Runtime alone makes of it."""

import math
from dataclasses import replace

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensolog.profiles.learning.exported import cost_model
from tensolog.profiles.learning.predictor import CostPredictor, PredictorError, conformal_factor
from tensolog.profiles.learning.samples.examples import example_of

from .cost_graphs import layout_graph, tile_graph

WIDTH, EMBEDDING, LAYERS = 6, 3, 2


def parameters(seed, codes, features, configured):
    random = np.random.default_rng(seed)

    def draw(*shape):
        return random.normal(0, 0.4, shape).astype(np.float32)

    values = {
        "embedding": draw(codes + 1, EMBEDDING),
        "node": draw(EMBEDDING + features, WIDTH),
        "configured": draw(configured, WIDTH),
        "start": draw(WIDTH),
        "pool": draw(WIDTH, WIDTH),
        "pool_bias": draw(WIDTH),
        "hidden": draw(WIDTH + 1, WIDTH),
        "hidden_bias": draw(WIDTH),
        "last": draw(WIDTH, 1),
        "last_bias": draw(1),
        "fixed_mean": draw(1),
        "fixed_scale": np.abs(draw(1)),
    }
    for layer in range(LAYERS):
        for name in ("self", "reads", "feeds", "compared"):
            values[f"{name}_{layer}"] = draw(WIDTH, WIDTH)
        for name in ("bias", "gain", "shift", "sharpness"):
            values[f"{name}_{layer}"] = draw(WIDTH)
    for name, width in (("features", features), ("configurations", configured)):
        values[f"fixed_{name}_mean"] = draw(width)
        values[f"fixed_{name}_deviation"] = 0.5 + np.abs(draw(width))
    return values


def by_hand(p, example, chosen, codes):
    """The network node by node, in float64: log(time) of a graph under each configuration."""
    known = {int(code): number + 1 for number, code in enumerate(codes)}
    absent = -math.log(2.0)
    state = np.empty((example.nodes, len(chosen), WIDTH))
    for node in range(example.nodes):
        features = example.features[node] - p["fixed_features_mean"]
        embedded = p["embedding"][known.get(int(example.opcodes[node]), 0)]
        features = np.clip(features / p["fixed_features_deviation"], -4, 4)
        embedded_nodes = np.r_[embedded, features] @ p["node"]
        for number, configuration in enumerate(chosen):
            place = example.places[node]
            setting = np.full(len(p["configured"]), absent)
            if place >= 0:
                setting = example.configurations[configuration, place]
            setting = setting - p["fixed_configurations_mean"]
            setting = np.clip(setting / p["fixed_configurations_deviation"], -4, 4)
            state[node, number] = np.maximum(
                embedded_nodes + setting @ p["configured"] + p["start"], 0
            )
    for layer in range(LAYERS):
        middle = state - state.mean(axis=2, keepdims=True)
        normal = middle / np.sqrt((middle**2).mean(axis=2, keepdims=True) + 1e-5)
        normal = normal * p[f"gain_{layer}"] + p[f"shift_{layer}"]
        weight = np.exp(normal * p[f"sharpness_{layer}"])
        compared = weight / weight.sum(axis=1, keepdims=True) * normal
        new = np.empty_like(state)
        for node in range(example.nodes):
            reads = [normal[v] for u, v in example.edges if u == node]
            feeds = [normal[u] for u, v in example.edges if v == node]
            change = normal[node] @ p[f"self_{layer}"] + p[f"bias_{layer}"]
            change += compared[node] @ p[f"compared_{layer}"]
            for messages, name in ((reads, "reads"), (feeds, "feeds")):
                if messages:
                    change += np.mean(messages, axis=0) @ p[f"{name}_{layer}"]
            new[node] = state[node] + np.maximum(change, 0)
        state = new
    mean = np.maximum(state @ p["pool"] + p["pool_bias"], 0).mean(axis=0)
    sized = np.c_[mean, np.full(len(chosen), math.log(example.nodes))]
    hidden = np.maximum(sized @ p["hidden"] + p["hidden_bias"], 0)
    correction = (hidden @ p["last"] + p["last_bias"])[:, 0]
    return example.prior[chosen] + p["fixed_mean"] + p["fixed_scale"] * correction


def described(codes, **changes):
    interval = {"coverage": 0.9, "factor": 1.5, "left_out": "architectures"}
    metadata = {"codes": codes.tolist(), "hops": None, "prior_feature": None, "interval": interval}
    return metadata | {"segment_nodes": 1000} | changes


def predictor(graph, seed=0, members=2, **changes):
    example = example_of(graph)
    codes = np.unique(example.opcodes)[1:]  # of one opcode nothing is known
    widths = (example.features.shape[1], example.configurations.shape[2])
    drawn = [parameters(seed + member, len(codes), *widths) for member in range(members)]
    model = cost_model(drawn, described(codes, **changes))
    return CostPredictor(model.SerializeToString()), drawn, codes


@settings(deadline=None, max_examples=15)
@given(st.integers(1, 9), st.integers(1, 5), st.integers(0, 1000), st.booleans())
def test_onnx_computes_the_network(nodes, count, seed, whole):
    maker = tile_graph if whole else layout_graph
    graph = maker(nodes=nodes, count=count, seed=seed)
    model, drawn, codes = predictor(graph, seed)
    example = model.example(graph)
    logs = model.member_logs(example)
    for member, p in enumerate(drawn):
        expected = by_hand(p, example, np.arange(count), codes)
        np.testing.assert_allclose(logs[member], expected, rtol=2e-4, atol=2e-4)


def test_segments_of_a_graph_without_edges_between_them_are_the_graph():
    graph = layout_graph(nodes=8, edges=[(1, 0), (3, 2), (5, 4), (7, 6)])
    whole, parts = (predictor(graph, segment_nodes=most)[0] for most in (8, 2))
    example = whole.example(graph)
    np.testing.assert_allclose(
        whole.member_logs(example), parts.member_logs(example), rtol=1e-5, atol=1e-5
    )


def test_an_order_of_configurations_changes_nothing():
    graph = layout_graph(count=20)
    model, _, _ = predictor(graph)
    example, order = model.example(graph), np.random.default_rng(1).permutation(20)
    turned = replace(
        example,
        configurations=example.configurations[order],
        prior=example.prior[order],
        logs=example.logs[order],
    )
    np.testing.assert_allclose(
        model.member_logs(turned), model.member_logs(example)[:, order], rtol=1e-5, atol=1e-5
    )


def test_an_interval_is_a_factor():
    graph = layout_graph()
    model, _, _ = predictor(graph)
    example = model.example(graph)
    prediction = model.predict(example)
    np.testing.assert_allclose(np.log(prediction.times_ns), model.member_logs(example).mean(axis=0))
    np.testing.assert_allclose(prediction.most_ns / prediction.times_ns, 1.5)
    np.testing.assert_allclose(prediction.times_ns / prediction.least_ns, 1.5)


def test_a_graph_with_other_features_is_refused():
    model, _, _ = predictor(tile_graph())
    other = tile_graph()
    arrays = dict(other.arrays) | {"config_feat": np.ones((6, 5), np.float32)}
    with pytest.raises(PredictorError, match="5 of configurations, and the model reads 3 and 2"):
        model.example(type(other)("tile/other.npz", arrays))


def test_what_is_no_model_of_costs(tmp_path):
    (tmp_path / "a.onnx").write_bytes(b"nothing")
    with pytest.raises(PredictorError, match=r"a\.onnx is no model of costs"):
        CostPredictor(tmp_path / "a.onnx")
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Relu (x) }'
    )
    onnx.save(model, tmp_path / "b.onnx")
    with pytest.raises(PredictorError, match=r"b\.onnx is no model of costs"):
        CostPredictor(tmp_path / "b.onnx")


def test_a_later_format_is_refused():
    with pytest.raises(PredictorError, match="is of format 99, not 1"):
        predictor(tile_graph(), format=99)


@given(st.integers(1, 60), st.sampled_from([0.5, 0.8, 0.9]), st.integers(0, 99))
def test_conformal_factors_are_ranks(count, coverage, seed):
    errors = np.random.default_rng(seed).exponential(size=count)
    factor = conformal_factor(errors, coverage)
    within = (
        np.sum(errors <= math.log(factor) * (1 + 1e-12)) if math.isfinite(factor) else count + 1
    )
    assert within / (count + 1) >= coverage - 1e-9
    smaller = np.sort(errors)[: int(within) - 1]
    assert len(smaller) / (count + 1) < coverage


def test_intervals_hold_what_they_promise():
    """Of exchangeable errors a share of at least the coverage lies within, on average."""
    random = np.random.default_rng(0)
    is_covered = []
    for _ in range(400):
        errors = random.exponential(size=31)
        is_covered.append(errors[-1] <= math.log(conformal_factor(errors[:-1], 0.9)))
    assert 0.86 <= np.mean(is_covered) <= 0.97


def test_the_nearest_are_of_the_same_operators():
    graph = tile_graph(seed=1)
    example = example_of(graph)
    from tensolog.profiles.learning.predictor import graph_signature, summary

    near = {"label": "near", "time_ns": 5.0, "signature": graph_signature(example)}
    near["summary"] = (summary(example) + 0.1).tolist()
    far = near | {"label": "far", "summary": (summary(example) + 1.0).tolist()}
    other = near | {"label": "other", "signature": 0}
    model, _, _ = predictor(graph, known=[far, other, near])
    assert [like.label for like in model.nearest(example, 5)] == ["near", "far"]
