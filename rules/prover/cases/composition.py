"""Specified operators put together over symbolic shapes: definitions, and what must hold.

A composition starts from operands, about whose elements nothing is known, and grows node by node.
Names stay unique, shapes are terms, and every node tells what it requires, so that what a rule's
left side requires can be assumed and what its right side requires must be shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ....catalog.operators import ShapeError, Specification, specification
from ....catalog.operators.derive import element_types, saturated
from ....catalog.operators.expand import Definition, Expansion
from ....catalog.operators.functions import UnknownNumberError
from ....catalog.terms.comparisons import COMPARISONS
from ....catalog.terms.index_notation import (
    Apply,
    Read,
    Reduce,
    Select,
    Symbol,
    Term,
    Variable,
    apply,
    is_integer,
    map_children,
    never_negative,
    product,
    select,
)
from ...language.conditions import INTEGERS
from ..statement import Algebra, Node, Obligation, Operand
from .literals import read_attribute, read_literal

# Attributes that ONNX wants to be at least so much; the specifications take that for granted.
LEAST: Mapping[str, int] = {
    "strides": 1,
    "dilations": 1,
    "group": 1,
    "kernel_shape": 1,
    "num_groups": 1,
    "blocksize": 1,
    "size": 1,
    "output_padding": 0,
    "block_size": 0,
}
_TRUTHS = (*COMPARISONS, "and", "or", "not", "isnan")


class UndescribedError(Exception):
    """An operator, or a use of one, of which no meaning is known: nothing can be proved of it."""


@dataclass(frozen=True)
class Tensor:
    """A tensor of a composition; `contents` are its elements, in order, where they are terms."""

    name: str
    shape: tuple[Term, ...]
    dtype: str
    contents: tuple[Term, ...] | None = None


def algebra_of(dtype: str) -> Algebra:
    """The algebra of the elements of an ONNX type; text and complex numbers only move."""
    if dtype == "bool":
        return "boolean"
    return "integer" if dtype in INTEGERS or dtype in ("int4", "uint4") else "real"


class Composition:
    """Tensors by name, in order of use; attributes may be the `rounded` ones of what is meant."""

    def __init__(self, opset: int, *, rounded: bool = False) -> None:
        self.opset = opset
        self.rounded = rounded
        self.tensors: dict[str, Tensor] = {}
        self.operands: list[Operand] = []
        self.definitions: list[Definition] = []
        self.nodes: list[Node] = []
        # Whether sizes are supposed to be 1: those are what a Squeeze drops that names no axes.
        self.units: dict[Term, bool] = {}
        self._numbers = 0

    def operand(
        self,
        name: str,
        shape: Sequence[Term],
        dtype: str,
        limits: tuple[int, int] | None = None,
    ) -> Tensor:
        """Add a tensor that may hold anything; of integers, anything within limits."""
        self.operands.append(Operand(name, tuple(shape), algebra_of(dtype), limits))
        return self._keep(Tensor(name, tuple(shape), dtype))

    def constant(self, name: str, shape: Sequence[Term], value: Term, dtype: str) -> Tensor:
        """Add a tensor whose elements are all one number."""
        indices = tuple(self.variable("i") for _ in shape)
        self.definitions.append(Definition(name, tuple(shape), indices, value, dtype))
        contents = (value,) if all(size == 1 for size in shape) else None
        return self._keep(Tensor(name, tuple(shape), dtype, contents))

    def counted(self, name: str, shape: Sequence[Term], first: Term, dtype: str) -> Tensor:
        """Add a vector of integers that follow each other."""
        index = self.variable("i")
        value = apply("+", first, index)
        self.definitions.append(Definition(name, tuple(shape), (index,), value, dtype))
        return self._keep(Tensor(name, tuple(shape), dtype))

    def known_constant(
        self, name: str, contents: Sequence[Term], dtype: str, rank: int = 1
    ) -> Tensor:
        """Add a tensor of known elements: axes, sizes, bounds; of rank 0 it has one."""
        shape: tuple[Term, ...] = (len(contents),) if rank else ()
        indices = tuple(self.variable("i") for _ in shape)
        value: Term = contents[-1] if contents else 0
        for place in reversed(range(len(contents) - 1)):
            value = select(apply("=", indices[0], place), contents[place], value)
        self.definitions.append(Definition(name, shape, indices, value, dtype))
        return self._keep(Tensor(name, shape, dtype, tuple(contents)))

    def node(
        self,
        operator: str,
        inputs: Sequence[str | None],
        attributes: Mapping[str, object],
        outputs: Sequence[str],
    ) -> list[Obligation]:
        """Add a node; return what must hold for it to be defined.

        `inputs` are names of tensors, None where one is absent. Raises ShapeError where no sizes
        fit, and UndescribedError where the specifications say nothing.
        """
        operands = [None if name is None else self.tensors[name] for name in inputs]
        key, expansion = self._expansion(operator, inputs, attributes, len(outputs))
        self.nodes.append(Node(operator, tuple(inputs), dict(attributes), tuple(outputs)))
        if len(expansion.outputs) < len(outputs):
            raise UndescribedError(f"{operator} is described with {len(expansion.outputs)} outputs")
        types = [None if tensor is None else tensor.dtype for tensor in operands]
        written = (key, tuple(inputs), tuple(outputs), tuple(types))
        if written not in _DEFINITIONS:
            if len(_DEFINITIONS) >= _MOST_EXPANSIONS:
                _DEFINITIONS.clear()
            _DEFINITIONS[written] = self._defined(expansion, inputs, outputs, types)
        for definition, dtype in _DEFINITIONS[written]:
            self.definitions.append(definition)
            self._keep(Tensor(definition.name, definition.shape, dtype))
        needs = [*expansion.requirements, *_wanted(operator, attributes)]
        needs += _reshape_needs(operator, operands, attributes)
        obligations = []
        for condition, text in needs:
            if condition is False:
                raise ShapeError(f"{operator}: {text} doesn't hold")
            if condition is not True:
                obligations.append(Obligation(f"{operator}: {text}", condition))
        return obligations

    def expansion(
        self,
        operator: str,
        inputs: Sequence[str | None],
        attributes: Mapping[str, object],
        outputs: int,
    ) -> Expansion:
        """What a node expands to. Raises ShapeError and UndescribedError as `node` does."""
        return self._expansion(operator, inputs, attributes, outputs)[1]

    def _expansion(
        self,
        operator: str,
        inputs: Sequence[str | None],
        attributes: Mapping[str, object],
        outputs: int,
    ) -> tuple[_Written, Expansion]:
        meaning = described(operator, self.opset)
        operands = [None if name is None else self.tensors[name] for name in inputs]
        values: dict[int, object] = {}
        for position in meaning.known_inputs:
            if position < len(operands) and (tensor := operands[position]) is not None:
                if tensor.contents is None:
                    name = tensor.name.removesuffix(".new")
                    listed = "say them as a list, such as plus(ints(a), ints(b))"
                    raise UndescribedError(f"{operator} needs the elements of {name}: {listed}")
                values[position] = list(tensor.contents)
        plain = {name: self._plain(value) for name, value in attributes.items()}
        if self.names_no_axes(operator, inputs, attributes) and operands[0] is not None:
            units = self._units(operands[0].shape)
            if not units:
                written, expansion = self._expansion("Identity", inputs[:1], {}, outputs)
                unread = (None,) * (len(inputs) - 1)
                return written, replace(expansion, inputs=(*expansion.inputs, *unread))
            if meaning.known_inputs:
                values[1] = units
            else:
                plain["axes"] = units
        shapes = [None if tensor is None else tensor.shape for tensor in operands]
        return _expanded(meaning, shapes, plain, values, outputs)

    def names_no_axes(
        self, operator: str, inputs: Sequence[str | None], attributes: Mapping[str, object]
    ) -> bool:
        """Whether a node is a Squeeze of all axes of size 1: it has no list of axes, or no axis."""
        axes = self.tensors.get(inputs[1] or "") if len(inputs) > 1 else None
        named = attributes.get("axes") if axes is None else axes.contents != ()
        return operator == "Squeeze" and not named

    def _units(self, shape: Sequence[Term]) -> list[int]:
        """The axes of size 1. Raises UnknownNumberError where a size may be 1 or not."""
        for size in shape:
            if not isinstance(size, int) and size not in self.units:
                raise UnknownNumberError(f"Squeeze names no axes, and whether {size} is 1 is open")
        return [axis for axis, size in enumerate(shape) if self.units.get(size, size == 1)]

    def _plain(self, value: object) -> object:
        if isinstance(value, tuple):
            return list(value)
        return read_attribute(value) if self.rounded else value

    def _defined(
        self,
        expansion: Expansion,
        inputs: Sequence[str | None],
        outputs: Sequence[str],
        input_types: Sequence[str | None],
    ) -> list[tuple[Definition, str]]:
        """What a node defines, under the names that its tensors have here, with element types."""
        names = {
            tensor.name: name
            for tensor, name in zip(expansion.inputs, inputs, strict=True)
            if tensor is not None and name is not None
        }
        types = {name: self.tensors[name].dtype for name in names.values()}
        first = next(filter(None, input_types), "float32")
        wanted = [(local, f"{outputs[0]}.{local.name}", first) for local in expansion.locals]
        names |= {result.name: name for result, name, _ in wanted}
        wanted += zip(
            expansion.outputs, outputs, element_types(expansion, input_types), strict=True
        )
        definitions = []
        for result, name, dtype in wanted:
            value = renamed(saturated(result.value, dtype), names)
            had = element_type(value, types)
            if had is not None:
                value = converted(value, had, dtype)
            definitions.append(
                (Definition(name, result.shape, result.indices, value, dtype), dtype)
            )
            types[name] = dtype
        return definitions

    def define(self, definition: Definition, dtype: str) -> Tensor:
        """Add a tensor by its definition."""
        self.definitions.append(definition)
        return self._keep(Tensor(definition.name, definition.shape, dtype))

    def redefine(self, position: int, definition: Definition) -> Tensor:
        """Put the definition of another tensor of the same type in the place of a definition."""
        dtype = self.tensors[self.definitions[position].name].dtype
        self.definitions[position] = definition
        return self._keep(Tensor(definition.name, definition.shape, dtype))

    def _keep(self, tensor: Tensor) -> Tensor:
        self.tensors[tensor.name] = tensor
        return tensor

    def variable(self, name: str) -> Variable:
        """Return an index that no definition has yet."""
        self._numbers += 1
        return Variable(name, self._numbers)


def element_type(term: Term, types: Mapping[str, str]) -> str | None:
    """The type that a value has by what it reads; None where it reads nothing."""
    match term:
        case Read(tensor, _):
            return types[tensor]
        case Apply(function, arguments):
            if function in _TRUTHS or function.startswith("is_"):
                return "bool"
            if function in ("real", "int32"):
                return "float32" if function == "real" else "int32"
            return next(
                filter(None, (element_type(argument, types) for argument in arguments)), None
            )
        case Select(_, then, otherwise):
            return element_type(then, types) or element_type(otherwise, types)
        case Reduce(kind, _, _, _, body):
            return "bool" if kind in ("any", "all") else element_type(body, types)
        case _:
            return None


_Written = tuple[str, str]
# What operators expand to, or why they don't, for as many nodes as the cases of one rule share; and
# what that defines, under the names and with the types that it was written with.
_EXPANSIONS: dict[_Written, Expansion | ShapeError] = {}
_DEFINITIONS: dict[tuple[object, ...], list[tuple[Definition, str]]] = {}
_MOST_EXPANSIONS = 4096


def _expanded(
    meaning: Specification,
    shapes: Sequence[tuple[Term, ...] | None],
    attributes: Mapping[str, object],
    values: Mapping[int, object],
    outputs: int,
) -> tuple[_Written, Expansion]:
    """Expand a node, or tell it from the last time: most cases of a rule share most nodes.

    The first of the two says what was expanded: by what is written, not by what is equal: 1, 1.0
    and True are three attributes.
    """
    key = (meaning.hash, repr((meaning.op_type, shapes, attributes, values, outputs)))
    expansion = _EXPANSIONS.get(key)
    if expansion is None:
        try:
            expansion = meaning.expand(shapes, attributes, values=values, outputs=outputs)
        except ShapeError as error:
            expansion = error
        if len(_EXPANSIONS) >= _MOST_EXPANSIONS:
            _EXPANSIONS.clear()
        _EXPANSIONS[key] = expansion
    if isinstance(expansion, ShapeError):
        raise expansion.with_traceback(None)
    return key, expansion


def converted(value: Term, had: str, wanted: str) -> Term:
    """Return a value as an element of another type: itself where the type holds all that it may be.

    Fractions are cut off and what is out of range wraps, by a function named after the type.
    """
    source_algebra, target_algebra = algebra_of(had), algebra_of(wanted)
    if (
        had == wanted
        or source_algebra == target_algebra == "real"
        or (source_algebra == target_algebra and _holds_all(wanted, had))
    ):
        return value
    if source_algebra == "boolean":
        return select(value, 1, 0)
    if target_algebra == "boolean":
        return apply("!=", value, 0)
    return Apply("real" if target_algebra == "real" else f"to_{wanted}", (value,))


def _holds_all(wide: str, narrow: str) -> bool:
    """Whether every integer of one type is one of another: int8 of int32, uint8 of int16."""

    def bits(dtype: str) -> int:
        return int(dtype.removeprefix("u").removeprefix("int"))

    if wide.startswith("u") and not narrow.startswith("u"):
        return False
    more = not wide.startswith("u") and narrow.startswith("u")
    return bits(wide) > bits(narrow) or (not more and bits(wide) == bits(narrow))


def described(operator: str, opset: int) -> Specification:
    """The specification of an operator as rules name it; UndescribedError where there is none."""
    domain, _, name = operator.rpartition(":")
    meaning = specification(domain, name, opset)
    if meaning is None:
        raise UndescribedError(f"{operator} is not described in opset {opset}")
    if meaning.opaque is not None:
        raise UndescribedError(f"{operator} is opaque: {meaning.opaque}")
    return meaning


def renamed(term: Term, names: Mapping[str, str]) -> Term:
    """Return a value with its tensors renamed and its numbers read as literals."""
    match term:
        case float():
            return read_literal(term)
        case Read(tensor, indices):
            return Read(names[tensor], tuple(renamed(index, names) for index in indices))
        case _:
            return map_children(lambda part: renamed(part, names), term)


def _wanted(operator: str, attributes: Mapping[str, object]) -> list[tuple[Term, str]]:
    """What ONNX demands of attributes and the specification doesn't say."""
    needs: list[tuple[Term, str]] = []
    for name, value in attributes.items():
        least = LEAST.get(name)
        if name == "pads" and operator != "Pad":  # Pad crops where they are negative
            least = 0
        if least is None:
            continue
        for entry in value if isinstance(value, tuple | list) else (value,):
            if isinstance(entry, int | Symbol | Apply | Select) and is_integer(entry):
                needs.append((apply(">=", entry, least), f"{name}: {entry} >= {least}"))
    return needs


