"""The candidates that regions.dl derives: by both engines, sink by sink and at once, and sound."""

from importlib import resources

import pytest
from hypothesis import given, settings
from tensolog.catalog.datalog import derive, parse
from tensolog.catalog.datalog.memory import program_cache
from tensolog.catalog.datalog.memory.why import Reasons
from tensolog.optimizer.native import regions
from tensolog.optimizer.native.grow import Grower
from tensolog.optimizer.native.loops.kernel_region import Meanings
from tensolog.optimizer.native.quantized.groups import separate
from tensolog.optimizer.native.regions.region_candidates import candidates
from tensolog.optimizer.native.regions.region_facts import MOVES, region_facts
from tensolog.optimizer.native.shapes.constant_shapes import resolve_shapes

from benchmarks.zoo import build
from tests.campaigns import examples

from .build import model, typed
from .test_regions import programs


@pytest.fixture(scope="module")
def program():
    file = resources.files(regions) / "regions.dl"
    return parse(file.read_text(encoding="utf-8"), str(file))


def meanings_of(proto):
    graph = typed(proto)
    resolve_shapes(graph)
    separate(graph)
    return Meanings(graph)


def drawn(case):
    nodes, inputs, outputs, constants, _ = case
    return meanings_of(model(nodes, inputs, outputs, constants))


def asked_one_by_one(meanings):
    """For each sink, the sets of nodes that one kernel may compute, with their frames."""
    return {
        (
            sink,
            candidate.space,
            candidate.reduced.reduced,
            candidate.reduced.behind,
            candidate.nodes,
        )
        for sink in meanings.graph.nodes
        for candidate in candidates(meanings).of(sink)
    }


def asked_at_once(program, meanings):
    facts = region_facts(meanings)
    facts["sink"] = [(number,) for number in meanings.graph.nodes]
    nodes = {}
    for sink, frame, number in derive(program, facts)["region"]:
        nodes.setdefault((sink, frame), set()).add(number)
    shapes = [type_.shape for type_ in meanings.graph.types.values() if type_.shape is not None]
    spelled = {",".join(map(str, shape)): shape for shape in shapes}
    frames = {name: (spelled[t], axes, behind) for name, t, axes, behind, *_ in facts["frame"]}
    return {(sink, *frames[frame], frozenset(inside)) for (sink, frame), inside in nodes.items()}


@pytest.mark.parametrize("name", ["bert", "convnext", "nasrnn", "llama_half", "resnet_qdq"])
def test_a_model_has_the_same_candidates_in_both_engines(name, program):
    meanings = meanings_of(build(name, tiny=True))
    asked = asked_one_by_one(meanings)
    assert asked and asked == asked_at_once(program, meanings)


@settings(max_examples=examples(25), deadline=None)
@given(programs())
def test_drawn_graphs_have_the_same_candidates_in_both_engines(program, case):
    meanings = drawn(case)
    assert asked_one_by_one(meanings) == asked_at_once(program, meanings)


def test_the_parsed_program_is_read_from_disk_and_answers_alike(program, tmp_path, monkeypatch):
    monkeypatch.setattr(program_cache, "cache_path", lambda: tmp_path)
    file = resources.files(regions) / "regions.dl"
    program_cache.shipped_program(file)
    monkeypatch.setattr(program_cache, "_parsed", None)  # read, not made again
    read = program_cache.shipped_program(file)
    rows = derive(program, region_facts(meanings_of(build("bert", tiny=True))))
    (joined, *_), nodes = rows["joins"], [number for number, _ in rows["node"]]
    for relation, row in (
        ("joins", joined),
        ("joins", (nodes[0], nodes[-1])),
        ("worth", nodes[:1]),
    ):
        asked = [Reasons(program_, rows).why(relation, tuple(row)) for program_ in (program, read)]
        assert asked[0] == asked[1] and asked[0].clause


def asked_of_others(meanings):
    """What the other sorts of regions are said to have, by relation, and what follows each node."""
    derived = candidates(meanings)
    rows = {
        "product": {
            (n, candidate.value, int(candidate.transposed))
            for n, candidate in derived.products.items()
        },
        "follows": {(s, n) for s in meanings.graph.nodes for n in derived.following(s)},
        "scattered": {(s, n) for s, inside in derived.scatters.items() for n in inside},
        "attends": set(),
    }
    for softmax, candidate in derived.attentions.items():
        roles = {"softmax": {softmax}, "scores": {candidate.scores}, "product": {candidate.product}}
        roles |= {"between": candidate.chain, "no NaN": candidate.behind, "scale": candidate.scales}
        roles |= dict(zip(("queries", "keys", "values"), candidate.moves, strict=True))
        roles["result"] = candidate.turned_after
        rows["attends"] |= {(softmax, n, role) for role, inside in roles.items() for n in inside}
    return rows


