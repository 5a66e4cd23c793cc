"""Integer terms as polynomials; conditions as constraints on integers, or sums that are 0 or 1."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from fractions import Fraction

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
)
from ..functions import elementary
from ..functions.comparisons import above_zero
from ..functions.extrema import extreme_of
from ..functions.monotone import Element
from ..normal.arithmetic import guarded, plus, tidy, times
from ..normal.context import UndecidedError
from ..normal.definedness import Condition, Path
from ..normal.interning import abstracted
from ..normal.piecewise import by_cases, cases_of, negated, outer_guard, outer_truth
from ..normal.sums import Place, Product, Sum, number, scaled
from ..solve.polynomials import (
    FALSE,
    TRUE,
    ZERO,
    Constraint,
    Polynomial,
    at_least,
    below,
    choice,
    constant,
    differs,
    element,
    equals,
    extreme,
    joined,
    quotient,
    remainder,
)
from ..statement import Algebra
from .term_kinds import INDEX, PREDICATES, Kinds

# The type of integers that holds all sizes.
_WIDEST = "int64"
Indices = Mapping[Variable, Polynomial]
Truth = Constraint | list[Product]


class Integers(Kinds, ABC):
    """Lowers terms that are integers."""

    @abstractmethod
    def read(self, tensor: str, places: tuple[Polynomial, ...], path: Path) -> list[Product]:
        """Return an element of a tensor, in the tensor's own algebra."""

    @abstractmethod
    def truth(self, term: Term, indices: Indices, path: Path) -> Truth:
        """Return a condition as a constraint on integers, or as a sum that is 0 or 1."""

    def index(self, term: Term, indices: Indices, path: Path) -> Polynomial:
        """Return an integer term as a polynomial."""
        return self.context.fold(self._index(term, indices, path))

    def _index(self, term: Term, indices: Indices, path: Path) -> Polynomial:
        match term:
            case bool() | float():
                raise UndecidedError(f"{term} is no index")
            case int():
                return constant(term)
            case Variable():
                return indices[term]
            case Symbol(name, kind) if kind != "real":
                return self.symbol(name)
            case Apply(function, arguments) if function in INDEX:
                if function in ("floor", "ceil"):
                    return self._rounded(function, arguments[0], indices, path)
                parts = [self.index(argument, indices, path) for argument in arguments]
                if function in ("//", "%"):
                    self._ask_divisor(parts[0], parts[1], path)
                if function in ("max", "min") and self.by_guards:
                    larger = self._decided_on_path(at_least(parts[0], parts[1]), path)
                    if larger is not None:
                        return parts[0] if larger == (function == "max") else parts[1]
                return _polynomial(function, parts)
            case Select(condition, then, otherwise):
                truth = self.truth(condition, indices, path)
                if not isinstance(truth, Constraint):
                    raise UndecidedError("an index depends on a truth value")
                if self.by_guards and (holds := self._decided_on_path(truth, path)) is not None:
                    return self.index(then if holds else otherwise, indices, path)
                then_index = self.index(then, indices, path.inner(truth.conjuncts()))
                otherwise_index = self.index(
                    otherwise, indices, path.inner(truth.negation.conjuncts())
                )
                return choice(truth, then_index, otherwise_index)
            case Read(tensor, inner) if self.algebra(tensor) == "integer":
                places = tuple(self.index(place, indices, path) for place in inner)
                exact = self.exact_sums and self.types.get(tensor) == _WIDEST
                return self._chosen(self.read(tensor, places, path), exact, path)
            case _:
                raise UndecidedError(f"{term} is no index")

    def _ask_divisor(self, whole: Polynomial, by: Polynomial, path: Path) -> None:
        """Ask that what is divided by is not 0."""
        if not self.context.is_positive(by, whole):
            path.ask("holds", differs(by, 0))

    def _rounded(self, function: str, term: Term, indices: Indices, path: Path) -> Polynomial:
        """Return the floor or the ceiling of a quotient of integers, branch by branch."""
        if isinstance(term, Select):
            branches = (apply(function, term.then), apply(function, term.otherwise))
            return self._index(Select(term.condition, *branches), indices, path)
        whole, by = self._fraction(term, indices, path)
        if function == "floor":
            return quotient(whole, by)
        return -quotient(-whole, by)

    def _fraction(self, term: Term, indices: Indices, path: Path) -> tuple[Polynomial, Polynomial]:
        """Return the numerator and the denominator of a quotient of integers."""
        match term:
            case float():
                value = Fraction(repr(term))
                return constant(value.numerator), constant(value.denominator)
            case Apply("real", (inner,)):
                return self._fraction(inner, indices, path)
            case Apply("neg", (inner,)):
                whole, by = self._fraction(inner, indices, path)
                return -whole, by
            case Apply("+" | "-" | "*" | "/" as function, (left, right)):
                (a, b), (c, d) = (self._fraction(part, indices, path) for part in (left, right))
                if function == "*":
                    return a * c, b * d
                if function == "/":
                    self._ask_divisor(a, c, path)
                    return a * d, b * c
                return (a * d + b * c if function == "+" else a * d - b * c), b * d
            case _:
                return self.index(term, indices, path), constant(1)

    def _decided_on_path(self, truth: Constraint, path: Path) -> bool | None:
        """Whether a condition holds on the path; None where what is known there doesn't say."""
        if self.context.follows(truth, path.guards):
            return True
        return False if self.context.follows(truth.negation, path.guards) else None

    def _chosen(self, whole: Sum, exact: bool, path: Path) -> Polynomial:
        """Return an element of the integer algebra as an integer, chosen by its outer guards.

        `exact`: a sum may be taken for one of integers.
        """
        guard = outer_guard(whole, path)
        if guard is None:
            bare = tidy((product.without(path.guards) for product in whole), self.context)
            return self._exact_sum(bare, path) if exact else self._element(bare)
        if outer_truth(whole, self.context) is not None:
            raise UndecidedError("an index depends on a truth value")
        cases = [
            (joined("and", case_guards), self._chosen(kept, exact, inner))
            for inner, case_guards, kept in cases_of(guard, whole, self.context, path)
        ]
        if not cases:
            return ZERO  # nothing is computed here: what the path says can't hold together
        (truth, then), (_, otherwise) = cases[0], cases[-1]
        return choice(truth, then, otherwise) if len(cases) > 1 else then

    def _exact_sum(self, whole: Sum, path: Path) -> Polynomial:
        """Return a sum of an element and of sizes as an integer, where it is one.

        Elements are added modulo 2^64. Where the sum is no larger than all dimensions of the
        operands together, of which memory holds the elements, nothing was lost: that is asked for,
        as a condition that no side may rely on.
        """
        elements = [
            product for product in whole if any(place.head != "#INT" for place in product.factors)
        ]
        if len(whole) == 1 or len(elements) != 1 or abs(elements[0].coefficient) != 1:
            return self._element(whole)
        sizes = elementary.integral([product for product in whole if product is not elements[0]])
        if sizes is None or not elements[0].plain:
            return self._element(whole)
        sign = int(elements[0].coefficient)
        total = sizes + sign * self._element([elements[0].scaled(sign)])
        bound = self._all_dimensions()
        for limit in (at_least(total, -bound), at_least(bound, total)):
            path.conditions.append(Condition("exact", limit, (), path.guards, path.literals))
        return total

    def _all_dimensions(self) -> Polynomial:
        """Return the dimensions of all operands added up."""
        whole = ZERO
        for operand in self.operands.values():
            for size in operand.shape:
                whole = whole + self.index(size, {}, Path())
        return whole

    def _element(self, whole: Sum) -> Polynomial:
        """Return an element of the integer algebra as an integer."""
        if any(product.outer_guards() for product in whole):
            raise UndecidedError("an index is an element by cases")
        integer = elementary.integral(whole)
        if integer is not None:
            return integer
        value = abstracted(whole, self.context)
        if isinstance(value, Fraction):
            return constant(int(value))
        if value.head in self.context.exact:
            value = Place(self.context.exact[value.head][0], value.indices)
        return value.indices[0] if value.head == "#INT" else element(value.head, value.indices)