def _reshape_needs(
    operator: str, operands: Sequence[Tensor | None], attributes: Mapping[str, object]
) -> list[tuple[Term, str]]:
    """What keeps an unknown entry of Reshape's target a size: where it is 0, it copies.

    Beside a -1, the other sizes must not be 0: ONNX Runtime divides by their product.
    """
    if operator != "Reshape" or operands[0] is None or operands[1] is None:
        return []
    shape, wanted = operands[0].shape, operands[1].contents or ()
    needs: list[tuple[Term, str]] = []
    sizes: list[Term] = []
    copies = not attributes.get("allowzero")
    for axis, entry in enumerate(wanted):
        copied = copies and entry == 0
        sizes.append(shape[axis] if copied and axis < len(shape) else entry)
        if isinstance(entry, int):
            continue
        if not never_negative(entry):
            needs.append((apply(">=", entry, 0), f"the new size {entry} is not negative"))
        if copies and not (axis < len(shape) and shape[axis] == entry):
            kept: Term = apply("=", shape[axis], 0) if axis < len(shape) else False
            condition = apply("or", apply("!=", entry, 0), kept)
            needs.append((condition, f"the new size {entry} is not 0, which would copy"))
    if any(entry == -1 for entry in wanted):
        divisor = product([size for size in sizes if size != -1])
        needs.append((apply("!=", divisor, 0), f"the sizes beside -1 are not 0: {divisor}"))
    return needs
