"""Functions of real elements that aren't linear, as powers, exponentials and opaque heads.

Each function takes a sum without outer guards and truth values (see normal/piecewise.py) and the
path on which it is computed, where it notes what must hold for it to have a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import gcd, lcm

from ..normal.arithmetic import definition, power, times, unfolded
from ..normal.context import Context
from ..normal.definedness import Nonempty, Path
from ..normal.interning import abstracted
from ..normal.simplify import simplified
from ..normal.sums import (
    Place,
    Product,
    Sum,
    combined,
    known_number,
    multiplied,
    number,
    scaled,
    separated,
    single,
)
from ..solve.polynomials import FALSE, ZERO, Polynomial, constant, differs
from .bitwise import BITWISE, bit_operands

# The nearest number of a type of reals: in statements on what reaches a jump (discontinuities.py).
ROUNDINGS = frozenset(f"rounded_{name}" for name in ("bfloat16", "float16", "float32", "float64"))
# f(-x) = -f(x)
_ODD = ROUNDINGS | {"erf", "sin", "tan", "asin", "atan", "asinh", "atanh"}
# What is left of a division.
_REMAINDERS = frozenset({"mod", "fmod"})
_EVEN = frozenset({"cos"})
# Without a value at some numbers.
_PARTIAL = frozenset(
    {"tan", "asin", "acos", "acosh", "atanh", "pow", "/", "//", "%", "mod", "fmod"}
)
_AT_ZERO = {
    "erf": 0,
    "sin": 0,
    "tan": 0,
    "asin": 0,
    "atan": 0,
    "asinh": 0,
    "atanh": 0,
    "cos": 1,
    "sign": 0,
    "floor": 0,
    "round": 0,
    **dict.fromkeys(ROUNDINGS, 0),
}
_LARGEST_EXPONENT = 16
# Every type of integers goes as far.
_LEAST_RANGE = 127


def sign(whole: Sum, context: Context) -> int | None:
    """Return 1 for a sum seen to be positive, 0 for one never negative, None for others."""
    whole_number = integral(whole)
    if whole_number is not None and whole_number.opaque:
        least = context.solver.bound(whole_number)
        if least >= 0:
            return 1 if least >= 1 else 0
    positive = False
    for product in whole:
        strict = product.plain
        if product.coefficient < 0:
            return None
        for place, exponent in product.factors.items():
            if context.always_positive(place):
                continue
            strict = False
            if exponent.denominator == 1 and exponent % 2 and not context.never_below_zero(place):
                return None
        positive = positive or strict
    return 1 if positive else 0


def sign_here(whole: Sum, context: Context, path: Path) -> int | None:
    """Return the sign of a sum where it is computed: 1 too for what sums over something."""
    seen = sign(whole, context)
    if seen == 0 and any(
        _strict(product, context) and _runs(product, context, path) for product in whole
    ):
        return 1
    return seen


def _strict(product: Product, context: Context) -> bool:
    return product.coefficient > 0 and all(map(context.always_positive, product.factors))


def _runs(product: Product, context: Context, path: Path) -> bool:
    """Whether a sum has a term: at the least value of each index."""
    guards = [guard.substitute(dict.fromkeys(product.bound, ZERO)) for guard in product.guards]
    return all(context.follows(guard, path.guards) for guard in guards)


def _ask_not_zero(value: Place, whole: Sum, context: Context, path: Path) -> None:
    """Ask that a sum isn't 0; if all its terms are positive, that there is one."""
    if all(_strict(product, context) for product in whole):
        path.ask("holds", Nonempty(tuple((p.bound, p.guards) for p in whole)))
    else:
        _not_zero(value, context, path)


def orientation(whole: Sum) -> int:
    """Return 1 for one of a sum and its negative and -1 for the other, whatever indices are named.

    Where only the names of indices tell the two apart, both are 1.
    """
    totals: dict[tuple[bool, str], Fraction] = {}
    for product in whole:
        heads = " ".join(sorted(f"{place.head}^{e}" for place, e in product.factors.items()))
        key = (not heads, f"{heads} {len(product.bound)}")
        totals[key] = totals.get(key, Fraction(0)) + product.coefficient
    first = next((totals[key] for key in sorted(totals) if totals[key]), Fraction(1))
    return 1 if first > 0 else -1


