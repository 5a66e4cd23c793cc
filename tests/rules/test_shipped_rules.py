"""Every shipped rule: found by Datalog, equal under ONNX Runtime, not found where it must not be.

Instances are drawn once for the session and searched for all rules in one database, so that rules
are also tried on each other's instances.
"""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from tensolog.profiles.kernels.faults import FATAL_WHEN_EMPTY
from tensolog.rules import (
    check_conditions,
    compile_program,
    instantiate,
    load_rules,
    select_rules,
)
from tensolog.rules.compiler.compile import clause_of
from tensolog.rules.compiler.failed_conditions import IDENTIFYING, failed_conditions, is_reported
from tensolog.rules.compiler.match_rows import match_groups, match_of_all
from tensolog.rules.compiler.model_view import ModelView
from tensolog.rules.language.conditions import (
    HasAttribute,
    HasDefaults,
    HasType,
    IsComputable,
    IsConstant,
    IsKnown,
    UnusedOutputs,
    UsedOnlyHere,
    conditions,
)
from tensolog.rules.language.repetition import gathers, pattern
from tensolog.rules.sampling.instances import instances

from tests.campaigns import ALL, SHARE

from .finding import (
    compile_near_misses,
    evaluated,
    failed_condition,
    find,
    local,
    matches,
    near_misses,
)
from .rewriting import apply, run

