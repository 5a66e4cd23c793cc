"""Conjunctions of Z3's comparisons as conditions that the rule language can say."""

from __future__ import annotations

from collections.abc import Sequence

import z3

from ....catalog.terms.index_notation import Apply, Symbol, Term, apply
from ....catalog.terms.polynomials import Polynomial
from .implicants import NotPlainError

# A sum of multiples of terms, which are told by their texts; products are terms of their own.
_Linear = Polynomial[str]


class Conditions:
    """Conjunctions as terms over symbols; `symbols` by their names in formulas.

    Those named in `indices` are isolated on the left where a condition has one.
    """

    def __init__(self, symbols: dict[str, Symbol], indices: Sequence[str]) -> None:
        self.terms: dict[str, Term] = {}
        self.symbols = symbols
        self.indices = indices

    def union(self, cubes: Sequence[Sequence[z3.BoolRef]]) -> Term:
        """The union of conjunctions as one term; raises NotPlainError."""
        parts = sorted(map(self.conjunction, cubes), key=_size)
        return _joined("or", list(dict.fromkeys(parts)))

    def conjunction(self, cube: Sequence[z3.BoolRef]) -> Term:
        """One conjunction: of each index the bounds, equal ones joined to an equation."""
        bounds: dict[tuple[tuple[str, int], ...], tuple[int | None, int | None]] = {}
        others: list[Term] = []
        for literal in cube:
            sign, whole = self._against_zero(literal)
            if sign == "!=":
                others.append(self._compared("!=", whole))
                continue
            key, turned = _direction(whole, self.indices)
            low, high = bounds.get(key, (None, None))
            # key * x >= -constant, or where turned <= constant
            number = whole.constant if turned else -whole.constant
            if sign == "=" or not turned:
                low = number if low is None else max(low, number)
            if sign == "=" or turned:
                high = number if high is None else min(high, number)
            bounds[key] = low, high
        parts: list[Term] = []
        for key, (low, high) in bounds.items():
            whole = _Linear({(text,): factor for text, factor in key})
            if low is not None and low == high:
                parts.append(self._compared("=", whole - low))
                continue
            if low is not None:
                parts.append(self._compared(">=", whole - low))
            if high is not None:
                parts.append(self._compared("<=", whole - high))
        return _joined("and", [*sorted(parts, key=_by_left), *sorted(others, key=str)])

    def _compared(self, sign: str, whole: _Linear) -> Term:
        """A sum against 0, an index alone on the left if it can be."""
        factors = _factors(whole)
        term = next((t for t in self.indices if factors.get(t) == 1), None)
        if term is None:
            term = next((t for t, n in factors.items() if n == 1), None)
        if term is None:
            positive = _Linear({(t,): n for t, n in factors.items() if n > 0})
            return Apply(sign, (self._sum(positive), self._sum(positive - whole)))
        return Apply(sign, (self.terms[term], self._sum(_Linear({(term,): 1}) - whole)))

    def _sum(self, whole: _Linear) -> Term:
        total: Term | None = None
        for text, factor in sorted(_factors(whole).items(), key=lambda item: item[1] < 0):
            term = (
                self.terms[text] if abs(factor) == 1 else apply("*", abs(factor), self.terms[text])
            )
            if total is None:
                total = term if factor > 0 else apply("*", -1, term)
            else:
                total = apply("+" if factor > 0 else "-", total, term)
        if total is None:
            return whole.constant
        if not whole.constant:
            return total
        return apply("+" if whole.constant > 0 else "-", total, abs(whole.constant))

    # ---- from Z3's terms
    def _against_zero(self, literal: z3.BoolRef) -> tuple[str, _Linear]:
        """A comparison as sum >= 0, sum = 0 or sum != 0."""
        negated = z3.is_not(literal)
        atom = literal.children()[0] if negated else literal
        children = atom.children()
        if len(children) != 2 or not all(map(z3.is_int, children)):
            raise NotPlainError(f"{atom} is no comparison of integers")
        left, right = map(self._linear, children)
        difference = left - right
        kind = atom.decl().kind()
        if kind in (z3.Z3_OP_EQ, z3.Z3_OP_DISTINCT):
            equal = (kind == z3.Z3_OP_EQ) != negated
            return ("=" if equal else "!="), _lowest("=", difference)
        whole = {
            (z3.Z3_OP_GE, False): difference,
            (z3.Z3_OP_LE, False): -difference,
            (z3.Z3_OP_GT, False): difference - 1,
            (z3.Z3_OP_LT, False): -difference - 1,
            (z3.Z3_OP_GE, True): -difference - 1,
            (z3.Z3_OP_LE, True): difference - 1,
            (z3.Z3_OP_GT, True): -difference,
            (z3.Z3_OP_LT, True): difference,
        }.get((kind, negated))
        if whole is None:
            raise NotPlainError(f"{atom} is no comparison")
        return ">=", _lowest(">=", whole)

    def _linear(self, term: z3.ExprRef) -> _Linear:
        children = term.children()
        if z3.is_int_value(term):
            return _number(term.as_long())
        if z3.is_const(term):
            symbol = self.symbols.get(str(term))
            if symbol is None:
                raise NotPlainError(f"{term} is no size")
            return self._atom(symbol)
        if z3.is_add(term):
            return sum(map(self._linear, children), _number(0))
        if z3.is_sub(term):
            first, *rest = map(self._linear, children)
            return first - sum(rest, _number(0))
        if z3.is_app_of(term, z3.Z3_OP_UMINUS):
            return -self._linear(children[0])
        if z3.is_mul(term):
            return self._product([self._linear(child) for child in children])
        if z3.is_idiv(term) or z3.is_mod(term):
            by = self._linear(children[1])
            if by.number is None or by.number <= 0:
                raise NotPlainError(f"{term} divides by what may not be positive")
            whole = self._sum(self._linear(children[0]))
            return self._atom(apply("//" if z3.is_idiv(term) else "%", whole, by.constant))
        raise NotPlainError(f"{term} is no sum of sizes")

    def _product(self, factors: list[_Linear]) -> _Linear:
        product = _number(1)
        for factor in factors:
            if factor.number is not None or product.number is not None:
                product = product * factor
            else:
                product = self._atom(apply("*", self._sum(product), self._sum(factor)))
        return product

    def _atom(self, term: Term) -> _Linear:
        if isinstance(term, int):
            return _number(term)
        self.terms[str(term)] = term
        return _Linear({(str(term),): 1})


