"""Building one random left side of a rule, node by node."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from ...catalog.operators import ShapeError, specification
from ...catalog.operators.contributed import infer_shapes
from ...catalog.operators.derive import element_types
from ...catalog.tensors import dtype_name
from ...catalog.terms.syntax_tree import Binary, Call, Expression, ListOf, Literal, Name
from ..language import schemas
from ..language.conditions import optional_values, types_of
from ..language.expressions import KnownNumbers, names_in
from ..language.functions import UnknownError, Value
from ..language.syntax import Input, PatternNode, Rule, Star
from .domains import domain_of
from .sampler import PARAMETERS, SHAPED, RejectedError, Sampler

LATEST_OPSET = 21
GATHERING = ("Gather", "GatherElements")
# The least and the largest index that is drawn: each is one of any axis that has elements.
INDICES = (-1, 0)


def array_for(
    rng: np.random.Generator, dtype: str, shape: list[int], domain: str, family: str
) -> NDArray[Any]:
    """Random data of one element type, shape, domain and family of magnitudes."""
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if domain == "index":  # within any axis, counted from either end
        return rng.integers(INDICES[0], INDICES[1] + 1, shape).astype(dtype)
    if domain == "position":  # the first ones, counted from the front
        return rng.integers(0, 2, shape).astype(dtype)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(1, 5, shape).astype(dtype)
    data = rng.standard_normal(shape)
    if family == "shifted":
        data = 100 + data
    elif family == "mixed":
        data = data * 10.0 ** rng.integers(-3, 3, shape)
    if domain == "positive":
        data = np.abs(data) + 0.5
    elif domain == "nonzero":
        data = np.copysign(np.abs(data) + 0.5, data)
    return np.asarray(data, dtype)


@dataclass
class _Tensor:
    dtype: str
    shape: tuple[int, ...]
    array: NDArray[Any] | None = None


@dataclass
class Builder(KnownNumbers):
    """Builds one left side node by node; every choice is the sampler's."""

    rule: Rule
    rng: random.Random
    dtype: str
    empty: bool = False
    turning: bool = False
    names: dict[str, Value] = field(default_factory=dict)
    tensors: dict[str, _Tensor] = field(default_factory=dict)
    lists: dict[str, list[str]] = field(default_factory=dict)
    rests: dict[str, dict[str, Value]] = field(default_factory=dict)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    domains: dict[str, str] = field(default_factory=dict)
    positions: dict[str, int] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    chosen: dict[str, str] = field(default_factory=dict)
    instead: dict[tuple[str, ...], str] = field(default_factory=dict)

    def build(self) -> onnx.ModelProto:
        """Draw one left side; one of the errors REJECTED where the choices don't fit together."""
        self.opset = self._opset()
        self.sampler = Sampler(self.rng, self.opset, empty=self.empty, turning=self.turning)
        self.data = np.random.default_rng(self.rng.getrandbits(32))
        for name in sorted(optional_values(self.rule)):
            if self.rng.random() < 0.4:
                self.absent.add(name)
        for node in self.rule.match:
            self._node(node)
        return self._model()

    def _opset(self) -> int:
        low = self.rule.opset_from or 13
        latest = max(low, LATEST_OPSET)
        high = min(self.rule.opset_to or latest, latest)
        return self.rng.choice([o for o in (low, high, 17) if low <= o <= high])

    # ------------------------------------------------------------------------ the facts

    def shape_of(self, name: str) -> tuple[int | str, ...]:
        """The shape of a value that is drawn."""
        if name not in self.tensors:
            raise UnknownError
        return self.tensors[name].shape

    def dtype_of(self, name: str) -> str:
        """The element type of a value that is drawn."""
        if name not in self.tensors:
            raise UnknownError
        return self.tensors[name].dtype

    def integers_of(self, name: str) -> tuple[int, ...]:
        """The elements of a constant that is drawn."""
        tensor = self.tensors.get(name)
        if tensor is None or tensor.array is None:
            raise UnknownError
        return self.whole_numbers(tensor.array.reshape(-1).tolist())

    def shapes_of(self, name: str) -> tuple[tuple[int | str, ...], ...]:
        """The shapes of a list that is drawn."""
        return tuple(self.shape_of(item) for item in self.lists.get(name, [name]))

    def count_of(self, name: str) -> int:
        """The length of a list that is drawn."""
        if name not in self.lists:
            raise UnknownError
        return len(self.lists[name])

    # ---------------------------------------------------------------------------- nodes

    def _node(self, node: PatternNode) -> None:
        if node.choices:
            chosen = self.chosen.setdefault(node.op_type, self.rng.choice(node.choices))
            node = replace(node, op_type=chosen, choices=())
        operands = self._operands(node)
        known: list[tuple[int, ...] | None] = []
        for position, name in enumerate(operands):
            known.append(self._known_shape(node, position, name))
        known = self.sampler.shapes(
            node,
            known,
            [self._partial(name, node.op_type not in SHAPED) for name in operands],
            self._fixed(node),
        )
        for position, (name, shape) in enumerate(zip(operands, known, strict=True)):
            if name and name not in self.tensors and shape is not None:
                self._bind_shape(name, shape)
                self._leaf(node, position, name, shape)
        attributes = self._attributes(node, [s for s in known if s is not None])
        for position, name in enumerate(operands):
            if name and name not in self.tensors:
                if node.op_type == "Gather" and self._is_declared(name):
                    shape = self.sampler.filled(self._partial(name, True))
                    self._bind_shape(name, shape)
                    self._leaf(node, position, name, shape)
                else:
                    self._parameter(node, position, name, operands, attributes)
        outputs = self._outputs(node, operands, attributes)
        is_counted = "num_outputs" in attributes  # onnx ends the process where there are others
        if node.op_type == "Split" and not is_counted and self.rng.random() < 0.2:
            outputs.append(f"{node.name}.unused")
        proto = helper.make_node(
            node.op_type,
            [name if name in self.tensors else "" for name in operands],
            outputs,
            name=node.name,
            domain=node.domain,
        )
        for key, value in sorted(attributes.items()):
            proto.attribute.append(helper.make_attribute(key, value))
        while proto.input and not proto.input[-1]:
            proto.input.pop()
        self._infer(proto)
        self.nodes.append(proto)
        if node.op_type in GATHERING:
            self._require_index(operands)

    def _operands(self, node: PatternNode) -> list[str]:
        """The value names of a node's inputs, lists drawn where they occur first."""
        result: list[str] = []
        for i, item in enumerate(node.inputs):
            name = item.value or ""
            if item.star:
                if name not in self.lists:
                    least = 1 if len(node.inputs) == 1 else 0
                    count = self.rng.randint(least, 2)
                    self.lists[name] = [f"{name}.{k}" for k in range(count)]
                if i == 0 and len(node.inputs) == 3:
                    self.positions[f"{node.name}:in"] = len(self.lists[name])
                result += self.lists[name]
            else:
                result.append("" if name in self.absent else name)
        return result

    def _pattern_input(self, node: PatternNode, name: str) -> Input:
        return next((i for i in node.inputs if i.value == name), Input(name))

    def _known_shape(self, node: PatternNode, position: int, name: str) -> tuple[int, ...] | None:
        """The shape of an operand where it follows from what was chosen before."""
        if not name:
            return None
        if name in self.tensors:
            return self.tensors[name].shape
        item = self._pattern_input(node, name)
        if item.literal is not None:
            self._literal(node, position, name, item.literal)
            return self.tensors[name].shape
        declared = self.rule.operand(name).shape
        if declared is None:
            parameter = position in PARAMETERS.get(node.op_type, ())
            return None if parameter else self._fitting(name)
        try:
            return self.entries(declared)
        except UnknownError:
            return None

    def _fitting(self, name: str) -> tuple[int, ...] | None:
        """A shape that a condition states, `shape(name) = ...` or `fits(name, Y)` with Y there."""
        stated = [shape for said in self.rule.given for shape in self._stated(said, name)]
        if stated and self.rng.random() < 0.5:
            return self.rng.choice(stated)
        for condition in self.rule.given:
            match condition:
                case Call("fits", (Name(c), Name(target))) if c == name and target in self.tensors:
                    return self.sampler.fitting(self.tensors[target].shape)
        if self.rule.operand(name).scalar:
            return (1,) * self.rng.randint(0, 1)
        return None

    def _stated(self, said: Expression, name: str) -> list[tuple[int, ...]]:
        """The shapes that a condition allows for an operand, as far as they can be told."""
        match said:
            case Binary("and" | "or", left, right):
                return self._stated(left, name) + self._stated(right, name)
            case Binary("=", Call("shape", (Name(text),)), shape) if text == name:
                try:
                    return [tuple(self.evaluate(shape))]
                except UnknownError:
                    pass
        return []

    def _partial(self, name: str, any_length: bool) -> list[int | None] | None:
        """Declared sizes, None where still open.

        The length of an open list is drawn, or None returned for the whole shape where the sampler
        knows better what the operator needs.
        """
        declared = self.rule.operand(name).shape if name else None
        if declared is None:
            return None
        sizes: list[int | None] = []
        for size in declared:
            if isinstance(size, Star):
                if size.text in self.names:
                    sizes += list(self.names[size.text])
                elif any_length:
                    sizes += [None] * self.rng.randint(0, 2)
                else:
                    return None
            else:
                try:
                    sizes.append(self.evaluate(size))
                except UnknownError:
                    sizes.append(None)
        return sizes

    def _fixed(self, node: PatternNode) -> dict[str, Value]:
        """The attributes whose values are settled before the shapes are."""
        fixed: dict[str, Value] = {}
        for name, expression in node.attributes:
            if isinstance(expression, Name) and expression.text not in self.names:
                early = self.sampler.early(name, self.rule.given)
                if early is not None:
                    self.names[expression.text] = early
            try:
                fixed[name] = self.evaluate(expression)
            except UnknownError:
                continue
        return fixed

    def _bind_shape(self, name: str, shape: tuple[int, ...]) -> None:
        """Bind the dimension names of a declared shape; RejectedError where they disagree."""
        operand = self.rule.operand(name)
        declared, star = operand.shape, operand.star
        if declared is None:
            return
        if len(shape) < len(declared) - (star is not None) or (
            star is None and len(shape) != len(declared)
        ):
            raise RejectedError
        for i, size in enumerate(declared):
            if isinstance(size, Star):
                part = shape[i : len(shape) - (len(declared) - i - 1)]
                if self.names.setdefault(size.text, part) != part:
                    raise RejectedError
            elif isinstance(size, Name):
                place = i if star is None or i < star else i - len(declared)
                if self.names.setdefault(size.text, shape[place]) != shape[place]:
                    raise RejectedError

    # --------------------------------------------------------------------------- leaves

    def _leaf(self, node: PatternNode, position: int, name: str, shape: tuple[int, ...]) -> None:
        """A data operand of known shape: a graph input, or a constant."""
        dtype = self._dtype(node, position, name)
        operand = self.rule.operand(name)
        domain = "index" if self._indexes(name) else domain_of(node.op_type, position)
        array: NDArray[Any] | None = None
        if operand.scalar:
            array = np.full(shape, self._scalar(name), np.dtype(dtype))
        elif operand.const or self.rng.random() < 0.3:
            family = self.rng.choice(["normal", "normal", "mixed"])
            array = array_for(self.data, dtype, list(shape), domain, family)
        elif domain != "any":
            self.domains[name] = domain
        self.tensors[name] = _Tensor(dtype, shape, array)

    def _is_declared(self, name: str) -> bool:
        """Whether a rule says of an operand which shape or type it has."""
        operand = self.rule.operand(name)
        return operand.shape is not None or bool(operand.dtypes)

    def _indexes(self, name: str) -> bool:
        """Whether elements are gathered by an operand, or by what is computed of it."""
        givers = {output.value: node for node in self.rule.match for output in node.outputs}
        waiting = [node.inputs[1].value for node in self.rule.match if node.op_type in GATHERING]
        seen: set[str | None] = set()
        while waiting:
            value = waiting.pop()
            if value == name:
                return True
            if value in givers and value not in seen:
                waiting += [item.value for item in givers[value].inputs]
            seen.add(value)
        return False

    def _require_index(self, operands: list[str]) -> None:
        """See that what elements are gathered by lies in their axis; RejectedError else."""
        if 0 in self.tensors[operands[1]].shape:
            return
        axis = next((int(a.i) for a in self.nodes[-1].attribute if a.name == "axis"), 0)
        least, most = self._bounds(operands[1])
        size = self.tensors[operands[0]].shape[axis]
        if least < -size or most >= size:
            raise RejectedError

    def _bounds(self, name: str) -> tuple[int, int]:
        """The least and the largest integer that may come out, of what is drawn of indices."""
        tensor = self.tensors[name]
        if tensor.array is not None:
            entries = tensor.array.reshape(-1).tolist() or [0]
            return int(min(entries)), int(max(entries))
        producer = next((node for node in self.nodes if name in node.output), None)
        if producer is None:
            return INDICES
        parts = [self._bounds(value) for value in producer.input]
        match producer.op_type:
            case "Add":
                return parts[0][0] + parts[1][0], parts[0][1] + parts[1][1]
            case "Where":
                return min(parts[1][0], parts[2][0]), max(parts[1][1], parts[2][1])
            case _:  # what only moves elements
                return parts[0]

    def _dtype(self, node: PatternNode, position: int, name: str) -> str:
        variable = schemas.type_variable(node.operator, position)
        if variable.startswith("tensor("):
            return schemas.type_name(variable)
        if variable == "Tind":
            said = self.rule.operand(name).dtypes
            return self.rng.choice(types_of(said)) if said else "int64"
        for other in self._operands(node):
            if other in self.tensors:
                i = self._operands(node).index(other)
                if schemas.type_variable(node.operator, i) == variable:
                    return self.tensors[other].dtype
        allowed = self._allowed(node, variable) or (self.dtype,)
        if self.dtype in allowed:
            return self.dtype
        return self.instead.setdefault(allowed, self.rng.choice(allowed))

    def _allowed(self, node: PatternNode, variable: str) -> tuple[str, ...]:
        """The element types that `given` allows for the operands of one type variable."""
        for i, item in enumerate(node.inputs):
            said = self.rule.operand(item.value or "").dtypes
            if said and schemas.type_variable(node.operator, i) == variable:
                return types_of(said)
        for operand in self.rule.operands:
            if operand.dtypes:
                return types_of(operand.dtypes)
        return ()

    def _scalar(self, name: str) -> float:
        compared: list[float] = []
        for condition in self.rule.given:
            compared += _numbers_beside(condition, name)
        if compared and self.rng.random() < 0.8:
            return self.rng.choice(compared)
        return self.rng.choice([0.5, 2.0, -1.3, 3.0, 0.1])

    def _literal(self, node: PatternNode, position: int, name: str, literal: Expression) -> None:
        if isinstance(literal, ListOf):  # sizes that nothing else binds: a Reshape's or Expand's
            for free in sorted(names_in(literal) - self.names.keys() - self.tensors.keys()):
                self.names[free] = self.sampler.size()
        value = self.evaluate(literal)
        if isinstance(literal, ListOf) or isinstance(value, tuple):
            self.tensors[name] = _Tensor("int64", (len(value),), np.asarray(value, np.int64))
            return
        shape = self.rng.choice([(), (), (1,)]) if self._may_have_rank(node, name) else ()
        dtype = self._dtype(node, position, name)
        taken = schemas.element_types(node.operator, position)
        if taken and dtype not in taken:  # an axis, as of CumSum
            dtype = "int64" if "int64" in taken else min(taken)
        self.tensors[name] = _Tensor(dtype, shape, np.full(shape, value, np.dtype(dtype)))

    def _may_have_rank(self, node: PatternNode, name: str) -> bool:
        others = [o for o in self._operands(node) if o in self.tensors and o != name]
        return bool(others) and len(self.tensors[others[0]].shape) > 0 and len(node.inputs) == 2

    def _parameter(
        self,
        node: PatternNode,
        position: int,
        name: str,
        operands: list[str],
        attributes: dict[str, Value],
    ) -> None:
        """An operand that parametrizes the node: a shape, axes, sizes, bounds."""
        shapes = [self.tensors[o].shape if o in self.tensors else None for o in operands]
        outputs = sum(len(self.lists.get(o.value, [])) if o.star else 1 for o in node.outputs)
        if any(o.star and o.value not in self.lists for o in node.outputs):
            outputs = 0
        solved = self._solved(name)
        target = self._declared_target(node, shapes[0]) if node.op_type == "Reshape" else None
        if solved is not None:
            array = np.asarray(solved, np.int64)
        elif target is not None and shapes[0] is not None:
            array = np.asarray(self.sampler.spelled(shapes[0], target), np.int64)
        else:
            array = self.sampler.parameter(node.op_type, position, shapes, attributes, outputs)
        if array.dtype.kind == "f":
            array = array.astype(self._dtype(node, position, name))
        self.tensors[name] = _Tensor(str(array.dtype), tuple(array.shape), array)

    def _declared_target(
        self, node: PatternNode, shape: tuple[int, ...] | None
    ) -> list[int] | None:
        """The sizes that a Reshape's result is declared to have; those that are free are drawn."""
        declared = self.rule.operand(node.outputs[0].value).shape
        sizes = self._partial(node.outputs[0].value, False)
        if declared is None or sizes is None or shape is None or 0 in shape:
            return None
        remaining = math.prod(shape)
        for size in sizes:
            if size is not None:
                remaining = remaining // size if size and remaining % size == 0 else 0
        free = [position for position, size in enumerate(sizes) if size is None]
        if not remaining or not all(isinstance(declared[position], Name) for position in free):
            return None
        for position in free:
            divisors = [n for n in range(1, remaining + 1) if remaining % n == 0]
            sizes[position] = remaining if position == free[-1] else self.rng.choice(divisors)
            remaining //= sizes[position] or 1
        return [size or 0 for size in sizes]

    def _solved(self, name: str) -> Value | None:
        """The value that a condition `ints(name) = expression` leaves no choice about."""
        for condition in self.rule.given:
            match condition:
                case Binary("=", Call("ints", (Name(text),)), right) if text == name:
                    try:
                        return self.evaluate(right)
                    except UnknownError:
                        continue
        return None

    # ----------------------------------------------------------------------- attributes

    def _attributes(self, node: PatternNode, shapes: list[tuple[int, ...]]) -> dict[str, Value]:
        result: dict[str, Value] = {}
        for name, expression in node.attributes:
            if isinstance(expression, Name) and expression.text not in self.names:
                value = self._equated(expression.text)
                if value is None:
                    value = self.sampler.attribute(node, name, shapes)
                self.names[expression.text] = value
            result[name] = self.evaluate(expression)
        if node.rest is not None:
            if node.rest not in self.rests:
                self.rests[node.rest] = self.sampler.other_attributes(node.op_type, shapes, result)
            rest = self.rests[node.rest]
            result |= {k: v for k, v in rest.items() if k not in node.mentioned}
        return {k: v for k, v in result.items() if v is not None and v != ()}

    def _equated(self, name: str) -> Value | None:
        for condition in self.rule.given:
            match condition:
                case Binary("=", Name(text), other) if text == name:
                    pass
                case Binary("=", other, Name(text)) if text == name:
                    pass
                case _:
                    continue
            try:
                return self.evaluate(other)
            except UnknownError:
                continue
        return None

    # -------------------------------------------------------------------------- outputs

    def _outputs(
        self, node: PatternNode, operands: list[str], attributes: dict[str, Value]
    ) -> list[str]:
        result: list[str] = []
        fixed = sum(not o.star for o in node.outputs)
        total = self.sampler.output_count(
            node.op_type,
            [self.tensors.get(o) and self.tensors[o].array for o in operands],
        )
        for i, output in enumerate(node.outputs):
            if not output.star:
                result.append(output.value)
                continue
            if output.value not in self.lists:
                stars = sum(o.star for o in node.outputs)
                remaining = max(0, total - fixed)
                count = remaining
                if stars == 2:
                    count = self.rng.randint(0, remaining) if i == 0 else total - len(result)
                self.lists[output.value] = [f"{output.value}.{k}" for k in range(count)]
            if i == 0 and len(node.outputs) == 3:
                self.positions[f"{node.name}:out"] = len(self.lists[output.value])
            result += self.lists[output.value]
        return result

    def _imports(self, nodes: list[onnx.NodeProto]) -> list[onnx.OperatorSetIdProto]:
        """The operator sets of some nodes; those beside ONNX's own have one version."""
        domains = sorted({node.domain for node in nodes if node.domain})
        others = [helper.make_opsetid(domain, 1) for domain in domains]
        return [helper.make_opsetid("", self.opset), *others]

    def _infer(self, node: onnx.NodeProto) -> None:
        """Give the node's outputs their types and shapes."""
        used = [name for name in dict.fromkeys(node.input) if name]
        graph = helper.make_graph(
            [node],
            "one",
            [_info(name, self.tensors[name]) for name in used if self.tensors[name].array is None],
            [helper.make_empty_tensor_value_info(name) for name in node.output],
            [
                numpy_helper.from_array(tensor.array, name)
                for name in used
                if (tensor := self.tensors[name]).array is not None
            ],
        )
        model = helper.make_model(graph, opset_imports=self._imports([node]))
        outputs = infer_shapes(model, strict=True).graph.output
        kinds = [info.type.tensor_type for info in outputs]
        if all(kind.HasField("shape") for kind in kinds):
            shapes = [tuple(d.dim_value for d in kind.shape.dim) for kind in kinds]
            sized = all(d.HasField("dim_value") for kind in kinds for d in kind.shape.dim)
            types = [dtype_name(kind.elem_type) for kind in kinds]
        else:
            shapes, types = self._specified(node)
            sized = all(isinstance(size, int) for shape in shapes for size in shape)
        if not sized or any(size < 0 for shape in shapes for size in shape):
            raise RejectedError
        for info, dtype, shape in zip(outputs, types, shapes, strict=True):
            self.tensors[info.name] = _Tensor(dtype, shape)
            if self.rule.operand(info.name).shape is not None:
                self._bind_shape(info.name, shape)

    def _specified(self, node: onnx.NodeProto) -> tuple[list[tuple[Any, ...]], list[str]]:
        """Shapes and types of outputs by the specification: onnx infers none of some operators."""
        meaning = specification(node.domain, node.op_type, self.opset)
        if meaning is None or meaning.opaque is not None:
            raise RejectedError
        operands = [self.tensors[name] if name else None for name in node.input]
        lists = {
            position: tensor.array.tolist()
            for position, tensor in enumerate(operands)
            if position in meaning.known_inputs and tensor is not None and tensor.array is not None
        }
        try:
            expansion = meaning.expand(
                [None if tensor is None else tensor.shape for tensor in operands],
                {a.name: helper.get_attribute_value(a) for a in node.attribute},
                values=lists,
                outputs=len(node.output),
            )
        except ShapeError:
            raise RejectedError from None
        types = element_types(expansion, [None if t is None else t.dtype for t in operands])
        return [definition.shape for definition in expansion.outputs], types

    def _model(self) -> onnx.ModelProto:
        computed = {name for node in self.nodes for name in node.output}
        used = {name for node in self.nodes for name in node.input if name}
        leaves = sorted(used - computed)
        outputs = [
            name for output in self.rule.outputs for name in self.lists.get(output, [output])
        ]
        graph = helper.make_graph(
            self.nodes,
            self.rule.name,
            [_info(n, self.tensors[n]) for n in leaves if self.tensors[n].array is None],
            [_info(n, self.tensors[n]) for n in outputs],
            [
                numpy_helper.from_array(tensor.array, n)
                for n in leaves
                if (tensor := self.tensors[n]).array is not None
            ],
            value_info=[_info(n, self.tensors[n]) for n in sorted(computed.difference(outputs))],
        )
        return helper.make_model(graph, opset_imports=self._imports(self.nodes), ir_version=8)


def _info(name: str, tensor: _Tensor) -> onnx.ValueInfoProto:
    element = helper.np_dtype_to_tensor_dtype(np.dtype(tensor.dtype))
    return helper.make_tensor_value_info(name, element, list(tensor.shape))


def _numbers_beside(expression: Expression, name: str) -> list[float]:
    """The numbers that a condition compares a scalar with."""
    match expression:
        case Binary("and" | "or", left, right):
            return _numbers_beside(left, name) + _numbers_beside(right, name)
        case Binary("=", Name(text), Literal(value)) if text == name:
            return [float(value)]
        case Binary("in", Name(text), ListOf(items)) if text == name:
            return [float(i.value) for i in items if isinstance(i, Literal)]
    return []