def content(whole: Sum) -> Fraction:
    """Return a number to divide the coefficients by, so that of x and -x one form is left."""
    above = [abs(product.coefficient.numerator) for product in whole]
    beneath = [product.coefficient.denominator for product in whole]
    size = Fraction(gcd(*above), lcm(*beneath))
    return size * orientation(whole)


def common_powers(whole: Sum, context: Context, only_positive: bool) -> dict[Place, Fraction]:
    """Return powers that may be taken out of a sum that isn't 0.

    Of what is always positive, the least power there is, absent ones counted as 0. Of other
    places, a negative power only if it stands in a product of its own (it isn't 0 then), and a
    positive one only if all products have it.
    """
    places = {place for product in whole for place in product.factors}
    least_powers: dict[Place, Fraction] = {}
    for place in places:
        if any(place.variables & set(product.bound) for product in whole):
            continue
        exponents = [product.factors.get(place, Fraction(0)) for product in whole]
        least = min(exponents)
        if context.always_positive(place):
            least_powers[place] = least
        elif not only_positive and all(exponent.denominator == 1 for exponent in exponents):
            alone = any(p.plain and p.factors.get(place, 0) < 0 for p in whole)
            if least > 0 or (least < 0 and alone):
                least_powers[place] = least
    return {
        place: least_powers[place]
        for place in sorted(least_powers, key=lambda p: p.text)
        if least_powers[place]
    }


def divided_by(
    whole: Sum, common: dict[Place, Fraction], by: Fraction, context: Context
) -> list[Product]:
    """Return a sum divided by powers and by a number, written out."""
    inverse = [(place, -exponent) for place, exponent in common.items()]
    products = []
    for product in whole:
        simple = simplified(
            Product(
                product.coefficient / by,
                product.bound,
                product.guards,
                multiplied([*product.factors.items(), *inverse]),
            ),
            context,
        )
        if simple is not None:
            products.append(simple)
    return unfolded(combined(products), context)


def _not_zero(place: Place, context: Context, path: Path) -> None:
    while place.head.startswith(("abs(", "sign(")):
        place = Place(place.head.partition("(")[2][:-1], place.indices)
    if context.always_positive(place):
        return
    if place.head == "#INT":
        path.ask("holds", differs(place.indices[0], 0))
    else:
        path.ask("nonzero", place)


def _is_positive(place: Place, context: Context, path: Path) -> None:
    if place.head.startswith("abs("):
        path.ask("nonzero", Place(place.head[4:-1], place.indices))
    elif context.never_below_zero(place):
        _not_zero(place, context, path)
    else:
        path.ask("positive", place)


def reciprocal(whole: Sum, context: Context, path: Path) -> list[Product]:
    """Return 1 / x."""
    if not whole:
        path.ask("holds", FALSE)
        return []
    parts = separated(whole[0]) if len(whole) == 1 else []
    if len(parts) > 2 or (len(parts) == 2 and (parts[0].coefficient != 1 or parts[0].factors)):
        result = number(1)
        for part in parts:
            result = times(result, reciprocal([part], context, path), context)
        return result
    scale = content(whole)
    if len(whole) == 1 and whole[0].plain:
        scale, common = whole[0].coefficient, dict(whole[0].factors)
        rest: list[Product] = number(1)
    else:
        common = common_powers(whole, context, only_positive=False)
        rest = divided_by(whole, common, scale, context)
    for place in common:
        _not_zero(place, context, path)
    inverse = Product(1 / scale, (), (), {place: -e for place, e in common.items()})
    if common and known_number(rest) is None:
        return times([inverse], reciprocal(rest, context, path), context)
    value = abstracted(rest, context)
    if isinstance(value, Fraction):
        return [inverse.scaled(1 / value)]
    whole_number = integral(rest)
    if whole_number is not None:
        value = Place("#INT", (whole_number,))
    note_sign(value, context)
    if sign_here(rest, context, path) != 1:
        _ask_not_zero(value, rest, context, path)
    return times([inverse], single(value, -1), context)


def integral(whole: Sum) -> Polynomial | None:
    """Return the integer that a sum of products of integers is."""
    result = ZERO
    for product in whole:
        if not product.plain or product.coefficient.denominator != 1:
            return None
        part = constant(int(product.coefficient))
        for place, exponent in product.factors.items():
            if place.head != "#INT" or exponent.denominator != 1 or exponent < 0:
                return None
            for _ in range(int(exponent)):
                part = part * place.indices[0]
        result = result + part
    return result


