"""Why the pattern of a rule is not in a graph: the part of it that is there, and what is not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ...rules import ABSENT, Match, NearMiss, Rule, why_missed
from ...rules.compiler.failed_conditions import failed_conditions
from ...rules.language.repetition import pattern
from ...rules.language.schemas import commutative
from ...rules.language.syntax import Input, Output, PatternNode
from ..graph.graph import Graph

# Nodes that are tried in the place of one of the pattern's: a value may have thousands of users.
MOST_TRIED = 2_000
SHOWN = 4


@dataclass(frozen=True)
class Part:
    """The part of a pattern that was found: its nodes by name, and the values that they touch."""

    nodes: Mapping[str, int] = field(default_factory=dict)
    values: Mapping[str, int] = field(default_factory=dict)
    positions: Mapping[str, int] = field(default_factory=dict)

    def holds(self, name: str) -> bool:
        """Whether a name stands for a value that is there."""
        return self.values.get(name, ABSENT) != ABSENT


@dataclass(frozen=True)
class Nearest:
    """The largest part of a rule's pattern in a graph, and why it is not all of it, or no match.

    `missing` counts the pattern's nodes that are not there; with none of them missing and no
    `reason` the rule matches.
    """

    nodes: tuple[int, ...]
    missing: int
    reason: str


def nearest(rule: Rule, graph: Graph, number: int | None = None) -> Nearest:
    """Find the largest part of a rule's pattern in a graph; with `number`, around that node.

    Where the whole pattern is there, its conditions are looked at, and the fewest that fail count.
    Of a rule that gathers nodes the pattern is that of one of them.
    """
    rule = pattern(rule)
    starts = graph.nodes if number is None else (number,)
    present = {node.operator for node in graph.nodes.values()}
    lacking = [_named(node) for node in rule.match if not present & set(node.operators)]
    if lacking:
        return Nearest((), len(rule.match), f"the model has no {_listed(lacking, 'and no')}")
    search = _Search(rule, graph)
    for start in starts:
        for node in rule.match:
            search.run(node, start)
    return search.result()


class _Search:
    """Parts of one pattern, grown node by node; the best of them all is kept."""

    def __init__(self, rule: Rule, graph: Graph) -> None:
        self.rule, self.graph, self.remaining_tries = rule, graph, MOST_TRIED
        self.best: tuple[tuple[int, int], Part, str] | None = None
        self.seen: set[tuple[tuple[str, int], ...]] = set()

    def run(self, node: PatternNode, start: int) -> None:
        """Grow parts from a node of the graph in the place of one of the pattern's."""
        self.remaining_tries = MOST_TRIED
        for part in self._placed(Part(), node, start):
            self._grow(part)

    def result(self) -> Nearest:
        """The best part; there is none where no node is of an operator of the pattern."""
        if self.best is None:
            operators = dict.fromkeys(_named(node) for node in self.rule.match)
            return Nearest((), len(self.rule.match), f"it is about {_listed([*operators], 'and')}")
        (missing, _), part, reason = self.best
        return Nearest(tuple(part.nodes.values()), missing, reason)

    def _grow(self, part: Part) -> None:
        open_ = [node for node in self.rule.match if node.name not in part.nodes]
        if not open_:
            self._judge(part)
            return
        node = next((node for node in open_ if _touches(node, part)), open_[0])
        is_extended = False
        for number in self._candidates(part, node):
            self.remaining_tries -= 1
            for larger in self._placed(part, node, number) if self.remaining_tries > 0 else ():
                is_extended = True
                self._grow(larger)
        if not is_extended:
            self._note(len(open_), 0, part, node)

    def _judge(self, part: Part) -> None:
        """Look at the conditions of a whole pattern."""
        key = tuple(sorted(part.values.items()))
        if key in self.seen:
            return
        self.seen.add(key)
        match = Match(self.rule, part.nodes, part.values, {}, part.positions)
        failed = failed_conditions(match, self.graph)
        reason = ""
        if failed:
            said = why_missed(NearMiss(self.rule, failed[0], match), self.graph)
            reason = said + _more(len(failed) - 1)
        self._keep((0, len(failed)), part, reason)

    def _note(self, missing: int, failed: int, part: Part, node: PatternNode) -> None:
        if self.best is None or (missing, failed) < self.best[0]:
            self._keep((missing, failed), part, self._why(part, node))

    def _keep(self, rank: tuple[int, int], part: Part, reason: str) -> None:
        if self.best is None or rank < self.best[0]:
            self.best = rank, part, reason

    # ------------------------------------------------------------------------------- growing

    def _candidates(self, part: Part, node: PatternNode) -> list[int]:
        """Nodes of the graph that touch the part where a node of the pattern does."""
        graph = self.graph
        outputs = [part.values[o.value] for o in node.outputs if part.holds(o.value)]
        read = [part.values[i.value] for i in node.inputs if i.value and part.holds(i.value)]
        if outputs:
            return [graph.producer[v] for v in outputs[:1] if v in graph.producer]
        if read:
            return sorted(graph.users.get(read[0], ()))
        return list(graph.nodes)

    def _placed(self, part: Part, node: PatternNode, number: int) -> Iterator[Part]:
        """The part with a node of the graph in the place of one of the pattern's."""
        node_ = self.graph.nodes[number]
        if node_.operator not in node.operators or number in part.nodes.values():
            return
        for inputs, input_positions in _spread(node.inputs, node_.inputs, f"{node.name}:in"):
            for outputs, to in _spread(node.outputs, node_.outputs, f"{node.name}:out"):
                for order in _orders(node_.operator, inputs):
                    values = _bound(part.values, (*order, *outputs))
                    if values is not None:
                        nodes = {**part.nodes, node.name: number}
                        yield Part(nodes, values, {**part.positions, **input_positions, **to})

    # --------------------------------------------------------------------------------- words

    def _why(self, part: Part, node: PatternNode) -> str:
        """Say which node of the pattern is missing, and what is in its place."""
        graph, wanted = self.graph, _named(node)
        there = _listed([graph.node_name(n) for n in part.nodes.values()], "and")
        verb = "is" if len(part.nodes) == 1 else "are"
        for output in node.outputs:
            if part.holds(output.value):
                value = part.values[output.value]
                return f"{there} {verb} there, but {self._giver(value, wanted)}"
        for item in node.inputs:
            if item.value and part.holds(item.value):
                value = part.values[item.value]
                return f"{there} {verb} there, but {self._readers(part, value, wanted)}"
        return f"{there} {verb} there, but no {wanted} beside"

    def _giver(self, value: int, wanted: str) -> str:
        graph = self.graph
        name = graph.value_name(value)
        if value in graph.producer:
            node = graph.nodes[graph.producer[value]]
            other = node.operator
            if other in wanted.split(" or "):
                giver = graph.node_name(graph.producer[value])
                return f"{giver}, which gives {name}, does not fit the rest of the pattern"
            return f"{name} is given by {other}, not by {wanted}"
        source = "a constant" if graph.is_constant(value) else "an input of the model"
        return f"{name} is {source}, not given by {wanted}"

    def _readers(self, part: Part, value: int, wanted: str) -> str:
        graph, inside = self.graph, set(part.nodes.values())
        users = sorted(graph.users.get(value, set()) - inside)
        operators = list(dict.fromkeys(graph.nodes[n].operator for n in users))
        name = graph.value_name(value)
        if not users:
            return f"no {wanted} reads {name}: nothing else does"
        if set(operators) & set(wanted.split(" or ")):
            return f"no {wanted} that reads {name} fits the rest of the pattern"
        return f"no {wanted} reads {name}: {_listed(operators, 'and')} do{'es' * (len(users) == 1)}"