def others_asked_at_once(program, meanings):
    facts = region_facts(meanings)
    facts["stem"] = [(number,) for number in meanings.graph.nodes]
    rows = derive(program, facts)
    return {name: {*rows[name]} for name in ("product", "follows", "scattered", "attends")}


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_a_model_has_the_same_regions_of_other_sorts_in_both_engines(name, program):
    meanings = meanings_of(build(name, tiny=True))
    regions_by_sort = asked_of_others(meanings)
    assert any(regions_by_sort.values()) and regions_by_sort == others_asked_at_once(
        program, meanings
    )


@pytest.mark.parametrize("name", ["resnet_qdq", "bert_qdq", "mobilenet_qdq", "bert_dynamic"])
def test_a_quantized_model_has_the_same_integers_in_both_engines(name, program):
    meanings = meanings_of(build(name, tiny=True))
    derived, rows = candidates(meanings), derive(program, region_facts(meanings))
    sorts = ("multiplies_filters", "multiplies_matrices", "integer_pair", "integer_softmax")
    numbers = {
        **{sort: set(derived.integer_operators(sort)) for sort in sorts},
        "dynamic_product": set(derived.dynamic_products),
    }
    assert any(numbers.values())
    assert numbers == {relation: {number for number, *_ in rows[relation]} for relation in numbers}
    assert {(s, n) for n, s in derived.sums.items()} == {*rows["adds_product"]}
    parts = {frozenset(m for n, m in rows["whole"] if n == number) for number, _ in rows["whole"]}
    assert {*derived.groups} == parts


@settings(max_examples=examples(25), deadline=None)
@given(programs())
def test_drawn_graphs_have_the_same_regions_of_other_sorts_in_both_engines(program, case):
    meanings = drawn(case)
    assert asked_of_others(meanings) == others_asked_at_once(program, meanings)


@settings(max_examples=examples(50), deadline=None)
@given(programs())
def test_what_follows_needs_nothing_that_is_computed_of_a_result_outside(case):
    meanings = drawn(case)
    graph = meanings.graph
    for stem in graph.nodes:
        inside = {stem, *candidates(meanings).following(stem)}
        below = reached(graph, stem)
        for number in inside - {stem}:
            makers = {graph.producer.get(value) for value in graph.nodes[number].reads}
            assert makers & inside and not makers & (below - inside)
            assert meanings.kind(number) == "elementwise" or graph.nodes[number].op_type in MOVES


def reached(graph, start):
    """The nodes that read, at any remove, what a node gives."""
    reached_nodes, queue = set(), [start]
    while queue:
        for value in graph.nodes[queue.pop()].outputs:
            new = graph.users.get(value, set()) - reached_nodes
            reached_nodes |= new
            queue += new
    return reached_nodes


@settings(max_examples=examples(50), deadline=None)
@given(programs())
def test_candidates_can_be_computed_at_once(case):
    meanings = drawn(case)
    graph = meanings.graph
    for sink in graph.nodes:
        for candidate in candidates(meanings).of(sink):
            inside = candidate.nodes
            assert sink in inside
            for number in inside - {sink}:
                users = {u for v in graph.nodes[number].outputs for u in graph.users.get(v, ())}
                assert users & inside
                # nothing in between is computed outside
                assert not any(reached(graph, user) & inside for user in users - inside)
                if graph.nodes[number].op_type in MOVES:
                    assert users <= inside
                    assert not any(graph.is_pinned(v) for v in graph.nodes[number].outputs)


@settings(max_examples=examples(25), deadline=None)
@given(programs())
def test_chosen_regions_are_parts_of_candidates_without_a_common_node(case):
    meanings = drawn(case)
    chosen = Grower(meanings, meanings.graph.nodes).regions()
    nodes = [number for candidate in chosen for number in candidate.region.nodes]
    assert len(nodes) == len(set(nodes))
    for candidate in chosen:
        *_, sink = candidate.region.nodes
        assert any(set(candidate.region.nodes) <= c.nodes for c in candidates(meanings).of(sink))
