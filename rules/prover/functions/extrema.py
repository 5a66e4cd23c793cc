"""The largest and smallest of elements: guarded sets of places.

max(a, max(b, c)), max over two axes, and max with guards are one set each. Sets are equal if every
place of one is in the other. Over the reals, min is -max of the negated elements; integers modulo a
power of two have no such law, and keep both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from ..normal.arithmetic import definition, guarded, plus, tidy, times, unfolded
from ..normal.coefficients import place_of
from ..normal.context import Context, UndecidedError
from ..normal.definedness import Nonempty, Path
from ..normal.interning import abstracted, interned
from ..normal.piecewise import cases_of, choose, outer_guard, outer_truth, under_truth
from ..normal.simplify import simplified
from ..normal.sums import (
    Place,
    Product,
    Sum,
    argument_of,
    canonical,
    function_of,
    multiplied,
    number,
    scaled,
    separated,
    single,
)
from ..solve.polynomials import FALSE, ZERO, Constraint, Polynomial, variable, within
from . import elementary
from .monotone import Element, element_of, layer_of, undominated
from .monotone_composition import composed

_MOST_CASES = 64


def extreme_of(
    kind: str, elements: Sequence[Element], context: Context, path: Path
) -> list[Product]:
    """Return the max, any or prod of elements; `kind` says which.

    most and least are the max and min of integers."""
    for element in elements:
        bound_names = set(element.bound)
        place = outer_truth(element.whole, context)
        if place is None or not place.variables.isdisjoint(bound_names):
            continue
        sides = []
        for value in (True, False):
            some = [
                Element(e.bound, e.guards, under_truth(e.whole, place, value, context))
                for e in elements
            ]
            sides.append(extreme_of(kind, some, context, path.inner((), ((place, value),))))
        return choose(single(place), sides[0], sides[1], context)
    products: list[Product] = []
    if kind == "max":
        elements = undominated(elements, False, context)
    for element in elements:
        products += _members(kind, element, context)
    return _by_guards(kind, products, context, path, [0])


def _members(kind: str, element: Element, context: Context) -> list[Product]:
    """Return an element as products of one place each, by the cases of its guards."""
    members: list[Product] = []

    def note(whole: Sum, inner: Path) -> None:
        if kind == "prod" and len(whole) == 1 and whole[0].plain and len(whole[0].factors) > 1:
            for part in _parts(whole[0]):  # the product of products is one of all their factors
                note([part], inner)
            return
        if kind == "prod" and _is_exponential(whole):
            factors = whole[0].factors
            members.append(context.renamed(Product(1, element.bound, inner.guards, factors)))
            return
        value = abstracted(whole, context)
        place = Place(f"C:{value}") if isinstance(value, Fraction) else value
        member = Product(1, element.bound, inner.guards, {place: Fraction(1)})
        entry = context.interned.get(place.head)
        if entry is not None and entry.kind == kind:
            for part in definition(place, context):
                both = Product(
                    1, (*element.bound, *part.bound), (*inner.guards, *part.guards), part.factors
                )
                members.append(context.renamed(both))
        else:
            members.append(context.renamed(member))

    _all_cases(element.whole, context, Path(element.guards), note)
    simple = (simplified(member, context, count=False) for member in members)
    return [member for member in simple if member is not None]


def _parts(product: Product) -> list[Product]:
    """Return the number and the powers that are the factors of a product."""
    parts = [Product(1, (), (), {place: e}) for place, e in product.factors.items()]
    return parts if product.coefficient == 1 else [Product(product.coefficient), *parts]


def _all_cases(
    whole: Sum, context: Context, path: Path, note: Callable[[Sum, Path], object]
) -> None:
    """Apply a function in each case of the outer guards; truth values stay as they are."""
    guard = outer_guard(whole, path)
    if guard is None:
        bare = tidy((product.without(path.guards) for product in whole), context)
        note(bare, path)
        return
    for inner, _, kept in cases_of(guard, whole, context, path):
        _all_cases(kept, context, inner, note)


def _by_guards(
    kind: str, members: Sequence[Product], context: Context, path: Path, count: list[int]
) -> list[Product]:
    """Split by guards that say nothing of the bound indices."""
    count[0] += 1
    if count[0] > _MOST_CASES:
        raise UndecidedError(f"a {kind} of more than {_MOST_CASES} cases")
    guard = outer_guard(members, path)
    if guard is None:
        return _interned(kind, [m.without(path.guards) for m in members], context, path)
    result: list[Product] = []
    for inner, case_guards, kept in cases_of(guard, members, context, path):
        result += guarded(_by_guards(kind, kept, context, inner, count), case_guards, context)
    return result


def _interned(kind: str, members: Sequence[Product], context: Context, path: Path) -> list[Product]:
    members = _without_repeats(kind, members)
    plain = [member for member in members if member.plain]
    if not plain and kind in ("max", "most", "least"):
        _nonempty(members, context, path)
        if len({_where(member).text for member in members}) == 1:
            members = _without_repeats(kind, [_of_what_is_read(member) for member in members])
            plain = [member for member in members if member.plain]
    if not members:
        return number(1) if kind == "prod" else []
    if len(members) == 1 and plain:
        return list(element_of(members[0], context).whole)
    if kind == "max":
        return _largest([element_of(member, context) for member in members], context)
    if (rising := _conversion(members, context)) is not None:
        inner = [
            Element(m.bound, m.guards, unfolded(single(argument_of(place_of(m))), context))
            for m in members
        ]
        largest = _largest(inner, context, least=kind == "least")
        (converted,) = elementary.opaque(rising, [largest], context, path)
        context.saturated.update(place.head for place in converted.factors)
        return [converted]
    if kind == "prod":
        return _product(members, context)
    return single(interned(kind, members, context))


def _conversion(members: Sequence[Product], context: Context) -> str | None:
    """Return the one conversion to integers that all members are, if it rises where they are."""
    heads = [place_of(member).head for member in members]
    if not all(head in context.saturated for head in heads):
        return None
    names = {function_of(place_of(member)) for member in members}
    return names.pop() if len(names) == 1 else None


def _is_exponential(whole: Sum) -> bool:
    """Whether a sum is a power of one exponential."""
    return (
        len(whole) == 1
        and whole[0].plain
        and whole[0].coefficient == 1
        and [place.head[:4] for place in whole[0].factors] == ["exp("]
    )


def _product(members: Sequence[Product], context: Context) -> list[Product]:
    """Return the product of elements: that of exponentials is the exponential of a sum."""
    exponents: list[Product] = []
    others: dict[str, list[Product]] = {}
    for member in members:
        ((place, exponent),) = member.factors.items()
        if place.head.startswith("exp("):
            exponents.append(
                Product(exponent, member.bound, member.guards, {argument_of(place): Fraction(1)})
            )
        else:
            others.setdefault(place.head, []).append(member)
    places = [interned("prod", some, context) for some in others.values()]
    products = [Product(1, (), (), multiplied((place, Fraction(1)) for place in places))]
    if exponents:
        total = unfolded(tidy(exponents, context), context)
        products = times(products, elementary.exponential(total, context), context)
    return products


def _largest(
    elements: Sequence[Element], context: Context, *, least: bool = False
) -> list[Product]:
    """Return the largest, or least, of elements of which one is there."""
    context.deadline()
    elements = undominated(elements, least, context)
    spread = [part for element in elements for part in _spread(element, least, context)]
    if len(spread) > len(elements):
        elements = undominated(spread, least, context)
    if len(elements) == 1 and elements[0].plain:
        return list(elements[0].whole)
    if len(elements) == 1 and (summands := _summands(elements[0])) is not None:
        # each index is chosen by itself
        return [part for summand in summands for part in _largest([summand], context, least=least)]
    layer = layer_of(elements, context) or composed(
        elements, context, lambda inner: _largest(inner, context)
    )
    if layer is not None:
        return layer.outside(_largest(layer.inner, context, least=least != layer.flips))
    sign = -1 if least else 1
    members = []
    for element in elements:
        value = abstracted(scaled(element.whole, sign), context)
        place = Place(f"C:{value}") if isinstance(value, Fraction) else value
        simple = simplified(
            Product(1, element.bound, element.guards, {place: Fraction(1)}), context, count=False
        )
        if simple is not None:
            members.append(context.renamed(simple))
    members = _without_repeats("max", members)
    if len(members) == 1 and members[0].plain:
        return scaled(element_of(members[0], context).whole, sign)
    largest = interned("max", members, context)
    elementary.note_sign(largest, context)
    return scaled(single(largest), sign)


def _summands(element: Element) -> list[Element] | None:
    """Return elements, over indices that share nothing, of which an element is the sum.

    None where it is no sum of such. Every index is one that has a value.
    """
    bound_names = set(element.bound)
    if any(guard.variables.isdisjoint(bound_names) for guard in element.guards):
        return None
    groups: list[set[str]] = []
    wholes = [product.variables & bound_names for product in element.whole]
    for names in (*(guard.variables & bound_names for guard in element.guards), *wholes):
        joined = [group for group in groups if group & names]
        groups = [group for group in groups if not group & names]
        groups += [set(names).union(*joined)] if names else []
    used = [group for group in groups if any(group & names for names in wholes)]
    if len(used) < 2:
        return None
    summands = []
    for position, group in enumerate(used):
        whole = [
            product
            for product, names in zip(element.whole, wholes, strict=True)
            if group & names or (not names and position == 0)
        ]
        bound = tuple(name for name in element.bound if name in group)
        guards = tuple(guard for guard in element.guards if guard.variables & group)
        summands.append(Element(bound, guards, whole))
    return summands


def _spread(element: Element, least: bool, context: Context) -> list[Element]:
    """Return an element that has one largest in it as the elements over which that one runs."""
    extremes = [
        (product, place)
        for product in element.whole
        for place in product.factors
        if place.head in context.interned and context.interned[place.head].kind == "max"
    ]
    if len(extremes) != 1:
        return [element]
    ((product, place),) = extremes
    factors = {other: e for other, e in product.factors.items() if other != place}
    outer = [Product(product.coefficient, product.bound, product.guards, factors)]
    sign = -1 if least else 1
    if not product.plain or product.factors[place] != 1:
        return [element]
    if elementary.sign(scaled(outer, sign), context) is None:
        return [element]
    rest = [term for term in element.whole if term is not product]
    elements = []
    for part in definition(place, context):
        new_element = element_of(part, context)
        elements.append(
            Element(
                (*element.bound, *new_element.bound),
                (*element.guards, *new_element.guards),
                plus(times(outer, new_element.whole, context), rest),
            )
        )
    return elements


def _without_repeats(kind: str, members: Sequence[Product]) -> list[Product]:
    if kind == "prod":
        return list(members)
    by_text = {canonical(member): member for member in members}
    constants = [m for m in by_text.values() if m.plain and place_of(m).head.startswith("C:")]
    if len(constants) > 1:

        def value(member: Product) -> Fraction:
            return Fraction(place_of(member).head[2:])

        best = min(constants, key=value) if kind == "least" else max(constants, key=value)
        return [m for m in by_text.values() if m not in constants or m is best]
    return list(by_text.values())


def _nonempty(members: Sequence[Product], context: Context, path: Path) -> None:
    """Ask for an element to be there, unless the least indices are seen to be one."""
    for member in members:
        guards = [guard.substitute(_zeros(member)) for guard in member.guards]
        if all(context.follows(guard, path.guards) for guard in guards):
            return
    if not members:
        path.ask("holds", FALSE)
        return
    cases = {_where(member).text: member for member in members}
    if len(cases) > 1:
        path.ask("holds", Nonempty(tuple((m.bound, m.guards) for m in cases.values())))
        return
    for piece in (part for member in cases.values() for part in separated(member)):
        ranges = {part for name in piece.bound for part in _range(name, context)}
        if not piece.bound or set(piece.guards) <= ranges:  # each index has a value if 0 is one
            for guard in piece.guards:
                path.ask("holds", guard.substitute(_zeros(piece)))
        else:
            path.ask("holds", Nonempty(((piece.bound, piece.guards),)))


def _where(member: Product) -> Nonempty:
    return Nonempty(((member.bound, member.guards),))


def _of_what_is_read(member: Product) -> Product:
    """Return a member without indices that its place doesn't read; they are known to have values.

    Where they haven't, there is no largest element.
    """
    whole = Product(1)
    for part in separated(member):
        if part.factors:
            bound, guards = (*whole.bound, *part.bound), (*whole.guards, *part.guards)
            whole = Product(1, bound, guards, {**whole.factors, **part.factors})
    return whole


def _zeros(member: Product) -> dict[str, Polynomial]:
    return dict.fromkeys(member.bound, ZERO)


def _range(name: str, context: Context) -> tuple[Constraint, ...]:
    extent = context.extents.get(name)
    if extent is None or extent.variables & set(context.extents):
        return ()
    return within(variable(name), extent)
