"""What a rule could name of ONNX Runtime's fused operators computes what stands for it now."""

import numpy as np
import pytest

from benchmarks.named import forms

from .agreement import run

FORMS = {f"{form.operator} {form.title}": form for form in forms()}


@pytest.mark.parametrize("name", FORMS)
def test_named_and_standard_operators_agree(name):
    form = FORMS[name]
    apart, one = form.model(form.apart), form.model(form.one)
    assert form.operator in {node.op_type for node in one.graph.node}
    assert {node.domain for node in apart.graph.node} == {""}
    (expected,) = run(apart, form.feeds())
    for level in ("disabled", "all"):
        (found,) = run(one, form.feeds(), level=level)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
