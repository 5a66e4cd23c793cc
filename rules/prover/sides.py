"""The two sides of a rule in one case: compositions of operators, symbols for what is free."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from ...catalog.operators import ShapeError, Specification
from ...catalog.operators.terms import Symbol, Term, apply, is_integer
from ..conditions import (
    Condition,
    HasAttribute,
    HasShape,
    Holds,
    IsComputable,
    bindings,
    conditions,
    optional_values,
)
from ..expressions import names_in, operands_in
from ..functions import UnknownError
from ..schemas import VARIADIC, versions
from ..syntax import (
    Binary,
    Call,
    Expression,
    Input,
    Literal,
    Name,
    Operand,
    PatternNode,
    Rule,
    Star,
    Unary,
    walk,
)
from .bounds import Bounds, spread
from .compose import Composition, UndescribedError, algebra_of, described
from .element_types import chosen, representatives, signature, source_classes, type_code
from .enumeration import Choices, ContradictionError, NoCaseError
from .options import Node, Options
from .rule_terms import (
    Progression,
    TermFacts,
    Value,
    as_list,
    condition,
    evaluate,
    same,
    spliced,
)
from .spelling import spelling
from .statement import Extent, Obligation

# Lengths of lists of dimensions, the richest first, by how many such lists the rule has.
_LENGTHS: Mapping[int, tuple[int, ...]] = {0: (3, 2, 1, 0), 1: (2, 1, 0, 3), 2: (2, 1, 0)}
_FEW = (1, 0)
_SPATIAL = (2, 1, 3)
# Of the parts of a described shape, those that stand for any number of dimensions.
_FREE = ("star", "broadcast", "any")


class Side(TermFacts):
    """Names, tensors and lists of one case, as far as they are known."""

    def __init__(self, rule: Rule, composition: Composition) -> None:
        self.rule = rule
        self.composition = composition
        self.names: dict[str, Value] = {}
        self.lists: dict[str, list[str]] = {}
        self.rests: dict[str, dict[str, Value]] = {}
        self.absent: set[str] = set()
        self.sides: list[Term] = []
        self.progressions: dict[str, Progression] = {}

    # ------------------------------------------------------------------ what expressions ask

    def shape_of(self, name: str) -> tuple[Term, ...]:
        """The shape of a tensor."""
        if name not in self.composition.tensors:
            raise UnknownError
        return self.composition.tensors[name].shape

    def dtype_of(self, name: str) -> str:
        """The element type of a tensor."""
        if name not in self.composition.tensors:
            raise UnknownError
        return self.composition.tensors[name].dtype

    def integers_of(self, name: str) -> tuple[Term, ...] | Progression:
        """The elements of a constant, or what it counts as where it is absent."""
        default = self.rule.operand(name).default
        if name in self.absent and default is not None:
            value = self.value(default)
            return value if isinstance(value, tuple) else (value,)
        if name in self.progressions:
            return self.progressions[name].written_out()
        tensor = self.composition.tensors.get(name)
        if tensor is None or tensor.contents is None:
            raise UnknownError
        return tensor.contents

    def shapes_of(self, name: str) -> tuple[tuple[Term, ...], ...]:
        """The shapes of the tensors that `*name` stands for."""
        if name not in self.lists:
            raise UnknownError
        return tuple(self.shape_of(one) for one in self.lists[name])

    def take_for_granted(self, term: Term) -> None:
        """Keep what must hold for the value that is being computed to be known."""
        if term is not True:
            self.sides.append(term)

    def value(self, expression: Expression) -> Value:
        """The value of an expression in this case."""
        return evaluate(expression, self.names, self)


class Left(Side):
    """The left side: operands are made up, and what is known of them becomes assumptions.

    `known` replaces symbols by what an earlier attempt found them to equal; the lists that are
    tried are `longer` by so much than usually.
    """

    def __init__(
        self,
        rule: Rule,
        choices: Choices,
        operators: Mapping[str, str],
        composition: Composition,
        known: Mapping[str, Term],
        longer: int = 0,
    ) -> None:
        super().__init__(rule, composition)
        self.choices, self.operators, self.known = choices, operators, known
        self.longer = longer
        self.assumptions: list[Obligation] = []
        self.symbols: dict[str, Symbol] = {}
        self.kinds: dict[str, str] = {}
        self.bounds = Bounds()
        self.waiting: list[Condition] = list(conditions(rule))
        self.free: dict[str, Extent] = {}
        self.spatial: dict[str, bool] = {}
        self.made: set[str] = {o.value for node in rule.match for o in node.outputs}
        self.unused: dict[str, list[str]] = {}
        self.options = Options(
            choices,
            self.symbol,
            self._restrict,
            self._stretch,
            _equations(rule),
            spelling(rule),
        )
        self.dtypes = self._choose_types()

    def dtype_of(self, name: str) -> str:
        """The element type that was chosen for a tensor."""
        if name not in self.dtypes or name in self.absent:
            raise UnknownError
        return self.dtypes[name]

    def build(self) -> None:
        """Build the left side node by node; NoCaseError where the choices fit none."""
        for name in sorted(optional_values(self.rule)):
            if self.choices.pick(f"{name} is absent", (False, True), "form"):
                self.absent.add(name)
        for name, (operand, _) in bindings(self.rule).shapes.items():
            if operand not in self.absent:
                self.names[name] = self.symbol(name, "dimension")
        for name in bindings(self.rule).scalars:
            self._bind_scalar(name)
        self._assume_early()
        try:
            for node in _in_order(self.rule.match):
                self._node(chosen(node, self.operators))
            for one in self.waiting:
                self._assume(one)
        except ShapeError as error:
            raise NoCaseError(str(error)) from None
        except UnknownError:
            raise NoCaseError("a condition is not known to hold") from None

    def symbol(self, name: str, kind: str) -> Term:
        """An unknown number, or what it is known to be."""
        self.kinds.setdefault(name, kind)
        if name in self.known:
            return self.known[name]
        return self.symbols.setdefault(name, Symbol(name, kind))

    def suppose(self, text: str, term: Term) -> None:
        """Assume a condition; NoCaseError where it is seen to fail."""
        for part in spread(term):
            if part is False:
                raise NoCaseError(f"{text} doesn't hold")
            if not self.bounds.add(part):
                raise ContradictionError(f"{text} contradicts what is known")
            if part is not True:
                self.assumptions.append(Obligation(text, part))

    def _restrict(self, term: Term) -> None:
        self.suppose(str(term), term)

    # ---------------------------------------------------------------------------- types

    def _choose_types(self) -> dict[str, str]:
        classes = source_classes(self.rule, self.composition.opset, self.operators)
        casts = any(n.op_type in ("Cast", "CastLike") for n in self.rule.match)
        types: dict[str, str] = {}
        said = _types_said(self.rule)
        asked = {classes.root(name) for name in said if name in classes.parents}
        for root in classes.roots():
            options = representatives(classes.of(root), both_integers=casts)
            if root in asked:  # the rule tells types of one algebra apart
                more = set().union(*said.values()) & classes.of(root)
                options = tuple(dict.fromkeys((*options, *sorted(more))))
            types[root] = self.choices.pick(f"type of {root}", options, "element")
        return {name: types[classes.root(name)] for name in list(classes.parents)}

    # --------------------------------------------------------------------------- leaves

    def _bind_scalar(self, name: str) -> None:
        operand = self.rule.operand(name)
        if name not in self.absent:
            integer = algebra_of(self.dtypes[name]) != "real"
            self.names[name] = self.symbol(name, "integer" if integer else "real")
        elif operand.default is not None:
            self.names[name] = self.value(operand.default)

    def _leaf(
        self, node: PatternNode, meaning: Specification, at: int, item: Input, name: str
    ) -> None:
        """Make up an operand that is a tensor; those that are lists wait for the attributes."""
        dtype = self.dtypes[item.value or name]
        if item.literal is not None:
            self._literal(node, meaning, at, item.literal, name, dtype)
            return
        operand = self.rule.operand(item.value or name)
        if operand.scalar:
            rank = self._rank(node, meaning, at, name, name, most=2)
            self.composition.constant(name, (1,) * rank, self.names[name], dtype)
            return
        if operand.shape is None:
            rank = self._rank(node, meaning, at, name, item.value or name)
            shape = tuple(self.symbol(f"{name}.{axis}", "dimension") for axis in range(rank))
        else:
            shape = self._declared(node, operand, name)
        if len(shape) == 1 and item.value in progressions(self.rule):
            self.progressions[name] = Progression(self.symbol(f"{name}.0", "integer"), shape[0])
            self.composition.counted(name, shape, self.progressions[name].first, dtype)
            return
        self.composition.operand(name, shape, dtype)

    def _rank(
        self,
        node: PatternNode,
        meaning: Specification,
        at: int,
        tensor: str,
        name: str,
        most: int | None = None,
    ) -> int:
        lengths = _SPATIAL if _windowed(node) else self._lengths()
        if most is not None:
            lengths = tuple(range(most, -1, -1))
        elif not _windowed(node) and name in _reach_windows(self.rule):
            lengths = (4, 3, 5)
        elif (beside := self._rank_beside(node, meaning, at)) is not None:
            lengths = (*range(beside, -1, -1), beside + 1)
        elif node.operator == "Einsum" and self.options.texts:
            lengths = _ranks_of(self.options.texts, at)
        elif meaning.kind == "contraction" and _of_any_rank(meaning, at, ("broadcast",)):
            lengths = (2, 1, 0, 3)  # to what has a known rank: the last is none
        ranks: list[int] = []
        for block in meaning.blocks:
            declared = block.inputs[min(at, len(block.inputs) - 1)]
            plain = sum(item.kind in ("plain", "each") for item in declared.shape)
            free = any(item.kind in _FREE for item in declared.shape)
            ranks += [plain + more for more in lengths] if free else [plain]
        ranks = [r for r in dict.fromkeys(ranks) if most is None or r <= most]
        rank = self.choices.pick(f"rank of {name}", ranks)
        if len(ranks) > 1:
            self._stretch(f"rank({name})", rank, max(ranks), (tensor, 0))
        return rank

    def _stretch(self, name: str, length: int, most: int, *places: tuple[str, int]) -> None:
        """Note a length that might be any."""
        before = self.free.get(name, Extent(length, most))
        self.free[name] = Extent(length, most, tuple(dict.fromkeys((*before.places, *places))))

    def _rank_beside(self, node: PatternNode, meaning: Specification, at: int) -> int | None:
        """The rank of what a leaf is broadcast with, where that is known already."""
        broadcast = any(
            item.kind == "broadcast"
            for block in meaning.blocks
            for item in block.inputs[min(at, len(block.inputs) - 1)].shape
        )
        if meaning.kind != "elementwise" or not broadcast:
            return None
        known = [self.composition.tensors.get(item.value or "") for item in node.inputs]
        made = [o.value for n in self.rule.match for o in n.outputs]
        ranks = [
            len(tensor.shape)
            for item, tensor in zip(node.inputs, known, strict=True)
            if tensor is not None
            and (item.value in made or self.rule.operand(item.value or "").shape)
        ]
        return max(ranks, default=None)

    def _lengths(self) -> tuple[int, ...]:
        """The lengths to try for what is free in the rank of an operand, by how many are free."""
        free: set[str] = {f"*{name}" for name in bindings(self.rule).stars}
        for node in self.rule.match:
            known = described(chosen(node, self.operators).operator, self.composition.opset)
            for at, item in enumerate(node.inputs):
                operand = self.rule.operand(item.value or "")
                listed = at in known.known_inputs or operand.scalar or item.literal is not None
                listed = listed or not _of_any_rank(known, at)
                if item.value and item.value not in self.made and not listed:
                    free |= {item.value} if operand.shape is None else set()
        lengths = _LENGTHS.get(len(free) - 1, _FEW)
        if self.longer:
            return (max(lengths) + self.longer, max(lengths) + self.longer - 1)
        return (*lengths, 4) if len(free) <= 2 and _permutes_once(self.rule) else lengths

    def _counts(self, alone: bool) -> tuple[int, ...]:
        """How many operands or parts a list may stand for: alone at a node, or beside another."""
        if self.longer:
            return (2 + self.longer,)
        return (2, 1) if alone else (1, 0, 2)

    def _declared(self, node: PatternNode, operand: Operand, name: str) -> tuple[Term, ...]:
        shape: list[Term] = []
        for at, size in enumerate(operand.shape or ()):
            if isinstance(size, Star):
                if size.text not in self.names:
                    self._bind_list(node, size.text)
                listed = as_list(self.names[size.text])
                most = max(self._lengths_of(size.text))
                self._stretch(f"len({size.text})", len(listed), most, (name, len(shape)))
                shape += listed
                continue
            try:
                found = self.value(size)
            except UnknownError:
                found = self.symbol(f"{name}.{at}", "dimension")
            if isinstance(found, tuple | str) or not is_integer(found):
                raise NoCaseError(f"{found} is no size")
            if not isinstance(size, Name):
                self.suppose(f"{found} is a size", apply(">=", found, 0))
            shape.append(found)
        return tuple(shape)

    def _lengths_of(self, name: str) -> Sequence[int]:
        """The lengths to try for a list of dimensions: of images and filters, beside two others."""
        if not self.spatial.get(name):
            return self._lengths()
        shapes = [o.shape for o in self.rule.operands if o.shape and Star(name) in o.shape]
        return [length + max(0, 3 - min(map(len, shapes))) for length in _SPATIAL]

    def _bind_list(self, node: PatternNode, name: str) -> None:
        operands = {o.name for o in self.rule.operands if Star(name) in (o.shape or ())}
        spatial = bool(operands & _reach_windows(self.rule)) or any(
            _windowed(other) and item.value in operands
            for other in self.rule.match
            for item in other.inputs
        )
        self.spatial[name] = spatial
        length = self.choices.pick(f"length of {name}", self._lengths_of(name))
        self.names[name] = tuple(self.symbol(f"{name}.{at}", "dimension") for at in range(length))

    def _literal(
        self,
        node: PatternNode,
        meaning: Specification,
        at: int,
        literal: Expression,
        name: str,
        dtype: str,
    ) -> None:
        value = self.value(literal)
        if isinstance(value, tuple):
            self.composition.listed(name, value, dtype)
            return
        if not _fits_type(value, dtype):
            raise NoCaseError(f"{value} is no {dtype}")
        if at in meaning.known_inputs:
            self.composition.listed(name, (value,), dtype, rank=0)
            return
        rank = 0
        if meaning.kind != "elementwise":
            rank = self._rank(node, meaning, at, name, name, most=1)
        self.composition.constant(name, (1,) * rank, value, dtype)

    # ---------------------------------------------------------------------------- nodes

    def _node(self, node: PatternNode) -> None:
        meaning = described(node.operator, self.composition.opset)
        known = signature(node.operator, self.composition.opset)
        if known is None:
            raise NoCaseError(f"{node.operator} is not in opset {self.composition.opset}")
        attributes: dict[str, Value] = {}
        self._fixed_attributes(node, attributes)
        for name, expression in node.attributes:  # those on which shapes may depend
            if name in ("transA", "transB", "group") and name not in attributes:
                self._attribute(node, meaning, name, expression, attributes, [])
        inputs = self._operands(node, meaning)
        shapes = [self._shape_or_none(name) for name in inputs]
        for name, expression in node.attributes:
            if name not in attributes:
                self._attribute(node, meaning, name, expression, attributes, shapes)
        if node.rest is not None:
            self._rest(node, meaning, attributes, shapes)
        outputs = self._outputs(node)
        self._lists(node, meaning, inputs, shapes, outputs)
        self._assume_early()
        for need in self.composition.node(node.operator, inputs, attributes, outputs):
            self.suppose(need.text, need.condition)
        for name in outputs:
            self._bind_shape(name)
        self._assume_early()

    def _assume_early(self) -> None:
        """Assume the conditions that can be told already: the sooner one fails, the better."""
        for one in list(self.waiting):
            if isinstance(one, Holds) and self._can_tell(one.expression):
                self.waiting.remove(one)
                self._assume(one)

    def _can_tell(self, expression: Expression) -> bool:
        """Whether all that a condition asks about is there, so that it may fail early."""
        always, operands, names = _asked(self.rule)[id(expression)]
        if always:
            return True
        there = (self.composition.tensors, self.lists, self.absent)
        return all(any(one in some for some in there) for one in operands) and all(
            name in self.names for name in names
        )

    def _shape_or_none(self, name: str | None) -> tuple[Term, ...] | None:
        tensor = self.composition.tensors.get(name or "")
        return None if tensor is None else tensor.shape

    def _operands(self, node: PatternNode, meaning: Specification) -> list[str | None]:
        inputs: list[str | None] = []
        for at, item in enumerate(node.inputs):
            if item.value is None or item.value in self.absent:
                inputs.append(None)
                continue
            for name in self._named(node, item) if item.star else [item.value]:
                waits = at in meaning.known_inputs and item.literal is None
                if name not in self.composition.tensors and not waits:
                    self._leaf(node, meaning, at, item, name)
                inputs.append(name)
        while inputs and inputs[-1] is None:
            inputs.pop()
        return inputs

    def _named(self, node: PatternNode, item: Input) -> list[str]:
        """The tensors that `*A` stands for among the inputs."""
        name = item.value or ""
        if name not in self.lists:
            counts = self._counts(len(node.inputs) == 1)
            count = self.choices.pick(f"number of {name}", counts)
            self._stretch(f"len({name})", count, max(counts))
            self.lists[name] = [f"{name}.{at}" for at in range(count)]
        return self.lists[name]

    def _outputs(self, node: PatternNode) -> list[str]:
        outputs: list[str] = []
        for output in node.outputs:
            if not output.star:
                outputs.append(output.value)
                continue
            if output.value not in self.lists:
                counts = self._counts(len(node.outputs) == 1)
                count = self.choices.pick(f"number of {output.value}", counts)
                self._stretch(f"len({output.value})", count, max(counts))
                self.lists[output.value] = [f"{output.value}.{at}" for at in range(count)]
            outputs += self.lists[output.value]
        return outputs + self._unused(node)

    def _unused(self, node: PatternNode) -> list[str]:
        """Outputs that a node may have besides those named: parts of a Split that nothing reads."""
        if any(output.star for output in node.outputs) or not _repeats_outputs(node.operator):
            return []
        if node.name not in self.unused:
            count = self.choices.pick(f"number of unused outputs of {node.name}", (1, 0))
            self._stretch(f"outputs({node.name})", count, 1)
            self.unused[node.name] = [f"{node.name}.unused.{at}" for at in range(count)]
        return self.unused[node.name]

    def _lists(
        self,
        node: PatternNode,
        meaning: Specification,
        inputs: Sequence[str | None],
        shapes: Sequence[tuple[Term, ...] | None],
        outputs: Sequence[str],
    ) -> None:
        """Make up the inputs whose elements must be known, axes first: others go with them."""
        waiting = {
            at: name
            for at, name in enumerate(inputs)
            if at in meaning.known_inputs and name and name not in self.composition.tensors
        }
        if not waiting:
            return
        declared = max((block.inputs for block in meaning.blocks), key=len)
        about = self._about(node, meaning, shapes)
        beside: Sequence[int] = ()
        for at, name in sorted(waiting.items(), key=lambda one: declared[one[0]].name != "axes"):
            what = declared[at].name
            dtype = self.dtypes.get(name, "int64")
            if self.rule.operand(name).scalar:
                contents: Value = (self.names[name],)
            elif what == "split":
                contents = tuple(
                    self.symbol(f"{name}.{part}", "dimension") for part in range(len(outputs))
                )
            else:
                contents = self.options.contents(about, what, name, beside)
            if what == "axes":
                beside = contents
            if what == "shape" and node.operator == "Expand":
                count = len(contents) if isinstance(contents, tuple) else 0
                more = max(0, about.rank - count)
                self._stretch(f"dim({name}, 0)", count, 3, (outputs[0], more))
            rank = 0 if declared[at].kind == "int" else 1
            self.composition.listed(name, contents, dtype, rank)

    def _about(
        self,
        node: PatternNode,
        meaning: Specification,
        shapes: Sequence[tuple[Term, ...] | None],
    ) -> Node:
        opset, outputs = self.composition.opset, len(self._outputs(node))
        return Node(node.name, node.operator, meaning, opset, shapes, outputs)

    # ----------------------------------------------------------------------- attributes

    def _fixed_attributes(self, node: PatternNode, attributes: dict[str, Value]) -> None:
        for name, expression in node.attributes:
            try:
                attributes[name] = self.value(expression)
            except UnknownError:
                continue

    def _attribute(
        self,
        node: PatternNode,
        meaning: Specification,
        name: str,
        expression: Expression,
        attributes: dict[str, Value],
        shapes: Sequence[tuple[Term, ...] | None],
    ) -> None:
        """Choose an attribute that the rule binds to a name, or compares with an expression."""
        try:
            attributes[name] = self.value(expression)
            return
        except UnknownError:
            pass
        bound = expression.text if isinstance(expression, Name) else f"{node.name}.{name}"
        about = self._about(node, meaning, shapes)
        if (told := self._told(bound)) is not None:
            attributes[name] = self.names[bound] = told
            return
        if name == "to":
            value: Value = type_code(self.dtypes[node.outputs[0].value])
        else:
            value = self.options.attribute(about, name, bound)
        if value is None and name in ("seed", "stash_type", "saturate"):
            value = self.symbol(bound, "integer")
        if value is None:
            value = self._default(meaning, name)
        if value is None:
            raise NoCaseError(f"{name} of {node.name} has no value")
        attributes[name] = value
        self.names[bound] = value

    def _told(self, name: str) -> tuple[int, ...] | None:
        """The permutation or the axes that a condition says a name to stand for."""
        for expression in self.rule.given:
            match expression:
                case Binary("=", Name(text), said) | Binary("=", said, Name(text)) if text == name:
                    try:
                        value = self.value(said)
                    except UnknownError:
                        continue
                    if isinstance(value, tuple) and all(type(one) is int for one in value):
                        return value
        return None

    def _default(self, meaning: Specification, name: str) -> Value:
        for block in meaning.blocks:
            for attribute in block.attributes:
                literal = getattr(attribute.default, "value", None)
                if attribute.name == name and literal is not None:
                    return literal
        return None

    def _rest(
        self,
        node: PatternNode,
        meaning: Specification,
        attributes: dict[str, Value],
        shapes: Sequence[tuple[Term, ...] | None],
    ) -> None:
        """Choose the attributes that `*rest` stands for, once for all nodes that bear it."""
        assert node.rest is not None
        if node.rest not in self.rests:
            about = self._about(node, meaning, shapes)
            rest: dict[str, Value] = {}
            names = {a.name for block in meaning.blocks for a in block.attributes}
            for name in sorted(names - set(attributes)):
                padded = {**rest, **attributes}.get("auto_pad", "NOTSET")
                if name == "pads" and padded != "NOTSET":
                    continue
                if name == "kernel_shape" and "Conv" in node.operator:
                    continue  # it is that of the weight, wherever it is given
                value: Value = None
                if name == "to":
                    value = type_code(self.dtypes[node.outputs[0].value])
                else:
                    value = self.options.attribute(about, name, f"{node.rest}.{name}")
                if value is not None:
                    rest[name] = value
            self.rests[node.rest] = rest
        mentioned = {name for name, _ in node.attributes}
        for name, value in self.rests[node.rest].items():
            if name not in mentioned:
                attributes[name] = value

    # ----------------------------------------------------------------------- conditions

    def _bind_shape(self, name: str) -> None:
        """Bind a list of dimensions that the declared shape of an interior value has."""
        declared = self.rule.operand(name).shape or ()
        star = next((i for i, s in enumerate(declared) if isinstance(s, Star)), None)
        shape = self.composition.tensors[name].shape
        if star is not None and len(shape) >= len(declared) - 1:
            text = declared[star].text  # type: ignore[union-attr]
            part = shape[star : len(shape) - (len(declared) - star - 1)]
            self.names.setdefault(text, tuple(part))

    def _assume(self, one: Condition) -> None:
        text = str(one)
        match one:
            case HasShape(value, shape, optional):
                if not (optional and value in self.absent):
                    sizes = spliced(shape, self.names, self)
                    self.suppose(text, same(self.shape_of(value), sizes))
            case HasAttribute(node, attribute, expression) if not isinstance(expression, Name):
                made_up = self.names.get(f"{node}.{attribute}")
                if made_up is not None:
                    self.suppose(text, same(made_up, self.value(expression)))
            case Holds(expression):
                self.sides.clear()
                self.suppose(text, condition(expression, self.names, self))
                if not any(_decides(part) for part in walk(expression)):
                    for term in self.sides:
                        self.suppose(text, term)
            case IsComputable(expression):
                self.value(expression)


class Right(Side):
    """The right side, over the tensors of the left one: what it demands becomes obligations."""

    def __init__(self, left: Left) -> None:
        super().__init__(left.rule, left.composition)
        self.left = left
        self.names, self.lists, self.rests = left.names, left.lists, left.rests
        self.absent, self.progressions = left.absent, left.progressions
        self.obligations: list[Obligation] = []
        self.made: dict[str, str] = {}
        self.made_lists: dict[str, list[str]] = {}
        self.results: dict[str, str] = {}
        self._constants = 0

    def build(self) -> None:
        """Build the right side; what fails ends it with an obligation that is false."""
        try:
            for node in self.rule.rewrite:
                self._node(chosen(node, self.left.operators))
            for alias in self.rule.aliases:
                targets = self._targets(alias.output, alias.source.star)
                first = self.dtype_of(targets[0]) if targets else "float32"
                found = [name for name in self._input(alias.source, first, False) if name]
                if len(targets) != len(found):
                    text = f"{alias.output} stands for {len(targets)} values, not {len(found)}"
                    self._fail(text)
                    return
                self.results.update(zip(targets, found, strict=True))
        except ShapeError as error:
            self._fail(str(error))
        except UnknownError:
            self._fail("the right side needs a value that is not known")

    def correct(self) -> None:
        """Go on to the correction of a partial equivalence, which makes the output anew."""
        try:
            for node in self.rule.correct:
                self._node(chosen(node, self.left.operators), "corrected")
        except ShapeError as error:
            self._fail(str(error))
        except UnknownError:
            self._fail("the correction needs a value that is not known")

    def region(self) -> tuple[Term, tuple[str, ...]]:
        """Where the output may differ, and the names of its indices in that condition."""
        assert self.rule.region is not None
        output = self.rule.outputs[0]
        indices = tuple(f"i{axis}" for axis in range(len(self.shape_of(output))))
        names = {**self.names, **{name: Symbol(name, "integer") for name in indices}}
        try:
            return condition(self.rule.region, names, self), indices
        except UnknownError:
            return False, indices  # a row of an axis that isn't there: no exception

    def _fail(self, text: str) -> None:
        self.obligations.append(Obligation(text, False))

    def _targets(self, name: str, star: bool) -> list[str]:
        return self.lists[name] if star else [name]

    def _node(self, node: PatternNode, suffix: str = "new") -> None:
        meaning = described(node.operator, self.composition.opset)
        attributes = dict(self.rests.get(node.rest or "", {}))
        for name, expression in node.attributes:
            attributes[name] = self._value(expression)
        inputs: list[str | None] = []
        for at, item in enumerate(node.inputs):
            inputs += self._input(item, self._type_beside(node, at), at in meaning.known_inputs)
        while inputs and inputs[-1] is None:
            inputs.pop()
        outputs: list[str] = []
        for output in node.outputs:
            names = self._targets(output.value, output.star)
            new = [f"{name}.{suffix}" for name in names]
            outputs += new
            if output.value in self.rule.outputs:
                self.results.update(zip(names, new, strict=True))
            if output.star:
                self.made_lists[output.value] = new
            else:
                self.made[output.value] = new[0]
        self.obligations += self.composition.node(node.operator, inputs, attributes, outputs)

    def _value(self, expression: Expression) -> Value:
        self.sides.clear()
        value = self.value(expression)
        self.obligations += [Obligation(f"{term} on the right", term) for term in self.sides]
        return value

    def _input(self, item: Input, dtype: str, known: bool) -> list[str | None]:
        if item.literal is not None:
            return [self._literal(self._value(item.literal), dtype, known)]
        name = item.value or ""
        if item.star:
            return list(self.made_lists.get(name, self.lists.get(name, [])))
        if name in self.made:
            return [self.made[name]]
        if name not in self.absent:
            return [name]
        if item.optional:
            return [None]
        return [self._default(name)]

    def _literal(self, value: Value, dtype: str, known: bool) -> str:
        self._constants += 1
        name = f"constant.{self._constants}"
        if isinstance(value, tuple):
            kind = "int64" if algebra_of(dtype) != "integer" else dtype
            self.composition.listed(name, value, kind)
            return name
        if isinstance(value, str) or value is None:
            raise UnknownError
        if not _fits_type(value, dtype):
            self._fail(f"{value} is no {dtype}")
        if known:
            self.composition.listed(name, (value,), dtype, rank=0)
        else:
            self.composition.constant(name, (), value, dtype)
        return name

    def _default(self, name: str) -> str:
        """What an absent operand counts as, in its declared shape."""
        full = f"{name}.default"
        if full not in self.composition.tensors:
            operand = self.rule.operand(name)
            if operand.default is None:
                raise UnknownError
            shape: list[Term] = []
            for size in spliced(operand.shape or (), self.names, self):
                shape.append(size)
            user = next(n for n in self.rule.match if any(i.value == name for i in n.inputs))
            beside = user.inputs[0].value or ""
            value = self._value(operand.default)
            contents = as_list(value) if isinstance(value, tuple) else None
            dtype = self.dtype_of(beside)
            if contents is not None:
                self.composition.listed(full, contents, "int64")
            else:
                self.composition.constant(full, shape, value, dtype)
        return full

    def _type_beside(self, node: PatternNode, at: int) -> str:
        """The type that a literal takes: that of an operand of its type variable, or of any."""
        known = signature(node.operator, self.composition.opset)
        if known is None:
            raise UndescribedError(f"{node.operator} is not in opset {self.composition.opset}")
        slot = known.slot(at)
        if not slot.variable and len(slot.types) == 1:
            return next(iter(slot.types))
        found: list[tuple[bool, str]] = []
        for place, item in enumerate(node.inputs):
            name = self.made.get(item.value or "", item.value or "")
            if item.star and item.value:
                listed = self.made_lists.get(item.value, self.lists.get(item.value, []))
                name = listed[0] if listed else ""
            if item.value in self.absent:
                user = next(n for n in self.rule.match for i in n.inputs if i.value == item.value)
                name = user.inputs[0].value or ""
            if place != at and name in self.composition.tensors:
                beside = known.slot(place).variable == slot.variable
                found.append((not beside, self.composition.tensors[name].dtype))
        if slot.variable == "Tind" and not (found and not min(found)[0]):
            return "int64"
        return min(found, key=lambda one: one[0])[1] if found else "int64"


@cache
def _asked(rule: Rule) -> Mapping[int, tuple[bool, set[str], set[str]]]:
    """What each condition of a rule asks about, by its identity: operands, and names.

    First, whether it asks for types alone, which are there from the start.
    """
    found = {}
    for one in conditions(rule):
        if isinstance(one, Holds):
            parts = walk(one.expression)
            functions = {part.function for part in parts if isinstance(part, Call)}
            operands, names = operands_in(one.expression), names_in(one.expression)
            found[id(one.expression)] = (functions == {"dtype"}, operands, names)
    return found


def _repeats_outputs(operator: str) -> bool:
    """Whether an operator has as many outputs as a node names, Split for one."""
    return any(s.outputs and s.outputs[-1].option == VARIADIC for s in versions(operator))


def _in_order(nodes: Iterable[PatternNode]) -> list[PatternNode]:
    """Nodes after those whose outputs they read."""
    waiting = list(nodes)
    made = {o.value for node in waiting for o in node.outputs}
    done: list[PatternNode] = []
    while waiting:
        ready = [n for n in waiting if not any(i.value in made for i in n.inputs)]
        if not ready:
            raise NoCaseError("the left side is a circle")
        for node in ready:
            done.append(node)
            made -= {o.value for o in node.outputs}
            waiting.remove(node)
            break
    return done


@cache
def _reach_windows(rule: Rule) -> set[str]:
    """The values that become, node by node, the data of a convolution or a pooling."""
    reached = {node.inputs[0].value for node in rule.match if _windowed(node)}
    for node in reversed(_in_order(rule.match)):
        if any(output.value in reached for output in node.outputs):
            reached |= {item.value for item in node.inputs}
    return {name for name in reached if name}


@cache
def _permutes_once(rule: Rule) -> bool:
    """Whether one permutation is all that there is to choose beside a rank, or nearly."""
    names = {
        expression
        for node in rule.match
        for name, expression in node.attributes
        if name == "perm" and isinstance(expression, Name)
    }
    choosing = ("Reduce", "Squeeze", "Unsqueeze", "Slice", "Split", "Concat")
    return len(names) == 1 and not any(
        operator.startswith(choosing) for node in rule.match for operator in node.operators
    )


def _ranks_of(equations: Sequence[str], at: int) -> tuple[int, ...]:
    """The ranks of an operand in Einsum equations, and one that it has in none."""
    terms = [equation.split("->")[0].split(",") for equation in equations]
    ranks = sorted({len(term[at].strip()) for term in terms if at < len(term)})
    return (*ranks, ranks[-1] + 1) if ranks else _LENGTHS[0]


def _of_any_rank(meaning: Specification, at: int, kinds: Sequence[str] = _FREE) -> bool:
    """Whether an input may have any rank, as an operator is described."""
    return any(
        item.kind in kinds
        for block in meaning.blocks
        for item in block.inputs[min(at, len(block.inputs) - 1)].shape
    )


def _windowed(node: PatternNode) -> bool:
    return any(part in node.op_type for part in ("Conv", "Pool"))


def _fits_type(value: Term, dtype: str) -> bool:
    """Whether a number may be one of a type: fractions and irrational numbers are no integers."""
    if algebra_of(dtype) == "real":
        return True
    return is_integer(value) or isinstance(value, bool)


def _decides(part: Expression) -> bool:
    return isinstance(part, Unary) or (isinstance(part, Binary) and part.operator == "or")


@cache
def progressions(rule: Rule) -> set[str]:
    """The constants that a condition says to be a range of integers."""
    found: set[str] = set()
    for expression in rule.given:
        match expression:
            case Binary("=", Call("ints", (Name(text),)), Call("range")):
                found.add(text)
            case Binary("=", Call("range"), Call("ints", (Name(text),))):
                found.add(text)
    return found


@cache
def _types_said(rule: Rule) -> dict[str, set[str]]:
    """The types that conditions name, by the tensors whose types they ask for."""
    found: dict[str, set[str]] = {}
    for expression in rule.given:
        parts = list(walk(expression))
        names = [p.arguments[0] for p in parts if isinstance(p, Call) and p.function == "dtype"]
        types = {str(part.value) for part in parts if isinstance(part, Literal)}
        for name in names:
            if isinstance(name, Name):
                found.setdefault(name.text, set()).update(types)
    return found


@cache
def _equations(rule: Rule) -> list[str]:
    """The Einsum equations that the conditions name."""
    return [
        part.value
        for expression in rule.given
        for part in walk(expression)
        if isinstance(part, Literal) and isinstance(part.value, str) and "->" in part.value
    ]
