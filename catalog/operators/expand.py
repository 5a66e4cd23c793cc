"""A specification at known ranks and attributes: shapes and values as terms of index notation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..terms.index_notation import Symbol, Term, Variable, apply, never_negative, substitute
from ..terms.syntax_tree import Expression
from . import syntax as s
from .functions import ShapeError, broadcast, integer
from .instantiate import Lazy, Scope, Tensor, Value, evaluate, lookup, scalar, truth

Shape = Sequence["int | str | Term"]


@dataclass(frozen=True)
class Definition:
    """A tensor and its value at every index. `type` is an ONNX type in lower case.

    `type` None stands for that of the first input; `like` names the input whose type it has.
    """

    name: str
    shape: tuple[Term, ...]
    indices: tuple[Variable, ...]
    value: Term
    type: str | int | None = None
    like: str | None = None

    def __str__(self) -> str:
        extents = zip(self.indices, self.shape, strict=True)
        places = ", ".join(f"{index} < {extent}" for index, extent in extents)
        return f"{self.name}[{places}] = {self.value}"


@dataclass(frozen=True)
class Expansion:
    """What an operator computes: locals in order of use, outputs, and what must hold.

    `inputs` names the tensors that are read, by position (None: absent, or known as a list).
    """

    inputs: tuple[Tensor | None, ...]
    names: tuple[str, ...]
    locals: tuple[Definition, ...]
    outputs: tuple[Definition, ...]
    requirements: tuple[tuple[Term, str], ...]

    def with_values(self, values: Mapping[str, Term]) -> Expansion:
        """Return the expansion with symbols replaced; raise ShapeError if a requirement fails."""
        requirements = [(substitute(c, values), text) for c, text in self.requirements]
        failed = [text for condition, text in requirements if condition is False]
        if failed:
            raise ShapeError(f"{failed[0]} doesn't hold")

        def fixed(definition: Definition) -> Definition:
            dimensions = tuple(substitute(d, values) for d in definition.shape)
            return replace(definition, shape=dimensions, value=substitute(definition.value, values))

        return Expansion(
            tuple(
                tensor and replace(tensor, shape=tuple(substitute(d, values) for d in tensor.shape))
                for tensor in self.inputs
            ),
            self.names,
            tuple(map(fixed, self.locals)),
            tuple(map(fixed, self.outputs)),
            tuple((c, text) for c, text in requirements if c is not True),
        )


class RankError(ShapeError):
    """Inputs that this block of text doesn't describe; another one might."""


def expand(
    operator: s.Operator,
    functions: Mapping[str, s.Function],
    shapes: Sequence[Shape | None],
    attributes: Mapping[str, object],
    values: Mapping[int, object],
    outputs: int | None,
) -> Expansion:
    """Expand one block. Dimensions are numbers, or names of unknown ones.

    `values` holds, by position, the known contents of inputs that are lists (`ints axes`).
    Raises RankError where the block is about other ranks, ShapeError where shapes don't fit.
    """
    builder = _Builder(operator, functions, shapes, attributes, values, outputs)
    return builder.build()


def lengths_of(declared: s.Input, rank: int, scope: Scope) -> list[int]:
    """How many dimensions each entry of an input's declared shape stands for, of a rank.

    A name that `scope` has stands for as many as it holds. Raises ShapeError where that isn't told,
    RankError where the rank is another one.
    """
    lengths: list[int | None] = []
    for item in declared.shape:
        if item.kind in ("plain", "each"):
            lengths.append(1)
        elif item.length is not None:
            length = integer(evaluate(item.length, scope), "a number of dimensions")
            length += rank if length < 0 else 0
            if not 0 <= length <= rank:
                raise ShapeError(f"axis {length} is outside of rank {rank} of {declared.name}")
            lengths.append(length)
        elif item.kind == "star" and item.name is not None and item.name in scope.names:
            lengths.append(len(lookup(item.name, scope)))
        else:
            lengths.append(None)
    fixed_length = sum(length or 0 for length in lengths)
    free = lengths.count(None)
    if fixed_length > rank or (free == 0 and fixed_length != rank):
        wanted = f"{'at least ' if free else ''}{fixed_length}"
        raise RankError(f"{declared.name} has rank {rank}, expected {wanted}")
    if free > 1:
        raise ShapeError(f"the shape of {declared.name} says too little")
    return [rank - fixed_length if length is None else length for length in lengths]


