"""E-nodes and e-classes in columns: hash-consing, union-find and congruence, set-wise.

An e-node is an operator with attributes over e-classes, and gives one e-class per output: an
operator of several outputs is one e-node with that many projections. After `rebuild`, no two
living e-nodes are equal, and equal e-nodes give equal classes (Willsey et al., POPL 2021).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..match.arrays import (
    MASK,
    Column,
    Flags,
    Ints,
    Keys,
    linked,
    mixed,
    mixed_number,
    segments,
    summed,
)

NONE = -1  # the class of an operand or output that is left out

Row = tuple[int, int, tuple[int, ...]]
"""An e-node: operator, attributes, and the classes it reads."""


@dataclass(frozen=True)
class Rows:
    """A batch of e-nodes: operators, attributes, and their operands one after the other."""

    operators: Ints
    attributes: Ints
    arities: Ints
    operands: Ints

    @classmethod
    def of(cls, rows: list[Row]) -> Rows:
        """Lay out (operator, attributes, operands) as columns."""
        return cls(
            np.array([row[0] for row in rows], np.int64),
            np.array([row[1] for row in rows], np.int64),
            np.array([len(row[2]) for row in rows], np.int64),
            np.array([value for row in rows for value in row[2]], np.int64),
        )

    @property
    def starts(self) -> Ints:
        """Where each e-node's operands begin."""
        return np.cumsum(self.arities) - self.arities

    def __len__(self) -> int:
        return len(self.operators)

    def take(self, which: Ints) -> Rows:
        """Some of the e-nodes."""
        arities = self.arities[which]
        operands = self.operands[segments(self.starts[which], arities)]
        return Rows(self.operators[which], self.attributes[which], arities, operands)


class _Runs(dict[int, tuple[int, ...]]):
    """E-node -> what lies for it in a flat column as it was written, which nothing changes."""

    def __init__(self, starts: Column, counts: Column, flat: Column) -> None:
        super().__init__()
        self._starts, self._counts, self._flat = starts, counts, flat

    def __missing__(self, node: int) -> tuple[int, ...]:
        start = int(self._starts.data[node])
        self[node] = tuple(self._flat.data[start : start + int(self._counts.data[node])].tolist())
        return self[node]