def _touches(node: PatternNode, part: Part) -> bool:
    return any(part.holds(o.value) for o in node.outputs) or any(
        item.value and part.holds(item.value) for item in node.inputs
    )


Slots = tuple[tuple[str, int, bool], ...]


def _spread(
    items: tuple[Input, ...] | tuple[Output, ...], actual: tuple[int, ...], side: str
) -> Iterator[tuple[Slots, dict[str, int]]]:
    """The values that the single names of one side of a node stand for, in each way there is.

    A name may be absent where it is optional; between two lists it may stand anywhere.
    """
    stars = sum(item.star for item in items)
    singles = [item for item in items if not item.star]
    if stars == 2:
        for place, value in enumerate(actual):
            yield _slots(singles, (value,)), {side: place}
        return
    is_output = not items or isinstance(items[0], Output)
    if not stars and not is_output and any(v != ABSENT for v in actual[len(items) :]):
        return  # an operand that the pattern does not have
    padded = (*actual, *(ABSENT,) * len(items))[: len(singles)]
    yield _slots(singles, padded), {}


def _slots(items: Sequence[Input | Output], values: tuple[int, ...]) -> Slots:
    return tuple(
        (item.value or "", value, isinstance(item, Input) and item.optional)
        for item, value in zip(items, values, strict=True)
    )


def _orders(operator: str, inputs: Slots) -> Iterator[Slots]:
    yield inputs
    if operator in commutative() and len(inputs) == 2:
        (a, x, may_a), (b, y, may_b) = inputs
        yield (a, y, may_a), (b, x, may_b)


def _bound(values: Mapping[str, int], slots: Slots) -> dict[str, int] | None:
    """The names with those of one more node; None where a name would stand for two values."""
    bound_values = dict(values)
    for name, value, optional in slots:
        if not name:
            if value != ABSENT:  # the pattern leaves it out
                return None
            continue
        if value == ABSENT and not optional:
            return None
        if bound_values.setdefault(name, value) != value:
            return None
    return bound_values


def _more(count: int) -> str:
    if not count:
        return ""
    return "; 1 more condition fails" if count == 1 else f"; {count} more conditions fail"


def _named(node: PatternNode) -> str:
    return " or ".join(node.operators)


def _listed(names: list[str], word: str) -> str:
    shown = names if len(names) <= SHOWN else [*names[:SHOWN], f"{len(names) - SHOWN} more"]
    if len(shown) < 2:
        return "".join(shown)
    return f"{', '.join(shown[:-1])} {word} {shown[-1]}"
