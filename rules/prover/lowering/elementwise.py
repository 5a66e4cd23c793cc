"""Functions of elements: arithmetic, conversions between types, and what is opaque."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from ....catalog.terms.index_notation import Apply, Read, Term
from ..functions import elementary
from ..functions.extrema import extreme_of
from ..functions.monotone import Element, element_of
from ..functions.rounding_and_sign import absolute, rounded, signum
from ..normal.arithmetic import definition, integer_sum, plus, times
from ..normal.context import UndecidedError
from ..normal.definedness import Path
from ..normal.interning import abstracted
from ..normal.piecewise import by_cases, choose
from ..normal.sums import Place, Product, Sum, known_number, number, scaled, single
from ..solve.polynomials import at_least, atom
from ..statement import Algebra
from .integers import Indices, Truths
from .term_kinds import INTEGERS, reads_elements

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
        parts = [
            self._argument(argument, function, indices, algebra, path) for argument in arguments
        ]
        match function:
            case "+":
                return plus(parts[0], parts[1])
            case "-":
                return plus(parts[0], scaled(parts[1], -1))
            case "neg":
                return scaled(parts[0], -1)
            case "*":
                return times(parts[0], parts[1], self.context)
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
            return by_cases(whole, self.context, path, self._as_real)
        name = function[3:]
        if self._small(whole):
            return whole

        def convert(part: Sum, deeper: Path) -> list[Product]:
            if kind == "real" and (kept := self._of_eight_bits(part, name)) is not None:
                return kept
            if kind == "integer":
                value = abstracted(part, self.context)
                if isinstance(value, Place) and value.head in self.context.exact:
                    head, type_ = self.context.exact[value.head]
                    part = single(Place(head, value.indices))
                    if type_ == name:
                        return part
            products = elementary.opaque(function, [part], self.context, deeper)
            if kind == "real" and _lies_within(inner, name):
                self.context.saturated.update(
                    place.head for product in products for place in product.factors
                )
            if kind == "integer" and self._widens(inner, name):
                value = abstracted(part, self.context)
                head = next(iter(products[0].factors)).head
                if isinstance(value, Place) and isinstance(inner, Read):
                    self.context.exact.setdefault(head, (value.head, self.types[inner.tensor]))
            return products

        return by_cases(whole, self.context, path, convert)

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
        tensor_type = self.types.get(tensor, "") if kind == "read" else ""
        if tensor_type not in ("int8", "uint8") or name not in INTEGERS:
            return None
        (least, most), (low, high) = INTEGERS[tensor_type], INTEGERS[name]
        return single(Place(tensor, atoms[0].arguments)) if low <= least and most <= high else None

    def _as_real(self, whole: Sum, path: Path) -> list[Product]:
        """Return an integer as a real number; that of the largest is the largest of those."""
        if self._small(whole):
            return list(whole)
        place = abstracted(whole, self.context)
        entry = None if isinstance(place, Fraction) else self.context.interned.get(place.head)
        if entry is None or entry.kind not in ("most", "least"):
            return integer_sum(self._element(whole))
        assert isinstance(place, Place)
        side = 1 if entry.kind == "most" else -1
        elements = []
        for part in definition(place, self.context):
            element = element_of(self.context.renamed(part), self.context)
            inner = path.inner(element.guards)
            real = by_cases(element.whole, self.context, inner, self._as_real)
            elements.append(element.of(scaled(real, side)))
        # that there is an element was asked for where the largest integer was formed
        return scaled(extreme_of("max", elements, self.context, Path()), side)

    def _widens(self, inner: Term, name: str) -> bool:
        """Whether a conversion keeps the value of whatever the term reads."""
        if not isinstance(inner, Read):
            return False
        tensor_type = self.types.get(inner.tensor)
        if tensor_type is None or tensor_type not in INTEGERS or name not in INTEGERS:
            return False
        low, high = INTEGERS[tensor_type]
        return INTEGERS[name][0] <= low and high <= INTEGERS[name][1]

    def _extreme(self, function: str, parts: Sequence[Sum], path: Path) -> list[Product]:
        if self.by_order:
            when_above, when_below = parts if function == "max" else reversed(parts)
            above = self._above_zero(plus(parts[0], scaled(parts[1], -1)), path)
            return choose(above, when_above, when_below, self.context)
        if function == "min":
            flipped = [Element((), (), scaled(part, -1)) for part in parts]
            return scaled(extreme_of("max", flipped, self.context, path), -1)
        return extreme_of("max", [Element((), (), part) for part in parts], self.context, path)

    def _larger(self, function: str, parts: Sequence[Sum], path: Path) -> list[Product]:
        """Return the larger or smaller of two integers, chosen by comparing them as they are."""
        context = self.context

        def outer(left: Sum, path: Path) -> list[Product]:
            def inner(right: Sum, path: Path) -> list[Product]:
                first, second = self._element(left), self._element(right)
                truth = at_least(first, second)
                if function == "min":
                    truth = at_least(second, first)
                return [*self._under(left, truth), *self._under(right, truth.negation)]

            return by_cases(parts[1], context, path, inner)

        return by_cases(parts[0], context, path, outer)

    def _integer(self, function: str, parts: Sequence[Sum], path: Path) -> list[Product]:
        """Return a function of integers modulo a power of two; most are opaque.

        Powers are: ONNX Runtime takes them as floating-point numbers and saturates.
        """
        by = known_number(parts[1]) if len(parts) == 2 else None
        if function == "/" and by == 1:
            return list(parts[0])
        if function == "bit_not":  # in two's complement
            return plus(number(Fraction(-1)), scaled(parts[0], -1))
        if function.startswith("shift_") and by in range(_LEAST_BITS):
            power_of_two = Fraction(2) ** int(by or 0)
            if function == "shift_left":
                return scaled(parts[0], power_of_two)
            return self._integer("/", [parts[0], number(power_of_two)], path)
        if function == "abs" and len(parts[0]) == 1:
            (product,) = parts[0]
            heads = [place.head for place in product.factors]
            alone = product.plain and product.coefficient == 1 and len(heads) == 1
            if (
                alone
                and heads[0].startswith("size(")
                and set(product.factors.values()) == {Fraction(1)}
            ):
                return list(parts[0])  # also for the least integer, which is its own size
        # modulo a power of two, the order doesn't respect sums: no law of reals may apply
        names = {"abs": "size", "sign": "side"}
        return self._opaque(names.get(function, function), parts, path)

    def _real(
        self, function: str, parts: Sequence[Sum], arguments: Sequence[Term], path: Path
    ) -> list[Product]:
        context = self.context
        match function:
            case "/":
                seen = self.signs.of(arguments[1])
                inverse = by_cases(
                    parts[1],
                    context,
                    path.granted() if seen == 1 else path,
                    lambda whole, inner: elementary.reciprocal(whole, context, inner),
                )
                return times(parts[0], inverse, context)
            case "exp":
                return by_cases(
                    parts[0], context, path, lambda whole, _: elementary.exponential(whole, context)
                )
            case "log":
                seen = self.signs.of(arguments[0])
                return by_cases(
                    parts[0],
                    context,
                    path.granted() if seen == 1 else path,
                    lambda whole, inner: elementary.logarithm(whole, context, inner),
                )
            case "sqrt":
                seen = self.signs.of(arguments[0])
                return by_cases(
                    parts[0],
                    context,
                    path.granted() if seen is not None else path,
                    lambda whole, inner: elementary.root(whole, Fraction(1, 2), context, inner),
                )
            case "abs" if self.by_order:
                above = self._above_zero(parts[0], path)
                return choose(above, parts[0], scaled(parts[0], -1), context)
            case "abs":
                return by_cases(parts[0], context, path, lambda whole, _: absolute(whole, context))
            case "sign":
                return by_cases(parts[0], context, path, lambda whole, _: signum(whole, context))
            case "floor" | "ceil" | "round":
                return by_cases(
                    parts[0],
                    context,
                    path,
                    lambda whole, inner: rounded(function, whole, context, inner),
                )
            case "tanh" | "sinh" | "cosh":
                return by_cases(
                    parts[0],
                    context,
                    path,
                    lambda whole, inner: elementary.hyperbolic(function, whole, context, inner),
                )
            case "pow":
                return self._power(parts, path)
            case _:
                return self._opaque(function, parts, path)

    def _power(self, parts: Sequence[Sum], path: Path) -> list[Product]:
        context = self.context

        def outer(by: Sum, path: Path) -> list[Product]:
            return by_cases(
                parts[0],
                context,
                path,
                lambda whole, inner: elementary.raised(whole, by, context, inner),
            )

        return by_cases(parts[1], context, path, outer)

    def _opaque(self, function: str, parts: Sequence[Sum], path: Path) -> list[Product]:
        """Apply an opaque function by the cases of all its arguments."""
        context = self.context

        def step(done: list[Sum], path: Path) -> list[Product]:
            if len(done) == len(parts):
                return elementary.opaque(function, done, context, path)
            return by_cases(
                parts[len(done)], context, path, lambda whole, inner: step([*done, whole], inner)
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
