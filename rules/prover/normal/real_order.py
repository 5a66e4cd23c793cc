"""Sums that are equal because of the order of the reals: piecewise polynomials, decided by Z3.

Products that are summed over the same indices under the same guards are compared at each value of
them. There, every place is a real number of its own, and what is known of it is asserted: a largest
element is one of the elements and none is above it, above(x) says x > 0, |x| is x or -x, a power
times its inverse is 1. All of this is true of the elements, so that a difference that can't be
other than 0 for any numbers is 0 for these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from ....catalog.terms.index_notation import Apply, Symbol, Term
from ..solve.polynomials import Constraint, Polynomial, equals, variable
from ..solve.smt import Solver
from .arithmetic import definition
from .context import Context, UndecidedError
from .sums import Place, Product, Sum, canonical

# Beyond, nonlinear questions aren't answered in time.
_MOST_NUMBERS = 40
_MOST_EXPONENT = 6


def require_zero_pointwise(
    difference: Sum, context: Context, purpose: str, under: Sequence[Constraint]
) -> None:
    """Raise UndecidedError unless the sum is 0 at every value of the indices summed over."""
    groups: dict[str, list[Product]] = {}
    for product in difference:
        product = _aligned(product)
        inner = [guard for guard in product.guards if not _outer(guard, product)]
        key = f"{len(product.bound)} {' & '.join(guard.text for guard in inner)}"
        groups.setdefault(key, []).append(product)
    for members in groups.values():
        _Numbers(context, purpose).require_zero(members, under)


def _outer(guard: Constraint, product: Product) -> bool:
    return guard.variables.isdisjoint(product.bound)


def _aligned(product: Product) -> Product:
    """Return a product with its bound indices named in the order of their guards."""
    if not product.bound:
        return product
    bound_names = set(product.bound)

    def rank(name: str) -> tuple[str, str]:
        blind = {o: variable("!" if o == name else "?") for o in bound_names}
        about = sorted(g.substitute(blind).text for g in product.guards if name in g.variables)
        used = sorted(p.substitute(blind).text for p in product.factors if name in p.variables)
        return (" ".join(about), " ".join(used))

    ordered = sorted(product.bound, key=rank)
    return product.substitute(
        {name: variable(f"k@{number}") for number, name in enumerate(ordered)}
    )


class _Numbers:
    """The real numbers that places are, and what is known of them."""

    def __init__(self, context: Context, purpose: str) -> None:
        self.context = context
        self.purpose = purpose
        self.names: dict[str, str] = {}
        self.facts: list[str] = []
        self.places: dict[str, list[Place]] = {}
        self.about: list[Polynomial | Constraint] = []

    def require_zero(self, members: Sequence[Product], under: Sequence[Constraint]) -> None:
        context = self.context
        total = self.sum([Product(p.coefficient, (), p.guards, p.factors) for p in members])
        for term in context.real_conditions:
            text = self.condition(term)
            if text is not None:
                self.facts.append(text)
        assertions = [*(context.solver.constraint(constraint) for constraint in under), *self.facts]
        declared = [f"(declare-fun {name} () Real)" for name in self.names.values()]
        context.deadline()
        result = context.solver.ask(
            f"{self.purpose}: equal by the order of the reals",
            [*assertions, f"(not (= {total} 0.0))"],
            [*under, *self.about],
            declared=declared,
        )
        if result != "unsat":
            raise UndecidedError(f"{self.purpose}: not seen to be equal, element by element")

    def sum(self, whole: Sum) -> str:
        """Return a sum as a real term; what is summed over is a number of its own."""
        parts = []
        for product in whole:
            outer = [guard for guard in product.guards if _outer(guard, product)]
            bare = product.without(outer)
            if bare.bound:
                text = f"(* {_fraction(bare.coefficient)} {self.opaque(canonical(bare))})"
            else:
                factors = [_fraction(bare.coefficient)]
                for place, exponent in bare.factors.items():
                    factors.append(self.power(place, exponent))
                text = factors[0] if len(factors) == 1 else f"(* {' '.join(factors)})"
            if outer:
                clauses = " ".join(self.context.solver.constraint(guard) for guard in outer)
                self.about += outer
                text = f"(ite (and true {clauses}) {text} 0.0)"
            parts.append(text)
        if not parts:
            return "0.0"
        return parts[0] if len(parts) == 1 else f"(+ {' '.join(parts)})"

    def opaque(self, text: str) -> str:
        """Return the number that an expression is, by its text."""
        if text not in self.names:
            if len(self.names) >= _MOST_NUMBERS:
                raise UndecidedError(f"{self.purpose}: too many elements to compare")
            self.names[text] = f"x@{len(self.names)}"
        return self.names[text]

    def power(self, place: Place, exponent: Fraction) -> str:
        """Return a power of a place."""
        base = self.place(place)
        if exponent.denominator == 1 and abs(exponent) <= _MOST_EXPONENT:
            if exponent < 0:
                is_named = f"{place.text}^-1" in self.names
                name = self.opaque(f"{place.text}^-1")
                if not is_named:
                    self.facts.append(f"(=> (not (= {base} 0.0)) (= (* {name} {base}) 1.0))")
                base = name
            size = abs(int(exponent))
            return base if size == 1 else f"(* {' '.join([base] * size)})"
        is_named = f"{place.text}^{exponent}" in self.names
        name = self.opaque(f"{place.text}^{exponent}")
        if not is_named:
            self.facts.append(f"(>= {name} 0.0)")
            if exponent == Fraction(1, 2):
                self.facts.append(f"(=> (>= {base} 0.0) (= (* {name} {name}) {base}))")
            elif exponent == Fraction(-1, 2):
                self.facts.append(f"(=> (> {base} 0.0) (= (* {name} {name} {base}) 1.0))")
        return name

    def place(self, place: Place) -> str:
        """Return the number that a place is, with what is known of it."""
        is_named = place.text in self.names
        name = self.opaque(place.text)
        if is_named:
            return name
        context = self.context
        for other in self.places.setdefault(place.head, []):
            self.congruent(place, other)
        self.places[place.head].append(place)
        if context.always_positive(place):
            self.facts.append(f"(> {name} 0.0)")
        elif context.never_below_zero(place):
            self.facts.append(f"(>= {name} 0.0)")
        if place.head in context.idempotent:
            self.facts.append(f"(or (= {name} 0.0) (= {name} 1.0))")
        if place.head.startswith("above("):
            inner = self.inner(place, "above(")
            self.facts.append(f"(= (= {name} 1.0) (> {inner} 0.0))")
        elif place.head.startswith("abs("):
            inner = self.inner(place, "abs(")
            self.facts.append(f"(= {name} (ite (>= {inner} 0.0) {inner} (- {inner})))")
        elif place.head.startswith("sign("):
            inner = self.inner(place, "sign(")
            below = f"(ite (< {inner} 0.0) (- 1.0) 0.0)"
            self.facts.append(f"(= {name} (ite (> {inner} 0.0) 1.0 {below}))")
        elif place.head.startswith("exp("):
            inner = self.inner(place, "exp(")
            self.facts += [f"(= (> {name} 1.0) (> {inner} 0.0))", f"(>= {name} (+ 1.0 {inner}))"]
            self.facts.append(f"(=> (= {inner} 0.0) (= {name} 1.0))")
        entry = context.interned.get(place.head)
        if entry is not None:
            self.entry(entry.kind, place, name)
        return name

    def congruent(self, left: Place, right: Place) -> None:
        """Note that elements at equal places are equal."""
        solver = self.context.solver
        same = [equals(a, b) for a, b in zip(left.indices, right.indices, strict=True)]
        if any(solver.plain(part) is False for part in same):
            return
        self.about += same
        clauses = " ".join(solver.constraint(part) for part in same)
        both = f"(= {self.names[left.text]} {self.names[right.text]})"
        self.facts.append(f"(=> (and true {clauses}) {both})")

    def inner(self, place: Place, function: str) -> str:
        """Return the argument of a function of one place."""
        return self.place(Place(place.head[len(function) : -1], place.indices))

    def entry(self, kind: str, place: Place, name: str) -> None:
        """Note what an interned expression is; one of integers follows no order of sums."""
        body = definition(place, self.context)
        if kind == "sum":
            self.facts.append(f"(= {name} {self.sum(body)})")
        elif kind == "max":
            plain = [self.element(product) for product in body if not product.bound]
            self.facts += [f"(>= {name} {number})" for number in plain]
            inside = [product for product in body if product.bound]
            if inside:
                rest = self.opaque(
                    "max " + " | ".join(sorted(canonical(product) for product in inside))
                )
                self.facts.append(f"(>= {name} {rest})")
                plain.append(rest)
            self.facts.append(f"(or false {' '.join(f'(= {name} {number})' for number in plain)})")

    def element(self, product: Product) -> str:
        """Return an element of a largest: a known number or a place."""
        if product.guards:
            raise UndecidedError(f"{self.purpose}: a largest element of some by cases")
        (place,) = product.factors
        return _fraction(Fraction(place.head[2:])) if place.head[:2] == "C:" else self.place(place)

    # ---- what is assumed of real symbols
    def condition(self, term: Term) -> str | None:
        """Return an assumption, if it only compares symbols and numbers that occur here."""
        match term:
            case Apply("=" | "<" | "<=" | ">" | ">=" as function, (left, right)):
                return self.binary(function, left, right)
            case Apply("!=", (left, right)):
                text = self.binary("=", left, right)
                return None if text is None else f"(not {text})"
            case Apply("not", (inner,)):
                text = self.condition(inner)
                return None if text is None else f"(not {text})"
            case _:
                return None

    def binary(self, function: str, left: Term, right: Term) -> str | None:
        """Return a comparison of two numbers, or what arithmetic makes of them."""
        left_text, right_text = self.number(left), self.number(right)
        if left_text is None or right_text is None:
            return None
        return f"({function} {left_text} {right_text})"

    def number(self, term: Term) -> str | None:
        """Return a number of an assumption."""
        match term:
            case bool():
                return None
            case int():
                return _fraction(Fraction(term))
            case float():
                return _fraction(Fraction(repr(term)))
            case Symbol(name, "real"):
                return self.names.get(Place(name).text)
            case Apply("+" | "-" | "*" as function, (left, right)):
                return self.binary(function, left, right)
            case Apply("neg", (inner,)):
                text = self.number(inner)
                return None if text is None else f"(- {text})"
            case _:
                return None


def contradict(conditions: Sequence[Term], solver: Solver) -> bool:
    """Whether conditions on real symbols are seen never to hold together."""
    numbers = _Numbers(Context(solver, frozenset()), "the assumptions can hold")
    for term in conditions:
        for name in _symbols(term):
            numbers.opaque(Place(name).text)
    texts = [text for term in _conjuncts(conditions) if (text := numbers.condition(term))]
    if not texts:
        return False
    declared = [f"(declare-fun {name} () Real)" for name in numbers.names.values()]
    return solver.ask("the assumptions can hold", texts, (), declared=declared) == "unsat"


def _conjuncts(conditions: Sequence[Term]) -> Iterator[Term]:
    for term in conditions:
        match term:
            case Apply("and", parts):
                yield from _conjuncts(parts)
            case _:
                yield term


def _symbols(term: Term) -> Iterator[str]:
    match term:
        case Symbol(name, "real"):
            yield name
        case Apply(_, arguments):
            for argument in arguments:
                yield from _symbols(argument)


def _fraction(value: Fraction) -> str:
    size = f"{abs(value.numerator)}.0"
    if value.denominator != 1:
        size = f"(/ {size} {value.denominator}.0)"
    return f"(- {size})" if value < 0 else size
