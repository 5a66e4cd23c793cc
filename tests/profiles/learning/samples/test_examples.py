"""Cost graphs as a network reads them: nothing is lost that should be there, nothing added."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensolog.profiles.learning.samples.examples import (
    architecture_of,
    batch_of,
    example_of,
    scaled,
    segments_of,
)

from ..cost_graphs import layout_graph, tile_graph


def test_numbers_of_any_size_keep_sign_and_order():
    values = np.array([-1e12, -3.0, -1.0, 0.0, 1.0, 1e12])
    logs = scaled(values)
    assert (np.diff(logs) > 0).all() and logs[3] == 0 and logs.dtype == np.float32
    np.testing.assert_allclose(np.sign(logs) * np.expm1(np.abs(logs)), values, rtol=1e-4)


@pytest.mark.parametrize(
    ("path", "architecture"),
    [
        ("npz/tile/xla/train/resnet_v1_50_-1bae27a41d70f4dc.npz", "resnet_v1_50"),
        ("npz/tile/xla/train/resnet_v1_50_-6d1b4f1fdf8e36a.npz", "resnet_v1_50"),
        ("npz/layout/xla/random/train/alexnet_train_batch_32.npz", "alexnet_train_batch_32"),
        ("tile/onnxruntime/bert_0123456789abcdef.npz", "bert"),
        ("alexnet_layout.npz", "alexnet_layout"),
    ],
)
def test_architectures_are_read_from_names(path, architecture):
    assert architecture_of(path) == architecture


@given(st.integers(0, 3), st.integers(0, 50), st.data())
def test_pruning_keeps_what_is_near(hops, seed, data):
    nodes = data.draw(st.integers(1, 9))
    end = st.integers(0, nodes - 1)
    edges = data.draw(st.lists(st.tuples(end, end), max_size=12))
    graph = layout_graph(nodes=nodes, seed=seed, edges=edges)
    near = set(graph.arrays["node_config_ids"].tolist())
    for _ in range(hops):
        near |= {a for edge in edges for a in edge if set(edge) & near}
    kept = sorted(near)
    example = example_of(graph, hops=hops)
    np.testing.assert_array_equal(example.opcodes, graph.arrays["node_opcode"][kept])
    inner = [(kept.index(u), kept.index(v)) for u, v in edges if u in near and v in near]
    assert [tuple(edge) for edge in example.edges] == inner
    for node, place in enumerate(example.places):
        expected = kept[node] // 2 if kept[node] % 2 == 0 else -1
        assert place == expected


@given(st.integers(0, 40), st.integers(1, 12))
def test_segments_hold_each_node_once(nodes, most):
    parts = segments_of(example_of(layout_graph(nodes=max(nodes, 1))), most)
    assert np.concatenate(parts).tolist() == list(range(max(nodes, 1)))
    assert max(len(part) for part in parts) <= most


def test_segments_side_by_side():
    layout, chosen = example_of(layout_graph(nodes=6)), np.array([2, 0])
    first, second = segments_of(layout, 3)
    codes = np.unique(layout.opcodes)[1:]
    batch = batch_of([(layout, second, chosen), (layout, first, chosen)], codes)
    assert batch.segments.tolist() == [0, 0, 0, 1, 1, 1] and batch.count == 2
    # Nodes 3 4 5 come first: their chain is whole, that from 2 to 3 is cut.
    assert list(zip(batch.consumers, batch.producers, strict=True)) == [
        (1, 0),
        (2, 1),
        (4, 3),
        (5, 4),
    ]
    known = {int(code): number + 1 for number, code in enumerate(codes)}
    expected = [known.get(int(code), 0) for code in layout.opcodes[[3, 4, 5, 0, 1, 2]]]
    assert batch.opcodes.tolist() == expected and 0 in expected
    nothing = scaled(np.array([-1.0]))[0]
    assert (batch.configurations[[0, 2, 4]] == nothing).all()
    np.testing.assert_array_equal(batch.configurations[1], layout.configurations[chosen, 2])


def test_a_kernel_is_configured_as_a_whole():
    example = example_of(tile_graph(count=4))
    batch = batch_of([(example, np.arange(4), np.arange(4))], np.unique(example.opcodes))
    for node in range(4):
        np.testing.assert_array_equal(batch.configurations[node], example.configurations[:, 0])


def test_messages_are_means():
    graph = layout_graph(nodes=4, edges=[(3, 0), (3, 1), (3, 2), (2, 0)])
    example = example_of(graph)
    batch = batch_of([(example, np.arange(4), np.array([0]))], np.unique(example.opcodes))
    np.testing.assert_allclose(batch.reading, [1 / 3, 1 / 3, 1 / 3, 1])
    np.testing.assert_allclose(batch.feeding, [1 / 2, 1, 1, 1 / 2])


def test_the_first_guess_is_a_feature():
    graph = tile_graph()
    guess = np.log(graph.arrays["node_feat"][:, 1].max())
    np.testing.assert_allclose(example_of(graph, prior=1).prior, guess)
    assert not example_of(graph).prior.any()
