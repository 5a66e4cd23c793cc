"""Every random instance of every rule is a case of it, and its statement computes what ORT does."""

from __future__ import annotations

import re

import numpy as np
import onnxruntime as ort
import pytest
from tensolog.catalog.terms.index_notation import Apply, Symbol
from tensolog.rules import load_rules
from tensolog.rules.gate.evaluation.arithmetic import Assignment
from tensolog.rules.gate.evaluation.evaluate import compute
from tensolog.rules.gate.evaluation.float64 import Float
from tensolog.rules.sampling.instances import instances

from .instance_cases import NotCoveredError, concrete

# No runtime has the operators by which images in blocks are read; what they and the blocked ones
# mean is compared in tests/catalog/operators/test_blocked.py.
RUN = [rule for rule in load_rules() if rule.family != "blocked"]
# What an instance may have beyond what is enumerated: higher ranks, longer lists.
BEYOND = re.compile(r"(rank|length|number|size) of ")


def run(instance, feeds):
    model = type(instance.model)()
    model.CopyFrom(instance.model)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, feeds), strict=True))


def overhangs(instance):
    """Whether a window is larger than the padded data: runtimes then differ in what they make."""
    view = instance.view
    for number, node in enumerate(view.nodes):
        if "Conv" not in node.op_type and "Pool" not in node.op_type:
            continue
        data, attributes = view.shape(view.inputs(number)[0]), view.attributes(number)
        spatial = len(data) - 2
        kernel = attributes.get("kernel_shape")
        if kernel is None and len(view.inputs(number)) > 1:
            kernel = view.shape(view.inputs(number)[1])[2:]
        pads = attributes.get("pads") or (0,) * 2 * spatial
        dilations = attributes.get("dilations") or (1,) * spatial
        if kernel and any(
            (k - 1) * dilation + 1 > d + before + after
            for k, dilation, d, before, after in zip(
                kernel, dilations, data[2:], pads[:spatial], pads[spatial:], strict=True
            )
        ):
            return True
    return False


def numbers_of(rule, statement):
    """The numbers that a node may have which knows its number, each as a value of its symbol.

    Nothing else is assumed of an instance, all of whose sizes are known.
    """
    named = {node.index for node in rule.rewrite if node.count is not None}
    counts = {}
    for assumption in statement.assumptions:
        match assumption:
            case Apply("<", (Symbol(name), int() as count)) if name in named:
                counts[name] = count
            case _:
                raise AssertionError(f"{statement.title} assumes {assumption}")
    assert counts.keys() == named
    assert all(count > 0 for count in counts.values())
    return [dict.fromkeys(counts, number) for number in range(min(counts.values(), default=1))]


def assert_computes(statement, assignment, outputs):
    """Both sides of a statement give what ONNX Runtime gives."""
    tensors = compute(statement, assignment, Float())
    for equation in statement.equations:
        wanted = outputs[equation.output]
        for name in (equation.source, equation.target):
            tensor = tensors[name]
            assert tensor.values.shape == wanted.shape, (name, statement.title)
            finite = tensor.defined & np.isfinite(wanted.astype(np.float64))
            scale = np.max(np.abs(np.where(finite, wanted, 0).astype(np.float64)), initial=1)
            close = np.allclose(
                np.where(finite, tensor.values, 0),
                np.where(finite, wanted, 0),
                rtol=2e-3,
                atol=2e-4 * scale,
                equal_nan=True,
            )
            assert close, (name, statement.title)


@pytest.mark.parametrize("rule", RUN, ids=lambda rule: rule.name)
def test_statements_compute_what_the_model_does(rule):
    rng = np.random.default_rng(0)
    covered, beyond = 0, []
    for instance in instances(rule, 16):
        if covered == 4:
            break
        if overhangs(instance):
            continue
        feeds = instance.feeds(rng, "normal")
        try:
            statement = concrete(instance)
        except NotCoveredError as error:
            beyond.append(str(error))
            continue
        numbered = numbers_of(rule, statement)
        assert [
            obligation for obligation in statement.obligations if obligation.condition is False
        ] == []
        outputs = run(instance, feeds)
        constants = {i.name: i for i in instance.model.graph.initializer}
        arrays = {}
        for operand in statement.operands:
            array = feeds.get(operand.name)
            if array is None:
                from onnx import numpy_helper

                array = numpy_helper.to_array(constants[operand.name])
            kind = {"real": np.float64, "integer": np.int64, "boolean": np.bool_}[operand.algebra]
            arrays[operand.name] = array.astype(kind)
            assert tuple(operand.shape) == array.shape
        for numbers in numbered:
            assert_computes(statement, Assignment(numbers, arrays), outputs)
        covered += 1
    assert covered, beyond
    assert all(BEYOND.match(text) for text in beyond), beyond