class _Builder:
    def __init__(
        self,
        operator: s.Operator,
        functions: Mapping[str, s.Function],
        shapes: Sequence[Shape | None],
        attributes: Mapping[str, object],
        values: Mapping[int, object],
        outputs: int | None,
    ) -> None:
        self.operator = operator
        self.values = values
        self.requirements: list[tuple[Term, str]] = []
        self.scope = Scope({}, functions)
        self.shapes = [
            None if shape is None else tuple(_dimension(d) for d in shape) for shape in shapes
        ]
        count = len(operator.outputs) if outputs is None else outputs
        if count > len(operator.outputs) and not any(o.variadic for o in operator.outputs):
            raise RankError(f"{operator.name} is described with {len(operator.outputs)} outputs")
        self.outputs = count
        names = self.scope.names
        names["outputs"] = count
        for attribute in operator.attributes:
            names[attribute.name] = self._attribute(attribute, attributes)
        unknown = set(attributes) - {attribute.name for attribute in operator.attributes}
        if unknown:
            raise RankError(f"{operator.name} has no attribute {', '.join(sorted(unknown))}")
        for let in operator.lets:
            names[let.name] = self._later(let.expression)

    def _later(self, expression: Expression) -> Lazy:
        return Lazy(lambda: evaluate(expression, self.scope))

    def _attribute(self, attribute: s.Attribute, values: Mapping[str, object]) -> Value:
        if attribute.name in values:
            value = values[attribute.name]
            if isinstance(value, bytes):
                return value.decode("utf-8", "backslashreplace")
            return list(value) if isinstance(value, tuple) else value
        if attribute.default is not None:
            return self._later(attribute.default)
        if attribute.optional:
            return None
        raise ShapeError(f"attribute {attribute.name} is missing")

    def build(self) -> Expansion:
        tensors = self._bind_inputs()
        for require in self.operator.requires:
            self._require(truth(evaluate(require.condition, self.scope)), require.text)
        locals_ = []
        for local in self.operator.locals:
            shape = self._shape(local.shape)
            self.scope.names[local.name] = Tensor(
                local.name, tuple(d for part in shape for d in part), -1
            )
            value = next(v for v in self.operator.values if v.name == local.name)
            locals_.append(self._define(local.name, shape, value, None, None, None))
        outputs: list[Definition] = []
        for output in self.operator.outputs:
            outputs += self._output(output, len(outputs))
        return Expansion(
            tuple(tensors),
            tuple(tensor.name for tensor in tensors if tensor is not None),
            tuple(locals_),
            tuple(outputs[: self.outputs]),
            tuple(self.requirements),
        )

    # ---- inputs
    def _bind_inputs(self) -> list[Tensor | None]:
        operator = self.operator
        most = None if any(i.variadic for i in operator.inputs) else len(operator.inputs)
        input_count = max(
            (number for number, shape in enumerate(self.shapes, 1) if shape is not None), default=0
        )
        if most is not None and input_count > most:
            raise RankError(f"{operator.name} takes {most} inputs, {input_count} are given")
        bound: list[tuple[s.Input, int, tuple[Term, ...]]] = []
        for first, declared in enumerate(operator.inputs):
            if declared.kind != "tensor":
                self._bind_list(declared, first)
                continue
            positions = range(first, len(self.shapes)) if declared.variadic else [first]
            for position in positions:
                shape = self.shapes[position] if position < len(self.shapes) else None
                if shape is not None:
                    bound.append((declared, position, shape))
                elif not declared.optional and not declared.variadic:
                    raise RankError(f"{operator.name} needs its input {declared.name}")
            if declared.variadic and not positions:
                raise ShapeError(f"{operator.name} needs at least one {declared.name}")
        groups: dict[str, list[list[Term]]] = {}
        starts: dict[int, tuple[str, int, int]] = {}
        for declared, position, shape in bound:
            self._match(declared, position, shape, groups, starts)
        self._align(groups)
        tensors: list[Tensor | None] = [None] * len(self.shapes)
        for declared, position, shape in bound:
            name = f"{declared.name}{position}" if declared.variadic else declared.name
            group, start, length = starts.get(position, ("", -1, 0))
            target = tuple(self.scope.names[group])[-length:] if length else ()
            tensors[position] = Tensor(name, shape, start, target)
        self._name_tensors(tensors)
        return tensors

    def _name_tensors(self, tensors: Sequence[Tensor | None]) -> None:
        for position, declared in enumerate(self.operator.inputs):
            if declared.kind != "tensor":
                continue
            if declared.variadic:
                self.scope.names[declared.name] = [t for t in tensors[position:] if t is not None]
            elif position < len(tensors) and tensors[position] is not None:
                self.scope.names[declared.name] = tensors[position]
            else:
                default = declared.default
                value = None if default is None else evaluate(default, self.scope)
                self.scope.names[declared.name] = Tensor(declared.name, (), -1, (), value, False)

    def _bind_list(self, declared: s.Input, position: int) -> None:
        names = self.scope.names
        if position in self.values:
            value: Any = self.values[position]
            if declared.kind == "int" and isinstance(value, list):
                value = value[0]
            names[declared.name] = value
        elif position < len(self.shapes) and self.shapes[position] is not None:
            raise ShapeError(f"the contents of {declared.name} must be known")
        elif declared.default is not None:
            names[declared.name] = self._later(declared.default)
        elif declared.optional:
            names[declared.name] = None
        else:
            raise RankError(f"{self.operator.name} needs its input {declared.name}")

    def _match(
        self,
        declared: s.Input,
        position: int,
        shape: tuple[Term, ...],
        groups: dict[str, list[list[Term]]],
        starts: dict[int, tuple[str, int, int]],
    ) -> None:
        lengths = lengths_of(declared, len(shape), self.scope)
        start = 0
        for item, length in zip(declared.shape, lengths, strict=True):
            part = list(shape[start : start + length])
            name = item.name
            if item.kind == "broadcast" and name is not None:
                groups.setdefault(name, []).append(part)
                starts[position] = (name, start, length)
            elif item.kind == "any":
                pass
            elif item.kind == "each" and name is not None:
                self.scope.names.setdefault(name, []).append(part[0])
            elif item.kind == "star" and name is not None:
                if self._bound(name):
                    self._equal(name, lookup(name, self.scope), part)
                else:
                    self.scope.names[name] = part
            elif name is not None and not self._bound(name):
                self.scope.names[name] = part[0]
            else:
                self._equal(
                    name or "a dimension", [evaluate(item.expression, self.scope)], [part[0]]
                )
            start += length

    def _bound(self, name: str) -> bool:
        return name in self.scope.names

    def _equal(self, name: str, bound: Value, part: list[Term]) -> None:
        bound = bound if isinstance(bound, list) else [bound]
        if len(bound) != len(part):
            raise ShapeError(f"*{name} is {bound} and {part}")
        for size, other in zip(bound, part, strict=True):
            self._require(apply("=", size, other), f"{name}: {size} = {other}")

    def _require(self, condition: Term, text: str) -> None:
        if condition is False:
            raise ShapeError(f"{self.operator.name}: {text} doesn't hold")
        if condition is not True:
            self.requirements.append((condition, text))

    def _align(self, groups: Mapping[str, list[list[Term]]]) -> None:
        for name, parts in groups.items():
            base = lookup(name, self.scope) if self._bound(name) else None
            whole = broadcast(parts, base)
            self.scope.names[name] = whole
            for part in parts:
                for size, target in zip(part, whole[len(whole) - len(part) :], strict=True):
                    fits = apply("or", apply("=", size, 1), apply("=", size, target))
                    self._require(fits, f"{name}: {size} broadcasts to {target}")

    # ---- outputs
    def _shape(
        self, dimensions: Sequence[s.Dimension], scope: Scope | None = None
    ) -> list[list[Term]]:
        parts: list[list[Term]] = []
        for item in dimensions:
            value = evaluate(item.expression, scope or self.scope)
            part = value if item.kind == "star" else [value]
            for entry in part:
                if not never_negative(entry):
                    self._require(apply(">=", entry, 0), f"{entry} >= 0")
            parts.append(part)
        return parts

    def _output(self, output: s.Output, already: int) -> list[Definition]:
        value = next((v for v in self.operator.values if v.name == output.name), None)
        if value is None or already >= self.outputs:
            return []
        kind: str | int | None = output.type
        like = output.like
        if output.code is not None and (like is None or not self.scope.names[like].present):
            kind, like = lookup_code(evaluate(output.code, self.scope)), None
        if not output.variadic:
            shape = self._shape(output.shape)
            return [self._define(output.name, shape, value, None, kind, like)]
        definitions = []
        for number in range(self.outputs - already):
            scope = self.scope.inner(
                {
                    item.name: evaluate(item.expression, self.scope)[number]
                    for item in output.shape
                    if item.kind == "each" and item.name is not None
                }
            )
            shape = self._shape(output.shape, scope)
            name = f"{output.name}{number}"
            definitions.append(self._define(name, shape, value, number, kind, like))
        return definitions

    def _define(
        self,
        name: str,
        shape: list[list[Term]],
        value: s.Value,
        number: int | None,
        kind: str | int | None,
        like: str | None,
    ) -> Definition:
        whole = tuple(d for part in shape for d in part)
        names: dict[str, Value] = {}
        if value.indices is None:
            indices = [self.scope.variable("i") for _ in whole]
            scope = self.scope.inner({})
            scope.everywhere = tuple(indices)
        else:
            if len(value.indices) != len(shape):
                raise ShapeError(f"value {name}: {len(value.indices)} indices for {len(shape)}")
            indices = []
            for (index, star), part in zip(value.indices, shape, strict=True):
                new = [self.scope.variable(index) for _ in part]
                names[index] = new if star else new[0]
                indices += new
            if value.each is not None:
                names[value.each] = number
            scope = self.scope.inner(names)
        term = scalar(evaluate(value.expression, scope), scope)
        if isinstance(term, list | str) or term is None:
            raise ShapeError(f"value {name} is {term}")
        return Definition(name, whole, tuple(indices), term, kind, like)


def lookup_code(code: object) -> int | None:
    """Return an ONNX type code; None stands for the type of the first input."""
    return None if code is None else integer(code, "a type")


def _dimension(dimension: int | str | Term) -> Term:
    if isinstance(dimension, str):
        return Symbol(dimension)
    return int(dimension) if isinstance(dimension, int) else dimension
