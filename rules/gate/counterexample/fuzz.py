"""Instances of a rule run on both sides: ONNX Runtime suspects, exact numbers decide.

An instance is a model at concrete sizes on which all conditions of the rule hold. Both sides of it,
read through the operator specifications, are a statement without unknown sizes, so that what
looks different in floating point is computed again without rounding before it counts. Where an
operator isn't described, a difference in float64 that no rounding explains counts by itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import onnx

from ....catalog.operators import ShapeError
from ....catalog.tensors import dtype_name
from ....profiles.kernels.faults import FATAL_WHEN_EMPTY
from ...language.errors import RuleError
from ...language.promise import promise
from ...language.schemas import plain
from ...language.syntax import Rule
from ...prover.cases.composition import Composition, UndescribedError, algebra_of
from ...prover.statement import Equation, Origin, Statement
from ...prover.wording import symbol_worded
from ...sampling.instances import Instance, instances
from ..evaluation.arithmetic import Array, Assignment, Number
from ..evaluation.exact import Exact
from ..onnx_models import NotRunError, SideModels, TargetError, sides_of
from ..verdict import Counterexample
from .difference import Difference
from .minimize import minimize
from .operand_values import draw
from .python_program import models_program, statement_program
from .search import certain

_INVALID = (onnx.checker.ValidationError, onnx.shape_inference.InferenceError)
# Constants of these types are rounded so much that both sides differ by it.
_ROUGH = ("float16", "bfloat16")
_FAMILIES = ("normal", "small", "positive", "zeros", "shifted", "unit")
# Larger differences, relative to the largest number in the output, are looked at again.
_SUSPECT = {"float32": 1e-4, "float64": 1e-9}
# Without a specification to compute with, only float64 is believed, and only this far off.
_BELIEVED = 1e-4


@dataclass(frozen=True)
class Run:
    """Inputs of both sides, and their outputs; `target` is an error text where it has none."""

    sides: SideModels
    feeds: Mapping[str, Array]
    source: list[Array]
    target: list[Array] | str


def fuzz(rule: Rule, seconds: float, seed: int = 0) -> Counterexample | None:
    """Run random instances of a rule under ONNX Runtime; a confirmed difference, or None.

    Dimensions of 0 and 1, both float types, kernels and padding as the generator draws them. A
    partial equivalence is run with its correction; without one its sides differ.
    """
    if promise(rule) == "partial":
        return None
    until = time.thread_time() + seconds
    for instance in instance_batches(rule, seed, until):
        try:
            sides = sides_of(instance)
            onnx.checker.check_model(sides.source, full_check=True)
        except (RuleError, *_INVALID):
            continue  # drawn with an element type that the operators don't take
        if any(o.dtype in _ROUGH for o in sides.operands):
            continue
        counterexample = _examined(rule, sides, seed, until)
        if counterexample is not None:
            return counterexample
    return None


def instance_batches(rule: Rule, seed: int, until: float) -> Iterator[Instance]:
    """Instances in small batches: both element types, with and without empty dimensions."""
    batch = 0
    while time.thread_time() < until and batch < 64:
        matched = 0
        for dtype in ("float64", "int64", "float32"):
            for empty in (False, True):
                if time.thread_time() > until:
                    return
                for instance in instances(rule, 1, seed + 97 * batch, dtype, empty=empty):
                    matched += 1
                    yield instance
        if not matched:
            return
        batch += 1


def _examined(rule: Rule, sides: SideModels, seed: int, until: float) -> Counterexample | None:
    """A difference of one instance, confirmed."""
    rng = np.random.default_rng(seed)
    try:
        statement = described(sides)
    except ShapeError as error:
        return shown_undefined(rule.name, sides, str(error))
    for family in _FAMILIES:
        if time.thread_time() > until:
            return None
        feeds = {o.name: _input(o.dtype, o.shape, family, rng) for o in sides.operands}
        try:
            run = execute(sides, feeds)
        except NotRunError:
            run = None
        if run is not None and not suspicious(run):
            continue
        if statement is not None:
            exact = _arithmetic(sides)
            difference = certain(statement, single(statement, feeds), exact)
            if difference is not None and _counts(difference, exact):
                small = minimize(statement, difference, 2.0, exact)
                if ends_the_process(sides):
                    text = summarize(small)
                    return Counterexample(
                        small.kind, text, statement_program(statement, small, text)
                    )
                return shown(rule.name, sides, small)
        elif run is not None and _believed(run):
            return _believed_counterexample(rule.name, run)
    return None


def shown_undefined(title: str, sides: SideModels, text: str) -> Counterexample | None:
    """A target without a meaning at these sizes, where ONNX Runtime runs the source alone."""
    feeds = {o.name: np.zeros(o.shape, np.dtype(o.dtype)) for o in sides.operands}
    try:
        run = execute(sides, feeds)
    except NotRunError:
        return None
    if not isinstance(run.target, str):
        return None
    summary = f"the right side is not defined: {text}"
    program = models_program(title, summary, sides.source, sides.target, feeds)
    return Counterexample("undefined", summary, program)


def _counts(difference: Difference, exact: Exact) -> bool:
    """Whether rounded constants can't explain a difference: whether 1 / 0.1 - 10 is 0, they can."""
    return difference.kind in ("value", "shape") or exact.tolerance < Fraction(1, 10**6)


