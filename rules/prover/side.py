"""One side of a rule in one case: the names, tensors and lists of which something is known."""

from __future__ import annotations

from ...catalog.operators.terms import Term, is_integer
from ..functions import UnknownError
from ..syntax import Expression, Rule
from .compose import Composition, algebra_of
from .rule_terms import Progression, TermFacts, UndecidedError, Value, evaluate


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
        if tensor is None:
            raise UnknownError
        if tensor.contents is None:
            raise UndecidedError
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


def fits_type(value: Term, dtype: str) -> bool:
    """Whether a number may be one of a type: fractions and irrational numbers are no integers."""
    if algebra_of(dtype) == "real":
        return True
    return is_integer(value) or isinstance(value, bool)
