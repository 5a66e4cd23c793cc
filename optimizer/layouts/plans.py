"""The cheapest plan with blocked values: extracted, written out, and guarded."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

import onnx

from ..convert import type_proto
from ..egraph.build import build
from ..egraph.costs import Costs, own_nodes, problem_of
from ..egraph.egraph import EGraph
from ..egraph.extract import MOST_STEPS, extract
from ..egraph.problem import Choice, CycleError, Problem, Selection, cost_of, in_order
from ..egraph.trace import steps_of
from ..graph import Graph
from ..price import Prices
from ..rewrite import Step, clean
from .blocking import Blocking
from .convolutions import is_blocked_by_runtime
from .filters import FILTERS, computed
from .growing import grow
from .guard import guard
from .runtime import NCHWC, VERSION, block_size
from .values import BlockedValues

# Extractions after which what is not measured yet counts with its bound.
EXTRACTIONS = 4
REORDERS = ("ReorderInput", "ReorderOutput")
MOVES = (*REORDERS, "Transpose")
# How many times its bound a reorder counts that nobody measured: they are avoided then.
UNMEASURED = 4.0
# A model in blocks enters and leaves them once: where the runtime does no more, nothing is left.
LEAST_MOVES = 2


@dataclass(frozen=True)
class Laid:
    """A plan with blocked values: its graph, the steps to it, and what it is expected to cost."""

    graph: Graph
    steps: list[Step]
    cost_ns: float


class BlockedCosts:
    """Costs where the layout of each value is a choice.

    The cost model takes a convolution that stands alone for one within the runtime's own blocked
    regions, and leaves the reorders out. Here those are e-nodes of their own, so that a convolution
    that the runtime would have to reorder for is charged with them; so is one that nobody measured.
    """

    def __init__(self, costs: Costs, blocking: Blocking) -> None:
        self.costs, self.blocking = costs, blocking

    def __call__(self, node: int) -> float:
        """The cost of an e-node in nanoseconds; infinite where it can't be used."""
        blocking, find = self.blocking, self.blocking.egraph.find
        node = blocking.same.get(node, node)
        twin = blocking.twins.get(node)
        if twin is not None and (self._is_blocked_by_runtime(node) or self._is_open(node)):
            columns = blocking.egraph.columns
            ends = (
                blocking.values.entering.get(find(columns.operands(node)[0])),
                blocking.values.leaving.get(find(columns.outputs(node)[0])),
            )
            return self(twin) + sum(self(end) for end in ends if end is not None)
        original = blocking.likes.get(node)
        if original is not None and self._is_open(node):
            return self(original) if original in blocking.likes else self.costs(original)
        cost = self.costs(node)
        return cost * UNMEASURED if self._is_reorder(node) and self._is_open(node) else cost

    def _is_reorder(self, node: int) -> bool:
        egraph = self.blocking.egraph
        op = egraph.vocabulary.operators[egraph.columns.operator(node)]
        return op.domain == NCHWC and op.op_type in REORDERS

    def _is_open(self, node: int) -> bool:
        kernel = self.costs.kernel(node)
        return kernel is not None and self.costs.prices.cost(kernel).source == "bound"

    def _is_blocked_by_runtime(self, node: int) -> bool:
        egraph = self.blocking.egraph
        op = egraph.vocabulary.operators[egraph.columns.operator(node)]
        operands = egraph.columns.operands(node)
        block = self.blocking.values.block
        if op.op_type == "ReduceMean":
            return False
        if op.op_type != "Conv":
            image = self.blocking.values.image(operands[0])
            return image is not None and int(image[1][1]) % block == 0
        type_ = egraph.type(operands[1])
        assert type_ is not None and type_.shape is not None
        own = egraph.vocabulary.attributes[egraph.columns.attribute(node)].values
        weights = tuple(int(size) for size in type_.shape)
        return is_blocked_by_runtime(weights, int(own.get("group", 1)), block)  # type: ignore[call-overload]


