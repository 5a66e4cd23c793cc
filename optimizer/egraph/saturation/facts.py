"""The columns of an e-graph as the relations that rules are compiled against (rules/graph.dl)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....catalog.operators import schema_for
from ....rules import attribute_text
from ...match.arrays import Ints, segments
from ...match.joins import union
from ...match.relations import is_plain, scalar_of
from ..congruence import NONE, Row
from ..egraph import UNTYPED, EGraph

Relation = list[NDArray[Any]]
NO_INTEGER = np.iinfo(np.int64).min  # stands for an attribute that is none


class Facts:
    """Spells e-nodes as relations; what many share is spelled once.

    `symbols` numbers the texts: operators, attributes and their values, element types. With
    `as_written`, e-nodes read and are what they were asked for as well, beside their own spelling.
    """

    def __init__(self, egraph: EGraph, *, as_written: bool = False) -> None:
        self.egraph, self.as_written = egraph, as_written
        self.symbols: dict[str, int] = {}
        self._commutative: dict[int, bool] = {}
        self._defaults: dict[int, Mapping[str, object]] = {}
        self._spelled: dict[int, tuple[Ints, Ints, Ints]] = {}
        self._numbers: dict[int, float | None] = {}

    def symbol(self, text: str) -> int:
        """The number of a text."""
        return self.symbols.setdefault(text, len(self.symbols))

    def of(self, nodes: Ints) -> dict[str, Relation]:
        """The relations of e-nodes that stand for operators, and of the classes they touch."""
        egraph, columns = self.egraph, self.egraph.columns
        operators = egraph.vocabulary.operators
        real = np.array([not op.is_virtual for op in operators], bool)
        nodes = nodes[real[columns.operators_of(nodes)]]
        names = np.array([self.symbol(op.name) for op in operators], np.int64)
        numbers = columns.operators_of(nodes)
        reads, gives = columns.reads(nodes), columns.gives(nodes)
        others = self._others(nodes) if self.as_written else []
        if others:
            more = [
                (node, position, egraph.find(value))
                for node, row in others
                for position, (value, class_) in enumerate(
                    zip(row[2], columns.operands(node), strict=True)
                )
                if value != NONE and egraph.find(value) != class_
            ]
            owners, positions, values = np.array(more, np.int64).reshape(-1, 3).T
            reads = (
                np.concatenate([reads[0], owners]),
                np.concatenate([reads[1], positions]),
                np.concatenate([reads[2], values]),
            )
        touched = np.zeros(columns.classes, bool)
        touched[reads[2]] = touched[gives[2]] = True
        classes = np.flatnonzero(touched)
        is_known = np.array(egraph.known, bool)[classes]
        relations: dict[str, Relation] = {
            "node": [nodes, names[numbers]],
            "reads": list(reads),
            "gives": list(gives),
            "constant": [classes[is_known]],
            "scalar": self._scalars(classes[is_known]),
            "commutative": [names[[o for o in np.unique(numbers) if self._is_commutative(o)]]],
            "graph_output": [self._leaders(egraph.graph.graph_outputs)],
            "captured": [self._leaders(captured(egraph))],
        }
        relations |= self._attributes(nodes)
        more_axes = [
            [node, self.symbol(name), axis]
            for node in nodes[np.isin(numbers, egraph.spelling.counting_from_the_end())].tolist()
            for name, axis in egraph.spelling.from_the_front(node)
        ]
        for node, row in others:
            names_of, _, integers = self._spell(row[0], row[1])
            pairs = zip(names_of.tolist(), integers.tolist(), strict=True)
            more_axes += [[node, name, axis] for name, axis in pairs if axis != NO_INTEGER]
        if more_axes:
            rows = list(np.array(more_axes, np.int64).T)
            relations["attribute_int"] = list(union([relations["attribute_int"], rows]))
        return relations | self._types(classes)

    def _others(self, nodes: Ints) -> list[tuple[int, Row]]:
        """The other spellings that e-nodes were asked for in."""
        spellings = self.egraph.spellings
        asked = np.array(list(spellings), np.int64)
        current = self.egraph.columns.current(asked).tolist()
        there = set(nodes.tolist())
        return [
            (node, row)
            for number, node in zip(spellings, current, strict=True)
            if node in there
            for row in spellings[number]
        ]

    def _leaders(self, values: tuple[int, ...]) -> Ints:
        return np.unique(self.egraph.columns.canonical(np.array(values, np.int64)))

    def _scalars(self, classes: Ints) -> Relation:
        numeric_classes: list[int] = []
        numbers: list[float] = []
        for class_ in classes.tolist():
            place = self.egraph.constants.get(class_)
            if place is None:
                continue
            if place not in self._numbers:
                self._numbers[place] = scalar_of(self.egraph.vocabulary.constants[place])
            number = self._numbers[place]
            if number is not None:
                numeric_classes.append(class_)
                numbers.append(number)
        return [np.array(numeric_classes, np.int64), np.array(numbers, np.float64)]

    def _is_commutative(self, operator: int) -> bool:
        if operator not in self._commutative:
            op = self.egraph.vocabulary.operators[operator]
            spec = schema_for(op.domain, op.op_type, self.egraph.inference.opset(op.domain))
            self._commutative[operator] = spec is not None and spec.commutative
        return self._commutative[operator]

    def _attributes(self, nodes: Ints) -> dict[str, Relation]:
        """Attributes of e-nodes, defaults filled in: spelled once for all that share them."""
        columns = self.egraph.columns
        many = len(self.egraph.vocabulary.attributes) + 1
        kinds = columns.operators_of(nodes) * many + columns.attributes_of(nodes)
        distinct, inverse = np.unique(kinds, return_inverse=True)
        spelled = [self._spell(kind // many, kind % many) for kind in distinct.tolist()]
        widths = np.array([len(entry[0]) for entry in spelled], np.int64)
        starts = np.cumsum(widths) - widths
        counts = widths[inverse]
        places = segments(starts[inverse], counts)
        names, texts, integers = (
            np.concatenate([np.empty(0, np.int64), *parts])[places]
            for parts in (zip(*spelled, strict=True) if spelled else ((), (), ()))
        )
        owners = np.repeat(nodes, counts)
        plain, whole = texts != NONE, integers != NO_INTEGER
        return {
            "attribute": [owners[plain], names[plain], texts[plain]],
            "attribute_int": [owners[whole], names[whole], integers[whole]],
            # What attributes of e-nodes say that their operands say too is left out of them.
            "implied": [np.empty(0, np.int64), np.empty(0, np.int64)],
        }

    def _spell(self, operator: int, attribute: int) -> tuple[Ints, Ints, Ints]:
        """Names, texts (NONE where there is none) and integers of an e-node's attributes."""
        key = operator << 32 | attribute
        if key in self._spelled:
            return self._spelled[key]
        if operator not in self._defaults:
            op = self.egraph.vocabulary.operators[operator]
            spec = schema_for(op.domain, op.op_type, self.egraph.inference.opset(op.domain))
            self._defaults[operator] = spec.defaults if spec else {}
        names: list[int] = []
        texts: list[int] = []
        integers: list[int] = []
        values = self.egraph.vocabulary.attributes[attribute].values
        for name, value in {**self._defaults[operator], **values}.items():
            text = NONE
            if is_plain(value):
                # Bytes that are no text are no attribute that a rule could name.
                shown = attribute_text(value).encode("utf-8", "backslashreplace").decode()
                text = self.symbol(shown)
            integer = value if isinstance(value, int) else NO_INTEGER
            if text != NONE or integer != NO_INTEGER:
                names.append(self.symbol(name))
                texts.append(text)
                integers.append(integer)
        rows = (np.array(names, np.int64), np.array(texts, np.int64), np.array(integers, np.int64))
        self._spelled[key] = rows
        return rows

    def _types(self, classes: Ints) -> dict[str, Relation]:
        """Types of classes; a symbolic dimension is an interned negative number."""
        numbers = np.array(self.egraph.types, np.int64)[classes]
        typed = numbers != UNTYPED
        classes, numbers = classes[typed], numbers[typed]
        dims: dict[str, int] = {}
        ranks: list[int] = []
        sizes: list[int] = []
        dtypes: list[int] = []
        for type_ in self.egraph.vocabulary.types:
            dtypes.append(self.symbol(type_.dtype))
            ranks.append(NONE if type_.shape is None else len(type_.shape))
            for size in type_.shape or ():
                sizes.append(
                    size if isinstance(size, int) else dims.setdefault(size, -1 - len(dims))
                )
        rank = np.array(ranks, np.int64)
        starts = np.cumsum(np.maximum(rank, 0)) - np.maximum(rank, 0)
        ranked = rank[numbers] != NONE
        shaped, kind = classes[ranked], numbers[ranked]
        counts = rank[kind]
        places = segments(starts[kind], counts)
        axes = places - np.repeat(starts[kind], counts)
        return {
            "dtype": [classes, np.array(dtypes, np.int64)[numbers]],
            "rank": [shaped, counts],
            "dim": [np.repeat(shaped, counts), axes, np.array(sizes, np.int64)[places]],
        }


def captured(egraph: EGraph) -> tuple[int, ...]:
    """The values of the model that its subgraphs read."""
    return tuple(sorted({v for node in egraph.graph.nodes.values() for v in node.captures}))