def _arithmetic(sides: SideModels) -> Exact:
    """Exact numbers; constants of a model were rounded to its element type already."""
    single = any(o.dtype in ("float32", "float16") for o in sides.operands)
    return Exact(Fraction(1, 10**4)) if single else Exact()


# ------------------------------------------------------------------------------ the two sides


def described(sides: SideModels) -> Statement | None:
    """Both sides at their concrete sizes as a statement; None where an operator isn't described.

    Raises ShapeError where the target isn't defined at these sizes.
    """
    opset = sides.instance.view.opset
    whole = Composition(opset)
    for operand in sides.operands:
        whole.operand(operand.name, operand.shape, operand.dtype)
    try:
        left, _ = _composed(whole, sides.source, "left.")
        source = {definition.name for definition in whole.definitions}
    except (UndescribedError, ShapeError):
        return None
    try:
        right, obligations = _composed(whole, sides.target, "right.")
    except UndescribedError:
        return None
    equations = [Equation(name, left[name], right[name]) for name in sides.outputs]
    algebras = {name: algebra_of(tensor.dtype) for name, tensor in whole.tensors.items()}
    return Statement(
        sides.instance.rule.name,
        (),
        (),
        tuple(whole.operands),
        tuple(whole.definitions),
        frozenset(source),
        tuple(obligations),
        tuple(equations),
        algebras,
        origin=Origin(opset, (), {name: t.dtype for name, t in whole.tensors.items()}, {}),
    )


def _composed(
    whole: Composition, model: onnx.ModelProto, prefix: str
) -> tuple[dict[str, str], list[Any]]:
    """Add a model's graph; return its names in the composition, and what must hold."""
    graph = model.graph
    names = {info.name: info.name for info in graph.input}
    needs: list[Any] = []
    for tensor in graph.initializer:
        array = onnx.numpy_helper.to_array(tensor)
        name = names[tensor.name] = prefix + tensor.name
        dtype = dtype_name(tensor.data_type)
        contents = array.reshape(-1).tolist()
        if array.ndim <= 1:
            whole.known_constant(name, contents, dtype, array.ndim)
        elif array.size and (array == array.reshape(-1)[0]).all():
            whole.constant(name, array.shape, contents[0], dtype)
        else:
            raise UndescribedError(f"{tensor.name} is a constant that is no list")
    for node in graph.node:
        for output in node.output:
            names[output] = prefix + output
        attributes = {a.name: plain(onnx.helper.get_attribute_value(a)) for a in node.attribute}
        operator = f"{node.domain}:{node.op_type}" if node.domain else node.op_type
        inputs = [names[name] if name else None for name in node.input]
        outputs = [names[name] for name in node.output if name]
        needs += whole.node(operator, inputs, attributes, outputs)
    return names, needs


def single(statement: Statement, feeds: Mapping[str, Array]) -> Assignment:
    """The inputs of a run as numbers for a statement."""
    wide = {"real": np.float64, "integer": np.int64, "boolean": np.bool_}
    return Assignment(
        {},
        {o.name: np.asarray(feeds[o.name], wide[o.algebra]) for o in statement.operands},
    )


def _input(dtype: str, shape: tuple[int, ...], family: str, rng: np.random.Generator) -> Array:
    return np.asarray(draw(algebra_of(dtype), shape, family, rng)).astype(np.dtype(dtype))


def execute(sides: SideModels, feeds: Mapping[str, Array]) -> Run:
    """Run both sides; NotRunError where ONNX Runtime doesn't run the source."""
    if ends_the_process(sides):
        raise NotRunError("ONNX Runtime might end the process")
    try:
        source, target = sides.run(feeds)
    except TargetError as error:
        return Run(sides, feeds, [], str(error))
    except NotRunError:
        raise
    except Exception as error:  # kernels refuse empty tensors in many words
        raise NotRunError(str(error)) from error
    return Run(sides, feeds, source, target)