def _number(value: int) -> _Linear:
    return _Linear({(): value} if value else {})


def _factors(whole: _Linear) -> dict[str, int]:
    factors = whole.coefficients
    assert factors is not None, "products are terms of their own"
    return factors


def _lowest(sign: str, whole: _Linear) -> _Linear:
    """Divide by what all factors share: for integers a bound is rounded, an equation left alone."""
    scale = whole.content
    if scale <= 1 or (sign == "=" and whole.constant % scale):
        return whole
    lowest = {m: n // scale for m, n in whole.terms.items()}
    return _Linear({m: n for m, n in lowest.items() if n})


def _direction(whole: _Linear, indices: Sequence[str]) -> tuple[tuple[tuple[str, int], ...], bool]:
    """The factors of a sum, turned so that the index, or else the first, has a positive one."""
    factors = _factors(whole)
    first = next((t for t in indices if t in factors), min(factors, default=""))
    turned = factors.get(first, 1) < 0
    return tuple(sorted(_factors(-whole if turned else whole).items())), turned


def _size(term: Term) -> tuple[int, str]:
    return len(str(term)), str(term)


def _by_left(condition: Term) -> str:
    """What is compared; bounds of one thing stay in their order."""
    return str(condition.arguments[0]) if isinstance(condition, Apply) else ""


def _joined(junction: str, parts: Sequence[Term]) -> Term:
    if not parts:
        raise NotPlainError("it is everything, or nothing")
    joined = parts[0]
    for part in parts[1:]:
        joined = Apply(junction, (joined, part))
    return joined
