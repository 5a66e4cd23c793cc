"""The mask of an attention: what scores are added to, or chosen by, told before any product.

Between a product and its softmax, an element becomes `mask + factor * score`, where the mask is
made of what is loaded alone: sums with tensors, choices by them, numbers, in any order. A choice of
a number has a score of nothing, which is within the bound of any; so has a score that is capped (by
tanh) before a mask. Then a panel of keys can be left
out by its masks (attention_text.py); where an element is something else, none is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ....catalog.terms.index_notation import Apply, Read, Select, Term, elements
from ...codegen.expressions import LoweringError, expression, literal
from ..loops.cells import Cells
from ..loops.elementwise_chain import ElementwiseChain

# Functions of a number that are never further from 0 than it is.
SHRINKING = frozenset({"tanh", "sin", "atan", "asinh"})


@dataclass(frozen=True)
class Mask:
    """C text of an element's mask, "" where there is none yet, and the factor of its score."""

    text: str
    factor: float

    def with_(self, operator: str, other: str) -> Mask:
        """Return the mask with something added or taken away."""
        return Mask(f"({self.text or '0.0f'} {operator} {other})", self.factor)

    def scaled(self, number: float) -> Mask:
        """Return the mask of an element that is multiplied."""
        text = self.text and f"({self.text} * {literal(number)})"
        return Mask(text, self.factor * abs(number))


@dataclass(frozen=True)
class Masks:
    """Finds the mask in cells: `scores` is the access of the scores, `element` a load's text."""

    cells: Cells
    scores: int
    element: Callable[[int], str]

    def of_output(self) -> Mask | None:
        """Return the mask of the cells' only output, None where it isn't made in such a way."""
        (output,) = self.cells.outputs
        mask = self._of(Read(f"c{output}", ()))
        return mask if mask is not None and mask.text else None

    def _of(self, term: Term) -> Mask | None:
        match term:
            case Read():
                cell = self.cells.cells[_number(term)]
                if cell.access == self.scores:
                    return Mask("", 1.0)
                return self._of(cell.term) if cell.access < 0 and cell.reduction < 0 else None
            case Apply("+" | "-" as operator, (left_operand, other)):
                mask, text = self._of(left_operand), self._free(other)
                if mask is None and operator == "+":
                    mask, text = self._of(other), self._free(left_operand)
                return None if mask is None or text is None else mask.with_(operator, text)
            case Apply("*", (left_operand, int() | float() as number)):
                return self._scaled(left_operand, float(number))
            case Apply("*", (int() | float() as number, left_operand)):
                return self._scaled(left_operand, float(number))
            case Apply("/", (left_operand, int() | float() as number)) if number != 0:
                return self._scaled(left_operand, 1 / float(number))
            case Apply(function, (left_operand,)) if function in SHRINKING:
                mask = self._of(left_operand)
                return mask if mask is not None and not mask.text else None
            case Select(condition, left_operand, other):
                return self._chosen(condition, left_operand, other)
        return None

    def _scaled(self, term: Term, number: float) -> Mask | None:
        mask = self._of(term)
        return None if mask is None else mask.scaled(number)

    def _chosen(self, condition: Term, then: Term, other: Term) -> Mask | None:
        chooses, mask = self._free(condition), self._of(then)
        fill = self._free(other if mask is not None else then)
        if chooses is None or fill is None:
            return None
        if mask is not None:
            return Mask(f"({chooses} ? {mask.text or '0.0f'} : {fill})", mask.factor)
        mask = self._of(other)
        if mask is None:
            return None
        return Mask(f"({chooses} ? {fill} : {mask.text or '0.0f'})", mask.factor)

    def _free(self, term: Term) -> str | None:
        """Return the text of what no score is in, None of anything else."""
        match term:
            case bool():
                return None
            case int() | float():
                return literal(float(term))
            case Read():
                cell = self.cells.cells[_number(term)]
                if cell.access == self.scores or cell.reduction >= 0:
                    return None
                return self.element(cell.access) if cell.access >= 0 else self._computed(cell.term)
            case _:
                return self._computed(term)

    def _computed(self, term: Term) -> str | None:
        reads: dict[str, str | float | bool] = {}
        for read in elements(term):
            text = self._free(read)
            if text is None:
                return None
            reads[read.tensor] = text
        try:
            return f"({expression(term, 'float32', reads)})"
        except (LoweringError, KeyError):  # a size, say
            return None


def _number(term: Read) -> int:
    return int(term.tensor[1:]) if term.tensor.startswith("c") else -1


def mask_of(chain: ElementwiseChain, names: Sequence[str], steps: Sequence[int]) -> Mask | None:
    """Return the mask of what a chain makes of scores, as `ElementwiseChain.texts` is told of rows.

    None where it isn't told by loads alone, or is one for a whole row.
    """
    changing = False

    def element(access: int) -> str:
        nonlocal changing
        load = chain.load(access)
        changing |= steps[load] != 0
        index = "j" if steps[load] == 1 else f"{steps[load]} * j"
        return f"{names[1 + load]}[{index}]"

    mask = Masks(chain.cells, chain.rows_access, element).of_output()
    return mask if changing else None


def is_masked(chain: ElementwiseChain) -> bool:
    """Tell whether scores are added to a mask, or chosen by one, in the end."""
    steps = chain.steps()
    return mask_of(chain, ["s", *map(str, range(len(steps)))], steps) is not None
