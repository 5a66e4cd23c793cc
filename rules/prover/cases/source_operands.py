"""The operands of the left side: element types, ranks and shapes, of symbols that stand for any.

Types and ranks are chosen, numbers are free, and what is supposed of them becomes assumptions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ....catalog.operators import Specification
from ....catalog.terms.index_notation import Symbol, Term, apply, is_integer
from ....catalog.terms.syntax_tree import Expression, Name
from ...language.conditions import Condition, bindings, conditions
from ...language.functions import UnknownError
from ...language.syntax import Input, Operand, PatternNode, Rule, Star
from ..assumptions import Bounds, spread
from ..ranks.cutoffs import cutoffs
from ..statement import Extent, Obligation
from .attribute_choices import AttributeChoices
from .axis_notation import notation_use
from .composition import Composition, algebra_of, described
from .element_types import chosen, limits_of, representatives, source_classes
from .enumeration import Choices, ContradictionError, Kind, NoCaseError
from .environment import Environment, fits_type, require_in_range
from .rule_analysis import (
    FREE,
    equations,
    of_any_rank,
    permutes_once,
    progressions,
    reach_windows,
    saturates,
    types_said,
    windowed,
)
from .symbolic_expressions import Progression


class SourceSymbols(Environment):
    """The left side before there is a node: types are chosen, and numbers are free.

    `solved_values` replace symbols by what an earlier attempt found them to equal; the lists that
    are tried are `longer` by so much than usually. How the axes in `as_choices` are written is a
    choice.
    """

    def __init__(
        self,
        rule: Rule,
        choices: Choices,
        operators: Mapping[str, str],
        composition: Composition,
        solved_values: Mapping[str, Term],
        longer: int = 0,
        as_choices: Collection[str] = (),
    ) -> None:
        super().__init__(rule, composition)
        self.choices, self.operators, self.solved_values = choices, operators, solved_values
        self.longer = longer
        self.assumptions: list[Obligation] = []
        self.symbols: dict[str, Symbol] = {}
        self.kinds: dict[str, str] = {}
        self.bounds = Bounds()
        self.waiting: list[Condition] = list(conditions(rule))
        self.free: dict[str, Extent] = {}
        self.spatial: dict[str, bool] = {}
        self.inner_values: set[str] = {o.value for node in rule.match for o in node.outputs}
        self.unused: dict[str, list[str]] = {}
        self.options = AttributeChoices(
            choices,
            self.symbol,
            self._restrict,
            self._stretch,
            equations(rule),
            notation_use(rule).lengths,
            self.ways,
            as_choices,
        )
        self.dtypes = self._choose_types()

    def dtype_of(self, name: str) -> str:
        """The element type that was chosen for a tensor."""
        if name not in self.dtypes or name in self.absent:
            raise UnknownError
        return self.dtypes[name]

    def symbol(self, name: str, kind: str) -> Term:
        """An unknown number, or what it is known to be."""
        self.kinds.setdefault(name, kind)
        if name in self.solved_values:
            return self.solved_values[name]
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

    def _stretch(self, name: str, length: int, most: int, *places: tuple[str, int]) -> None:
        """Note a length that might be any."""
        before = self.free.get(name, Extent(length, most))
        self.free[name] = Extent(length, most, tuple(dict.fromkeys((*before.places, *places))))

    def _choose_types(self) -> dict[str, str]:
        classes = source_classes(self.rule, self.composition.opset, self.operators)
        casts = any(n.op_type in ("Cast", "CastLike") for n in self.rule.match)
        nodes = (*self.rule.match, *self.rule.rewrite)
        cut = any(saturates(operator) for node in nodes for operator in node.operators)
        types: dict[str, str] = {}
        self.integer_limits: dict[str, tuple[int, int]] = {}
        said = types_said(self.rule)
        asked = {classes.root(name) for name in said if name in classes.parents}
        for root in classes.roots():
            allowed = classes.of(root)
            options = representatives(allowed, both_integers=casts, all_integers=cut)
            alone = set(options) if cut else set()
            if root in asked:  # the rule tells types of one algebra apart, by name or as the others
                named = set().union(*said.values()) & allowed
                others = representatives(allowed - named, both_integers=casts)
                options = tuple(dict.fromkeys((*options, *sorted(named), *others)))
                alone |= named
            kind: Kind = "index" if root in asked else "element"
            types[root] = self.choices.pick(f"type of {root}", options, kind)
            spoken_for = {types[root]} if types[root] in alone else allowed - alone
            if (limits := limits_of(spoken_for)) is not None:
                self.integer_limits[root] = limits
        for name in list(classes.parents):
            if (limits := self.integer_limits.get(classes.root(name))) is not None:
                self.integer_limits[name] = limits
        return {name: types[classes.root(name)] for name in list(classes.parents)}


# Lengths of lists of dimensions, the richest first, by how many such lists the rule has.
_LENGTHS: Mapping[int, tuple[int, ...]] = {0: (3, 2, 1, 0), 1: (2, 1, 0, 3), 2: (2, 1, 0)}
_FEW = (1, 0)
_SPATIAL = (2, 1, 3)
# Up to how many axes that numbers speak of lengths are tried.
_LARGEST_CUTOFF = 4


class SourceOperands(SourceSymbols):
    """The left side as far as its operands go."""

    def _bind_scalar(self, name: str) -> None:
        operand = self.rule.operand(name)
        if name not in self.absent:
            integer = algebra_of(self.dtypes[name]) != "real"
            self.names[name] = self.symbol(name, "integer" if integer else "real")
        elif operand.default is not None:
            self.names[name] = self.value(operand.default)

    def _leaf(
        self, node: PatternNode, meaning: Specification, position: int, item: Input, name: str
    ) -> None:
        """Make up an operand that is a tensor; those that are lists wait for the attributes."""
        dtype = self.dtypes[item.value or name]
        if item.literal is not None:
            self._literal(node, meaning, position, item.literal, name, dtype)
            return
        operand = self.rule.operand(item.value or name)
        if operand.scalar:
            rank = self._rank(node, meaning, position, name, name, most=self._most_of_numbers())
            self.composition.constant(name, (1,) * rank, self.names[name], dtype)
            return
        if operand.shape is None:
            rank = self._rank(node, meaning, position, name, item.value or name)
            shape = tuple(self.symbol(f"{name}.{axis}", "dimension") for axis in range(rank))
        else:
            shape = self._declared(node, operand, name)
        if len(shape) == 1 and item.value in progressions(self.rule):
            self.progressions[name] = Progression(self.symbol(f"{name}.0", "integer"), shape[0])
            self.composition.counted(name, shape, self.progressions[name].first, dtype)
            return
        limits = self.integer_limits.get(item.value or name)
        self.composition.operand(name, shape, dtype, limits)

    def _most_of_numbers(self) -> int:
        """Up to which rank constants of one element are tried: if need be, as far as others.

        That nothing longer fits the two dimensions of a Gemm shows only beside constants as long.
        """
        meanings = [
            described(chosen(node, self.operators).operator, self.composition.opset)
            for node in self.rule.match
        ]
        ends = any(
            meaning.kind == "contraction" and of_any_rank(meaning, position, ("broadcast",))
            for node, meaning in zip(self.rule.match, meanings, strict=True)
            for position in range(len(node.inputs))
        )
        return 3 if ends else 2

    def _rank(
        self,
        node: PatternNode,
        meaning: Specification,
        position: int,
        tensor: str,
        name: str,
        most: int | None = None,
    ) -> int:
        if (listed := self._rank_listed(node, meaning, position)) is not None:
            return listed
        lengths = self._shorter(_SPATIAL) if windowed(node) else self._lengths()
        if most is not None:
            lengths = tuple(range(most, -1, -1))
        elif not windowed(node) and name in reach_windows(self.rule):
            lengths = self._shorter((4, 3, 5))
        elif (beside := self._rank_beside(node, meaning, position)) is not None:
            lengths = (*range(beside, -1, -1), beside + 1)
        elif node.operator == "Einsum" and self.options.texts:
            lengths = _ranks_of(self.options.texts, position)
        elif meaning.kind == "contraction" and of_any_rank(meaning, position, ("broadcast",)):
            lengths = self._shorter((2, 1, 0, 3))  # to what has a known rank: the last is none
        ranks: list[int] = []
        for block in meaning.blocks:
            declared = block.inputs[min(position, len(block.inputs) - 1)]
            plain = sum(item.kind in ("plain", "each") for item in declared.shape)
            free = any(item.kind in FREE for item in declared.shape)
            ranks += [plain + more for more in lengths] if free else [plain]
        ranks = [r for r in dict.fromkeys(ranks) if most is None or r <= most]
        rank = self.choices.pick(f"rank of {name}", ranks)
        if len(ranks) > 1:
            self._stretch(f"rank({name})", rank, max(ranks), (tensor, 0))
        return rank

    def _rank_listed(self, node: PatternNode, meaning: Specification, position: int) -> int | None:
        """The rank that a tensor shares with those that it is put together with, as by Concat."""
        tensors = [self.composition.tensors.get(item.value or "") for item in node.inputs]
        for block in meaning.blocks:
            first = len(block.inputs) - 1
            kinds = {item.kind for item in block.inputs[-1].shape}
            if not block.inputs[-1].variadic or position < first or "broadcast" in kinds:
                return None
        ranks = [len(tensor.shape) for tensor in tensors[first:] if tensor is not None]
        return ranks[0] if ranks else None

    def _rank_beside(self, node: PatternNode, meaning: Specification, position: int) -> int | None:
        """The rank of what a leaf is broadcast with, where that is known already."""
        broadcast = any(
            item.kind == "broadcast"
            for block in meaning.blocks
            for item in block.inputs[min(position, len(block.inputs) - 1)].shape
        )
        if meaning.kind != "elementwise" or not broadcast:
            return None
        tensors = [self.composition.tensors.get(item.value or "") for item in node.inputs]
        outputs = [o.value for n in self.rule.match for o in n.outputs]
        ranks = [
            len(tensor.shape)
            for item, tensor in zip(node.inputs, tensors, strict=True)
            if tensor is not None
            and (item.value in outputs or self.rule.operand(item.value or "").shape)
        ]
        return max(ranks, default=None)

    def _lengths(self) -> tuple[int, ...]:
        """The lengths to try for what is free in the rank of an operand, by how many are free."""
        free: set[str] = {f"*{name}" for name in bindings(self.rule).stars}
        for node in self.rule.match:
            meaning = described(chosen(node, self.operators).operator, self.composition.opset)
            for position, item in enumerate(node.inputs):
                operand = self.rule.operand(item.value or "")
                listed = (
                    position in meaning.known_inputs or operand.scalar or item.literal is not None
                )
                listed = listed or not of_any_rank(meaning, position)
                if item.value and item.value not in self.inner_values and not listed:
                    free |= {item.value} if operand.shape is None else set()
        lengths = _LENGTHS.get(len(free) - 1, _FEW)
        if self.longer > 0:
            return (max(lengths) + self.longer, max(lengths) + self.longer - 1)
        if self.longer < 0:
            return self._shorter(lengths)
        if len(free) <= 2 and permutes_once(self.rule):
            lengths = (*lengths, 4)
        # where numbers in the text speak of axes, as far as there is one that they don't speak of
        cutoff = 0 if notation_use(self.rule).signs else cutoffs(self.rule).whole
        if len(free) <= 2 and max(lengths) <= cutoff <= _LARGEST_CUTOFF:
            lengths = (*lengths, *range(max(lengths) + 1, int(cutoff) + 2))
        return lengths

    def _shorter(self, lengths: Sequence[int]) -> tuple[int, ...]:
        """Those of some lengths that are tried where there would be too many cases otherwise."""
        most = max(min(lengths), max(lengths) + min(self.longer, 0))
        return tuple(length for length in lengths if length <= most)

    def _counts(self, alone: bool) -> tuple[int, ...]:
        """How many operands or parts a list may stand for: alone at a node, or beside another."""
        if self.longer > 0:
            return (2 + self.longer,)
        return (2, 1) if alone else (1, 0, 2)

    def _declared(self, node: PatternNode, operand: Operand, name: str) -> tuple[Term, ...]:
        shape: list[Term] = []
        for axis, size in enumerate(operand.shape or ()):
            if isinstance(size, Star):
                if size.text not in self.names:
                    self._bind_list(node, size.text)
                listed = self.sequence(self.names[size.text])
                most = max(self._lengths_of(size.text))
                self._stretch(f"len({size.text})", len(listed), most, (name, len(shape)))
                shape += listed
                continue
            try:
                term = self.value(size)
            except UnknownError:
                term = self.symbol(f"{name}.{axis}", "dimension")
            if isinstance(term, tuple | str) or not is_integer(term):
                raise NoCaseError(f"{term} is no size")
            if not isinstance(size, Name):
                self.suppose(f"{term} is a size", apply(">=", term, 0))
            shape.append(term)
        return tuple(shape)

    def _lengths_of(self, name: str) -> Sequence[int]:
        """The lengths to try for a list of dimensions: of images and filters, beside two others."""
        if not self.spatial.get(name):
            return self._lengths()
        shapes = [o.shape for o in self.rule.operands if o.shape and Star(name) in o.shape]
        return self._shorter([n + max(0, 3 - min(map(len, shapes))) for n in _SPATIAL])

    def _bind_list(self, node: PatternNode, name: str) -> None:
        operands = {o.name for o in self.rule.operands if Star(name) in (o.shape or ())}
        spatial = bool(operands & reach_windows(self.rule)) or any(
            windowed(other) and item.value in operands
            for other in self.rule.match
            for item in other.inputs
        )
        self.spatial[name] = spatial
        length = self.choices.pick(f"length of {name}", self._lengths_of(name))
        self.names[name] = tuple(
            self.symbol(f"{name}.{axis}", "dimension") for axis in range(length)
        )

    def _literal(
        self,
        node: PatternNode,
        meaning: Specification,
        position: int,
        literal: Expression,
        name: str,
        dtype: str,
    ) -> None:
        value = self.value(literal)
        if isinstance(value, tuple):
            self.composition.known_constant(name, value, dtype)
            return
        if not fits_type(value, dtype):
            raise NoCaseError(f"{value} is no {dtype}")
        require_in_range(value, dtype)
        if position in meaning.known_inputs:
            self.composition.known_constant(name, (value,), dtype, rank=0)
            return
        rank = 0
        if meaning.kind != "elementwise":
            rank = self._rank(node, meaning, position, name, name, most=1)
        self.composition.constant(name, (1,) * rank, value, dtype)


def _ranks_of(equations: Sequence[str], position: int) -> tuple[int, ...]:
    """The ranks of an operand in Einsum equations, and one that it has in none."""
    terms = [equation.split("->")[0].split(",") for equation in equations]
    ranks = sorted({len(term[position].strip()) for term in terms if position < len(term)})
    return (*ranks, ranks[-1] + 1) if ranks else _LENGTHS[0]
