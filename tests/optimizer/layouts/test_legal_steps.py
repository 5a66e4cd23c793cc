"""What layouts.dl derives: by both engines, and of what is computed in blocks each step."""

from importlib import resources

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensolog.catalog.datalog import derive, parse
from tensolog.optimizer import layouts
from tensolog.optimizer.egraph.egraph import EGraph
from tensolog.optimizer.explain.graph_relations import layouts_of
from tensolog.optimizer.layouts.blocking import Blocking
from tensolog.optimizer.layouts.growing import grow, operations_of
from tensolog.optimizer.layouts.layout_facts import layout_facts
from tensolog.optimizer.layouts.operators.concatenations import PUSH
from tensolog.optimizer.layouts.operators.elementwise import GATED, SILU
from tensolog.optimizer.layouts.operators.normalizations import normalizations
from tensolog.optimizer.layouts.runtime import block_size
from tensolog.optimizer.layouts.values import ENTER, ENTER_LAST, LEAVE, LEAVE_LAST, BlockedValues

from tests.campaigns import examples
from tests.optimizer.egraph.pricing import FOLD_LIMIT, graph_of

from .networks import has_blocks, network

pytestmark = pytest.mark.skipif(not has_blocks(), reason="the runtime has no blocked kernels")
DERIVED = ("step", "refused", "in_blocks", "convolves", "maps", "windows", "scales", "enters")


@pytest.fixture(scope="module")
def program():
    file = resources.files(layouts) / "layouts.dl"
    return parse(file.read_text(encoding="utf-8"), str(file))


def blocking_of(model):
    egraph = EGraph(graph_of(model), {}, FOLD_LIMIT)
    return Blocking(egraph, BlockedValues(egraph, block_size()))


@settings(max_examples=examples(12), deadline=None)
@given(seed=st.integers(0, 10**6))
def test_drawn_networks_have_the_same_steps_in_both_engines(program, seed):
    model = network(seed, length=12).model()
    blocking = blocking_of(model)
    operations = operations_of(blocking, ())
    known = normalizations(blocking.egraph, operations)
    facts = layout_facts(blocking, operations, known)
    grow(blocking)
    rows = derive(program, facts)
    for name in DERIVED:
        assert {*rows[name]} == {*blocking.derived[name]}, name


@settings(max_examples=examples(40), deadline=None)
@given(seed=st.integers(0, 10**6), batch=st.sampled_from([1, 2]))
def test_what_is_computed_in_blocks_was_derived(seed, batch):
    blocking = blocking_of(network(seed, length=10, batch=batch).model())
    grow(blocking)
    derived = blocking.derived
    legal = {*derived.get("step", ())}
    legal |= {(n, rule) for form in derived.get("convolves", ()) for n, rule in _convolved(form)}
    legal |= {(n, ENTER_LAST) for n, _ in derived.get("enters_from_last", ())}
    legal |= {(n, SILU) for n, _ in derived.get("gates", ())}
    for step in blocking.values.applications:
        if step.nodes and step.rule not in PUSH:
            assert (step.nodes[-1], step.rule) in legal
    in_blocks = {blocking.egraph.find(c) for (c,) in derived.get("in_blocks", ())}
    assert {blocking.egraph.find(c) for c in blocking.values.blocked} <= in_blocks
    entered = {blocking.egraph.find(c) for (c,) in derived.get("enters", ())}
    assert blocking.values.entering.keys() <= entered


def _convolved(form):
    _, conv, sum_, _, end, _, rule = form
    yield (next(n for n in (end, sum_, conv) if n >= 0), rule)


def test_without_a_rule_nothing_enters_or_leaves(program):
    facts = dict(layouts_of(graph_of(network(3, length=10).model())).facts)
    known = [(n, name) for n, name in facts.pop("node_name")], facts.pop("value_name")
    assert known[0]
    rows = derive(program, facts)
    assert rows["enters"] and rows["leaves"]
    for rule, relation in ((ENTER, "enters"), (LEAVE, "leaves"), (GATED, "")):
        licensed = [row for row in facts["licensed"] if row != (rule,)]
        without = derive(program, {**facts, "licensed": licensed})
        assert not relation or not without[relation]
        assert all(row[-1] != rule for row in (*without["step"], *without["convolves"]))
    assert LEAVE_LAST not in {rule for _, rule in rows["step"]}
