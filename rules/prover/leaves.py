"""The operands of the left side: of which ranks and shapes tensors are made up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...catalog.operators import Specification
from ...catalog.operators.terms import Term, apply, is_integer
from ..conditions import bindings
from ..functions import UnknownError
from ..syntax import Expression, Input, Name, Operand, PatternNode, Star
from .compose import algebra_of, described
from .element_types import chosen
from .enumeration import NoCaseError
from .made_up import MadeUp
from .patterns import FREE, of_any_rank, permutes_once, progressions, reach_windows, windowed
from .reach import reach
from .rule_terms import Progression, as_list
from .side import fits_type
from .spelling import spelling

# Lengths of lists of dimensions, the richest first, by how many such lists the rule has.
_LENGTHS: Mapping[int, tuple[int, ...]] = {0: (3, 2, 1, 0), 1: (2, 1, 0, 3), 2: (2, 1, 0)}
_FEW = (1, 0)
_SPATIAL = (2, 1, 3)
# Up to how many axes that numbers speak of lengths are tried.
_MOST_TOLD = 4


class Leaves(MadeUp):
    """The left side as far as its operands go."""

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
            rank = self._rank(node, meaning, at, name, name, most=self._most_of_numbers())
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
        limits = self.integer_limits.get(item.value or name)
        self.composition.operand(name, shape, dtype, limits)

    def _most_of_numbers(self) -> int:
        """Up to which rank constants of one element are tried: if need be, as far as others.

        That nothing longer fits the two dimensions of a Gemm shows only beside constants as long.
        """
        known = [
            described(chosen(node, self.operators).operator, self.composition.opset)
            for node in self.rule.match
        ]
        ends = any(
            one.kind == "contraction" and of_any_rank(one, at, ("broadcast",))
            for node, one in zip(self.rule.match, known, strict=True)
            for at in range(len(node.inputs))
        )
        return 3 if ends else 2

    def _rank(
        self,
        node: PatternNode,
        meaning: Specification,
        at: int,
        tensor: str,
        name: str,
        most: int | None = None,
    ) -> int:
        if (listed := self._rank_listed(node, meaning, at)) is not None:
            return listed
        lengths = self._shorter(_SPATIAL) if windowed(node) else self._lengths()
        if most is not None:
            lengths = tuple(range(most, -1, -1))
        elif not windowed(node) and name in reach_windows(self.rule):
            lengths = self._shorter((4, 3, 5))
        elif (beside := self._rank_beside(node, meaning, at)) is not None:
            lengths = (*range(beside, -1, -1), beside + 1)
        elif node.operator == "Einsum" and self.options.texts:
            lengths = _ranks_of(self.options.texts, at)
        elif meaning.kind == "contraction" and of_any_rank(meaning, at, ("broadcast",)):
            lengths = self._shorter((2, 1, 0, 3))  # to what has a known rank: the last is none
        ranks: list[int] = []
        for block in meaning.blocks:
            declared = block.inputs[min(at, len(block.inputs) - 1)]
            plain = sum(item.kind in ("plain", "each") for item in declared.shape)
            free = any(item.kind in FREE for item in declared.shape)
            ranks += [plain + more for more in lengths] if free else [plain]
        ranks = [r for r in dict.fromkeys(ranks) if most is None or r <= most]
        rank = self.choices.pick(f"rank of {name}", ranks)
        if len(ranks) > 1:
            self._stretch(f"rank({name})", rank, max(ranks), (tensor, 0))
        return rank

    def _rank_listed(self, node: PatternNode, meaning: Specification, at: int) -> int | None:
        """The rank that a tensor shares with those that it is put together with, as by Concat."""
        known = [self.composition.tensors.get(item.value or "") for item in node.inputs]
        for block in meaning.blocks:
            first = len(block.inputs) - 1
            kinds = {item.kind for item in block.inputs[-1].shape}
            if not block.inputs[-1].variadic or at < first or "broadcast" in kinds:
                return None
        ranks = [len(tensor.shape) for tensor in known[first:] if tensor is not None]
        return ranks[0] if ranks else None

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
                listed = listed or not of_any_rank(known, at)
                if item.value and item.value not in self.made and not listed:
                    free |= {item.value} if operand.shape is None else set()
        lengths = _LENGTHS.get(len(free) - 1, _FEW)
        if self.longer > 0:
            return (max(lengths) + self.longer, max(lengths) + self.longer - 1)
        if self.longer < 0:
            return self._shorter(lengths)
        if len(free) <= 2 and permutes_once(self.rule):
            lengths = (*lengths, 4)
        # where numbers in the text speak of axes, as far as there is one that they don't speak of
        told = 0 if spelling(self.rule).signs else reach(self.rule).whole
        if len(free) <= 2 and max(lengths) <= told <= _MOST_TOLD:
            lengths = (*lengths, *range(max(lengths) + 1, int(told) + 2))
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
        if not fits_type(value, dtype):
            raise NoCaseError(f"{value} is no {dtype}")
        if at in meaning.known_inputs:
            self.composition.listed(name, (value,), dtype, rank=0)
            return
        rank = 0
        if meaning.kind != "elementwise":
            rank = self._rank(node, meaning, at, name, name, most=1)
        self.composition.constant(name, (1,) * rank, value, dtype)


def _ranks_of(equations: Sequence[str], at: int) -> tuple[int, ...]:
    """The ranks of an operand in Einsum equations, and one that it has in none."""
    terms = [equation.split("->")[0].split(",") for equation in equations]
    ranks = sorted({len(term[at].strip()) for term in terms if at < len(term)})
    return (*ranks, ranks[-1] + 1) if ranks else _LENGTHS[0]