RULES = load_rules()
NAMES = [rule.name for rule in RULES]
# No runtime has the operators by which images in blocks are read: of those rules instances are
# found in tests/optimizer/layouts/test_licences.py.
RUN = tuple(rule for rule in RULES if rule.family != "blocked")
# Families of inputs, with the rounding errors allowed relative to the largest output. A difference
# from a mean 100 times its spread has lost two digits on either side.
FAMILIES = {"normal": 64, "shifted": 1024, "mixed": 64}
DTYPES = ("float32", "float64")
# whose conditions are broken: of rules that gather nodes those of one
SOME = tuple(pattern(rule) for rule in RUN[:: 1 if ALL else SHARE])
DRAWN = RUN[:: 1 if ALL else SHARE // 2]  # of which there are instances
EACH = 5 if ALL else 2  # instances of each rule and element type

# Conditions that an instance can't break alone: the operator's own definition implies them.
IMPLIED = {"shift", "mean", "var"}


@cache
def drawn():
    """The instances of rules, and the matches of all these rules in them."""
    drawn_instances = [
        i for rule in DRAWN for dtype in DTYPES for i in instances(rule, EACH, 7, dtype)
    ]
    by_model = {}
    for number, match in find(DRAWN, [i.view for i in drawn_instances]):
        by_model.setdefault(number, []).append(match)
    return drawn_instances, {
        n: put_together(some, drawn_instances[n].view) for n, some in by_model.items()
    }


def put_together(matches_in_model, view):
    """The matches in a model, those at single nodes put together where a rule gathers nodes."""
    kept = [match for match in matches_in_model if not gathers(of(match.rule.name))]
    for rule in filter(gathers, DRAWN):
        alone = [match for match in matches_in_model if match.rule.name == rule.name]
        kept += [match_of_all(rule, group) for group in match_groups(rule, alone, view)]
    return kept


def of(name):
    return next(rule for rule in RULES if rule.name == name)


# --------------------------------------------------------------------------------- the texts


@pytest.mark.parametrize("name", NAMES)
def test_rules_say_what_they_do_and_where_they_come_from(name):
    rule = of(name)
    assert rule.comment.startswith(f"# {name} ")
    assert rule.summary
    assert rule.sources
    verbs = ["Fold", "Fuse", "Merge", "Join", "Split", "Push", "Eliminate", "Convert", "Reorder"]
    assert any(name.startswith(verb) for verb in verbs)


def test_cited_sources_are_listed_in_their_file():
    for rule in RULES:
        text = (onnx_rules_folder() / rule.path).read_text(encoding="utf-8")
        for source in rule.sources:
            assert f"# [{source}]" in text, f"{rule.name} cites {source}"


def onnx_rules_folder():
    from importlib import resources

    return resources.files("tensolog.rules")


def test_selection_is_by_opset_target_class_and_operators():
    exact = select_rules(RULES, opset=17, target="onnx", allow=("exact",))
    assert exact
    assert all(rule.equal == "exact" for rule in exact)
    assert all(rule.opset_from is None or rule.opset_from <= 17 for rule in exact)
    few = select_rules(RULES, opset=17, target="onnx", allow=("exact",), operators={"Neg"})
    assert [rule.name for rule in few] == ["EliminateNegPair"]


# ------------------------------------------------------------------------------------ finding


@pytest.mark.whole
@pytest.mark.parametrize("name", [rule.name for rule in DRAWN])
def test_datalog_finds_the_instance(name):
    drawn_instances, by_model = drawn()
    numbers = [n for n, instance in enumerate(drawn_instances) if instance.rule.name == name]
    assert len(numbers) >= EACH
    for n in numbers:
        expected, view = drawn_instances[n].match, drawn_instances[n].view
        assert any(
            match.rule.name == name
            and match.nodes == expected.nodes
            and match.values == expected.values
            and match.positions == expected.positions
            and check_conditions(match, view) is None
            for match in by_model.get(n, [])
        ), onnx.printer.to_text(view.model)


def test_datalog_and_python_agree_on_the_conditions():
    drawn_instances, by_model = drawn()
    for n, some in by_model.items():
        for match in some:
            opset, rule = drawn_instances[n].view.opset, match.rule
            if (rule.opset_from or 0) <= opset <= (rule.opset_to or opset):
                text = check_conditions(match, drawn_instances[n].view)
                assert failed_condition(match, drawn_instances[n].view) == text, rule.name


# ------------------------------------------------------------------------------------- values


def widened(model):
    """The model with float64 in place of float32, for the reference evaluator."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    for tensor in wide.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype == np.float32:
            tensor.CopyFrom(numpy_helper.from_array(array.astype(np.float64), tensor.name))
    for info in (*wide.graph.input, *wide.graph.output):
        if info.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
            info.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    del wide.graph.value_info[:]
    return wide


def truth(model, feeds):
    """The outputs in float64, None where the reference evaluator can't say."""
    try:
        wide = {k: v.astype(np.float64) if v.dtype == np.float32 else v for k, v in feeds.items()}
        with np.errstate(all="ignore"):
            return ReferenceEvaluator(widened(model)).run(None, wide)
    except Exception:
        return None


def assert_equal(match, view, model, feeds, *, exact, roundings):
    left = run_or_none(model, feeds)
    if left is None:
        return False  # ONNX Runtime has no kernel for the left side in this element type
    new = apply(instantiate(match, view), view)
    onnx.checker.check_model(new, full_check=True)
    right = run(new, feeds)
    exactly = truth(model, feeds) if not exact else None
    for k, (a, b) in enumerate(zip(left, right, strict=True)):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        if exact or a.dtype.kind != "f":
            np.testing.assert_array_equal(a, b)
            continue
        finite = np.isfinite(a)
        a, b = a[finite], b[finite]
        if not a.size:
            continue
        eps, scale = np.finfo(a.dtype).eps, np.abs(a).max()
        allowed = roundings * eps * scale
        if exactly is not None and exactly[k].shape == finite.shape:
            # Cancellation costs the original digits too: allow what it loses, and some more.
            allowed += 8 * np.abs(a - exactly[k][finite]).max()
        assert np.abs(a - b).max() <= allowed, f"{match.rule.name}\n{onnx.printer.to_text(model)}"
    return True


def run_or_none(model, feeds):
    try:
        return run(model, feeds)
    except Exception as error:
        # No kernel for the element type, or a window larger than its image.
        assert "NOT_IMPLEMENTED" in str(error) or "Invalid input shape" in str(error), error
        return None


@pytest.mark.whole
@pytest.mark.parametrize("name", [rule.name for rule in DRAWN])
def test_left_and_right_are_equal_on_instances(name):
    drawn_instances, by_model = drawn()
    rng = np.random.default_rng(3)
    compared = 0
    for n, instance in enumerate(drawn_instances):
        for match in by_model.get(n, []):
            if match.rule.name != name or check_conditions(match, instance.view) is not None:
                continue
            rule, opset = match.rule, instance.view.opset
            if not (rule.opset_from or 0) <= opset <= (rule.opset_to or opset):
                continue
            for family in FAMILIES if instance.rule.name == name else ["normal"]:
                feeds = instance.feeds(rng, family)
                exact = rule.equal == "exact"
                compared += assert_equal(
                    match,
                    instance.view,
                    instance.model,
                    feeds,
                    exact=exact,
                    roundings=FAMILIES[family],
                )
    assert compared >= EACH


def declared(model):
    """The shapes of the outputs as the model states them."""
    return [[d.dim_value for d in o.type.tensor_type.shape.dim] for o in model.graph.output]


@pytest.mark.parametrize("name", NAMES)
def test_empty_tensors_stay_defined(name):
    """Where the left side runs on a tensor without elements, the right side does too."""
    if any(node.op_type in FATAL_WHEN_EMPTY for node in of(name).match):
        pytest.skip("ONNX Runtime ends the process on an empty batch, or may")
    rng = np.random.default_rng(4)
    for instance in instances(of(name), 4, 13, empty=True):
        feeds = instance.feeds(rng, "normal")
        try:
            left = run(instance.model, feeds)
        except Exception:
            continue  # ONNX Runtime's kernels refuse many empty tensors
        if [list(a.shape) for a in left] != declared(instance.model):
            continue  # or, reducing one over axes in no order, give it a wrong shape
        new = apply(instantiate(instance.match, instance.view), instance.view)
        right = run(new, feeds)
        assert [a.shape for a in left] == [b.shape for b in right]
        for a, b in zip(left, right, strict=True):
            same = np.isclose(a, b, 1e-3, 1e-3, equal_nan=True)
            assert same[np.isfinite(a)].all()  # a product over nothing may be left unset there


@pytest.mark.parametrize("name", NAMES)
def test_half_precision_keeps_its_type(name):
    """ONNX Runtime has few float16 kernels here: types only, by ONNX's own inference."""
    for instance in instances(of(name), 2, 11, "float16"):
        replacement = instantiate(instance.match, instance.view)
        new = apply(replacement, instance.view)
        onnx.checker.check_model(new, full_check=True)
        before, after = (elements(model) for model in (instance.model, new))
        assert before == after


def elements(model):
    """The element types of a model's outputs, as ONNX infers them."""
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    return [output.type.tensor_type.elem_type for output in inferred.graph.output]


# ------------------------------------------------------------------------------ what must not


def edited(instance, change):
    """The instance's view after a change of its model; None where ONNX refuses the change."""
    model = onnx.ModelProto()
    model.CopyFrom(instance.model)
    change(model.graph)
    if any(map(miscounted, model.graph.node)):
        return None  # onnx ends the process on them
    try:
        return ModelView(model)
    except onnx.shape_inference.InferenceError:
        return None


def miscounted(node):
    """Whether a node says that it has another number of outputs than it has."""
    return any(a.name == "num_outputs" and a.i != len(node.output) for a in node.attribute)


def variable(name):
    def change(graph):
        tensor = next((t for t in graph.initializer if t.name == name), None)
        if tensor is not None:
            graph.initializer.remove(tensor)
            info = helper.make_tensor_value_info(name, tensor.data_type, tensor.dims)
            graph.input.append(info)

    return change


def another_user(name):
    def change(graph):
        graph.node.append(helper.make_node("Identity", [name], ["other"]))
        graph.output.append(helper.make_empty_tensor_value_info("other"))

    return change


def another_output(node, position):
    def change(graph):
        producer = next(n for n in graph.node if n.name == node)
        while len(producer.output) <= position:
            producer.output.append(f"extra{len(producer.output)}")
        another_user(producer.output[position])(graph)

    return change


OTHERWISE = {
    "alpha": 0.5,
    "beta": 0.25,
    "axis": 1,
    "transA": 1,
    "keepdims": 0,
    "spatial": 0,
    "mode": "edge",
    "auto_pad": "VALID",
    "ceil_mode": 1,
    "allowzero": 1,
    "saturate": 0,
}


def symbolic(graph):
    """Give the sizes of all inputs names instead of numbers."""
    for tensor in graph.input:
        for axis, dim in enumerate(tensor.type.tensor_type.shape.dim):
            dim.dim_param = f"{tensor.name}{axis}"
    for tensor in graph.output:
        tensor.type.tensor_type.ClearField("shape")


def other_attribute(node, name):
    def change(graph):
        producer = next(n for n in graph.node if n.name == node)
        kept = [a for a in producer.attribute if a.name != name]
        del producer.attribute[:]
        producer.attribute.extend([*kept, helper.make_attribute(name, OTHERWISE[name])])

    return change


@cache
def broken():
    """Views on which one condition of a rule was broken: (rule, condition, view, match)."""
    cases = []
    for rule in SOME:
        good = instances(rule, 3, 5)
        for condition in conditions(rule):
            for instance in good:
                for change in changes(condition):
                    view = edited(instance, change)
                    if view is not None:
                        match = view.match(rule, instance.match.positions)
                        cases.append((rule, condition, view, match))
            if not isinstance(condition, IsConstant | UsedOnlyHere | UnusedOutputs):
                dtype = "int32" if isinstance(condition, HasType) else "float32"
                some = instances(rule, 1, 5, dtype, breaking=condition)
                for instance in some or instances(rule, 1, 5, dtype, condition, empty=True):
                    cases.append((rule, condition, instance.view, instance.match))
    return cases


def changes(condition):
    match condition:
        case IsConstant(value):
            return [variable(value)]
        case UsedOnlyHere(value):
            return [another_user(value)]
        case UnusedOutputs(node, listed):
            return [another_output(node, listed)]
        case IsKnown() | IsComputable():
            return [symbolic]
        case HasDefaults(node, attributes):
            return [other_attribute(node, a) for a in attributes if a in OTHERWISE]
    return []


def really_broken(condition, view, match):
    """Whether the change did break the condition: an absent operand is not made variable."""
    from tensolog.rules.compiler.bindings import Bindings

    if isinstance(condition, UsedOnlyHere | UnusedOutputs):
        return True
    return not Bindings(match, view).holds(condition)


def test_breaking_one_condition_leaves_no_match():
    cases = [case for case in broken() if really_broken(*case[1:])]
    relations = evaluated(compile_program(SOME), [view for _, _, view, _ in cases])
    matched = {}
    for rule in SOME:
        for match in matches(rule, relations):
            number, match = local(match)
            matched.setdefault((rule.name, number), []).append(match)
    for number, (rule, condition, view, expected) in enumerate(cases):
        for match in matched.get((rule.name, number), []):
            if match.nodes == expected.nodes and match.values == expected.values:
                text = check_conditions(match, view)
                assert text is not None, f"{rule.name} matches though not {condition}"


def test_the_one_condition_that_fails_is_the_near_miss():
    named = 0
    tried = SOME[:: 1 if ALL else 3]
    cases = [case for case in broken() if case[0] in tried]
    for rule, some in itertools.groupby(cases, key=lambda case: case[0]):
        alone = (
            (condition, view)
            for _, condition, view, match in some
            if is_reported(rule)
            and not isinstance(condition, IDENTIFYING)
            and failed_conditions(match, view) == [condition]
        )
        for condition, view in itertools.islice(alone, 1):
            relations = evaluated(compile_near_misses([rule]), [view])
            said = {str(miss.condition) for miss in near_misses([rule], relations, view)}
            assert str(condition) in said, f"{rule.name} does not say {condition}"
            named += 1
    assert named >= len(tried) // 2


def test_every_rule_with_conditions_has_a_negative_test():
    covered = {}
    for rule, condition, view, match in broken():
        if really_broken(condition, view, match):
            covered.setdefault(rule.name, set()).add(str(condition))
    for rule in SOME:
        needing = [
            c
            for c in conditions(rule)
            if not binds_only(rule, c) and not isinstance(c, IsComputable)
        ]
        assert not needing or covered.get(rule.name), rule.name
    assert sum(map(len, covered.values())) >= 150 * len(SOME) // len(RUN)


def binds_only(rule, condition):
    """An attribute that is only read binds its name and fails nowhere."""
    return isinstance(condition, HasAttribute) and condition in (
        c for c in conditions(rule) if getattr(getattr(c, "expression", None), "text", "")
    )


def test_long_bodies_start_from_their_structure():
    for rule in RULES:
        clause = clause_of(rule)
        names = [definition.name for definition in clause.definitions()]
        structure = [f"pattern_{rule.name}"] if clause.is_long else []
        assert names == [*structure, f"match_{rule.name}"]
        first = clause.body()[0]
        assert (first.name == f"pattern_{rule.name}") == clause.is_long
