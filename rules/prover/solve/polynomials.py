"""Integer polynomials over dimensions and indices, and constraints on them.

What isn't a polynomial (a quotient, a remainder, a minimum, a choice, an element of a tensor of
integers) is an opaque atom. A polynomial is its own normal form: equal polynomials have one text.

Constraints are p >= 0, p = 0, p != 0, joined by and, or; negation is pushed inside.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cached_property

from ....catalog.terms import polynomials
from ..work_clock import DONE

# Atoms by their text, each at most as often as its power; the empty one stands for 1.
Monomial = tuple[str, ...]


class Opaque:
    """A function of polynomials that has no polynomial: // | min | max | if | read:NAME."""

    __slots__ = ("arguments", "condition", "function", "names", "text")

    def __init__(
        self,
        function: str,
        arguments: tuple[Polynomial, ...],
        condition: Constraint | None = None,
    ) -> None:
        self.function = function
        self.arguments = arguments
        self.condition = condition
        inner = [argument.text for argument in arguments]
        names: set[str] = set().union(*(argument.variables for argument in arguments))
        if condition is not None:
            inner.insert(0, condition.text)
            names |= condition.variables
        self.text: str = f"{function}({', '.join(inner)})"
        self.names = frozenset(names)


class Polynomial(polynomials.Polynomial[str]):
    """A polynomial whose unknowns are variables and atoms, by their texts."""

    # Its canonical spelling: equal polynomials have one.
    text: str

    def __init__(self, terms: Mapping[Monomial, int], opaque: Mapping[str, Opaque]) -> None:
        """Take over coefficients other than 0, and the atoms that aren't variables, by text."""
        super().__init__(terms)
        self.opaque = opaque
        self.text = _text(self.terms)
        DONE.monomials += 1 + len(terms)

    def _with_terms(
        self, terms: Mapping[Monomial, int], other: Polynomial | None = None
    ) -> Polynomial:
        opaque = self.opaque
        if other is not None and other.opaque:
            opaque = {**opaque, **other.opaque} if opaque else other.opaque
        return Polynomial(terms, opaque)

    def _number(self, value: int) -> Polynomial:
        return constant(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Polynomial) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text

    @cached_property
    def variables(self) -> frozenset[str]:
        """Return the names of all variables, those inside of atoms included."""
        names: set[str] = set()
        for monomial in self.terms:
            for atom in monomial:
                inner = self.opaque.get(atom)
                if inner is None:
                    names.add(atom)
                else:
                    names |= inner.names
        return frozenset(names)

    @property
    def variable(self) -> str | None:
        """Return the name, if this is a variable and nothing else."""
        unknown = self.unknown
        return None if unknown in self.opaque else unknown

    def map(self, replace: Callable[[str, Opaque | None], Polynomial]) -> Polynomial:
        """Return the polynomial with every atom replaced."""
        return self.replaced(lambda atom: replace(atom, self.opaque.get(atom)))

    def substitute(self, replacements: Mapping[str, Polynomial]) -> Polynomial:
        """Return the polynomial with variables replaced."""
        if self.variables.isdisjoint(replacements):
            return self

        def replace(atom: str, inner: Opaque | None) -> Polynomial:
            if inner is None:
                return replacements[atom] if atom in replacements else variable(atom)
            return rebuilt(
                inner, lambda p: p.substitute(replacements), lambda c: c.substitute(replacements)
            )

        return self.map(replace)

    def atoms(self) -> Iterable[Opaque]:
        """Yield the opaque atoms, inner ones after those that hold them."""
        for monomial in self.terms:
            for atom in monomial:
                inner = self.opaque.get(atom)
                if inner is not None:
                    yield inner
                    for argument in inner.arguments:
                        yield from argument.atoms()
                    if inner.condition is not None:
                        for part in inner.condition.polynomials():
                            yield from part.atoms()

    def linear(self, name: str) -> Polynomial | None:
        """Return e such that the polynomial is 0 exactly where `name` = e, if the sign is 1."""
        coefficient = self.terms.get((name,), 0)
        if coefficient not in (1, -1):
            return None
        rest = self - coefficient * variable(name)
        return None if name in rest.variables else rest * -coefficient


def _text(terms: Mapping[Monomial, int]) -> str:
    parts = []
    for monomial, coefficient in terms.items():
        if not monomial:
            parts.append(str(coefficient))
        elif coefficient == 1:
            parts.append("*".join(monomial))
        else:
            parts.append("*".join((str(coefficient), *monomial)))
    return " + ".join(parts) if parts else "0"