def note_sign(value: Place, context: Context) -> None:
    """Remember of an interned sum or largest that it is never 0, or never negative, anywhere."""
    entry = context.interned.get(value.head)
    if entry is None or value.head in context.positive:
        return
    seen: int | None = None
    if entry.kind == "sum":
        seen = sign_here(entry.body, context, Path())
    elif entry.kind == "max":
        signs = {element: sign(_written(element, context), context) for element in entry.body}
        plain = [
            element_sign
            for element, element_sign in signs.items()
            if element.plain and element_sign is not None
        ]
        least = None if None in signs.values() else min(s for s in signs.values() if s is not None)
        seen = max([*plain, *([] if least is None else [least])], default=None)
    if seen == 1:
        context.positive.add(value.head)
    elif seen == 0:
        context.never_negative.add(value.head)


def _written(member: Product, context: Context) -> list[Product]:
    """Return the place of an element of a largest as a sum."""
    (place,) = member.factors
    if place.head.startswith("C:"):
        return number(Fraction(place.head[2:]))
    entry = context.interned.get(place.head)
    return definition(place, context) if entry and entry.kind == "sum" else single(place)


def root(whole: Sum, exponent: Fraction, context: Context, path: Path) -> list[Product]:
    """Return x ^ exponent for an exponent that isn't whole: x must not be negative."""
    if not whole:
        if exponent < 0:
            path.ask("holds", FALSE)
        return []
    if len(whole) == 1 and whole[0].plain:
        return _root_of_product(whole[0], exponent, context, path)
    scale = abs(content(whole))
    common = common_powers(whole, context, only_positive=True)
    rest = divided_by(whole, common, scale, context)
    value = abstracted(rest, context)
    assert not isinstance(value, Fraction)
    seen = sign_here(rest, context, path)
    if seen is None:
        path.ask("nonnegative", value)
    else:
        note_sign(value, context)
    if exponent < 0 and seen != 1:
        _ask_not_zero(value, rest, context, path)
    powers = {place: e * exponent for place, e in common.items()}
    outside = _number_power(scale, exponent)
    factors = multiplied([*powers.items(), *outside[1], (value, exponent)])
    simple = simplified(Product(outside[0], (), (), factors), context)
    return [] if simple is None else [simple]


def _root_of_product(
    product: Product, exponent: Fraction, context: Context, path: Path
) -> list[Product]:
    """Even powers give absolute values; what may be negative stays together under the root.

    So does what may be 0 beside it: y^2 x has a root where y is 0, whatever the sign of x.
    """
    coefficient = product.coefficient
    factors: list[tuple[Place, Fraction]] = []
    inside: list[tuple[Place, Fraction]] = []
    squares: list[tuple[Place, Fraction]] = []
    for place, e in product.factors.items():
        if exponent < 0:
            _not_zero(place, context, path)
        if context.always_positive(place):
            factors.append((place, e * exponent))
        elif e.denominator != 1 or e % 2 == 0 or context.never_below_zero(place):
            squares.append((place, e))
        else:
            inside.append((place, e))
    if len(inside) == 1 and coefficient > 0 and not squares:
        ((place, e),) = inside
        path.ask("nonnegative", place)
        factors.append((place, e * exponent))
    elif inside or coefficient < 0:
        whole = [Product(1 if coefficient > 0 else -1, (), (), dict([*inside, *squares]))]
        value = abstracted(whole, context)
        if isinstance(value, Fraction):
            path.ask("holds", FALSE)
            return []
        path.ask("nonnegative", value)
        factors.append((value, exponent))
    else:
        for place, e in squares:
            even = e.denominator == 1 and e % 2 == 0
            size = absolute_place(place, context) if even else place
            factors.append((size, e * exponent))
    outside = _number_power(abs(coefficient), exponent)
    simple = simplified(Product(outside[0], (), (), multiplied([*factors, *outside[1]])), context)
    return [] if simple is None else [simple]


def _number_power(
    base: Fraction, exponent: Fraction
) -> tuple[Fraction, list[tuple[Place, Fraction]]]:
    """Return a power of a positive number as a number times powers of primes."""
    factors: list[tuple[Place, Fraction]] = []
    coefficient = Fraction(1)
    for whole, side in ((base.numerator, 1), (base.denominator, -1)):
        for prime, count in _primes(whole).items():
            e = count * side * exponent
            if e.denominator == 1:
                coefficient *= Fraction(prime) ** int(e)
            else:
                factors.append((Place(f"N:{prime}"), e))
    return coefficient, factors


