"""Sums and products of any number of operands in any order, so that no rule has to reorder them.

A chain is an e-node over the sorted operands of a tree of Add or Mul; trees that differ in order
and brackets alone have one chain and thereby one class. As rules, commutativity and associativity
would fill the e-graph with every tree there is; here only the regroupings are made that bring
together what can gain from it: constants, and results of one operator.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

import numpy as np

from .columns import NONE, Row
from .egraph import EGraph
from .provenance import Application
from .vocabulary import CHAIN, Attributes

CHAINED = ("Add", "Mul")
# A chain is cut here: longer ones are equal to others only if their brackets are.
MOST_OPERANDS = 16
# Chains up to this length are regrouped, each in at most so many ways.
MOST_REGROUPED, MOST_WAYS = 8, 6

Operands = tuple[int, ...]


class Chains:
    """Recognizes chains round by round; remembers which ones were regrouped."""

    def __init__(self, *, rounding: bool) -> None:
        """Without `rounding` only integers are reordered, whose sums are the same in any order."""
        self.rounding = rounding
        self._regrouped: set[tuple[str, Operands]] = set()

    def update(self, egraph: EGraph) -> list[Application]:
        """Unite trees of one chain, and add the regroupings that may pay."""
        made: list[Application] = []
        for op_type in CHAINED:
            chains = self._recognize(egraph, op_type)
            made += self._regroup(egraph, op_type, chains)
            egraph.settle()
        return made

    def _recognize(self, egraph: EGraph, op_type: str) -> dict[Operands, int]:
        """Give each tree its chain; return operands -> class."""
        trees = self._trees(egraph, op_type)
        flat = _flattened(trees)
        rows: list[Row] = []
        classes: list[int] = []
        chain = egraph.vocabulary.operator("", CHAIN)
        own = egraph.vocabulary.attribute(Attributes({}, (True,), (CHAIN, op_type)))
        found: dict[Operands, int] = {}
        for class_, pairs in trees.items():
            for pair in pairs:
                operands = _joined(pair, flat, class_)
                if operands is not None:
                    rows.append((chain, own, operands))
                    classes.append(class_)
                    found.setdefault(operands, class_)
        nodes = egraph.intern(rows)
        givers = np.array([egraph.columns.outputs(n)[0] for n in nodes if n is not None], np.int64)
        egraph.columns.union(givers, np.array(classes, np.int64))
        egraph.settle()
        return found

    def _trees(self, egraph: EGraph, op_type: str) -> dict[int, list[tuple[int, int]]]:
        """Class -> operand pairs of the e-nodes that give it and that may be reordered."""
        columns = egraph.columns
        number = egraph.vocabulary.operator("", op_type)
        living = columns.living()
        trees: dict[int, list[tuple[int, int]]] = {}
        for node in living[columns.operators_of(living) == number].tolist():
            operands, (class_, *_) = columns.operands(node), columns.outputs(node)
            type_ = egraph.type(class_)
            if type_ is None or len(operands) != 2 or NONE in operands:
                continue
            if self.rounding or "int" in type_.dtype:
                trees.setdefault(class_, []).append((operands[0], operands[1]))
        return trees

    def _regroup(
        self, egraph: EGraph, op_type: str, chains: dict[Operands, int]
    ) -> list[Application]:
        columns = egraph.columns
        kinds = _kinds(egraph, {value for operands in chains for value in operands})
        number = egraph.vocabulary.operator("", op_type)
        own = egraph.vocabulary.attribute(Attributes({}, (True,)))
        applications: list[Application] = []
        unions: list[tuple[int, int]] = []
        for operands, class_ in chains.items():
            operands = tuple(sorted(columns.canonical(np.array(operands)).tolist()))
            key = (op_type, operands)
            if not 2 < len(operands) <= MOST_REGROUPED or key in self._regrouped:
                continue
            self._regrouped.add(key)
            for first in _gainful(egraph, operands, kinds):
                rest = list(operands)
                for value in first:
                    rest.remove(value)
                application = Application(
                    f"reorder {'sum' if op_type == 'Add' else 'product'}",
                    (),
                    equal="rounding",
                    summary="Operands that can gain from it are brought together.",
                )
                value = first[0]
                for other in (*first[1:], *rest):
                    before = columns.size
                    (node,) = egraph.intern([(number, own, (value, other))])
                    if node is None:
                        break
                    if node >= before:
                        egraph.made_by[node] = application
                    application.made.append(node)
                    (value,) = columns.outputs(node)
                else:
                    if egraph.are_compatible(value, class_):
                        unions.append((value, class_))
                        application.united = [(class_, value)]
                        applications.append(application)
        pairs = np.array(unions, np.int64).reshape(-1, 2)
        columns.union(pairs[:, 0], pairs[:, 1])
        return applications


def _flattened(trees: dict[int, list[tuple[int, int]]]) -> dict[int, Operands]:
    """Class -> the operands of its first tree, taken apart as far as that leads to no cycle."""
    flat: dict[int, Operands] = {}
    open_: set[int] = set()
    for start in trees:
        stack = [(start, False)]
        while stack:
            class_, ready = stack.pop()
            if class_ in flat:
                continue
            pair = trees[class_][0]
            if ready:
                flat[class_] = _joined(pair, flat, class_) or (class_,)
                continue
            if class_ in open_:
                continue
            open_.add(class_)
            stack.append((class_, True))
            stack += [(value, False) for value in pair if value in trees and value not in open_]
    return flat


def _joined(pair: tuple[int, int], flat: dict[int, Operands], class_: int) -> Operands | None:
    """The operands of a tree; None where it contains its own class or is too long."""
    joined = tuple(sorted(v for side in pair for v in flat.get(side, (side,))))
    return None if class_ in joined or len(joined) > MOST_OPERANDS else joined


def _kinds(egraph: EGraph, classes: Iterable[int]) -> dict[int, set[int]]:
    """Class -> the operators that give it, chained ones and leaves left out."""
    columns = egraph.columns
    wanted = {egraph.find(value) for value in classes}
    kinds: dict[int, set[int]] = {value: set() for value in wanted}
    nodes, _, values = columns.gives(columns.living())
    for operator, value in zip(columns.operators_of(nodes).tolist(), values.tolist(), strict=True):
        op = egraph.vocabulary.operators[operator]
        if value in wanted and not op.is_virtual and op.name != "Add":
            kinds[value].add(operator)
    return kinds


def _gainful(egraph: EGraph, operands: Operands, kinds: dict[int, set[int]]) -> list[Operands]:
    """What to bring together: all constants at once, and pairs that one operator gave."""
    known = tuple(value for value in operands if egraph.is_known(value))
    ways = [known] if 1 < len(known) < len(operands) else []
    ways += [
        (a, b)
        for a, b in combinations(operands, 2)
        if kinds.get(a, set()) & kinds.get(b, set()) and not (a in known and b in known)
    ]
    return list(dict.fromkeys(ways))[:MOST_WAYS]
