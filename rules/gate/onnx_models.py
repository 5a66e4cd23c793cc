"""Both sides of a rule as models that run: an instance's own graph, and the one it turns into.

The constants that a rule may compute with become inputs of both models, so that one session serves
many data; what the rule compares with numbers (scalars, literals, axes, shapes) stays constant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from ...catalog.operators.contributed import infer_shapes
from ...catalog.tensors import dtype_name
from ...profiles.sessions.session import AS_WRITTEN, open_session, run_session
from ..compiler.bindings import Bindings
from ..compiler.model_view import ModelView
from ..compiler.replacement import instantiate
from ..compiler.view import Reference
from ..language.conditions import FLOATS, conditions, types_of
from ..language.errors import RuleError
from ..language.syntax import Rule
from ..sampling.domains import BOUNDED, domain_of
from ..sampling.instances import REJECTED, Instance, instances
from ..sampling.sampler import PARAMETERS

Array = NDArray[Any]
Feeds = Mapping[str, Array]

# What ONNX Runtime says of a model that is well-formed but that it doesn't run: no kernel for the
# element type, a window larger than its image, an empty tensor, pads that hold a whole window.
UNSUPPORTED = (
    "NOT_IMPLEMENTED",
    "Invalid input shape",
    "Could not find an implementation",
    "Pad should be smaller than kernel",
    "Exception during initialization",  # a kernel that refuses an attribute
)


class NotRunError(Exception):
    """ONNX Runtime doesn't run the source, so there is nothing to compare with."""


class TargetError(Exception):
    """ONNX Runtime runs the source and not the target."""


