"""From conditions to constraints on integers, or to sums that are 0 or 1."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from ...catalog.operators.terms import Apply, Read, Reduce, Select, Symbol, Term, Variable
from . import functions
from .arithmetic import guarded, plus, times
from .choices import by_cases, negated
from .constraint import FALSE, TRUE, Constraint, at_least, below, differs, equals, joined
from .definedness import Path
from .extremes import extreme_of
from .integers import Indices, Integers, Truth
from .kinds import COMPARISONS, PREDICATES
from .monotone import Element
from .normal import Product, Sum, number, scaled
from .polynomial import Polynomial
from .space import UndecidedError
from .statement import Algebra
from .threshold import above_zero


class Truths(Integers):
    """Lowers terms that hold or don't."""

    @abstractmethod
    def value(self, term: Term, indices: Indices, algebra: Algebra, path: Path) -> list[Product]:
        """Return an element as a sum, in the algebra given."""

    @abstractmethod
    def _select(
        self,
        condition: Term,
        then: Term,
        otherwise: Term,
        indices: Indices,
        algebra: Algebra,
        path: Path,
    ) -> list[Product]:
        """Return one of two elements, as a condition says."""

    @abstractmethod
    def _bind(
        self,
        variables: Sequence[Variable],
        extents: Sequence[Term],
        condition: Term,
        indices: Indices,
        path: Path,
    ) -> tuple[dict[Variable, Polynomial], tuple[str, ...], tuple[Constraint, ...], Path]:
        """Return new indices for a reduction, their guards, and the path inside of it."""

    @abstractmethod
    def _leave(self, names: Sequence[str], deeper: Path, path: Path) -> None:
        """Note on the path to a reduction what was asked for inside of it."""

    def truth(self, term: Term, indices: Indices, path: Path) -> Truth:
        """Return a condition as a constraint on integers, or as a sum that is 0 or 1."""
        match term:
            case bool():
                return TRUE if term else FALSE
            case Apply("and" | "or" as function, (left, right)):
                return self._logical(function, left, right, indices, path)
            case Apply("not", (inner,)):
                truth = self.truth(inner, indices, path)
                return truth.negation if isinstance(truth, Constraint) else negated(truth)
            case Apply("xor", (left, right)):
                one = self.number(self.truth(left, indices, path))
                two = self.number(self.truth(right, indices, path))
                both = times(one, two, self.space)
                return plus(plus(one, two), scaled(both, -2))
            case Apply(function, (left, right)) if function in COMPARISONS:
                return self._comparison(function, left, right, indices, path)
            case Apply(function, (inner,)) if function in PREDICATES:
                return self._predicate(function, inner, indices, path)
            case Apply("to_bool", (inner,)):
                if self.is_truth(inner):
                    return self.truth(inner, indices, path)
                return self._comparison("!=", inner, 0, indices, path)
            case Reduce("any" | "all" as kind, variables, extents, condition, body):
                return self._quantified(kind, variables, extents, condition, body, indices, path)
            case Read(tensor, inner) if self.algebra(tensor) == "boolean":
                places = tuple(self.index(place, indices, path) for place in inner)
                return self.read(tensor, places, path)
            case Select(condition, then, otherwise):
                return self._select(condition, then, otherwise, indices, "boolean", path)
            case Symbol():
                raise UndecidedError(f"{term} is no condition")
            case _:
                raise UndecidedError(f"{term} is no condition that can be lowered")

    def number(self, truth: Truth) -> list[Product]:
        """Return a condition as 1 where it holds and 0 elsewhere."""
        return self._under(number(1), truth) if isinstance(truth, Constraint) else truth

    def _under(self, whole: Sum, truth: Constraint) -> list[Product]:
        return guarded(whole, truth.conjuncts(), self.space)

    def _logical(
        self, function: str, left: Term, right: Term, indices: Indices, path: Path
    ) -> Truth:
        one = self.truth(left, indices, path)
        # the right side of `and` is only computed where the left one holds
        inner = path
        if isinstance(one, Constraint):
            needed = one if function == "and" else one.negation
            inner = path.inner(needed.conjuncts())
        two = self.truth(right, indices, inner)
        if isinstance(one, Constraint) and isinstance(two, Constraint):
            return joined(function, [one, two])
        first, second = self.number(one), self.number(two)
        both = times(first, second, self.space)
        if function == "and":
            return both
        return plus(plus(first, second), scaled(both, -1))

    def _comparison(
        self, function: str, left: Term, right: Term, indices: Indices, path: Path
    ) -> Truth:
        if function in ("=", "!=") and right == 0 and isinstance(left, Read | Select):
            truth = self._nonzero(left, indices, path)
            if truth is not None:
                return truth if function == "!=" else negated(truth)
        if self.is_index(left) and self.is_index(right):
            one, two = self.index(left, indices, path), self.index(right, indices, path)
            match function:
                case "=":
                    return equals(one, two)
                case "!=":
                    return differs(one, two)
                case "<":
                    return below(one, two)
                case "<=":
                    return at_least(two, one)
                case ">":
                    return below(two, one)
                case _:
                    return at_least(one, two)
        if self.is_truth(left) and self.is_truth(right) and function in ("=", "!="):
            first = self.number(self.truth(left, indices, path))
            second = self.number(self.truth(right, indices, path))
            both = times(first, second, self.space)
            unequal = plus(plus(first, second), scaled(both, -2))
            return unequal if function == "!=" else negated(unequal)
        kind = self.kind(left, right)
        a = self.value(left, indices, kind, path)
        b = self.value(right, indices, kind, path)
        if kind != "real":
            raise UndecidedError("a comparison of integers that aren't elements")
        difference = plus(a, scaled(b, -1))
        opposite = scaled(difference, -1)
        match function:
            case ">":
                return self._above_zero(difference, path)
            case "<":
                return self._above_zero(opposite, path)
            case "<=":
                return negated(self._above_zero(difference, path))
            case ">=":
                return negated(self._above_zero(opposite, path))
            case _:
                # of two different numbers one is larger, and only one
                unequal = plus(self._above_zero(difference, path), self._above_zero(opposite, path))
                return unequal if function == "!=" else negated(unequal)

    def _nonzero(self, term: Term, indices: Indices, path: Path) -> list[Product] | None:
        """Return whether a number that is 0 or 1 is 1; None for other numbers."""
        kind = self.kind(term)
        if kind == "boolean":
            return None
        whole = self.value(term, indices, kind, path)
        if not self._small(whole):
            return None
        squared = times(whole, whole, self.space)
        return None if plus(squared, scaled(whole, -1)) else whole

    def _above_zero(self, difference: Sum, path: Path) -> list[Product]:
        return by_cases(
            difference, self.space, path, lambda whole, _: above_zero(whole, self.space)
        )

    def _predicate(self, function: str, term: Term, indices: Indices, path: Path) -> Truth:
        def test(whole: Sum, inner: Path) -> list[Product]:
            found = functions.opaque(function, [whole], self.space, inner)
            self.space.idempotent.update(p.head for one in found for p in one.factors)
            return found

        whole = self.value(term, indices, self.kind(term), path)
        return by_cases(whole, self.space, path, test)

    def _quantified(
        self,
        kind: str,
        variables: Sequence[Variable],
        extents: Sequence[Term],
        condition: Term,
        body: Term,
        indices: Indices,
        path: Path,
    ) -> Truth:
        inner, names, guards, deeper = self._bind(variables, extents, condition, indices, path)
        truth = self.number(self.truth(body, inner, deeper))
        self._leave(names, deeper, path)
        if kind == "all":
            truth = negated(truth)
        found = extreme_of("any", [Element(names, guards, truth)], self.space, path)
        self.space.idempotent.update(p.head for one in found for p in one.factors)
        return negated(found) if kind == "all" else found

    def _small(self, whole: Sum) -> bool:
        """Whether a sum of truth values is an integer from 0 to 7, which every type holds."""
        truths = all(p.head in self.space.idempotent for one in whole for p in one.factors)
        whole_numbers = all(one.coefficient.denominator == 1 and one.plain for one in whole)
        above = sum(one.coefficient for one in whole if one.coefficient > 0)
        return truths and whole_numbers and above <= 7 and _not_below(whole)


def _not_below(whole: Sum) -> bool:
    """Whether a sum of truth values is seen to be at least 0, as 1 - x is."""
    below = sum(one.coefficient for one in whole if one.coefficient < 0)
    return below + sum(one.coefficient for one in whole if not one.factors) >= 0
