"""Candidates for regions of a graph: what regions.dl derives for the sinks in question."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from typing import NamedTuple
from weakref import WeakKeyDictionary

from ....catalog.datalog.memory.execution import Evaluator, Prepared
from ....catalog.datalog.memory.program_cache import shipped
from ....rules import ABSENT
from ..loops.affine import Extent
from ..loops.kernel_region import Meanings
from ..loops.reduced_axes import Rows
from .region_facts import Frame, frames, region_facts


@dataclass(frozen=True)
class Candidate:
    """Nodes that one kernel may compute, and the frame that it runs over.

    `space` is the frame's shape, `reduced` says which of its axes are reduced.
    """

    space: tuple[Extent, ...]
    reduced: Rows
    nodes: frozenset[int]


@dataclass(frozen=True)
class Matrix:
    """A constant matrix of a product: its value, whether it is read transposed, and who did that.

    `nodes` are those that a kernel does without.
    """

    value: int
    transposed: bool
    nodes: frozenset[int] = frozenset()


@dataclass(frozen=True)
class BlockProduct:
    """Weights of 4 bits of a product: the node that says what they are, and whether transposed.

    `nodes` are those that a kernel does without.
    """

    source: int
    transposed: bool
    nodes: frozenset[int]


@dataclass(frozen=True)
class AttentionCandidate:
    """An attention, of whose nodes a kernel needs not have those that scale or move operands.

    `chain` are those between the scores and the softmax, `behind` those that put 0 for NaN. `moves`
    are by operand: queries, keys, values.
    """

    softmax: int
    scores: int
    product: int
    chain: frozenset[int]
    behind: frozenset[int]
    scales: frozenset[int]
    moves: tuple[frozenset[int], frozenset[int], frozenset[int]]
    turned_after: frozenset[int]


class Integers(NamedTuple):
    """Integers, the node that dequantizes or quantizes them, and the values of their parameters.

    Of a bias of quantized operators there are none, and a zero point may be left out: ABSENT.
    """

    node: int
    value: int
    scale: int = ABSENT
    zero: int = ABSENT


@dataclass(frozen=True)
class IntegerOperator:
    """A node that computes of integers alone others: by itself, or between those that convert."""

    number: int
    operands: tuple[Integers, ...]
    result: Integers

    @property
    def nodes(self) -> tuple[int, ...]:
        """The node, with those that dequantize for it before, and the one that quantizes behind."""
        opening = (operand.node for operand in self.operands)
        return tuple(dict.fromkeys((*opening, self.number, self.result.node)))


@dataclass(frozen=True)
class DynamicProduct:
    """A product of integers `x` that are quantized while the model runs, and of constants `w`.

    `nodes` begin with the product, the last gives it as numbers. `bias` is (node, value): what a
    node adds to that, the product itself where one operator does all.
    """

    nodes: tuple[int, ...]
    x: Integers
    w: Integers
    bias: tuple[int, int] | None


@dataclass(frozen=True)
class Norm:
    """What the runtime adds up and normalizes in one operator: its nodes, and values by place."""

    is_simplified: bool
    epsilon: float
    nodes: frozenset[int]
    operands: Mapping[int, int]
    results: Mapping[int, int]


class Candidates:
    """What regions.dl derives of one graph, derived when it is asked for."""

    def __init__(self, meanings: Meanings) -> None:
        facts = region_facts(meanings)
        self._graph = meanings.graph
        self._derived = Prepared(program(), facts, ["sink", "stem"])
        self.position: dict[int, int] = dict(facts["position"])  # type: ignore[arg-type]
        self.computable = self._nodes("computable")
        self.reducing = frozenset(n for n, *_ in facts["folds"])
        self.slow = frozenset(n for (n,) in facts["slow"])
        self._by_sink: dict[int, list[Candidate]] = {}
        self._by_stem: dict[int, frozenset[int]] = {}

    def _nodes(self, relation: str) -> frozenset[int]:
        return frozenset(n for (n,) in self._derived.rows(relation))

    def _sets(self, relation: str) -> dict[int, frozenset[int]]:
        """Return what a relation has in its second column, by the first."""
        sets: dict[int, set[int]] = defaultdict(set)
        for number, member in self._derived.rows(relation):
            sets[number].add(member)
        return {number: frozenset(members) for number, members in sets.items()}

    @cached_property
    def worth(self) -> frozenset[int]:
        """The nodes that a region of cells may end in and gain anything."""
        return self._nodes("worth")

    @cached_property
    def begins(self) -> frozenset[int]:
        """The nodes that a region of cells may end in, whether or not it gains anything."""
        return self._nodes("begins")

    @cached_property
    def _frames(self) -> Mapping[str, Frame]:
        return {frame.name: frame for frame in frames(self._graph)}

    def of(self, sink: int) -> list[Candidate]:
        """Return the candidates that end in a node."""
        if sink not in self._by_sink:
            nodes: dict[str, set[int]] = defaultdict(set)
            for _, frame, number in self._derived({"sink": [(sink,)]}, "region"):
                nodes[frame].add(number)
            self._by_sink[sink] = [
                Candidate(self._frames[name].space, self._frames[name].rows, frozenset(inside))
                for name, inside in nodes.items()
            ]
        return self._by_sink[sink]

    @cached_property
    def products(self) -> Mapping[int, Matrix]:
        """The products with a constant matrix."""
        turning: dict[int, int] = dict(iter(self._derived.rows("turns")))
        return {
            n: Matrix(m, bool(turned), frozenset({turning[n]} if n in turning else ()))
            for n, m, turned in self._derived.rows("product")
        }

    @cached_property
    def block_products(self) -> Mapping[int, BlockProduct]:
        """The products with weights of 4 bits, which a node says what they are."""
        turning: dict[int, int] = dict(iter(self._derived.rows("block_turns")))
        return {
            n: BlockProduct(d, bool(turned), frozenset({d, turning.get(n, d)}) - {n})
            for n, d, turned in self._derived.rows("block_product")
        }

    def following(self, stem: int) -> frozenset[int]:
        """Return what may be computed where a node's result is made."""
        if stem not in self._by_stem:
            asked = {stem}
            if not self._by_stem:
                asked.update(self.products, self.block_products, self._nodes("convolves"))
            nodes: dict[int, set[int]] = {root: set() for root in asked}
            for root, number in self._derived({"stem": [(root,) for root in asked]}, "follows"):
                nodes[root].add(number)
            self._by_stem |= {root: frozenset(inside) for root, inside in nodes.items()}
        return self._by_stem[stem]

    @cached_property
    def convolutions(self) -> frozenset[int]:
        """The convolutions over blocks of channels that kernels may compute."""
        return self._nodes("convolution")

    @cached_property
    def pairs(self) -> Mapping[tuple[int, int], int]:
        """The convolutions that slide over what others make of points.

        By the convolution of points, and the node behind it whose result alone they read.
        """
        first = [(number,) for number in self._nodes("of_points")]
        rows = self._derived({"stem": first}, "pair") if first else ()
        return {(points, last): second for points, last, second in rows}

    @cached_property
    def on_integers(self) -> Mapping[int, IntegerOperator]:
        """The nodes that compute of integers of 8 bits alone others."""
        parameters = {(n, k): values for n, k, *values in self._derived.rows("parameters")}
        operands: dict[int, list[Integers]] = defaultdict(list)
        for number, _, node, value, k in sorted(self._derived.rows("opens")):
            operands[number].append(Integers(node, value, *parameters.get((node, k), ())))
        return {
            number: IntegerOperator(
                number,
                tuple(operands[number]),
                Integers(node, value, *parameters.get((node, k), ())),
            )
            for number, node, value, k in self._derived.rows("on_integers")
        }

    def integer_operators(self, sort: str) -> Mapping[int, IntegerOperator]:
        """Return those of a sort, a relation of integers.dl, in order of the graph."""
        numbers = sorted(self._nodes(sort), key=self.position.__getitem__)
        return {number: self.on_integers[number] for number in numbers}

    @cached_property
    def sums(self) -> Mapping[int, int]:
        """The sums of integers by the product of integers that they alone read."""
        return {product: number for number, product in self._derived.rows("adds_product")}

    @cached_property
    def turned_integers(self) -> Mapping[int, IntegerOperator]:
        """The transpositions of integers by what they give."""
        turns = self.integer_operators("integer_turn").values()
        return {turn.result.value: turn for turn in turns}

    @cached_property
    def turns_after(self) -> Mapping[int, IntegerOperator]:
        """The transpositions by the integers that they alone read."""
        rows = self._derived.rows("turns_after")
        return {value: self.on_integers[number] for number, value in rows}

    @cached_property
    def dynamic_products(self) -> Mapping[int, DynamicProduct]:
        """The products of integers that are quantized while the model runs."""
        biases = {n: (node, value) for n, node, value in self._derived.rows("dynamic_bias")}
        operands = {
            (n, place): Integers(n, *values)
            for n, place, *values in self._derived.rows("multiplied")
        }
        return {
            number: DynamicProduct(
                tuple(dict.fromkeys((number, *others))),
                operands[number, 0],
                operands[number, 1],
                biases.get(number),
            )
            for number, *others in self._derived.rows("dynamic_product")
        }

    @cached_property
    def norms(self) -> Mapping[int, Norm]:
        """The normalizations behind a sum that are rounded as the runtime's, by what gives them."""
        nodes = self._sets("normalizes")
        values: dict[tuple[str, int], dict[int, int]] = defaultdict(dict)
        for relation in ("norm_reads", "runtime_gives"):
            for number, place, value in sorted(self._derived.rows(relation)):
                values[relation, number][place] = value
        return {
            number: Norm(
                bool(is_simplified),
                epsilon,
                nodes[number],
                values["norm_reads", number],
                values["runtime_gives", number],
            )
            for number, is_simplified, epsilon in self._derived.rows("norm")
            if number in nodes
        }

    @cached_property
    def groups(self) -> Sequence[frozenset[int]]:
        """The nodes of each QDQ group that the runtime makes one operator of.

        A kernel of a part of such a group would keep the runtime from it, and what is computed then
        is another number: a sum of two quantized tensors, say, is rounded once, and not after each
        of its operands. So that a plan gives what the original gives, a region has all nodes of a
        group or none.
        """
        return list(self._sets("whole").values())

    def divides_groups(self, nodes: Collection[int]) -> bool:
        """Tell whether nodes have a part of such a group."""
        chosen = set(nodes)
        return any(group & chosen and not group <= chosen for group in self.groups)

    def outside_groups(self, nodes: Collection[int]) -> set[int]:
        """Return those of some nodes that are in none."""
        return set(nodes).difference(*self.groups)

    @cached_property
    def scatters(self) -> Mapping[int, frozenset[int]]:
        """The scatters of rows, each with the nodes that may be computed with it."""
        alone = {n: frozenset[int]() for n, *_ in self._derived.rows("scatters")}
        return alone | self._sets("scattered")

    @cached_property
    def attentions(self) -> Mapping[int, AttentionCandidate]:
        """The attentions by their softmaxes, in order of the graph."""
        nodes: dict[int, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
        for softmax, number, role in self._derived.rows("attends"):
            nodes[softmax][role].add(number)
        by_softmax = {}
        for softmax in sorted(nodes, key=self.position.__getitem__):
            of = {role: frozenset(inside) for role, inside in nodes[softmax].items()}
            none = frozenset[int]()
            (scores,), (product,) = of["scores"], of["product"]
            by_softmax[softmax] = AttentionCandidate(
                softmax,
                scores,
                product,
                of.get("between", none),
                of.get("no NaN", none),
                of.get("scale", none),
                (of.get("queries", none), of.get("keys", none), of.get("values", none)),
                of.get("result", none),
            )
        return by_softmax


@cache
def program() -> Evaluator:
    """Return what derives the relations of regions.dl from facts."""
    return shipped(resources.files(__package__) / "regions.dl")


_of_graphs: WeakKeyDictionary[Meanings, Candidates] = WeakKeyDictionary()


def candidates(meanings: Meanings) -> Candidates:
    """Return the candidates of a graph, which isn't to change any more; derived once."""
    if meanings not in _of_graphs:
        _of_graphs[meanings] = Candidates(meanings)
    return _of_graphs[meanings]