@dataclass(frozen=True)
class Operand:
    """An input of both models.

    `domain` keeps floats away from poles ("any", "positive", "nonzero"), and integers within bounds
    ("index", "position", "small", or "any", of all digits).
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    domain: str


@dataclass(frozen=True)
class SideModels:
    """One instance of a rule, before and after the rewrite, over the same inputs and outputs."""

    instance: Instance
    operands: tuple[Operand, ...]
    outputs: tuple[str, ...]
    source: onnx.ModelProto
    target: onnx.ModelProto

    @cached_property
    def _source(self) -> Any:
        return _session(self.source, NotRunError)

    @cached_property
    def _target(self) -> Any:
        return _session(self.target, TargetError)

    @cached_property
    def _steps(self) -> tuple[Any, Any]:
        return _stepwise(self.source, NotRunError), _stepwise(self.target, TargetError)

    def run(self, feeds: Feeds, *, stepwise: bool = False) -> tuple[list[Array], list[Array]]:
        """Return the outputs of source and target, without the runtime's optimizer.

        With `stepwise` each node's results are of their element type, which those of float16 are
        not where the runtime goes on in float32. Raises NotRunError where the source doesn't run,
        TargetError where only the target doesn't.
        """
        source, target = self._steps if stepwise else (self._source, self._target)
        return _run(source, feeds, NotRunError), _run(target, feeds, TargetError)


def draw_sides(rule: Rule, count: int, seed: int, dtype: str) -> list[SideModels]:
    """Draw instances whose floating-point inputs are of one element type, or at least one is and
    the others of longer ones, and rewrite them.

    Of a rule that says exact half as many come on top, of sizes at which kernels turn to other
    code. Fewer, down to none, where the rule doesn't allow that type. Those without any such input
    count among those of float32.
    """
    if not _has(rule, dtype):
        return []
    drawn = []
    # Of float16, the runtime's Relu gives zeros of either sign, by their place in a long vector.
    more = count // 2 if rule.equal == "exact" and dtype != "float16" else 0
    usual = instances(rule, count, seed, dtype)
    for instance in (*usual, *instances(rule, more, seed, dtype, turning=True)):
        both = sides_of(instance)
        if not _is_model(both.source):
            continue
        types = {o.dtype for o in both.operands if o.dtype.startswith("float")}
        if min(types, key=_length, default="float32") == dtype:
            drawn.append(both)
    return drawn


def _is_model(model: onnx.ModelProto) -> bool:
    """Tell whether the operators of a model take its types in its operator set."""
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return False
    return True


def _length(dtype: str) -> int:
    return np.dtype(dtype).itemsize


def _has(rule: Rule, dtype: str) -> bool:
    """Tell whether an operand may be of a type of floating-point numbers, as far as a rule says."""
    said = [set(types_of(operand.dtypes)) & set(FLOATS) for operand in rule.operands]
    return not any(said) or any(dtype in types for types in said)


def in_types_that_run(rule: Rule) -> Rule:
    """Put float32 in the place of bfloat16 where a rule has that, and not float32 itself."""
    operands = []
    for operand in rule.operands:
        types = types_of(operand.dtypes)
        if "bfloat16" in types and "float32" not in types:
            shown = tuple("float32" if dtype == "bfloat16" else dtype for dtype in types)
            operand = replace(operand, dtypes=shown)
        operands.append(operand)
    return replace(rule, operands=tuple(operands))


def allows(rule: Rule, dtype: str) -> bool:
    """Tell whether the operands that a rule says to be floating-point numbers may be of a type."""
    said = [set(types_of(operand.dtypes)) for operand in rule.operands if operand.dtypes]
    return all(dtype in types for types in said if types & set(FLOATS))


def sides_of(instance: Instance) -> SideModels:
    """Both sides of one instance; RuleError where the right side needs a value it lacks."""
    operands = _operands(instance)
    outputs = tuple(output.name for output in instance.view.model.graph.output)
    source = _with_inputs(instance.view.model, operands)
    return SideModels(instance, operands, outputs, source, _rewritten(instance, operands))


def negated_zeros(both: SideModels, rng: np.random.Generator) -> SideModels | None:
    """Turn some zeros among the numbers that a match fixes into -0.0, which matches as well.

    None where there are no such numbers.
    """
    fixed, constants = _fixed(both.instance), both.instance.view.constants
    zeros = [name for name in sorted(fixed) if _is_zero(constants.get(name))]
    if not zeros:
        return None
    chosen = [name for name in zeros if len(zeros) == 1 or rng.integers(0, 2)]
    return _with_constants(both, {name: -constants[name] for name in chosen})


def other_scalars(both: SideModels, draw: Callable[[np.dtype[Any]], Array]) -> SideModels | None:
    """Put other numbers, drawn for their type, in the place of a rule's scalars.

    None where there are none of a floating-point type, or where a condition forbids the numbers.
    """
    instance, constants = both.instance, both.instance.view.constants
    names = [operand.name for operand in instance.rule.operands if operand.scalar]
    real = [name for name in names if name in constants and constants[name].dtype.kind == "f"]
    if not real:
        return None
    drawn = {name: draw(constants[name].dtype).reshape(constants[name].shape) for name in real}
    try:
        other = _with_constants(both, drawn)
    except (*REJECTED, RuleError):  # nor what they don't give a value is a match
        return None
    bound = Bindings(other.instance.match, other.instance.view)
    return other if all(map(bound.holds, conditions(instance.rule))) else None


def _with_constants(both: SideModels, constants: Mapping[str, Array]) -> SideModels:
    """The same instance with other constants, by name."""
    instance = both.instance
    model = onnx.ModelProto()
    model.CopyFrom(instance.model)
    for tensor in model.graph.initializer:
        if tensor.name in constants:
            tensor.CopyFrom(
                numpy_helper.from_array(np.asarray(constants[tensor.name]), tensor.name)
            )
    view = ModelView(model)
    match = view.match(instance.rule, instance.match.positions)
    return sides_of(replace(instance, model=model, view=view, match=match))


def _is_zero(array: Array | None) -> bool:
    return array is not None and array.dtype.kind == "f" and bool(array.size) and not array.any()


def _operands(instance: Instance) -> tuple[Operand, ...]:
    graph = instance.view.model.graph
    domains, fixed = _domains(instance), _fixed(instance)
    operands = [
        Operand(
            info.name,
            dtype_name(info.type.tensor_type.elem_type),
            tuple(d.dim_value for d in info.type.tensor_type.shape.dim),
            domains.get(info.name, "any"),
        )
        for info in graph.input
    ]
    for name, array in instance.view.constants.items():
        if array.dtype.kind == "f" and name not in fixed:
            shape = tuple(map(int, array.shape))
            operands.append(Operand(name, str(array.dtype), shape, domains.get(name, "any")))
    return tuple(operands)


def _fixed(instance: Instance) -> set[str]:
    """Name the constants that stay: what the rule compares with numbers, and shapes and bounds."""
    rule = instance.rule
    fixed = {i.value for node in rule.match for i in node.inputs if i.literal is not None}
    fixed |= {operand.name for operand in rule.operands if operand.scalar}
    for node in instance.view.nodes:
        for position, name in enumerate(node.input):
            if position in PARAMETERS.get(node.op_type, ()):
                fixed.add(name)
    return {name for name in fixed if name}


def _domains(instance: Instance) -> dict[str, str]:
    """Which numbers each operand of the source may take, by the operators that read it."""
    domains = dict(instance.domains)
    for node in instance.view.nodes:
        for position, name in enumerate(node.input):
            domain = domain_of(node.op_type, position)
            if name and domain != "any":
                domains[name] = domain
    if _takes_bounded_integers(instance):
        for info in instance.view.model.graph.input:
            if np.dtype(dtype_name(info.type.tensor_type.elem_type)).kind in "iu":
                domains.setdefault(info.name, "small")
    return domains


def _takes_bounded_integers(instance: Instance) -> bool:
    """Whether a node takes integers as places, lengths, amounts or divisors, or may do so."""
    view, rule = instance.view, instance.rule
    for node in view.nodes:
        types = [view.dtype(view.ids[name]) or "" for name in node.input if name]
        if node.op_type in BOUNDED and any(dtype.startswith(("int", "uint")) for dtype in types):
            return True
    op_types = {node.op_type for node in view.nodes}
    return any(n.op_type in BOUNDED - op_types for n in (*rule.rewrite, *rule.correct))


def _with_inputs(model: onnx.ModelProto, operands: tuple[Operand, ...]) -> onnx.ModelProto:
    """Copy a model with these inputs, constants among them."""
    bound = onnx.ModelProto()
    bound.CopyFrom(model)
    graph = bound.graph
    names = {operand.name for operand in operands}
    kept = [tensor for tensor in graph.initializer if tensor.name not in names]
    del graph.initializer[:], graph.input[:], graph.value_info[:]
    graph.initializer.extend(kept)
    for operand in operands:
        element = helper.np_dtype_to_tensor_dtype(np.dtype(operand.dtype))
        graph.input.append(
            helper.make_tensor_value_info(operand.name, element, list(operand.shape))
        )
    return bound


def _rewritten(instance: Instance, operands: tuple[Operand, ...]) -> onnx.ModelProto:
    """Make the model of the target: operands, what the target still reads of the source, itself."""
    view, replacement = instance.view, instantiate(instance.match, instance.view)
    rewritten = _with_inputs(view.model, operands)
    graph = rewritten.graph
    del graph.node[:]
    # The source's own values keep their nodes, under other names: the target may read them.
    inner = {name for node in view.nodes for name in node.output if name}

    def old(name: str) -> str:
        return f"source.{name}" if name in inner else name

    def reference(item: Reference) -> str:
        if isinstance(item, int):
            return old(view.names[item])
        return f"target.{item}" if item else ""

    for node in view.nodes:
        copy = graph.node.add()
        copy.CopyFrom(node)
        del copy.input[:], copy.output[:]
        copy.input.extend(old(name) for name in node.input)
        copy.output.extend(old(name) for name in node.output)
    for name, array in replacement.constants.items():
        graph.initializer.append(numpy_helper.from_array(np.asarray(array), reference(name)))
    for new in replacement.nodes:
        inputs, outputs = map(reference, new.inputs), map(reference, new.outputs)
        node = helper.make_node(new.op_type, list(inputs), list(outputs), domain=new.domain)
        for key, value in new.attributes.items():
            kind = onnx.AttributeProto.INTS if value == [] else None
            node.attribute.append(helper.make_attribute(key, value, attr_type=kind))
        graph.node.append(node)
    for value, item in replacement.outputs.items():
        name = view.names[value]
        if any(output.name == name for output in graph.output):
            graph.node.append(helper.make_node("Identity", [reference(item)], [name]))
    _drop_dead(graph)
    domains = {opset.domain for opset in rewritten.opset_import}
    for domain in {node.domain for node in graph.node} - domains - {"", "ai.onnx"}:
        rewritten.opset_import.append(helper.make_opsetid(domain, 1))
    return rewritten


def _drop_dead(graph: onnx.GraphProto) -> None:
    used = {output.name for output in graph.output}
    alive = []
    for node in reversed(graph.node):
        if used.intersection(node.output):
            used.update(node.input)
            alive.append(onnx.NodeProto.FromString(node.SerializeToString()))
    del graph.node[:]
    graph.node.extend(reversed(alive))


class _Steps:
    """A model run node by node, so that each result is one of its element type.

    Of float16, ONNX Runtime computes most in float32 and rounds what leaves its graph only: that a
    number in between overflows in another plan, or on another machine, wouldn't be seen.
    """

    def __init__(self, model: onnx.ModelProto, refusal: type[Exception]) -> None:
        graph = infer_shapes(model).graph
        infos = {info.name: info for info in (*graph.input, *graph.value_info, *graph.output)}
        self.constants = {
            tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer
        }
        self.outputs = [info.name for info in graph.output]
        self.steps = []
        for node in graph.node:
            single = onnx.ModelProto()
            single.CopyFrom(model)
            del single.graph.node[:], single.graph.input[:], single.graph.output[:]
            del single.graph.value_info[:], single.graph.initializer[:]
            single.graph.node.append(node)
            read = [name for name in dict.fromkeys(node.input) if name]
            single.graph.initializer.extend(t for t in graph.initializer if t.name in read)
            single.graph.input.extend(infos[n] for n in read if n not in self.constants)
            single.graph.output.extend(infos[name] for name in node.output if name)
            self.steps.append((node, _session(single, refusal)))

    def run(self, feeds: Feeds) -> list[Array]:
        """Return the outputs."""
        values = {**self.constants, **feeds}
        for node, session in self.steps:
            results = run_session(session, values)
            values.update(zip((name for name in node.output if name), results, strict=True))
        return [values[name] for name in self.outputs]


def _stepwise(model: onnx.ModelProto, refusal: type[Exception]) -> Any:
    types = {info.type.tensor_type.elem_type for info in (*model.graph.input, *model.graph.output)}
    if TensorProto.FLOAT16 in types and len(model.graph.node) > 1:
        with suppress(KeyError):  # a value whose type is not inferred
            return _Steps(model, refusal)
    return _session(model, refusal)


def _session(model: onnx.ModelProto, refusal: type[Exception]) -> Any:
    try:
        return open_session(
            model.SerializeToString(), threads=1, execution=AS_WRITTEN, flush_denormals=False
        )
    except Exception as error:
        raise _as_error(refusal, error) from error


def _run(session: Any, feeds: Feeds, refusal: type[Exception]) -> list[Array]:
    try:
        return session.run(feeds) if isinstance(session, _Steps) else run_session(session, feeds)
    except Exception as error:  # of a model that loads: there is no value, as out of bounds
        raise refusal(_first_line(error)) from error


def _as_error(refusal: type[Exception], error: Exception) -> Exception:
    """Tell a missing kernel from a mistake of ours, which must not pass for one."""
    if refusal is NotRunError and not any(text in str(error) for text in UNSUPPORTED):
        return error
    return refusal(_first_line(error))


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