def constant(value: int) -> Polynomial:
    """Return a known number."""
    return Polynomial({(): value} if value else {}, {})


ZERO = constant(0)


def variable(name: str) -> Polynomial:
    """Return a dimension or an index."""
    return Polynomial({(name,): 1}, {})


def polynomial(value: Polynomial | int) -> Polynomial:
    """Return a number as a polynomial."""
    return value if isinstance(value, Polynomial) else constant(value)


def atom(opaque: Opaque) -> Polynomial:
    """Return an atom as a polynomial."""
    return Polynomial({(opaque.text,): 1}, {opaque.text: opaque})


def quotient(whole: Polynomial, by: Polynomial) -> Polynomial:
    """Return the floor of whole / by."""
    divisor, number = by.number, whole.number
    if divisor == 1:
        return whole
    if divisor and number is not None:
        return constant(number // divisor)
    if divisor is not None and divisor > 0:
        q, r = whole.divided(by)
        if r.number is not None:  # floor(q + r / divisor)
            return q + r.number // divisor
    return atom(Opaque("//", (whole, by)))


def remainder(whole: Polynomial, by: Polynomial) -> Polynomial:
    """Return whole - by * floor(whole / by): remainders are written by quotients."""
    return whole - by * quotient(whole, by)


def extreme(function: str, left: Polynomial, right: Polynomial) -> Polynomial:
    """Return the minimum or the maximum."""
    difference = (left - right).number
    if difference is not None:
        return left if (difference >= 0) == (function == "max") else right
    first, second = sorted((left, right), key=str)
    return atom(Opaque(function, (first, second)))


def choice(condition: Constraint, then: Polynomial, otherwise: Polynomial) -> Polynomial:
    """Return `then` where the condition holds."""
    truth = condition.truth
    if truth is not None:
        return then if truth else otherwise
    return then if then == otherwise else atom(Opaque("if", (then, otherwise), condition))


def element(tensor: str, indices: tuple[Polynomial, ...]) -> Polynomial:
    """Return an element of a tensor of integers."""
    return atom(Opaque(f"read:{tensor}", indices))


def rebuilt(
    opaque: Opaque,
    polynomials: Callable[[Polynomial], Polynomial],
    constraints: Callable[[Constraint], Constraint],
) -> Polynomial:
    """Return an atom with its arguments replaced, folded anew."""
    arguments = tuple(polynomials(argument) for argument in opaque.arguments)
    match opaque.function:
        case "//":
            return quotient(*arguments)
        case "min" | "max":
            return extreme(opaque.function, *arguments)
        case "if":
            assert opaque.condition is not None
            return choice(constraints(opaque.condition), *arguments)
        case _:
            return atom(Opaque(opaque.function, arguments))


class Constraint:
    """A condition on dimensions and indices; immutable.

    `kind` is ge, eq or ne for one polynomial compared with 0, else and, or.
    """

    # Its canonical spelling: equal constraints have one.
    text: str

    def __init__(
        self, kind: str, whole: Polynomial = ZERO, parts: tuple[Constraint, ...] = ()
    ) -> None:
        self.kind = kind
        self.whole = whole
        self.parts = parts
        if kind in ("and", "or"):
            self.text = f"({f' {kind} '.join(part.text for part in parts)})"
        else:
            self.text = f"{whole.text} {_SIGN[kind]} 0"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constraint) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    @cached_property
    def variables(self) -> frozenset[str]:
        """Return the names of all variables."""
        if self.parts:
            return frozenset().union(*(part.variables for part in self.parts))
        return self.whole.variables

    @cached_property
    def truth(self) -> bool | None:
        """Return whether it holds, where that is seen at once."""
        if self.kind in ("and", "or"):
            return None if self.parts else self.kind == "and"
        number = self.whole.number
        if number is not None:
            return {"ge": number >= 0, "eq": number == 0, "ne": number != 0}[self.kind]
        if self.kind != "ge" and self.whole.constant % self.whole.content:
            return self.kind == "ne"
        return None

    def polynomials(self) -> Iterable[Polynomial]:
        """Yield what is compared with 0."""
        if self.kind not in ("and", "or"):
            yield self.whole
        for part in self.parts:
            yield from part.polynomials()

    def substitute(self, replacements: Mapping[str, Polynomial]) -> Constraint:
        """Return the constraint with variables replaced."""
        if self.variables.isdisjoint(replacements):
            return self
        if self.kind in ("and", "or"):
            return joined(self.kind, [part.substitute(replacements) for part in self.parts])
        return compared(self.kind, self.whole.substitute(replacements))

    @cached_property
    def negation(self) -> Constraint:
        """Return the constraint that holds exactly where this one doesn't."""
        match self.kind:
            case "ge":
                return compared("ge", -self.whole - 1)
            case "eq":
                return compared("ne", self.whole)
            case "ne":
                return compared("eq", self.whole)
            case "and":
                return joined("or", [part.negation for part in self.parts])
            case _:
                return joined("and", [part.negation for part in self.parts])

    def conjuncts(self) -> tuple[Constraint, ...]:
        """Return constraints that hold together exactly where this one holds."""
        return self.parts if self.kind == "and" else (self,)