def lay_out(
    graph: Graph, prices: Prices, *, sizes: Mapping[str, int], fold_limit: int
) -> Laid | None:
    """Find the cheapest way to compute a graph when values may lie in blocks.

    None where nothing would, or the runtime has no such kernels. What the plan needs is measured
    as far as the budget of `prices` goes, and counts with its bound else. `graph` is left as it is.
    """
    block = block_size()
    if block is None:
        return None
    egraph = EGraph(graph, sizes, fold_limit)
    blocking = Blocking(egraph, BlockedValues(egraph, block))
    grow(blocking)
    if not blocking.values.blocked:
        return None
    costs = Costs(egraph, prices)
    priced = BlockedCosts(costs, blocking)
    for _ in range(EXTRACTIONS):
        problem = problem_of(egraph, priced)
        start = first_selection(problem, blocking)
        extraction = extract(problem, start, MOST_STEPS)
        nodes = {choice.node for choice in extraction.selection.values()}
        if not costs.measure(sorted(blocking.same.get(node, node) for node in nodes)):
            break
    selection = extraction.selection
    operators = egraph.vocabulary.operators
    used = {operators[egraph.columns.operator(c.node)].domain for c in selection.values()}
    if NCHWC not in used:
        return None
    roots = dict.fromkeys(egraph.find(value) for value in egraph.graph.graph_outputs)
    laid = build(egraph, selection, tuple(value for value in roots if value in selection))
    steps = steps_of(egraph, selection, blocking.values.applications, costs)
    return Laid(laid, steps, extraction.cost) if finished(laid, fold_limit, block) else None


def first_selection(problem: Problem, blocking: Blocking) -> Selection:
    """A selection to start from: the model's own, or one that is better by far mostly.

    Each class as cheaply as can be, where a value that several operators read is charged to each
    in equal parts: what a network's layers share in one layout they mostly share in another. The
    reorders alone bear all that they need, so that no two of them can be chosen in a circle.
    """
    egraph = blocking.egraph
    own = own_nodes(egraph, problem)
    counts = readers_of(blocking)
    names = egraph.vocabulary.operators
    users: dict[int, list[int]] = {}
    for class_, offered in problem.choices.items():
        for need in {need for choice in offered for need in choice.needs}:
            users.setdefault(need, []).append(class_)
    least: dict[int, float] = {}
    chosen: dict[int, Choice] = {}
    queue = deque(sorted(problem.choices))
    waiting = set(queue)
    while queue:
        class_ = queue.popleft()
        waiting.discard(class_)
        for choice in problem.choices[class_]:
            if not all(need in least for need in choice.needs):
                continue
            is_reorder = names[egraph.columns.operator(choice.node)].op_type in REORDERS
            total = choice.cost + sum(
                least[need] / (1 if is_reorder else counts.get(need, 1)) for need in choice.needs
            )
            if total < least.get(class_, inf) * (1 - 1e-9):
                least[class_], chosen[class_] = total, choice
                for user in users.get(class_, ()):
                    if user not in waiting:
                        waiting.add(user)
                        queue.append(user)
    try:
        found = {class_: chosen[class_] for class_ in in_order(chosen, problem.roots)}
    except (CycleError, KeyError):
        return own
    return min((own, found), key=lambda selection: cost_of(selection, selection))


def readers_of(blocking: Blocking) -> dict[int, int]:
    """Class -> how many nodes of the model read its value, in whatever layout."""
    egraph = blocking.egraph
    counts = {egraph.find(value): max(1, len(users)) for value, users in egraph.graph.users.items()}
    for class_, layouts in blocking.values.blocked.items():
        for value in layouts.values():
            counts[egraph.find(value)] = counts.get(class_, 1)
    return counts


def finished(graph: Graph, fold_limit: int, block: int) -> bool:
    """Compute the weights of a plan, guard it, import its operators; False where it can't be."""
    clean(graph, fold_limit)
    for number, node in list(graph.nodes.items()):
        if node.domain != FILTERS:
            continue
        (source,), (output,) = node.inputs, node.outputs
        array = graph.constant(source)
        if array is None:
            return False
        laid = computed(node.op_type, array, graph.attributes(number))
        graph.remove_node(number)
        graph.set_constant(output, graph.shelve(laid))
    guard(graph, block)
    base = onnx.ModelProto()
    base.CopyFrom(graph.base)
    base.opset_import.add(domain=NCHWC, version=VERSION)
    graph.base = base
    clean(graph, fold_limit)
    for node in graph.nodes.values():  # nobody but the runtime knows these operators' types
        type_ = graph.types.get(node.outputs[0])
        if node.domain == NCHWC and type_ is not None:
            name = graph.names[node.outputs[0]]
            base.graph.value_info.append(onnx.ValueInfoProto(name=name, type=type_proto(type_)))
    return True


def moves(run: Counter[str]) -> int:
    """Count the operators that do nothing but move images from one layout to another."""
    return sum(run[name] for name in MOVES)


def is_news(graph: Graph, run: Counter[str]) -> bool:
    """Whether a plan reorders less often than the runtime does where it lays the model out itself.

    `run` counts the operators that it runs then. Else the plan is what the runtime makes anyway.
    """
    own = Counter(node.op_type for node in graph.nodes.values())
    return own["ReorderOutput"] > 0 and moves(own) < moves(run)