def ends_the_process(sides: SideModels) -> bool:
    """Whether ONNX Runtime may end the process: it divides by 0, or falls over empty tensors.

    Div and Mod of integers don't look at their divisor; a mean of no integers, a Reshape to -1 and
    poolings divide by sizes, as Einsum does; recurrences end on them, too.
    """
    nodes = {n.op_type for model in (sides.source, sides.target) for n in model.graph.node}
    integers = any(np.dtype(o.dtype).kind in "iu" for o in sides.operands)
    integers = integers or bool(nodes & {"Cast", "CastLike", "Shape", "Size"})
    view = sides.instance.view
    empty = any(0 in (view.shape(value) or ()) for value in range(len(view.names)))
    divides = nodes & ({"Div", "Mod", "ReduceMean"} if empty else {"Div", "Mod"})
    sized = nodes & {"Reshape", *FATAL_WHEN_EMPTY} or any("Pool" in name for name in nodes)
    return bool((integers and divides) or (empty and sized))


# --------------------------------------------------------------------------------- judgement


def suspicious(run: Run) -> bool:
    """Whether outputs differ at all visibly."""
    if isinstance(run.target, str):
        return True
    return any(
        _unequal(a, b, _SUSPECT.get(a.dtype.name, 0.0))
        for a, b in zip(run.source, run.target, strict=True)
    )


def _unequal(a: Array, b: Array, tolerance: float) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return True
    if a.dtype.kind != "f":
        return not np.array_equal(a, b)
    finite = np.isfinite(a) & np.isfinite(b)
    if (np.isnan(a) != np.isnan(b)).any():
        return True
    if not finite.any():
        return False
    gap = np.abs(np.where(finite, a, 0) - np.where(finite, b, 0))
    scale = np.abs(np.where(finite, a, 0)).max()
    return bool((gap > tolerance * max(float(scale), 1e-30)).any())


def _believed(run: Run) -> bool:
    """A difference where nothing can be computed exactly: shapes, or float64 far off."""
    if isinstance(run.target, str):
        return False  # no kernel, perhaps
    if _is_empty_somewhere(run.sides):
        return False  # kernels treat empty tensors each in a way of its own, and some wrongly
    return any(
        a.shape != b.shape or (a.dtype == np.float64 and _unequal(a, b, _BELIEVED))
        for a, b in zip(run.source, run.target, strict=True)
    )


def _is_empty_somewhere(sides: SideModels) -> bool:
    """Whether an operand or a constant has no elements."""
    constants = (tensor.dims for tensor in sides.source.graph.initializer)
    return any(0 in shape for shape in (*constants, *(o.shape for o in sides.operands)))


def _believed_counterexample(title: str, run: Run) -> Counterexample:
    assert not isinstance(run.target, str)
    kind = "value"
    if any(a.shape != b.shape for a, b in zip(run.source, run.target, strict=True)):
        kind = "shape"
    summary = "the sides differ under ONNX Runtime"
    text = models_program(title, summary, run.sides.source, run.sides.target, run.feeds)
    return Counterexample(kind, summary, text)


def shown(
    title: str,
    sides: SideModels,
    difference: Difference,
    symbols: Mapping[str, Number] | None = None,
) -> Counterexample:
    """A counterexample at an instance, as a program for ONNX Runtime."""
    feeds = {
        o.name: difference.assignment.arrays[o.name].astype(np.dtype(o.dtype))
        for o in sides.operands
    }
    summary = summarize(difference, symbols)
    text = models_program(title, summary, sides.source, sides.target, feeds)
    return Counterexample(difference.kind, summary, text)


def summarize(difference: Difference, symbols: Mapping[str, Number] | None = None) -> str:
    """What a difference is, in one line."""
    named = difference.assignment.symbols if symbols is None else symbols
    operands = frozenset(difference.assignment.arrays)
    sizes = ", ".join(f"{symbol_worded(n, operands)} = {v}" for n, v in sorted(named.items()))
    at_sizes = f" at {sizes}" if sizes else ""
    if difference.kind == "shape" or not difference.output:
        return f"{difference.text}{at_sizes}"
    places = ", ".join(map(str, difference.index))
    left, right = _value(difference.source), _value(difference.target)
    return f"{difference.output}[{places}] is {left} on the left, {right} on the right{at_sizes}"


def _value(value: Any) -> str:
    if value is None:
        return "not defined"
    if hasattr(value, "low"):
        return f"{float(value.low):.6g}"
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    return str(value) if isinstance(value, int | np.integer) else f"{float(value):.6g}"
