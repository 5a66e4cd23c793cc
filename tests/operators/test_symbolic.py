"""What holds for unknown dimensions holds for known ones: expand, then substitute, and compare."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from tensolog.catalog.operators import ShapeError, Specification, specification
from tensolog.catalog.operators.evaluate import evaluate

from .backend_cases import agree
from .random_nodes import STRATEGIES, Node

# Whose text asks for a dimension that is known: the rank or the number of outputs follows from it.
_KNOWN_ONLY = {"Expand"}


def unknown(found: Specification, node: Node) -> tuple[list[Any], dict[int, Any], dict[str, int]]:
    """Return symbolic shapes, the contents of list inputs, and what the symbols stand for."""
    shapes: list[Any] = []
    contents: dict[int, Any] = {}
    known: dict[str, int] = {}
    for at, array in enumerate(node.inputs):
        if array is None:
            shapes.append(None)
            continue
        if at in found.known_inputs:
            contents[at] = array.tolist()
        names = [f"d{at}_{axis}" for axis in range(array.ndim)]
        known.update(zip(names, array.shape, strict=True))
        shapes.append(names)
    return shapes, contents, known


@pytest.mark.parametrize("op_type", sorted(set(STRATEGIES) - _KNOWN_ONLY))
def test_substitution_commutes_with_expansion(op_type: str) -> None:
    @settings(
        max_examples=6,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def commutes(data: Any) -> None:
        node = STRATEGIES[op_type](data.draw, op_type)
        note(f"{op_type} {[None if a is None else a.shape for a in node.inputs]} {node.attributes}")
        found = specification("", op_type, node.opset)
        assert found is not None
        shapes, contents, known = unknown(found, node)
        general = found.expand(shapes, node.attributes, values=contents, outputs=node.outputs)
        wanted = found.evaluate(node.inputs, node.attributes, outputs=node.outputs)
        for one, other in zip(evaluate(general.at(known), node.inputs), wanted, strict=True):
            assert agree(one, np.asarray(other), 1e-6, 1e-6)

    commutes()


def test_unknown_requirement_fails_when_known() -> None:
    found = specification("", "MatMul", 21)
    assert found is not None
    general = found.expand([("m", "k"), ("j", "n")])
    assert [text for _, text in general.requirements]
    with pytest.raises(ShapeError, match="k: "):
        general.at({"k": 3, "j": 4})
