"""Sums, products, maxima and minima of any operands in any order, so that no rule reorders them.

A chain is what a tree of one operation comes to: its operands, each with a sign, in the order of
their numbers. Trees that differ in order and brackets alone have one chain, and become one class.

    (a + b) - c,  a - (c - b),  b + (a - c)    are all the sum of  a, b, -c
    (a * b) / c,  a * (b / c),  a / (c / b)    the first two are the product of  a, b, 1/c
    max(a, max(b, a))                          is the maximum of  a, b

Nothing cancels: a - a is NaN where a is infinite. A quotient is not taken apart where it divides:
a / (c / b) has no value where b is 0, and a b / c has. Where rounding is not allowed, only integers
are reordered, whose sums are the same in any order (modulo a power of 2), and never divided.

As rules, commutativity and associativity would fill the e-graph with every tree there is; here only
the regroupings are made that bring together what can gain from it: constants, and results of one
operator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ..congruence import NONE
from ..egraph import EGraph
from ..interning import Attributes
from ..provenance import Application

# A chain is cut here: longer ones are equal to others only if their brackets are.
MOST_OPERANDS = 16
# Chains up to this length are regrouped, each in at most so many ways.
MOST_REGROUPED, MOST_WAYS = 8, 6

Term = tuple[int, int]
"""An operand and its sign: 1 where it is joined, -1 where it is taken away."""
Terms = tuple[Term, ...]


@dataclass(frozen=True)
class Operation:
    """What is chained: `joins` take any number of operands, `takes` one away from another.

    `turns` gives what is taken away by itself. Of an idempotent one, an operand counts once.
    """

    name: str
    joins: tuple[str, ...]
    takes: str = ""
    turns: str = ""
    is_idempotent: bool = False
    is_integral: bool = True  # whether integers are taken away exactly

    @property
    def rule(self) -> str:
        """What steps of a plan call it."""
        return f"reorder {self.name}"

    @property
    def operators(self) -> tuple[str, ...]:
        """All operators whose trees are chains."""
        return tuple(filter(None, (*self.joins, self.takes, self.turns)))

    def terms(self, op_type: str, operands: tuple[int, ...]) -> Terms:
        """The operands of one operator with their signs."""
        if op_type == self.turns:
            return tuple((value, -1) for value in operands)
        last = -1 if op_type == self.takes else 1
        return (*((value, 1) for value in operands[:-1]), (operands[-1], last))

    def turned(self, terms: Terms) -> Terms | None:
        """The terms with all signs turned; None where that is not what taking all away means."""
        if not self.is_integral and any(sign < 0 for _, sign in terms):
            return None
        return tuple((value, -sign) for value, sign in terms)

    def arranged(self, terms: Iterable[Term]) -> Terms:
        """Terms in the order of their numbers."""
        return tuple(sorted(set(terms) if self.is_idempotent else terms))


OPERATIONS = (
    Operation("sum", ("Add", "Sum"), "Sub", "Neg"),
    Operation("product", ("Mul",), "Div", "Reciprocal", is_integral=False),
    Operation("maximum", ("Max",), is_idempotent=True),
    Operation("minimum", ("Min",), is_idempotent=True),
)


class Chains:
    """Recognizes chains round by round; remembers which ones were regrouped."""

    def __init__(self, *, rounding: bool) -> None:
        """Without `rounding` only integers are reordered."""
        self.rounding = rounding
        self._regrouped: set[tuple[str, Terms]] = set()
        self._looked: dict[str, int] = {}  # operation -> when its trees were last looked at

    def update(self, egraph: EGraph) -> list[Application]:
        """Unite trees of one chain, and add the regroupings that may pay."""
        applications: list[Application] = []
        for operation in OPERATIONS:
            if not self._has_news(egraph, operation):
                continue
            chains = self._recognize(egraph, operation)
            applications += self._regroup(egraph, operation, chains)
        return applications

    def _has_news(self, egraph: EGraph, operation: Operation) -> bool:
        """Whether a tree was made or has changed since they were looked at; notes that they are."""
        columns = egraph.columns
        nodes = columns.living()
        numbers = [egraph.vocabulary.operator("", name) for name in operation.operators]
        stamps = columns.stamps_of(nodes[np.isin(columns.operators_of(nodes), numbers)])
        since = self._looked.get(operation.name, -1)
        self._looked[operation.name] = columns.now
        return bool((stamps >= since).any())

    def _recognize(self, egraph: EGraph, operation: Operation) -> dict[Terms, int]:
        """Unite trees of the same terms; return terms -> class."""
        trees = self._trees(egraph, operation)
        flat = _flattened(operation, trees)
        class_of_terms: dict[Terms, int] = {}
        same: list[tuple[int, int]] = []
        for class_, spellings in trees.items():
            for spelling in spellings:
                terms = _joined(operation, spelling, flat, class_)
                if terms is None:
                    continue
                first = class_of_terms.setdefault(terms, class_)
                if len(terms) == 1 and terms[0][1] > 0:
                    first = terms[0][0]
                if first != class_ and egraph.are_compatible(first, class_):
                    same.append((class_, first))
        _unite(egraph, same)
        return class_of_terms

    def _trees(self, egraph: EGraph, operation: Operation) -> dict[int, list[Terms]]:
        """Class -> the terms of each e-node that gives it and that may be reordered."""
        columns = egraph.columns
        names = {egraph.vocabulary.operator("", name): name for name in operation.operators}
        living = columns.living()
        trees: dict[int, list[Terms]] = {}
        for node in living[np.isin(columns.operators_of(living), list(names))].tolist():
            name = names[columns.operator(node)]
            operands, (class_, *_) = columns.operands(node), columns.outputs(node)
            type_ = egraph.type(class_)
            if type_ is None or NONE in operands or not operands:
                continue
            if self._may_reorder(operation, name, is_integer="int" in type_.dtype):
                trees.setdefault(class_, []).append(operation.terms(name, operands))
        return _without_mutual(trees)

    def _may_reorder(self, operation: Operation, name: str, *, is_integer: bool) -> bool:
        if name in (operation.takes, operation.turns) and not operation.is_integral:
            return self.rounding and not is_integer
        return self.rounding or is_integer

    def _regroup(
        self, egraph: EGraph, operation: Operation, chains: Mapping[Terms, int]
    ) -> list[Application]:
        columns = egraph.columns
        applications: list[Application] = []
        unions: list[tuple[int, int]] = []
        class_of_terms: dict[Terms, int] = {}
        for before, class_ in chains.items():
            terms = operation.arranged((columns.find(value), sign) for value, sign in before)
            key = (operation.name, terms)
            if 2 < len(terms) <= MOST_REGROUPED and key not in self._regrouped:
                self._regrouped.add(key)
                class_of_terms[terms] = class_
        if not class_of_terms:
            return []
        kinds = _kinds(egraph, operation, {value for terms in class_of_terms for value, _ in terms})
        for terms, class_ in class_of_terms.items():
            for first in _gainful(egraph, terms, kinds):
                type_ = egraph.type(class_)
                is_integer = type_ is not None and "int" in type_.dtype
                application = Application(
                    operation.rule,
                    (),
                    equal="exact" if is_integer else "rounding",
                    summary="Operands that can gain from it are brought together.",
                )
                value = _Tree(egraph, operation, application).of(first, terms)
                if value is not None and egraph.are_compatible(value, class_):
                    unions.append((value, class_))
                    application.united = [(class_, value)]
                    applications.append(application)
        _unite(egraph, unions)
        return applications


def _unite(egraph: EGraph, pairs: Sequence[tuple[int, int]]) -> None:
    """State that classes are equal, and draw the consequences if there are any."""
    if pairs:
        array = np.array(pairs, np.int64)
        egraph.columns.union(array[:, 0], array[:, 1])
        egraph.rebuild()


@dataclass(frozen=True)
class _Tree:
    """Makes the e-nodes of a tree; `application` is told of them."""

    egraph: EGraph
    operation: Operation
    application: Application

    def of(self, first: Terms, terms: Terms) -> int | None:
        """The class of all terms, some of them brought together; None if they fit no operator."""
        rest = list(terms)
        for term in first:
            rest.remove(term)
        together = self._signed(first)
        whole = None if together is None else self._signed((together, *rest))
        if whole is None or whole[1] > 0:
            return None if whole is None else whole[0]
        return self._node(self.operation.turns, (whole[0],))

    def _signed(self, terms: Terms) -> Term | None:
        """Terms joined, with the sign of the result: -1 where all are taken away."""
        sign = max(sign for _, sign in terms)
        joined = [value for value, term_sign in terms if term_sign == sign]
        taken = [value for value, term_sign in terms if term_sign != sign]
        value: int | None = joined[0]
        for name, others in ((self.operation.joins[0], joined[1:]), (self.operation.takes, taken)):
            for other in others:
                if value is not None:
                    value = self._node(name, (value, other))
        return None if value is None else (value, sign)

    def _node(self, name: str, operands: tuple[int, ...]) -> int | None:
        egraph, before = self.egraph, self.egraph.columns.size
        number = egraph.vocabulary.operator("", name)
        attributes = egraph.vocabulary.attribute(Attributes({}, (True,)))
        (node,) = egraph.intern([(number, attributes, operands)])
        if node is None:
            return None
        if node >= before:
            egraph.made_by[node] = self.application
        self.application.target_nodes.append(node)
        return egraph.columns.outputs(node)[0]


def _without_mutual(trees: dict[int, list[Terms]]) -> dict[int, list[Terms]]:
    """Of two classes that each are what the other one is turned to, the first is no tree for that.

    Else which of the two a chain is written with would depend on where reading began.
    """
    kept_terms: dict[int, list[Terms]] = {}
    for class_, spellings in trees.items():
        kept = [
            terms
            for terms in spellings
            if len(terms) > 1
            or class_ > terms[0][0]
            or ((class_, -1),) not in trees.get(terms[0][0], ())
        ]
        if kept:
            kept_terms[class_] = kept
    return kept_terms


def _flattened(operation: Operation, trees: Mapping[int, list[Terms]]) -> dict[int, Terms]:
    """Class -> the terms of its first tree, taken apart as far as that leads to no cycle."""
    flat: dict[int, Terms] = {}
    open_: set[int] = set()
    for start in trees:
        stack = [(start, False)]
        while stack:
            class_, ready = stack.pop()
            if class_ in flat:
                continue
            terms = trees[class_][0]
            if ready:
                flat[class_] = _joined(operation, terms, flat, class_) or ((class_, 1),)
                continue
            if class_ in open_:
                continue
            open_.add(class_)
            stack.append((class_, True))
            stack += [(v, False) for v, _ in terms if v in trees and v not in open_]
    return flat


def _joined(
    operation: Operation, terms: Terms, flat: Mapping[int, Terms], class_: int
) -> Terms | None:
    """The terms of a tree; None where it contains its own class or is too long."""
    joined: list[Term] = []
    for value, sign in terms:
        inner: Terms | None = flat.get(value, ((value, 1),))
        if sign < 0 and inner is not None:
            inner = operation.turned(inner)
        joined += ((value, sign),) if inner is None else inner
    arranged = operation.arranged(joined)
    if len(arranged) > MOST_OPERANDS or any(value == class_ for value, _ in arranged):
        return None
    return arranged


def _kinds(egraph: EGraph, operation: Operation, classes: Iterable[int]) -> dict[int, set[int]]:
    """Class -> the operators that give it; sums, chained ones and leaves left out."""
    columns = egraph.columns
    wanted = {egraph.find(value) for value in classes}
    kinds: dict[int, set[int]] = {value: set() for value in wanted}
    left_out = {"Add", *operation.operators}
    nodes, _, values = columns.gives(columns.living())
    for operator, value in zip(columns.operators_of(nodes).tolist(), values.tolist(), strict=True):
        op = egraph.vocabulary.operators[operator]
        if value in wanted and not op.is_virtual and op.name not in left_out:
            kinds[value].add(operator)
    return kinds


def _gainful(egraph: EGraph, terms: Terms, kinds: Mapping[int, set[int]]) -> list[Terms]:
    """What to bring together: all constants at once, and pairs that one operator gave."""
    constants = tuple(term for term in terms if egraph.is_known(term[0]))
    ways = [constants] if 1 < len(constants) < len(terms) else []
    ways += [
        (a, b)
        for a, b in combinations(terms, 2)
        if kinds.get(a[0], set()) & kinds.get(b[0], set())
        and not (a in constants and b in constants)
    ]
    return list(dict.fromkeys(ways))[:MOST_WAYS]
