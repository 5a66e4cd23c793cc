"""Functions of elements: arithmetic, conversions between types, and what is opaque."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from ...catalog.operators.terms import Apply, Read, Term
from . import functions
from .arithmetic import definition, integer_sum, plus, power, times
from .choices import by_cases, chosen
from .constraint import at_least
from .definedness import Path
from .extremes import extreme_of
from .integers import Indices
from .kinds import INTEGERS, reads_elements
from .monotone import Element, element_of
from .normal import Place, Product, Sum, known_number, number, scaled, single
from .polynomial import atom
from .rounded import rounded
from .signum import absolute, signum
from .space import UndecidedError
from .statement import Algebra
from .truths import Truths
from .virtual import abstracted

# No type that is shifted has fewer; by as many or more, kernels don't agree on what a shift is.
_LEAST_BITS = 8


class Elementwise(Truths):
    """Lowers functions applied to elements, case by case of their arguments."""

    def _apply(
        self,
        function: str,
        arguments: Sequence[Term],
        indices: Indices,
        algebra: Algebra,
        path: Path,
    ) -> list[Product]:
        if function == "real" or function.startswith("to_"):
            return self._convert(function, arguments[0], indices, algebra, path)
        if algebra == "boolean":
            raise UndecidedError(f"{function} of truth values")
        parts = [self._argument(one, function, indices, algebra, path) for one in arguments]
        match function:
            case "+":
                return plus(parts[0], parts[1])
            case "-":
                return plus(parts[0], scaled(parts[1], -1))
            case "neg":
                return scaled(parts[0], -1)
            case "*":
                return times(parts[0], parts[1], self.space)
            case "max" | "min":
                if algebra == "integer":
                    return self._larger(function, parts, path)
                return self._extreme(function, parts, path)
        if algebra == "integer":
            return self._integer(function, parts, path)
        return self._real(function, parts, arguments, path)

    def _argument(
        self, term: Term, function: str, indices: Indices, algebra: Algebra, path: Path
    ) -> list[Product]:
        """Return an argument in the algebra of the result; an exponent may be of another."""
        if algebra == "integer" and function == "pow" and self.kind(term) == "real":
            return self.value(term, indices, "real", path)
        return self.value(term, indices, algebra, path)

    def _convert(
        self, function: str, inner: Term, indices: Indices, algebra: Algebra, path: Path
    ) -> list[Product]:
        """Return a conversion between types. That of truth values gives 0 and 1.

        Integers are exact as reals. Between integers, only the composition of conversions is
        known: what every element keeps its value in may be left out. So may every type of real
        numbers, between integers of 8 bits.
        """
        kind = self.kind(inner)
        if kind == "boolean":
            return self.number(self.truth(inner, indices, path))
        whole = self.value(inner, indices, kind, path)
        if algebra == "real":
            if kind == "real":
                return whole
            if self.is_index(inner) and not reads_elements(inner):
                return integer_sum(self.index(inner, indices, path))
            return by_cases(whole, self.space, path, self._as_real)
        name = function[3:]
        if self._small(whole):
            return whole

        def convert(part: Sum, deeper: Path) -> list[Product]:
            if kind == "real" and (kept := self._of_eight_bits(part, name)) is not None:
                return kept
            if kind == "integer":
                value = abstracted(part, self.space)
                if isinstance(value, Place) and value.head in self.space.exact:
                    head, type_ = self.space.exact[value.head]
                    part = single(Place(head, value.indices))
                    if type_ == name:
                        return part
            found = functions.opaque(function, [part], self.space, deeper)
            if kind == "real" and _lies_within(inner, name):
                self.space.saturated.update(place.head for one in found for place in one.factors)
            if kind == "integer" and self._widens(inner, name):
                value = abstracted(part, self.space)
                head = next(iter(found[0].factors)).head
                if isinstance(value, Place) and isinstance(inner, Read):
                    self.space.exact.setdefault(head, (value.head, self.types[inner.tensor]))
            return found

        return by_cases(whole, self.space, path, convert)

    def _of_eight_bits(self, whole: Sum, name: str) -> list[Product] | None:
        """Return the element of 8 bits that a real number is, where an integer type holds it.

        Every type of real numbers has the integers up to 256, so that none is rounded on the way.
        """
        if len(whole) != 1 or not whole[0].plain or whole[0].coefficient != 1:
            return None
        factors = whole[0].factors
        place = next(iter(factors), None)
        if place is None or factors != {place: 1} or place.head != "#INT":
            return None
        atoms = list(place.indices[0].opaque.values())
        if len(atoms) != 1 or atom(atoms[0]) != place.indices[0]:
            return None
        kind, _, tensor = atoms[0].function.partition(":")
        own = self.types.get(tensor, "") if kind == "read" else ""
        if own not in ("int8", "uint8") or name not in INTEGERS:
            return None
        (least, most), (low, high) = INTEGERS[own], INTEGERS[name]
        return single(Place(tensor, atoms[0].arguments)) if low <= least and most <= high else None

    def _as_real(self, whole: Sum, path: Path) -> list[Product]:
        """Return an integer as a real number; that of the largest is the largest of those."""
        if self._small(whole):
            return list(whole)
        place = abstracted(whole, self.space)
        virtual = None if isinstance(place, Fraction) else self.space.virtuals.get(place.head)
        if virtual is None or virtual.kind not in ("most", "least"):
            return integer_sum(self._element(whole))
        assert isinstance(place, Place)
        side = 1 if virtual.kind == "most" else -1
        elements = []
        for part in definition(place, self.space):
            one = element_of(self.space.renamed(part), self.space)
            inner = path.inner(one.guards)
            real = by_cases(one.whole, self.space, inner, self._as_real)
            elements.append(one.of(scaled(real, side)))
        # that there is an element was asked for where the largest integer was formed
        return scaled(extreme_of("max", elements, self.space, Path()), side)

    def _widens(self, inner: Term, name: str) -> bool:
        """Whether a conversion keeps the value of whatever the term reads."""
        if not isinstance(inner, Read):
            return False
        own = self.types.get(inner.tensor)
        if own is None or own not in INTEGERS or name not in INTEGERS:
            return False
        low, high = INTEGERS[own]
        return INTEGERS[name][0] <= low and high <= INTEGERS[name][1]

    def _extreme(self, function: str, parts: Sequence[Sum], path: Path) -> list[Product]:
        if self.by_order:
            one, two = parts if function == "max" else reversed(parts)
            above = self._above_zero(plus(parts[0], scaled(parts[1], -1)), path)
            return chosen(above, one, two, self.space)
        if function == "min":
            flipped = [Element((), (), scaled(part, -1)) for part in parts]
            return scaled(extreme_of("max", flipped, self.space, path), -1)
        return extreme_of("max", [Element((), (), part) for part in parts], self.space, path)

    def _larger(self, function: str, parts: Sequence[Sum], path: Path) -> list[Product]:
        """Return the larger or smaller of two integers, chosen by comparing them as they are."""
        space = self.space

        def outer(one: Sum, path: Path) -> list[Product]:
            def inner(two: Sum, path: Path) -> list[Product]:
                first, second = self._element(one), self._element(two)
                truth = at_least(first, second)
                if function == "min":
                    truth = at_least(second, first)
                return [*self._under(one, truth), *self._under(two, truth.negation)]

            return by_cases(parts[1], space, path, inner)

        return by_cases(parts[0], space, path, outer)

    def _integer(self, function: str, parts: Sequence[Sum], path: Path) -> list[Product]:
        """Return a function of integers modulo a power of two; most are opaque."""
        by = known_number(parts[1]) if len(parts) == 2 else None
        if function in ("/", "pow") and by == 1:
            return list(parts[0])
        if function.startswith("shift_") and by in range(_LEAST_BITS):
            power_of_two = Fraction(2) ** int(by or 0)
            if function == "shift_left":
                return scaled(parts[0], power_of_two)
            return self._integer("/", [parts[0], number(power_of_two)], path)
        if function == "pow" and by is not None and by.denominator == 1 and 0 <= by <= 8:
            return power(parts[0], int(by), self.space)
        if function == "abs" and len(parts[0]) == 1:
            (one,) = parts[0]
            heads = [place.head for place in one.factors]
            alone = one.plain and one.coefficient == 1 and len(heads) == 1
            if (
                alone
                and heads[0].startswith("size(")
                and set(one.factors.values()) == {Fraction(1)}
            ):
                return list(parts[0])  # also for the least integer, which is its own size
        # modulo a power of two, the order doesn't respect sums: no law of reals may apply
        names = {"abs": "size", "sign": "side"}
        return self._opaque(names.get(function, function), parts, path)

    def _real(
        self, function: str, parts: Sequence[Sum], arguments: Sequence[Term], path: Path
    ) -> list[Product]:
        space = self.space
        match function:
            case "/":
                seen = self.signs.of(arguments[1])
                inverse = by_cases(
                    parts[1],
                    space,
                    path.granted() if seen == 1 else path,
                    lambda whole, inner: functions.reciprocal(whole, space, inner),
                )
                return times(parts[0], inverse, space)
            case "exp":
                return by_cases(
                    parts[0], space, path, lambda whole, _: functions.exponential(whole, space)
                )
            case "log":
                seen = self.signs.of(arguments[0])
                return by_cases(
                    parts[0],
                    space,
                    path.granted() if seen == 1 else path,
                    lambda whole, inner: functions.logarithm(whole, space, inner),
                )
            case "sqrt":
                seen = self.signs.of(arguments[0])
                return by_cases(
                    parts[0],
                    space,
                    path.granted() if seen is not None else path,
                    lambda whole, inner: functions.root(whole, Fraction(1, 2), space, inner),
                )
            case "abs" if self.by_order:
                above = self._above_zero(parts[0], path)
                return chosen(above, parts[0], scaled(parts[0], -1), space)
            case "abs":
                return by_cases(parts[0], space, path, lambda whole, _: absolute(whole, space))
            case "sign":
                return by_cases(parts[0], space, path, lambda whole, _: signum(whole, space))
            case "floor" | "ceil" | "round":
                return by_cases(
                    parts[0],
                    space,
                    path,
                    lambda whole, inner: rounded(function, whole, space, inner),
                )
            case "tanh" | "sinh" | "cosh":
                return by_cases(
                    parts[0],
                    space,
                    path,
                    lambda whole, inner: functions.hyperbolic(function, whole, space, inner),
                )
            case "pow":
                return self._power(parts, path)
            case _:
                return self._opaque(function, parts, path)

    def _power(self, parts: Sequence[Sum], path: Path) -> list[Product]:
        space = self.space

        def outer(by: Sum, path: Path) -> list[Product]:
            return by_cases(
                parts[0],
                space,
                path,
                lambda whole, inner: functions.raised(whole, by, space, inner),
            )

        return by_cases(parts[1], space, path, outer)

    def _opaque(self, function: str, parts: Sequence[Sum], path: Path) -> list[Product]:
        """Apply an opaque function by the cases of all its arguments."""
        space = self.space

        def step(done: list[Sum], path: Path) -> list[Product]:
            if len(done) == len(parts):
                return functions.opaque(function, done, space, path)
            return by_cases(
                parts[len(done)], space, path, lambda whole, inner: step([*done, whole], inner)
            )

        return step([], path)


def _lies_within(term: Term, name: str) -> bool:
    """Whether the form of a real number shows that it lies in the range of a type of integers."""
    match term:
        case Apply("min", (Apply("max", (_, int() as low)), int() as high)):
            limits = INTEGERS.get(name)
            return limits is not None and limits[0] <= low and high <= limits[1]
        case _:
            return False