def _primes(whole: int) -> dict[int, int]:
    exponents: dict[int, int] = {}
    divisor = 2
    while divisor * divisor <= whole and divisor < 10_000:
        while whole % divisor == 0:
            exponents[divisor] = exponents.get(divisor, 0) + 1
            whole //= divisor
        divisor += 1
    if whole > 1:  # a prime, or large: either way a number of its own
        exponents[whole] = exponents.get(whole, 0) + 1
    return exponents


def absolute_place(place: Place, context: Context) -> Place:
    """Return the place that is the size of an element."""
    if context.never_below_zero(place):
        return place
    head = f"abs({place.head})"
    context.never_negative.add(head)
    return Place(head, place.indices)


def exponential(whole: Sum, context: Context) -> list[Product]:
    """Return exp(x): a product of powers of the exponentials of the terms."""
    factors: list[tuple[Place, Fraction]] = []
    for product in whole:
        argument = abstracted([product.scaled(1 / product.coefficient)], context)
        if isinstance(argument, Fraction):
            factors.append((Place("N:e"), product.coefficient * argument))
            continue
        if argument.head.startswith("log("):
            factors.append((Place(argument.head[4:-1], argument.indices), product.coefficient))
            continue
        head = f"exp({argument.head})"
        context.positive.add(head)
        factors.append((Place(head, argument.indices), product.coefficient))
    return unfolded([Product(1, (), (), multiplied(factors))], context)


def logarithm(whole: Sum, context: Context, path: Path) -> list[Product]:
    """Return log(x): the logarithms of positive factors are added."""
    if not whole:
        path.ask("holds", FALSE)
        return []
    scale = abs(content(whole))
    if len(whole) == 1 and whole[0].plain:
        common = {p: e for p, e in whole[0].factors.items() if context.always_positive(p)}
    else:
        common = common_powers(whole, context, only_positive=True)
    rest = divided_by(whole, common, scale, context)
    result: list[Product] = []
    for place, exponent in (*common.items(), *_number_power_places(scale)):
        result += scaled(_log_place(place, context), exponent)
    value = known_number(rest)
    if value is not None:
        if value != 1:
            path.ask("holds", FALSE)
        return combined(result)
    if len(rest) == 1 and rest[0].plain and rest[0].coefficient == 1 and len(rest[0].factors) == 1:
        ((place, exponent),) = rest[0].factors.items()
        if exponent.denominator == 1 and exponent % 2 == 0:
            _not_zero(place, context, path)
            place = absolute_place(place, context)
        else:
            _is_positive(place, context, path)
        return combined([*result, *scaled(_log_place(place, context), exponent)])
    inner = abstracted(rest, context)
    assert not isinstance(inner, Fraction)
    if sign_here(rest, context, path) == 1:
        note_sign(inner, context)
    elif all(_strict(product, context) for product in rest):
        _ask_not_zero(inner, rest, context, path)
    else:
        _is_positive(inner, context, path)
    return combined([*result, *_log_place(inner, context)])


def _number_power_places(scale: Fraction) -> list[tuple[Place, Fraction]]:
    return [
        (Place(f"N:{prime}"), Fraction(count * side))
        for whole, side in ((scale.numerator, 1), (scale.denominator, -1))
        for prime, count in _primes(whole).items()
    ]


def _log_place(place: Place, context: Context) -> list[Product]:
    if place.head == "N:e":
        return number(1)
    if place.head.startswith("exp("):
        inner = Place(place.head[4:-1], place.indices)
        return unfolded(single(inner), context)
    if place.head.startswith("N:"):  # a number above 1
        context.positive.add(f"log({place.head})")
    return single(Place(f"log({place.head})", place.indices))


def raised(whole: Sum, by: Sum, context: Context, path: Path) -> list[Product]:
    """Return x ^ y: a product for a whole y, a root for a known one, else opaque."""
    exponent = known_number(by)
    if exponent is None:
        return opaque("pow", [whole, by], context, path)
    if exponent.denominator != 1:
        return root(whole, exponent, context, path)
    if abs(exponent) > _LARGEST_EXPONENT and (len(whole) != 1 or whole[0].bound):
        return opaque("pow", [whole, by], context, path)
    if exponent < 0:
        return reciprocal(raised(whole, number(-exponent), context, path), context, path)
    return power(whole, int(exponent), context)


