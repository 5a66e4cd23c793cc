"""What is told of layouts: for one node, and as tables."""

import json

import duckdb
import numpy as np
import pytest
from onnx import helper
from tensolog.optimizer.egraph.search import search
from tensolog.optimizer.egraph.search_tables import write_search
from tensolog.optimizer.explain.node_story import Question, answer
from tensolog.optimizer.layouts.plans import lay_out_jointly
from tensolog.optimizer.match.rewrite import Step
from tensolog.optimizer.setting import Setting

from tests.optimizer.egraph.pricing import FOLD_LIMIT, Prices, graph_of

from .networks import has_blocks, in_blocks
from .test_plans import build, image, weights

pytestmark = pytest.mark.skipif(not has_blocks(), reason="the runtime has no blocked kernels")


def priced(blocked, plain, reorder):
    """What a convolution costs in blocks and outside, and a reorder; the rest costs 1."""

    def price(kernel):
        if kernel.op_type.startswith("Reorder"):
            return reorder
        if kernel.op_type == "Conv":
            return blocked if kernel.domain else plain
        return 1

    return price


def activated():
    """A convolution of odd channels, which the runtime leaves outside; an activation, a sum."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="narrow", group=20),
        helper.make_node("Relu", ["a"], ["r"], name="act"),
        helper.make_node("ReduceSum", ["r"], ["y"], name="total"),
    ]
    return build(nodes, (1, 20, 6, 6), {"w": weights(20, 1, 1, 1)})


def story(
    model,
    node,
    price=in_blocks,
    target="onnxruntime-cpu",
    allow=("exact", "rounding"),
    steps=(),
):
    setting = Setting(target=target, allow=allow)
    return answer(graph_of(model), node, Question(setting, (), {}), Prices(0, price), steps)


def test_a_layout_that_is_chosen_says_so_and_what_the_other_would_cost():
    """Blocks: 5 to enter, 10, 5 to leave, and the activation free; outside: 100, and 1 for it."""
    node_story = story(activated(), "narrow", priced(blocked=10, plain=100, reorder=5))
    assert node_story.fate == "computed in blocks in the cheapest plan, in one with act"
    assert (node_story.plan_ns, node_story.own_ns) == (21, 102)
    outside, inside = node_story.layouts
    assert (outside.layout, outside.is_chosen) == ("outside of blocks", False)
    assert inside.layout.startswith("as 20 channels in blocks of ")
    assert {way.rule for way in inside.ways} == {
        "ConvertDepthwiseConvToBlocks",
        "ReorderIntoBlocks",
    }
    assert {way.rule for way in node_story.ways} == {"", "ReorderOutOfBlocks"}
    json.dumps(node_story.to_json())
    assert "Layouts" in node_story.text() and "ReorderIntoBlocks" in node_story.text()


def test_a_layout_that_is_not_chosen_costs_what_the_plan_would_take_more():
    """Outside 12; in blocks 10, and 5 to enter, and 5 to leave: 8 more."""
    node_story = story(activated(), "narrow", priced(blocked=10, plain=12, reorder=5))
    assert node_story.fate == "kept in the cheapest plan" and node_story.plan_ns == 14
    outside, inside = node_story.layouts
    assert outside.is_chosen and outside.more_ns == 0
    assert not inside.is_chosen and inside.more_ns == 8


def refused(*nodes, shape=(1, 32, 6, 6), **constants):
    return build([helper.make_node("Conv", ["x", "first"], ["s"]), *nodes], shape,
                 {"first": weights(32, 32, 1, 1), **constants})  # fmt: skip


CASES = {
    "weights are computed": refused(
        helper.make_node("Neg", ["s"], ["v"]),
        helper.make_node("Conv", ["s", "v"], ["y"], name="it"),
        shape=(32, 32, 1, 1),
    ),
    "groups share blocks": refused(
        helper.make_node("Conv", ["s", "w"], ["y"], name="it", group=4),
        w=weights(20, 8, 1, 1)[:20],
    ),
    "join channels": refused(helper.make_node("Concat", ["s", "s"], ["y"], name="it", axis=2)),
    "mean over height and width": refused(
        helper.make_node("ReduceMean", ["s"], ["y"], name="it", axes=[1, 2])
    ),
    "windows overlap": refused(
        helper.make_node("ConvTranspose", ["s", "t"], ["y"], name="it"), t=weights(32, 16, 2, 2)
    ),
    "neither one number nor one a channel": refused(
        helper.make_node("Sub", ["s", "d"], ["y"], name="it"), d=weights(6)
    ),
    "begin with a block": refused(
        helper.make_node("MaxPool", ["s"], ["m"], kernel_shape=[1, 1]),
        helper.make_node("Split", ["m", "z"], ["y", "u"], name="it", axis=1),
        z=image(2).astype("int64") * 0 + [5, 27],
    ),
    "no image of float32": refused(
        helper.make_node("ReduceMean", ["s"], ["m"], keepdims=0, axes=[2]),
        helper.make_node("Relu", ["m"], ["y"], name="it"),
    ),
}


@pytest.mark.parametrize("reason", CASES)
def test_why_a_node_stays_outside_is_told(reason):
    node_story = story(CASES[reason], "it")
    assert reason in node_story.refusal
    assert node_story.refusal in node_story.text()
    if reason == "begin with a block":  # parts of channels are looked at when they are laid out
        assert node_story.refusing_clause == ""
    else:
        assert (
            node_story.refusing_clause.startswith("refused(n, ")
            and " :- " in node_story.refusing_clause
        )
        assert node_story.refusing_clause in node_story.text()


@pytest.mark.parametrize(
    "options", [{"target": "onnx"}, {"allow": ("exact",)}], ids=["onnx", "exact"]
)
def test_no_layouts_where_plans_have_none(options):
    node_story = story(activated(), "narrow", priced(10, 100, 5), **options)
    assert node_story.layouts == [] and node_story.refusal == ""
    assert node_story.fate == "kept in the cheapest plan"


def test_blocked_classes_and_reorders_are_rows(tmp_path):
    search_result = search(
        graph_of(activated()), (), Prices(0, priced(10, 100, 5)), sizes={}, fold_limit=FOLD_LIMIT
    )
    laid, _ = lay_out_jointly(search_result, ())
    path = tmp_path / "search.duckdb"
    write_search(search_result, path, laid.account())
    with duckdb.connect(str(path), read_only=True) as tables:

        def rows(text):
            return tables.execute(text).fetchall()

        assert rows("SELECT laid_out, cost_ns FROM e_plan ORDER BY rank") == [
            (False, 102.0), (True, 21.0)]  # fmt: skip
        # Each choice of either plan is an e-node that gives the class.
        assert rows("SELECT count(*) FROM e_choice LEFT JOIN e_node USING (node_id, class_id) "
                    "WHERE operator IS NULL") == [(0,)]  # fmt: skip
        # A blocked class names the one outside, and reorders lead from one to the other.
        reorders = rows(
            "SELECT DISTINCT n.rule FROM e_class c JOIN e_class p ON p.class_id = c.plain_id "
            "JOIN e_node n ON (n.class_id, n.operands[1]) IN "
            "((c.class_id, p.class_id), (p.class_id, c.class_id)) WHERE c.layout != '' ORDER BY 1"
        )
        assert reorders == [("ReorderIntoBlocks",), ("ReorderOutOfBlocks",)]
        assert rows("SELECT operator FROM e_choice JOIN e_node USING (node_id, class_id) "
                    "WHERE rank = 2 ORDER BY position") == [
            ("com.microsoft.nchwc:ReorderInput",), ("com.microsoft.nchwc:Conv",),
            ("com.microsoft.nchwc:ReorderOutput",), ("ReduceSum",)]  # fmt: skip
        ((reason,),) = rows(
            "SELECT reason FROM e_refusal JOIN e_node USING (node_id) WHERE name = 'total'"
        )
        assert reason == "nothing is known of the operator in blocks"


def test_a_story_follows_what_stands_in_the_place_of_a_node():
    built = build(
        [
            helper.make_node("Conv", ["x", "w"], ["a"], name="first"),
            helper.make_node("Mul", ["a", "s"], ["b"], name="scale"),
            helper.make_node("Relu", ["b"], ["y"], name="relu"),
        ],
        (1, 16, 4, 4),
        {"w": np.ones((16, 16, 1, 1), np.float32), "s": np.ones((16, 1, 1), np.float32)},
    )
    steps = [
        Step("Fold", ("first", "scale"), 2, 1, True, "gains"),
        Step("Lay", ("Conv(b)", "relu"), 2, 1, True, "gains"),
        Step("Left", ("relu",), 1, 1, False, "costs more"),
        Step("Else", ("Conv(c)",), 1, 1, True, "gains"),
    ]
    rules_by_node = {
        name: [step.rule for step in story(built, name, steps=steps).steps]
        for name in ("first", "scale", "relu")
    }
    assert rules_by_node == {
        "first": ["Fold", "Lay"],
        "scale": ["Fold", "Lay"],
        "relu": ["Lay", "Left"],
    }