_SIGN = {"ge": ">=", "eq": "=", "ne": "!="}


def compared(kind: str, whole: Polynomial) -> Constraint:
    """Return p >= 0, p = 0 or p != 0, in lowest terms."""
    if whole.number is None:
        scale = whole.content
        lowest = whole.constant
        if scale > 1 and (kind == "ge" or lowest % scale == 0):
            # for integers, scale * q + lowest >= 0 exactly where q + floor(lowest / scale) >= 0
            terms = {m: c // scale for m, c in whole.terms.items() if m}
            if lowest // scale:
                terms[()] = lowest // scale
            whole = Polynomial(terms, whole.opaque)
        if kind != "ge":
            first = next(m for m in whole.terms if m)
            if whole.terms[first] < 0:
                whole = -whole
    return Constraint(kind, whole)


def joined(kind: str, parts: Iterable[Constraint]) -> Constraint:
    """Return a conjunction or a disjunction, flat and without what is known."""
    parts_by_text: dict[str, Constraint] = {}
    for part in parts:
        for member in part.parts if part.kind == kind else (part,):
            truth = member.truth
            if truth is None:
                if member.negation.text in parts_by_text:
                    return FALSE if kind == "and" else TRUE
                parts_by_text[member.text] = member
            elif truth != (kind == "and"):
                return TRUE if truth else FALSE
    ordered = [parts_by_text[text] for text in sorted(parts_by_text)]
    return ordered[0] if len(ordered) == 1 else Constraint(kind, ZERO, tuple(ordered))


TRUE = Constraint("and")
FALSE = Constraint("or")


def at_least(left: Polynomial | int, right: Polynomial | int) -> Constraint:
    """Return left >= right."""
    return compared("ge", polynomial(left) - right)


def below(left: Polynomial | int, right: Polynomial | int) -> Constraint:
    """Return left < right."""
    return compared("ge", polynomial(right) - left - 1)


def equals(left: Polynomial | int, right: Polynomial | int) -> Constraint:
    """Return left = right."""
    return compared("eq", polynomial(left) - right)


def differs(left: Polynomial | int, right: Polynomial | int) -> Constraint:
    """Return left != right."""
    return compared("ne", polynomial(left) - right)


def within(index: Polynomial, extent: Polynomial | int) -> tuple[Constraint, Constraint]:
    """Return 0 <= index < extent."""
    return at_least(index, constant(0)), below(index, extent)


def ordered(names: Iterable[str], constraints: Iterable[Constraint]) -> list[str]:
    """Return indices in an order that owes nothing to their names, as far as possible.

    It is that of the texts of the constraints that speak of them, blind to the names.
    """
    indices, whole = set(names), list(constraints)

    def appearance(name: str) -> list[str]:
        blind = {index: variable("!" if index == name else "?") for index in indices}
        return sorted(part.substitute(blind).text for part in whole if name in part.variables)

    return sorted(indices, key=lambda name: (appearance(name), name))


def connected(
    constraints: Iterable[Constraint], names: Iterable[str], excluded: Collection[str]
) -> tuple[Constraint, ...]:
    """Return the constraints that speak of the names, or of others that such constraints speak of.

    Speaking of one of the names in `excluded` connects nothing.
    """
    reached = set(names).difference(excluded)
    waiting = list(dict.fromkeys(constraints))
    reached_constraints: list[Constraint] = []
    while True:
        touched = [
            constraint for constraint in waiting if not reached.isdisjoint(constraint.variables)
        ]
        if not touched:
            return tuple(sorted(reached_constraints, key=lambda constraint: constraint.text))
        waiting = [constraint for constraint in waiting if constraint not in touched]
        reached_constraints += touched
        for constraint in touched:
            reached |= constraint.variables.difference(excluded)