class Columns:
    """The tables of an e-graph; e-nodes keep their numbers, classes go by their least member."""

    def __init__(self) -> None:
        self._operators, self._attributes = Column(), Column()
        self._starts, self._arities, self._operands = Column(), Column(), Column()
        self._output_starts, self._widths, self._outputs = Column(), Column(), Column()
        self._alive, self._stamps = Column(), Column()
        self._leaders = np.empty(0, np.int64)
        # The same for one class at a time: a list is read faster, and at -1 it has its last entry.
        self._leader_of = [NONE]
        self._read = _Runs(self._starts, self._arities, self._operands)
        self._results = _Runs(self._output_starts, self._widths, self._outputs)
        self._pending: list[tuple[Ints, Ints]] = []
        self._seed = 0
        self._index: tuple[Keys, Ints] | None = None
        self._single: dict[Row, int] = {}  # e-nodes made one by one since the index was
        self.now = 0

    # ----------------------------------------------------------------------------- reading

    @property
    def size(self) -> int:
        """The number of e-nodes ever made."""
        return len(self._operators)

    @property
    def classes(self) -> int:
        """The number of classes ever made."""
        return len(self._leaders)

    @property
    def leaders(self) -> Ints:
        """Class -> the class it is part of now."""
        return self._leaders

    def find(self, value: int) -> int:
        """The class that a class is part of now; NONE stays NONE."""
        return self._leader_of[value]

    def living(self) -> Ints:
        """The e-nodes that equal no earlier one."""
        return np.flatnonzero(self._alive.data)

    def is_alive(self, node: int) -> bool:
        """Whether an e-node equals no earlier one."""
        return bool(self._alive.data[node])

    def dead(self) -> Ints:
        """The e-nodes that equal an earlier one, or that no program would contain."""
        return np.flatnonzero(self._alive.data == 0)

    def operator(self, node: int) -> int:
        """An e-node's operator."""
        return int(self._operators.data[node])

    def attribute(self, node: int) -> int:
        """An e-node's attributes."""
        return int(self._attributes.data[node])

    def operands(self, node: int) -> tuple[int, ...]:
        """The classes that an e-node reads, NONE where an operand is left out."""
        leader_of = self._leader_of
        return tuple([leader_of[value] for value in self._read[node]])

    def outputs(self, node: int) -> tuple[int, ...]:
        """The classes that an e-node gives, NONE where an output is left out."""
        leader_of = self._leader_of
        return tuple([leader_of[value] for value in self._results[node]])

    def operators_of(self, nodes: Ints) -> Ints:
        """The operators of e-nodes."""
        return self._operators.data[nodes]

    def attributes_of(self, nodes: Ints) -> Ints:
        """The attributes of e-nodes."""
        return self._attributes.data[nodes]

    def stamps_of(self, nodes: Ints) -> Ints:
        """When e-nodes were made, or last changed."""
        return self._stamps.data[nodes]

    def reads(self, nodes: Ints) -> tuple[Ints, Ints, Ints]:
        """Columns (e-node, position, class) of the operands that are there."""
        return self._flat(nodes, self._starts, self._arities, self._operands)

    def gives(self, nodes: Ints) -> tuple[Ints, Ints, Ints]:
        """Columns (e-node, position, class) of the outputs that are there."""
        return self._flat(nodes, self._output_starts, self._widths, self._outputs)

    def canonical(self, values: Ints) -> Ints:
        """Classes by their leaders."""
        if not len(self._leaders):
            return values
        return np.where(values == NONE, NONE, self._leaders[values])

    def _flat(
        self, nodes: Ints, starts: Column, counts: Column, flat: Column
    ) -> tuple[Ints, Ints, Ints]:
        run = counts.data[nodes]
        places = segments(starts.data[nodes], run)
        owners = np.repeat(nodes, run)
        positions = places - np.repeat(starts.data[nodes], run)
        values = self.canonical(flat.data[places])
        there = values != NONE
        return owners[there], positions[there], values[there]

    # ------------------------------------------------------------------------------ making

    def new_classes(self, count: int) -> Ints:
        """Make classes that nothing gives yet."""
        fresh = np.arange(self.classes, self.classes + count)
        self._leaders = np.concatenate([self._leaders, fresh])
        self._leader_of[-1:] = [*fresh.tolist(), NONE]
        return fresh

    def append(self, rows: Rows, widths: Ints, outputs: Ints) -> Ints:
        """Add e-nodes that give the classes `outputs`, whether or not they are new."""
        nodes = np.arange(self.size, self.size + len(rows))
        self._operators.extend(rows.operators)
        self._attributes.extend(rows.attributes)
        self._starts.extend(rows.starts + len(self._operands))
        self._arities.extend(rows.arities)
        self._operands.extend(rows.operands)
        self._output_starts.extend(np.cumsum(widths) - widths + len(self._outputs))
        self._widths.extend(widths)
        self._outputs.extend(outputs)
        self._alive.extend(np.ones(len(rows), np.int64))
        self._stamps.extend(np.full(len(rows), self.now))
        return nodes

    def intern(self, rows: Rows, widths: Ints) -> tuple[Ints, Flags]:
        """The e-nodes equal to the rows, made where there is none; and which were made.

        `widths` counts the outputs of each row; a new e-node gives new classes. Operands must be
        leaders: nothing may be pending.
        """
        assert not self._pending, "rebuild before interning"
        keys = self._keys(rows)
        first, inverse, exact = _distinct(rows, keys)
        index_keys, index_nodes = self._sorted_index()
        wanted = keys[first]
        places = np.searchsorted(index_keys, wanted)
        is_present = np.zeros(len(first), bool)
        inside = places < len(index_keys)
        is_present[inside] = index_keys[places[inside]] == wanted[inside]
        nodes = np.empty(len(first), np.int64)
        nodes[is_present] = index_nodes[places[is_present]]
        if not exact or not _are_equal(rows.take(first[is_present]), self.rows(nodes[is_present])):
            self._reseed()
            return self.intern(rows, widths)
        is_created = ~is_present
        count = int(is_created.sum())
        if count:
            asked = np.flatnonzero(is_created)[
                np.argsort(first[is_created])
            ]  # numbered as asked for
            output_counts = widths[first[asked]]
            fresh = self.new_classes(int(output_counts.sum()))
            nodes[asked] = self.append(rows.take(first[asked]), output_counts, fresh)
            self._index = (
                np.insert(index_keys, places[is_created], wanted[is_created]),
                np.insert(index_nodes, places[is_created], nodes[is_created]),
            )
        is_new = np.zeros(len(rows), bool)
        is_new[first] = is_created
        return nodes[inverse], is_new

    def intern_row(self, row: Row, width: int) -> tuple[int, bool]:
        """What `intern` does, for one row: a tenth of the time that a batch takes at least."""
        assert not self._pending, "rebuild before interning"
        existing_class = self._single.get(row)
        if existing_class is not None:
            return existing_class, False
        index_keys, index_nodes = self._index or self._sorted_index()
        key = np.uint64(self._key(row))
        place = int(index_keys.searchsorted(key))
        if place < len(index_keys) and index_keys[place] == key:
            node = int(index_nodes[place])
            if (self.operator(node), self.attribute(node), self.operands(node)) == row:
                return node, False
            self._reseed()
            return self.intern_row(row, width)
        operator, attributes, operands = row
        node = self.size
        self._starts.push(len(self._operands))
        self._output_starts.push(len(self._outputs))
        self._operators.push(operator)
        self._attributes.push(attributes)
        self._arities.push(len(operands))
        self._operands.extend(operands)
        self._widths.push(width)
        self._outputs.extend(self.new_classes(width))
        self._alive.push(1)
        self._stamps.push(self.now)
        self._single[row] = node
        return node, True

    def rows(self, nodes: Ints) -> Rows:
        """E-nodes as a batch, operands by their leaders."""
        arities = self._arities.data[nodes]
        operands = self._operands.data[segments(self._starts.data[nodes], arities)]
        return Rows(
            self._operators.data[nodes],
            self._attributes.data[nodes],
            arities,
            self.canonical(operands),
        )

    def touch(self, nodes: Ints) -> None:
        """Note that e-nodes changed now, so that matches are looked for again."""
        self._stamps.data[nodes] = self.now

    def current(self, nodes: Ints) -> Ints:
        """For each e-node itself, or the living one that it has come to equal."""
        if not len(nodes):
            return nodes
        return self.intern(self.rows(nodes), self._widths.data[nodes])[0]

    # ---------------------------------------------------------------------------- equality

    def union(self, a: Ints, b: Ints) -> None:
        """State that classes are equal; `rebuild` draws the consequences."""
        self._pending.append((a, b))

    def rebuild(self) -> list[tuple[int, int]]:
        """Close under congruence; return (class, the class it became part of), each once."""
        before = self._leaders
        while self._pending:
            a = self.canonical(np.concatenate([pair[0] for pair in self._pending]))
            b = self.canonical(np.concatenate([pair[1] for pair in self._pending]))
            self._pending = []
            self._leaders = linked(self._leaders, a, b)
            living = self.living()
            rows = self.rows(living)
            first, inverse, exact = _distinct(rows, self._keys(rows))
            if not exact:
                self._reseed()
                first, inverse, exact = _distinct(rows, self._keys(rows))
                assert exact, "two seeds collided"
            kept = first[inverse]
            twins = np.flatnonzero(kept != np.arange(len(living)))
            if len(twins):
                self._unite_outputs(living[kept[twins]], living[twins])
                self._alive.data[living[twins]] = 0
        moved = np.flatnonzero(self._leaders[: len(before)] != before)
        if len(moved):
            self._leader_of = [*self._leaders.tolist(), NONE]
            self._forget()
            self._stamp_changes(moved)
        return [(int(c), int(self._leaders[c])) for c in moved if before[c] == c]

    def _unite_outputs(self, kept: Ints, twins: Ints) -> None:
        widths = self._widths.data[kept]
        a = self._outputs.data[segments(self._output_starts.data[kept], widths)]
        b = self._outputs.data[segments(self._output_starts.data[twins], widths)]
        a, b = self.canonical(a), self.canonical(b)
        differs = (a != b) & (a != NONE) & (b != NONE)
        if differs.any():
            self._pending.append((a[differs], b[differs]))

    def _stamp_changes(self, moved: Ints) -> None:
        """A match may be new where a class that took part in a union is read or given."""
        involved = np.zeros(self.classes, bool)
        involved[self._leaders[moved]] = True
        living = self.living()
        for owners, _, values in (self.reads(living), self.gives(living)):
            self.touch(owners[involved[values]])

    # -------------------------------------------------------------------------------- keys

    def _keys(self, rows: Rows) -> Keys:
        """64 bits that equal rows share; that different ones differ in them is checked."""
        positions = np.arange(len(rows.operands)) - np.repeat(rows.starts, rows.arities)
        operands = summed(
            mixed(rows.operands ^ ((positions + 1 + self._seed) << 40)), rows.starts, rows.arities
        )
        heads = mixed(
            rows.operators ^ (rows.attributes << 20) ^ ((rows.arities + self._seed) << 52)
        )
        return heads + operands

    def _key(self, row: Row) -> int:
        """The key of one row."""
        operator, attributes, operands = row
        key = mixed_number(operator ^ (attributes << 20) ^ ((len(operands) + self._seed) << 52))
        for position, value in enumerate(operands, 1 + self._seed):
            key += mixed_number(value ^ (position << 40))
        return key & MASK

    def _sorted_index(self) -> tuple[Keys, Ints]:
        if self._index is None:
            living = self.living()
            keys = self._keys(self.rows(living))
            order = np.argsort(keys, kind="stable")
            self._index = (keys[order], living[order])
        elif self._single:
            nodes = np.fromiter(self._single.values(), np.int64)
            keys = self._keys(self.rows(nodes))
            order = np.argsort(keys, kind="stable")
            keys, nodes = keys[order], nodes[order]
            places = np.searchsorted(self._index[0], keys)
            before_keys, before_nodes = self._index
            self._index = (
                np.insert(before_keys, places, keys),
                np.insert(before_nodes, places, nodes),
            )
        self._single = {}
        return self._index

    def _forget(self) -> None:
        """Let the index be made anew when it is next asked for."""
        self._index, self._single = None, {}

    def _reseed(self) -> None:
        """Choose other keys after two different rows had equal ones."""
        self._seed += 1
        self._forget()


def _distinct(rows: Rows, keys: Keys) -> tuple[Ints, Ints, bool]:
    """First row of each key, row -> its place among those, and whether equal keys mean equal."""
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    repeated = np.flatnonzero(first[inverse] != np.arange(len(rows)))
    exact = _are_equal(rows.take(repeated), rows.take(first[inverse[repeated]]))
    return first, inverse, exact


def _are_equal(a: Rows, b: Rows) -> bool:
    """Whether the rows agree pairwise in everything."""
    return (
        np.array_equal(a.operators, b.operators)
        and np.array_equal(a.attributes, b.attributes)
        and np.array_equal(a.arities, b.arities)
        and np.array_equal(a.operands, b.operands)
    )