def _polynomial(function: str, parts: Sequence[Polynomial]) -> Polynomial:
    match function:
        case "+":
            return parts[0] + parts[1]
        case "-":
            return parts[0] - parts[1]
        case "*":
            return parts[0] * parts[1]
        case "//":
            return quotient(parts[0], parts[1])
        case "%":
            return remainder(parts[0], parts[1])
        case "neg":
            return ZERO - parts[0]
        case "max" | "min":
            return extreme(function, parts[0], parts[1])
        case _:  # abs
            return extreme("max", parts[0], -parts[0])


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
                left_number = self.number(self.truth(left, indices, path))
                right_number = self.number(self.truth(right, indices, path))
                both = times(left_number, right_number, self.context)
                return plus(plus(left_number, right_number), scaled(both, -2))
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
        return guarded(whole, truth.conjuncts(), self.context)

    def _logical(
        self, function: str, left: Term, right: Term, indices: Indices, path: Path
    ) -> Truth:
        left_truth = self.truth(left, indices, path)
        # the right side of `and` is only computed where the left one holds
        inner = path
        if isinstance(left_truth, Constraint):
            needed = left_truth if function == "and" else left_truth.negation
            inner = path.inner(needed.conjuncts())
        right_truth = self.truth(right, indices, inner)
        if isinstance(left_truth, Constraint) and isinstance(right_truth, Constraint):
            return joined(function, [left_truth, right_truth])
        first, second = self.number(left_truth), self.number(right_truth)
        both = times(first, second, self.context)
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
            left_index = self.index(left, indices, path)
            right_index = self.index(right, indices, path)
            match function:
                case "=":
                    return equals(left_index, right_index)
                case "!=":
                    return differs(left_index, right_index)
                case "<":
                    return below(left_index, right_index)
                case "<=":
                    return at_least(right_index, left_index)
                case ">":
                    return below(right_index, left_index)
                case _:
                    return at_least(left_index, right_index)
        if self.is_truth(left) and self.is_truth(right) and function in ("=", "!="):
            first = self.number(self.truth(left, indices, path))
            second = self.number(self.truth(right, indices, path))
            both = times(first, second, self.context)
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
        squared = times(whole, whole, self.context)
        return None if plus(squared, scaled(whole, -1)) else whole

    def _above_zero(self, difference: Sum, path: Path) -> list[Product]:
        return by_cases(
            difference, self.context, path, lambda whole, _: above_zero(whole, self.context)
        )

    def _predicate(self, function: str, term: Term, indices: Indices, path: Path) -> Truth:
        def test(whole: Sum, inner: Path) -> list[Product]:
            truths = elementary.opaque(function, [whole], self.context, inner)
            self.context.idempotent.update(p.head for product in truths for p in product.factors)
            return truths

        whole = self.value(term, indices, self.kind(term), path)
        return by_cases(whole, self.context, path, test)

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
        truths = extreme_of("any", [Element(names, guards, truth)], self.context, path)
        self.context.idempotent.update(p.head for product in truths for p in product.factors)
        return negated(truths) if kind == "all" else truths

    def _small(self, whole: Sum) -> bool:
        """Whether a sum of truth values is an integer from 0 to 7, which every type holds."""
        truths = all(
            p.head in self.context.idempotent for product in whole for p in product.factors
        )
        whole_numbers = all(
            product.coefficient.denominator == 1 and product.plain for product in whole
        )
        above = sum(product.coefficient for product in whole if product.coefficient > 0)
        return truths and whole_numbers and above <= 7 and _not_below(whole)


def _not_below(whole: Sum) -> bool:
    """Whether a sum of truth values is seen to be at least 0, as 1 - x is."""
    below = sum(product.coefficient for product in whole if product.coefficient < 0)
    return below + sum(product.coefficient for product in whole if not product.factors) >= 0
