"""Rules and layouts chosen together, against trying every rewrite with every layout."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from tensolog.optimizer.egraph.egraph import EGraph
from tensolog.optimizer.egraph.extraction.e_node_costs import Costs
from tensolog.optimizer.egraph.search import search
from tensolog.optimizer.graph.convert import to_model
from tensolog.optimizer.graph.signature import signature
from tensolog.optimizer.layouts.layout import Layout
from tensolog.optimizer.layouts.plans import joint_space, lay_out_jointly
from tensolog.optimizer.layouts.runtime import NCHWC, block_size
from tensolog.optimizer.layouts.space import space_of
from tensolog.optimizer.match.matcher import Matcher
from tensolog.optimizer.match.rewrite import RewriteError, apply_match, clean
from tensolog.optimizer.setting import Setting

from benchmarks.zoo import build as build_architecture
from tests.campaigns import examples
from tests.models.agreement import disagreement
from tests.optimizer.egraph.pricing import FOLD_LIMIT, Prices, graph_of, shipped_rules
from tests.optimizer.egraph.test_architectures import feeds_of

from .networks import Network, has_blocks, in_blocks, network, operators
from .test_plans import assert_equal, build, image

pytestmark = pytest.mark.skipif(not has_blocks(), reason="the runtime has no blocked kernels")

NAMES = {
    "FoldAddIntoConv", "FoldScaleIntoConvWeight", "FoldBatchNormalizationIntoConv",
    "ConvertBatchNormalizationToMulAdd", "MergeAddedConvs",
}  # fmt: skip
# Programs that rewriting may reach before a network counts as too large.
MOST_PROGRAMS = 60


def rules():
    chosen_rules = [rule for rule in shipped_rules() if rule.name in NAMES]
    assert len(chosen_rules) == len(NAMES)
    return chosen_rules


class Small(Network):
    """A network that the rules above have places in, small enough to try everything."""

    def __init__(self, seed):
        super().__init__(seed)
        self.shape = (1, self.random.choice([4, 16, 20]), 4, 5)
        self.values = {"x": self.shape}
        last = "x"
        for _ in range(self.random.choice([1, 2, 2, 3])):
            last = self.random.choice([self.layer, self.layer, self.branches])(last)

    def layer(self, x):
        self.conv(x, taps=1, m=self.random.choice([8, 16]))
        last = list(self.values)[-1]
        c = self.values[last][1]
        if self.random.random() < 0.5:
            inputs = [last, *(self.constant(c) for _ in range(3)), self.positive(c)]
            last = self.add("BatchNormalization", inputs, self.values[last])
        elif self.random.random() < 0.6:
            op = self.random.choice(["Mul", "Add"])
            last = self.add(op, [last, self.constant(1, c, 1, 1)], self.values[last])
        return last

    def positive(self, *shape):
        name = self.constant(*shape)
        self.constants[name] = np.abs(self.constants[name]) + np.float32(0.5)
        return name

    def branches(self, x):
        parts = []
        for _ in range(2):
            n, c, h, w = self.values[x]
            parts.append(self.add("Conv", [x, self.constant(16, c, 1, 1)], (n, 16, h, w)))
        return self.add("Add", parts, self.values[parts[0]])


def prices(seed):
    """Drawn prices; a reorder costs little in some networks, much in others."""
    reorder = random.Random(seed).choice([1, 30, 300])

    def price(kernel):
        # What a convolution adds and ends in is done with it: in blocks it counts as nothing.
        named = (kernel.domain, kernel.op_type, [spec and spec.shape for spec in kernel.inputs[:2]])
        drawn = random.Random(f"{seed}/{named}").randint(1, 100)
        if kernel.op_type.startswith("Reorder"):
            return reorder + drawn / 100
        return drawn

    return Prices(seed, price)


def programs(graph, chosen):
    """Every graph that applying one rule after the other reaches; None where they are too many."""
    clean(graph, FOLD_LIMIT)
    matcher = Matcher(chosen)
    by_signature, queue = {signature(graph): graph}, [graph]
    while queue:
        current = queue.pop()
        for match in matcher.find(current):
            other = current.copy()
            try:
                apply_match(other, match)
            except RewriteError:
                continue
            clean(other, FOLD_LIMIT)
            if signature(other) not in by_signature:
                by_signature[signature(other)] = other
                queue.append(other)
        if len(by_signature) > MOST_PROGRAMS:
            return None
    return list(by_signature.values())


def least(problem, most=6_000):
    """The cost of the best acyclic selection, by trying them all; None where they are too many."""
    best, steps = float("inf"), 0
    stack = [({}, 0.0)]
    while stack:
        partial, cost = stack.pop()
        steps += 1
        if steps > most:
            return None
        if cost >= best:
            continue
        needed = {*problem.roots, *(need for choice in partial.values() for need in choice.needs)}
        open_ = sorted(needed - set(partial))
        if not open_:
            best = cost
            continue
        offered = problem.choices.get(open_[0], ())
        for choice in sorted(offered, key=lambda choice: -choice.cost):  # the last is tried first
            paid = any(other.node == choice.node for other in partial.values())
            if not closes(partial, open_[0], choice):
                stack.append(({**partial, open_[0]: choice}, cost + (0.0 if paid else choice.cost)))
    return best


def closes(partial, class_, choice):
    """Whether a choice for a class would need the class itself."""
    seen, queue = set(), list(choice.needs)
    while queue:
        need = queue.pop()
        if need == class_:
            return True
        if need not in seen and need in partial:
            seen.add(need)
            queue += partial[need].needs
    return False


def alone(graph, priced):
    """The best that the layouts of one program lead to."""
    egraph = EGraph(graph, {}, FOLD_LIMIT)
    space = space_of(egraph, Costs(egraph, priced), block_size())
    return None if space is None else least(space.problem())


def together(graph, chosen, priced, count=1):
    search_result = search(graph, chosen, priced, sizes={}, fold_limit=FOLD_LIMIT, count=count)
    return joint_space(search_result, chosen)


@settings(max_examples=examples(18), deadline=None)
@given(seed=st.integers(0, 10**6))
def test_no_program_in_any_layout_is_cheaper(seed):
    drawn, priced = Small(seed), prices(seed)
    graph = graph_of(drawn.model())
    every = programs(graph.copy(), rules())
    if every is None:
        return
    bests = [alone(program, priced) for program in every]
    if None in bests:
        return
    space = together(graph, rules(), priced)
    assert space.cheapest().cost == pytest.approx(min(bests))


@settings(max_examples=examples(12), deadline=None)
@given(seed=st.integers(0, 10**6))
def test_no_plan_of_the_search_alone_is_cheaper_in_any_layout(seed):
    """On larger networks, where not everything can be tried: the plans that would race."""
    graph, priced = graph_of(network(seed).model()), prices(seed)
    clean(graph, FOLD_LIMIT)
    chosen = [rule for tag in ("always", "explore") for rule in
              Setting().select(shipped_rules(), graph, tag)]  # fmt: skip
    search_result = search(graph, chosen, priced, sizes={}, fold_limit=FOLD_LIMIT, count=3)
    plans = [plan.graph.copy() for plan in search_result.plans]
    space = joint_space(search_result, chosen)
    if space is None:
        return
    for plan in plans:
        clean(plan, FOLD_LIMIT)
        egraph = EGraph(plan, {}, FOLD_LIMIT)
        plan_space = space_of(egraph, Costs(egraph, priced), block_size())
        assert plan_space is None or space.cheapest().cost <= plan_space.cheapest().cost * 1.05


@settings(max_examples=examples(25), deadline=None)
@given(seed=st.integers(0, 10**6))
def test_what_is_chosen_computes_what_the_model_does(seed):
    drawn = network(seed)
    model = drawn.model()
    graph = graph_of(model)
    chosen = [rule for tag in ("always", "explore") for rule in
              Setting().select(shipped_rules(), graph, tag)]  # fmt: skip
    search_result = search(
        graph, chosen, Prices(seed, in_blocks), sizes={}, fold_limit=FOLD_LIMIT, count=2
    )
    laid, _ = lay_out_jointly(search_result, chosen)
    if laid is not None:
        assert_equal(model, to_model(laid.graph), {"x": image(*drawn.shape, seed=seed)})


def parallel(m1, m2):
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["p"]),
        helper.make_node("Conv", ["x", "v"], ["b"]),
        helper.make_node("Sigmoid", ["b"], ["q"]),
        helper.make_node("Conv", ["p", "u"], ["c"]),
        helper.make_node("Conv", ["q", "t"], ["d"]),
        helper.make_node("Add", ["c", "d"], ["y"]),
    ]
    shapes = {"w": (m1, 32, 1, 1), "v": (m2, 32, 1, 1), "u": (16, m1, 3, 3), "t": (16, m2, 3, 3)}
    constants = {
        name: image(*shape, seed=seed) * np.float32(0.2)
        for seed, (name, shape) in enumerate(shapes.items())
    }
    return build(nodes, (1, 32, 6, 6), constants)


def merging(kernel):
    """Wide convolutions are dear, but in blocks: there a wide one costs what a narrow one does."""
    if kernel.op_type == "Conv":
        wide = kernel.inputs[1].shape[0] > 20
        return 10 if kernel.domain == NCHWC else 1_000 if wide else 20
    return 1


@pytest.mark.parametrize(("m1", "m2"), [(16, 16), (20, 12)])
def test_a_merge_that_pays_in_blocks_alone_is_found(m1, m2):
    """Its parts are split in blocks: the second one of (20, 12) begins with a block of its own."""
    model = parallel(m1, m2)
    graph = graph_of(model)
    chosen = [rule for rule in shipped_rules() if rule.name == "MergeConvsSharingInput"]
    search_result = search(graph, chosen, Prices(0, merging), sizes={}, fold_limit=FOLD_LIMIT)
    assert not any(step.rule == "MergeConvsSharingInput" for step in search_result.steps)
    laid, _ = lay_out_jointly(search_result, chosen)
    assert {"MergeConvsSharingInput", "SplitBlocks"} <= {step.rule for step in laid.steps}
    result = to_model(laid.graph)
    assert operators(result)["Split"] == 1 and operators(result)["blocked Conv"] == 3
    assert_equal(model, result, {"x": image(1, 32, 6, 6)})


@pytest.mark.parametrize("seed", range(5))
def test_noise_between_equal_convolutions_does_not_keep_a_normalization(seed):
    """Weights that were folded take as long: what was measured of either counts for both."""
    defaults = {"dilations": [1, 1], "strides": [1, 1], "pads": [0] * 4, "group": 1}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], kernel_shape=[1, 1], **defaults),
        helper.make_node("BatchNormalization", ["a", "s", "b", "m", "v"], ["n"]),
        helper.make_node("Relu", ["n"], ["y"]),
    ]
    shapes = {"w": (32, 32, 1, 1), **dict.fromkeys("sbmv", (32,))}
    constants = {name: np.abs(image(*shape)) + np.float32(0.5) for name, shape in shapes.items()}

    def price(kernel):
        if kernel.op_type == "Conv":
            return random.Random(f"{seed}/{kernel.hash}").uniform(100, 130)
        return 2

    graph = graph_of(build(nodes, (1, 32, 6, 6), constants))
    names = ("FoldBatchNormalizationIntoConv", "ConvertBatchNormalizationToMulAdd")
    chosen = [rule for rule in shipped_rules() if rule.name in names]
    search_result = search(graph, chosen, Prices(0, price), sizes={}, fold_limit=FOLD_LIMIT)
    space = joint_space(search_result, chosen)
    plan = space.cheapest().selection.values()
    egraph = search_result.egraph
    numbers = [egraph.columns.operator(choice.node) for choice in plan]
    op_types = {egraph.vocabulary.operators[number].op_type for number in numbers}
    assert "BatchNormalization" not in op_types
    assert len({choice.node for choice in plan}) <= 3  # a convolution, and what leads in and out


def test_a_forbidden_rule_is_not_used():
    graph = graph_of(parallel(16, 16))
    chosen = [rule for rule in shipped_rules() if rule.name == "MergeConvsSharingInput"]
    search_result = search(graph, chosen, Prices(0, merging), sizes={}, fold_limit=FOLD_LIMIT)
    laid, _ = lay_out_jointly(search_result, chosen, ("MergeConvsSharingInput",))
    assert operators(to_model(laid.graph))["blocked Conv"] == 4


@pytest.mark.parametrize(
    ("parts", "sizes", "cut"),
    [
        ((32,), (16, 16), ((16,), (16,))),
        ((40,), (16, 24), ((16,), (24,))),
        ((40,), (24, 16), None),  # the second part would begin within a block
        ((24, 16), (24, 16), ((24,), (16,))),
        ((24, 16), (16, 24), ((16,), (8, 16))),
        ((24, 20), (8, 36), None),
        ((24, 20), (44, 0), ((24, 20), ())),
    ],
)
def test_a_layout_is_cut_where_blocks_stay_whole(parts, sizes, cut):
    cut_layouts = Layout(parts, 16).cut(sizes)
    assert (None if cut_layouts is None else tuple(layout.parts for layout in cut_layouts)) == cut
    if cut_layouts is not None:
        assert sum(layout.width for layout in cut_layouts) == Layout(parts, 16).width


@pytest.mark.parametrize("name", ["squeezenet", "unet", "nasnet"])
def test_architectures_compute_what_they_did(name):
    model = build_architecture(name, tiny=True)
    graph = graph_of(model)
    clean(graph, FOLD_LIMIT)
    chosen = [rule for tag in ("always", "explore") for rule in
              Setting().select(shipped_rules(), graph, tag)]  # fmt: skip
    search_result = search(graph, chosen, Prices(3), sizes={}, fold_limit=FOLD_LIMIT, count=2)
    laid, _ = lay_out_jointly(search_result, chosen)
    assert laid is not None and operators(to_model(laid.graph))["blocked Conv"] > 0
    assert disagreement(model, to_model(laid.graph), feeds_of(model)) is None
