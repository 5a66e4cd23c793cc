"""The columns against an e-graph of the simplest kind: congruence, uniqueness, least leaders."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensolog.optimizer.egraph.congruence import NONE, Columns, Rows
from tensolog.optimizer.match.arrays import linked

from tests.campaigns import examples

LEAVES = 4
# What happens to an e-graph: e-nodes are interned in batches, classes united.
ROW = st.tuples(
    st.integers(0, 2),
    st.integers(0, 1),
    st.lists(st.integers(-1, 30), max_size=3).map(tuple),
)
EVENTS = st.lists(
    st.one_of(
        st.lists(ROW, min_size=1, max_size=6).map(lambda rows: ("intern", rows)),
        st.lists(ROW, min_size=1, max_size=6).map(lambda rows: ("one by one", rows)),
        st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=3).map(
            lambda pairs: ("union", pairs)
        ),
    ),
    max_size=10,
)


def width_of(operator):
    return 2 if operator == 2 else 1


class Naive:
    """Classes as a list of sets of terms' numbers, closed under congruence by looking at all."""

    def __init__(self, count):
        self.above = list(range(count))
        self.nodes = []  # (operator, attributes, operands, outputs)

    def find(self, value):
        while value != NONE and self.above[value] != value:
            value = self.above[value]
        return value

    def key(self, node):
        return (node[0], node[1], tuple(self.find(v) for v in node[2]))

    def intern(self, operator, attributes, operands):
        wanted = (operator, attributes, tuple(self.find(v) for v in operands))
        for node in self.nodes:
            if self.key(node) == wanted:
                return node[3]
        outputs = tuple(len(self.above) + i for i in range(width_of(operator)))
        self.above += outputs
        self.nodes.append((*wanted, outputs))
        return outputs

    def union(self, a, b):
        a, b = self.find(a), self.find(b)
        self.above[max(a, b)] = min(a, b)
        changed = True
        while changed:
            changed = False
            for x in self.nodes:
                for y in self.nodes:
                    if self.key(x) == self.key(y):
                        for c, d in zip(x[3], y[3], strict=True):
                            c, d = self.find(c), self.find(d)
                            if c != d:
                                self.above[max(c, d)] = min(c, d)
                                changed = True


def played(events):
    """Do the same to both; a class number is taken modulo those that exist."""
    columns, naive = Columns(), Naive(LEAVES)
    columns.new_classes(LEAVES)
    for kind, items in events:
        count = columns.classes
        if kind == "union":
            pairs = [(a % count, b % count) for a, b in items]
            columns.union(np.array([a for a, _ in pairs]), np.array([b for _, b in pairs]))
            columns.rebuild()
            for a, b in pairs:
                naive.union(a, b)
            continue
        rows = [
            (o, a, tuple(v if v == NONE else columns.find(v % count) for v in operands))
            for o, a, operands in items
        ]
        widths = [width_of(row[0]) for row in rows]
        if kind == "intern":
            nodes = columns.intern(Rows.of(rows), np.array(widths))[0].tolist()
        else:
            nodes = [
                columns.intern_row(*row_and_width)[0]
                for row_and_width in zip(rows, widths, strict=True)
            ]
        expected = [naive.intern(*row) for row in rows]
        for node, outputs in zip(nodes, expected, strict=True):
            assert columns.outputs(node) == tuple(naive.find(value) for value in outputs)
    return columns, naive


def check(columns):
    """No two living e-nodes are equal, and every class is led by its least member."""
    living = columns.living()
    keys = [
        (columns.operator(n), columns.attribute(n), columns.operands(n)) for n in living.tolist()
    ]
    assert len(set(keys)) == len(keys)
    leaders = columns.leaders
    assert (leaders[leaders] == leaders).all()
    assert (leaders <= np.arange(len(leaders))).all()
    outputs_by_key = {}
    for node in range(columns.size):
        key = (columns.operator(node), columns.attribute(node), columns.operands(node))
        outputs = outputs_by_key.setdefault(key, columns.outputs(node))
        assert outputs == columns.outputs(node), "equal e-nodes give equal classes"


@settings(max_examples=examples(80), deadline=None)
@given(EVENTS)
def test_congruence_and_uniqueness(events):
    columns, _ = played(events)
    check(columns)


@settings(max_examples=examples(80), deadline=None)
@given(EVENTS)
def test_the_same_terms_are_equal_as_in_the_simplest_e_graph(events):
    """Both number classes in the order in which they are asked for."""
    columns, naive = played(events)
    assert columns.classes == len(naive.above)
    for a in range(columns.classes):
        for b in range(a):
            assert (columns.find(a) == columns.find(b)) == (naive.find(a) == naive.find(b))


@settings(max_examples=examples(60), deadline=None)
@given(EVENTS)
def test_colliding_keys_change_nothing(events):
    """With keys of three bits different rows collide all the time, until the seed changes."""
    plain, _ = played(events)
    keys, key = Columns._keys, Columns._key

    def weak_keys(self, rows):
        return keys(self, rows) & np.uint64(7) if self._seed == 0 else keys(self, rows)

    def weak_key(self, row):
        return key(self, row) & 7 if self._seed == 0 else key(self, row)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Columns, "_keys", weak_keys)
        patch.setattr(Columns, "_key", weak_key)
        colliding, _ = played(events)
    check(colliding)
    assert (colliding.leaders == plain.leaders).all()


@settings(max_examples=examples(80), deadline=None)
@given(st.integers(1, 30), st.data())
def test_components_are_led_by_their_least_member(count, data):
    pair = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
    pairs = data.draw(st.lists(pair, max_size=40))
    leaders = linked(np.arange(count), *np.array(pairs, np.int64).reshape(-1, 2).T)
    naive = Naive(count)
    for a, b in pairs:
        naive.union(a, b)
    assert leaders.tolist() == [naive.find(v) for v in range(count)]
