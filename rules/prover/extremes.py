"""The largest and smallest of elements: guarded sets of places.

max(a, max(b, c)), max over two axes, and max with guards are one set each. Sets are equal if every
place of one is in the other. Over the reals, min is -max of the negated elements; integers modulo a
power of two have no such law, and keep both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from . import functions
from .arithmetic import definition, guarded, plus, tidy, times, unfolded
from .choices import chosen, outer_truth, settled
from .composed import composed
from .constraint import FALSE, Constraint, within
from .definedness import Nonempty, Path
from .equality import place_of
from .heads import argument_of, function_of
from .monotone import Element, element_of, layer_of, undominated
from .normal import (
    Place,
    Product,
    Sum,
    canonical,
    multiplied,
    number,
    scaled,
    separated,
    single,
)
from .polynomial import ZERO, Polynomial, variable
from .simplify import simplified
from .space import Space, UndecidedError
from .virtual import abstracted, interned

_MOST_CASES = 64


def extreme_of(kind: str, elements: Sequence[Element], space: Space, path: Path) -> list[Product]:
    """Return the max, any or prod of elements; `kind` says which.

    most and least are the max and min of integers."""
    for element in elements:
        own = set(element.bound)
        place = outer_truth(element.whole, space)
        if place is None or not place.variables.isdisjoint(own):
            continue
        sides = []
        for value in (True, False):
            some = [
                Element(e.bound, e.guards, settled(e.whole, place, value, space)) for e in elements
            ]
            sides.append(extreme_of(kind, some, space, path.inner((), ((place, value),))))
        return chosen(single(place), sides[0], sides[1], space)
    products: list[Product] = []
    if kind == "max":
        elements = undominated(elements, False, space)
    for element in elements:
        products += _members(kind, element, space)
    return _by_guards(kind, products, space, path, [0])


def _members(kind: str, element: Element, space: Space) -> list[Product]:
    """Return an element as products of one place each, by the cases of its guards."""
    found: list[Product] = []

    def note(whole: Sum, inner: Path) -> None:
        if kind == "prod" and len(whole) == 1 and whole[0].plain and len(whole[0].factors) > 1:
            for part in _parts(whole[0]):  # the product of products is one of all their factors
                note([part], inner)
            return
        if kind == "prod" and _is_exponential(whole):
            factors = whole[0].factors
            found.append(space.renamed(Product(1, element.bound, inner.guards, factors)))
            return
        value = abstracted(whole, space)
        place = Place(f"C:{value}") if isinstance(value, Fraction) else value
        member = Product(1, element.bound, inner.guards, {place: Fraction(1)})
        virtual = space.virtuals.get(place.head)
        if virtual is not None and virtual.kind == kind:
            for part in definition(place, space):
                both = Product(
                    1, (*element.bound, *part.bound), (*inner.guards, *part.guards), part.factors
                )
                found.append(space.renamed(both))
        else:
            found.append(space.renamed(member))

    _all_cases(element.whole, space, Path(element.guards), note)
    simple = (simplified(member, space, count=False) for member in found)
    return [member for member in simple if member is not None]


def _parts(product: Product) -> list[Product]:
    """Return the number and the powers that are the factors of a product."""
    parts = [Product(1, (), (), {place: e}) for place, e in product.factors.items()]
    return parts if product.coefficient == 1 else [Product(product.coefficient), *parts]


def _all_cases(whole: Sum, space: Space, path: Path, note: Callable[[Sum, Path], object]) -> None:
    """Apply a function in each case of the outer guards; truth values stay as they are."""
    guards = {guard.text: guard for product in whole for guard in product.outer_guards()}
    guards = {text: guard for text, guard in guards.items() if guard not in path.guards}
    if not guards:
        bare = tidy((product.without(path.guards) for product in whole), space)
        note(bare, path)
        return
    guard = guards[min(guards)]
    for case in (guard, guard.negation):
        inner = path.inner(case.conjuncts())
        if space.solver.feasible(inner.guards):
            kept = [
                product.without(case.conjuncts())
                for product in whole
                if not any(
                    one.negation == case or one.negation in case.conjuncts()
                    for one in product.outer_guards()
                )
            ]
            _all_cases(kept, space, inner, note)


def _by_guards(
    kind: str, members: Sequence[Product], space: Space, path: Path, count: list[int]
) -> list[Product]:
    """Split by guards that say nothing of the bound indices."""
    count[0] += 1
    if count[0] > _MOST_CASES:
        raise UndecidedError(f"a {kind} of more than {_MOST_CASES} cases")
    guards = {guard.text: guard for member in members for guard in member.outer_guards()}
    guards = {text: guard for text, guard in guards.items() if guard not in path.guards}
    if not guards:
        return _interned(kind, [m.without(path.guards) for m in members], space, path)
    guard = guards[min(guards)]
    result: list[Product] = []
    for case in (guard, guard.negation):
        inner = path.inner(case.conjuncts())
        if not space.solver.feasible(inner.guards):
            continue
        kept = [
            member.without(case.conjuncts())
            for member in members
            if not any(
                one.negation == case or one.negation in case.conjuncts()
                for one in member.outer_guards()
            )
        ]
        result += guarded(_by_guards(kind, kept, space, inner, count), case.conjuncts(), space)
    return result


def _interned(kind: str, members: Sequence[Product], space: Space, path: Path) -> list[Product]:
    members = _without_repeats(kind, members)
    plain = [member for member in members if member.plain]
    if not plain and kind in ("max", "most", "least"):
        _nonempty(members, space, path)
        if len({_where(member).text for member in members}) == 1:
            members = _without_repeats(kind, [_of_what_is_read(member) for member in members])
            plain = [member for member in members if member.plain]
    if not members:
        return number(1) if kind == "prod" else []
    if len(members) == 1 and plain:
        return list(element_of(members[0], space).whole)
    if kind == "max":
        return _largest([element_of(member, space) for member in members], space)
    if (rising := _conversion(members, space)) is not None:
        inner = [
            Element(m.bound, m.guards, unfolded(single(argument_of(place_of(m))), space))
            for m in members
        ]
        largest = _largest(inner, space, least=kind == "least")
        (converted,) = functions.opaque(rising, [largest], space, path)
        space.saturated.update(place.head for place in converted.factors)
        return [converted]
    if kind == "prod":
        return _product(members, space)
    return single(interned(kind, members, space))


def _conversion(members: Sequence[Product], space: Space) -> str | None:
    """Return the one conversion to integers that all members are, if it rises where they are."""
    heads = [place_of(member).head for member in members]
    if not all(head in space.saturated for head in heads):
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


def _product(members: Sequence[Product], space: Space) -> list[Product]:
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
    places = [interned("prod", some, space) for some in others.values()]
    found = [Product(1, (), (), multiplied((place, Fraction(1)) for place in places))]
    if exponents:
        total = unfolded(tidy(exponents, space), space)
        found = times(found, functions.exponential(total, space), space)
    return found


def _largest(elements: Sequence[Element], space: Space, *, least: bool = False) -> list[Product]:
    """Return the largest, or least, of elements of which one is there."""
    space.deadline()
    elements = undominated(elements, least, space)
    spread = [part for one in elements for part in _spread(one, least, space)]
    if len(spread) > len(elements):
        elements = undominated(spread, least, space)
    if len(elements) == 1 and elements[0].plain:
        return list(elements[0].whole)
    if len(elements) == 1 and (apart := _apart(elements[0])) is not None:
        # each index is chosen by itself
        return [part for one in apart for part in _largest([one], space, least=least)]
    layer = layer_of(elements, space) or composed(
        elements, space, lambda inner: _largest(inner, space)
    )
    if layer is not None:
        return layer.outside(_largest(layer.inner, space, least=least != layer.flips))
    sign = -1 if least else 1
    members = []
    for element in elements:
        value = abstracted(scaled(element.whole, sign), space)
        place = Place(f"C:{value}") if isinstance(value, Fraction) else value
        one = simplified(
            Product(1, element.bound, element.guards, {place: Fraction(1)}), space, count=False
        )
        if one is not None:
            members.append(space.renamed(one))
    members = _without_repeats("max", members)
    if len(members) == 1 and members[0].plain:
        return scaled(element_of(members[0], space).whole, sign)
    found = interned("max", members, space)
    functions.note_sign(found, space)
    return scaled(single(found), sign)


def _apart(element: Element) -> list[Element] | None:
    """Return elements, over indices that share nothing, of which an element is the sum.

    None where it is no sum of such. Every index is one that has a value.
    """
    own = set(element.bound)
    if any(guard.variables.isdisjoint(own) for guard in element.guards):
        return None
    groups: list[set[str]] = []
    wholes = [product.variables & own for product in element.whole]
    for names in (*(guard.variables & own for guard in element.guards), *wholes):
        joined = [group for group in groups if group & names]
        groups = [group for group in groups if not group & names]
        groups += [set(names).union(*joined)] if names else []
    used = [group for group in groups if any(group & names for names in wholes)]
    if len(used) < 2:
        return None
    found = []
    for at, group in enumerate(used):
        whole = [
            product
            for product, names in zip(element.whole, wholes, strict=True)
            if group & names or (not names and at == 0)
        ]
        bound = tuple(name for name in element.bound if name in group)
        guards = tuple(guard for guard in element.guards if guard.variables & group)
        found.append(Element(bound, guards, whole))
    return found


def _spread(element: Element, least: bool, space: Space) -> list[Element]:
    """Return an element that has one largest in it as the elements over which that one runs."""
    held = [
        (product, place)
        for product in element.whole
        for place in product.factors
        if place.head in space.virtuals and space.virtuals[place.head].kind == "max"
    ]
    if len(held) != 1:
        return [element]
    ((product, place),) = held
    factors = {other: e for other, e in product.factors.items() if other != place}
    outer = [Product(product.coefficient, product.bound, product.guards, factors)]
    sign = -1 if least else 1
    if not product.plain or product.factors[place] != 1:
        return [element]
    if functions.sign(scaled(outer, sign), space) is None:
        return [element]
    rest = [one for one in element.whole if one is not product]
    found = []
    for part in definition(place, space):
        one = element_of(part, space)
        found.append(
            Element(
                (*element.bound, *one.bound),
                (*element.guards, *one.guards),
                plus(times(outer, one.whole, space), rest),
            )
        )
    return found


def _without_repeats(kind: str, members: Sequence[Product]) -> list[Product]:
    if kind == "prod":
        return list(members)
    found = {canonical(member): member for member in members}
    known = [m for m in found.values() if m.plain and place_of(m).head.startswith("C:")]
    if len(known) > 1:

        def value(member: Product) -> Fraction:
            return Fraction(place_of(member).head[2:])

        best = min(known, key=value) if kind == "least" else max(known, key=value)
        return [m for m in found.values() if m not in known or m is best]
    return list(found.values())


def _nonempty(members: Sequence[Product], space: Space, path: Path) -> None:
    """Ask for an element to be there, unless the least indices are seen to be one."""
    for member in members:
        guards = [guard.substitute(_zeros(member)) for guard in member.guards]
        if all(space.follows(guard, path.guards) for guard in guards):
            return
    if not members:
        path.ask("holds", FALSE)
        return
    cases = {_where(member).text: member for member in members}
    if len(cases) > 1:
        path.ask("holds", Nonempty(tuple((m.bound, m.guards) for m in cases.values())))
        return
    for one in (part for member in cases.values() for part in separated(member)):
        ranges = {part for name in one.bound for part in _range(name, space)}
        if not one.bound or set(one.guards) <= ranges:  # each index has a value if 0 is one
            for guard in one.guards:
                path.ask("holds", guard.substitute(_zeros(one)))
        else:
            path.ask("holds", Nonempty(((one.bound, one.guards),)))


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


def _range(name: str, space: Space) -> tuple[Constraint, ...]:
    extent = space.extents.get(name)
    if extent is None or extent.variables & set(space.extents):
        return ()
    return within(variable(name), extent)