def hyperbolic(function: str, whole: Sum, context: Context, path: Path) -> list[Product]:
    """Return sinh, cosh or tanh by exponentials."""
    if orientation(whole) < 0:
        flipped = hyperbolic(function, scaled(whole, -1), context, path)
        return flipped if function == "cosh" else scaled(flipped, -1)
    up, down = exponential(whole, context), exponential(scaled(whole, -1), context)
    if function == "tanh":  # 1 - 2 / (exp(2 x) + 1)
        square = exponential(scaled(whole, 2), context)
        inverse = reciprocal(combined([*square, *number(1)]), context, path)
        return combined([*number(1), *scaled(inverse, -2)])
    return scaled(combined([*up, *scaled(down, 1 if function == "cosh" else -1)]), Fraction(1, 2))


def fixes_zero(function: str) -> bool:
    """Whether a function is known to be 0 at 0."""
    return _AT_ZERO.get(function) == 0


def _divided(function: str, whole: Sum, context: Context) -> tuple[Place, Fraction] | None:
    """Return x and c where a value is a division of x by a known number c, or what that leaves."""
    value = abstracted(whole, context)
    if isinstance(value, Fraction) or not value.head.startswith(f"{function}("):
        return None
    inner, _, number_ = value.head[len(function) + 1 : -1].rpartition(";C:")
    head, _, places = inner.rpartition("|")
    if not places.isdigit() or int(places) != len(value.indices):
        return None
    try:
        return Place(head, value.indices), Fraction(number_)
    except ValueError:  # the divisor is no number: one stands in it
        return None


def _twice_divided(
    function: str, whole: Sum, by: Fraction, context: Context, path: Path
) -> list[Product] | None:
    """Return what is left of dividing by one known number, then by another; None for no law.

    A remainder is its own where the second divisor is larger, of the same sign unless the remainder
    has that of the dividend (fmod); where it divides the first one, only the second one counts.
    Quotients that are cut off multiply: the numbers are above 0, and every type has the product.
    """
    division = _divided(function, whole, context)
    if division is None or by == 0 or division[1] == 0:
        return None
    inner, first = division
    if function == "/":
        if min(first, by) < 1 or first * by > _LEAST_RANGE or (first * by).denominator != 1:
            return None
        return opaque(function, [single(inner), number(first * by)], context, path)
    if abs(by) >= abs(first) and (function == "fmod" or (by > 0) == (first > 0)):
        return list(whole)
    if (first / by).denominator == 1:
        return opaque(function, [single(inner), number(by)], context, path)
    return None


def opaque(function: str, arguments: Sequence[Sum], context: Context, path: Path) -> list[Product]:
    """Return a function of which only a few values and its symmetry are known."""
    if len(arguments) == 1 and function in _ODD | _EVEN:
        (whole,) = arguments
        if not whole and _AT_ZERO.get(function) is not None:
            return number(Fraction(_AT_ZERO[function] or 0))
        if orientation(whole) < 0:
            flipped = opaque(function, [scaled(whole, -1)], context, path)
            return flipped if function in _EVEN else scaled(flipped, -1)
    by = known_number(arguments[1]) if len(arguments) == 2 else None
    # quotients of reals are products, and no function that is opaque
    if by is not None and function in _REMAINDERS | {"/"}:
        law = _twice_divided(function, arguments[0], by, context, path)
        if law is not None:
            return law
    values = [abstracted(argument, context) for argument in arguments]
    if function in BITWISE:
        values = bit_operands(function, values, context)
        if len(values) < 2:
            (operand,) = values or [Fraction(0)]
            return number(operand) if isinstance(operand, Fraction) else single(operand)
    heads: list[str] = []
    indices: list[Polynomial] = []
    for value in values:
        if isinstance(value, Fraction):
            heads.append(f"C:{value}")
        else:
            heads.append(f"{value.head}|{len(value.indices)}" if len(values) > 1 else value.head)
            indices += value.indices
    place = Place(f"{function}({';'.join(heads)})", tuple(indices))
    if function in BITWISE:
        context.bitwise[place] = (function, tuple(values))
    # dividing by -1 leaves the range of integers at their least
    divides = function in _REMAINDERS | {"/"} and by is not None and by not in (0, -1)
    if function in _PARTIAL and not divides:
        path.ask("domain", place)
    return single(place)
