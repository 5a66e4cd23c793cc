"""The normal form of an operator's specification means what the specification means.

The lowering is what all proofs rest on. For every specified operator, random nodes are lowered at
unknown sizes; the normal form, computed naively at known ones, must be the specification's value.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st
from tensolog.catalog.operators import ShapeError, specification
from tensolog.catalog.terms.index_notation import Symbol
from tensolog.catalog.terms.numpy_evaluator import EvaluationError
from tensolog.rules.prover.cases.composition import Composition, UndescribedError
from tensolog.rules.prover.normal.context import UndecidedError
from tensolog.rules.prover.normal.definedness import Path
from tensolog.rules.prover.prove import Proof
from tensolog.rules.prover.solve.polynomials import constant
from tensolog.rules.prover.statement import Statement

from tests.catalog.operators.random_nodes import STRATEGIES, Node

from .denotation import Denotation

# Whose text asks for a dimension that is known: the rank follows from it.
KNOWN_ONLY = {"Expand", "ScatterND"}
# Lowering refuses these, and says why.
REFUSED: dict[str, str] = {}
POSITIONS = 6
# Whose sets of elements take long to compare at many axes.
SLOW = {"Hardmax"}
_SEED = 7


def composed(node: Node) -> tuple[Composition, dict[str, Any], dict[str, int], list[str]]:
    """Return a composition of one node, its tensors, what sizes are, and the outputs' names."""
    meaning = specification("", node.op_type, node.opset)
    assert meaning is not None
    composition = Composition(node.opset)
    tensors: dict[str, Any] = {}
    sizes: dict[str, int] = {}
    names: list[str | None] = []
    for i, array in enumerate(node.inputs):
        name = f"X{i}"
        if array is None:
            names.append(None)
            continue
        names.append(name)
        if i in meaning.known_inputs:
            contents = np.ravel(array).tolist()
            composition.known_constant(name, contents, array.dtype.name, array.ndim)
            continue
        shape: list[Any] = list(array.shape)
        if node.op_type not in KNOWN_ONLY:
            shape = [Symbol(f"d{i}_{axis}") for axis in range(array.ndim)]
            sizes.update({str(d): size for d, size in zip(shape, array.shape, strict=True)})
        composition.operand(name, shape, array.dtype.name)
        tensors[name] = array.astype(np.float64) if array.dtype.kind == "f" else array
    outputs = [f"Y{i}" for i in range(node.outputs)]
    composition.node(node.op_type, names, node.attributes, outputs)
    return composition, tensors, sizes, outputs


def lowered(composition: Composition, sizes: dict[str, int]) -> Any:
    from tensolog.rules.prover.cases.composition import algebra_of

    algebras = {name: algebra_of(tensor.dtype) for name, tensor in composition.tensors.items()}
    statement = Statement(
        "one node",
        tuple(Symbol(name) for name in sizes),
        (),
        tuple(composition.operands),
        tuple(composition.definitions),
        frozenset(),
        (),
        (),
        algebras,
    )
    return Proof(statement, 60.0)._setting()


def check(node: Node) -> int:
    """Compare elements at a few positions; return how many were."""
    meaning = specification("", node.op_type, node.opset)
    assert meaning is not None
    try:
        wanted = meaning.evaluate(node.inputs, node.attributes, outputs=node.outputs)
    except (EvaluationError, ShapeError):
        return 0
    composition, tensors, sizes, outputs = composed(node)
    setting = lowered(composition, sizes)
    numbers = Denotation(setting.context, tensors, {}, sizes)
    chosen = np.random.default_rng(_SEED)
    count = 0
    for name, array in zip(outputs, wanted, strict=True):
        positions = list(np.ndindex(*array.shape))
        # the normal form is of real numbers; a Cast to float16 rounds
        close = max(1e-5, float(np.finfo(array.dtype).eps)) if array.dtype.kind == "f" else 1e-5
        chosen.shuffle(positions)
        for position in positions[:POSITIONS]:
            expected = float(array[tuple(position)])
            if not np.isfinite(expected):
                continue
            places = tuple(constant(int(number)) for number in position)
            whole = setting.read(name, places, Path())
            got = numbers.sum(whole, sizes)
            if array.dtype.kind in "iu":
                got = float(np.asarray(int(got)).astype(array.dtype))
            assert got == pytest.approx(expected, rel=close, abs=1e-5), (position, whole)
            count += 1
    return count


@pytest.mark.parametrize("op_type", sorted(set(STRATEGIES) - set(REFUSED)))
def test_normal_form_means_what_the_specification_means(op_type: str) -> None:
    @settings(
        max_examples=1 if op_type in SLOW else 6,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def agrees(data: Any) -> None:
        node = STRATEGIES[op_type](data.draw, op_type)
        note(f"{op_type} {[None if a is None else a.shape for a in node.inputs]} {node.attributes}")
        try:
            compared = check(node)
        except UndescribedError as error:
            note(str(error))
            compared = 0
        assume(compared)  # or it is no example; the test fails where there is none

    agrees()


@pytest.mark.parametrize("op_type", sorted(REFUSED))
def test_refusals_are_stated(op_type: str) -> None:
    @settings(max_examples=4, deadline=None, derandomize=True, database=None)
    @given(st.data())
    def refuses(data: Any) -> None:
        node = STRATEGIES[op_type](data.draw, op_type)
        with pytest.raises(UndecidedError, match=REFUSED[op_type]):
            check(node)

    refuses()
