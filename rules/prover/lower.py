"""From terms of index notation to normal forms."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from ...catalog.operators.expand import Definition
from ...catalog.operators.terms import Apply, Read, Reduce, Select, Symbol, Term, Variable
from . import functions
from .arithmetic import guarded, integer_sum, plus, power, summed, times
from .choices import by_cases, chosen, negated
from .constraint import (
    FALSE,
    TRUE,
    Constraint,
    at_least,
    below,
    connected,
    differs,
    equals,
    joined,
    within,
)
from .definedness import Condition, Path
from .extremes import extreme_of
from .monotone import Element
from .normal import Place, Product, Sum, known_number, number, scaled, single
from .polynomial import (
    ZERO,
    Polynomial,
    choice,
    constant,
    element,
    extreme,
    quotient,
    remainder,
    variable,
)
from .rounded import rounded
from .signs import Signs
from .signum import absolute, signum
from .space import Space, UndecidedError
from .statement import Algebra, Operand
from .threshold import above_zero
from .virtual import abstracted

Indices = Mapping[Variable, Polynomial]
Truth = Constraint | list[Product]

_COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
_INDEX = ("+", "-", "*", "//", "%", "neg", "max", "min", "abs", "floor", "ceil")
_CONNECTIVES = ("and", "or", "not", "xor", "to_bool")
_INTEGERS: Mapping[str, tuple[int, int]] = {
    **{f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (4, 8, 16, 32, 64)},
    **{f"uint{bits}": (0, 2**bits - 1) for bits in (4, 8, 16, 32, 64)},
}
_PREDICATES = ("isnan", "is_positive_inf", "is_negative_inf")

# Numbers that a specification or a rule can only write rounded.
_IRRATIONAL: tuple[tuple[float, tuple[tuple[str, Fraction], ...]], ...] = tuple(
    (value, tuple((head, Fraction(*exponent)) for head, exponent in factors))
    for value, factors in (
        (math.sqrt(2.0), (("N:2", (1, 2)),)),
        (1 / math.sqrt(2.0), (("N:2", (-1, 2)),)),
        (math.sqrt(0.5), (("N:2", (-1, 2)),)),
        (math.pi, (("N:pi", (1, 1)),)),
        (math.sqrt(math.pi), (("N:pi", (1, 2)),)),
        (2 / math.pi, (("N:2", (1, 1)), ("N:pi", (-1, 1)))),
        (math.sqrt(2 / math.pi), (("N:2", (1, 2)), ("N:pi", (-1, 2)))),
        (2 / math.sqrt(math.pi), (("N:2", (1, 1)), ("N:pi", (-1, 2)))),
        (math.e, (("N:e", (1, 1)),)),
    )
)


@dataclass
class Lowering:
    """Lowers the definitions of one statement."""

    space: Space
    definitions: Mapping[str, Definition]
    operands: Mapping[str, Operand]
    algebras: Mapping[str, Algebra]
    types: Mapping[str, str] = field(default_factory=dict)
    signs: Signs = field(default_factory=lambda: Signs({}, lambda _: None))
    facts: list[Condition] = field(default_factory=list)
    # Whether |x| and the larger of two are chosen by their order, case by case.
    by_order: bool = False
    # Whether what holds where an element is read simplifies the element.
    in_context: bool = False
    _memory: dict[tuple[str, str, str], tuple[list[Product], list[Condition]]] = field(
        default_factory=dict
    )

    # ---- tensors
    def algebra(self, tensor: str) -> Algebra:
        """Return the algebra of the elements of a tensor."""
        if tensor in self.operands:
            return self.operands[tensor].algebra
        return self.algebras.get(tensor, "real")

    def read(self, tensor: str, places: tuple[Polynomial, ...], path: Path) -> list[Product]:
        """Return an element of a tensor, in the tensor's own algebra."""
        self.space.deadline()
        if tensor in self.operands:
            self._in_bounds(self.operands[tensor].shape, places, path)
            if self.algebra(tensor) == "boolean":
                self.space.idempotent.add(tensor)
            return single(Place(tensor, places))
        definition = self.definitions.get(tensor)
        if definition is None:
            raise UndecidedError(f"{tensor} is not known")
        self._in_bounds(definition.shape, places, path)
        inner = Path(self._context(places, path))
        key = (
            tensor,
            ", ".join(place.text for place in places),
            " & ".join(guard.text for guard in inner.guards),
        )
        if key not in self._memory:
            indices = dict(zip(definition.indices, places, strict=True))
            value = self._typed(definition)
            whole = self.value(value, indices, self.algebra(tensor), inner)
            self._memory[key] = (whole, inner.conditions)
        whole, conditions = self._memory[key]
        path.conditions += [one.under(path.guards, (), path.literals) for one in conditions]
        return list(whole)

    def _context(self, places: Sequence[Polynomial], path: Path) -> tuple[Constraint, ...]:
        """Return the guards on the path that say something of the places."""
        if not self.in_context:
            return ()
        names = frozenset().union(*(place.variables for place in places))
        return connected(path.guards, names, self.space.symbols)

    def _typed(self, definition: Definition) -> Term:
        """Return a definition's value; where it changes the type of integers, as a conversion."""
        value = definition.value
        if isinstance(value, Read):
            own, new = self.types.get(value.tensor), self.types.get(definition.name)
            if own in _INTEGERS and new in _INTEGERS and own != new:
                return Apply(f"to_{new}", (value,))
        return value

    def _in_bounds(self, shape: Sequence[Term], places: Sequence[Polynomial], path: Path) -> None:
        if len(shape) != len(places):
            raise UndecidedError("a tensor is read at another rank")
        for size, place in zip(shape, places, strict=True):
            if any(atom.function.startswith("read:") for atom in place.atoms()):
                extent = self.index(size, {}, path)
                for condition in within(place, extent):
                    path.ask("read", condition)

    # ---- integers
    def is_index(self, term: Term) -> bool:
        """Whether a term is an integer made of dimensions, indices and elements."""
        match term:
            case bool() | float():
                return False
            case int() | Variable():
                return True
            case Symbol(_, kind):
                return kind != "real"
            case Apply(function, arguments):
                return function in _INDEX and all(map(self.is_index, arguments))
            case Select(_, then, otherwise):
                return self.is_index(then) and self.is_index(otherwise)
            case Read(tensor, _):
                return self.algebra(tensor) == "integer"
            case _:
                return False

    def index(self, term: Term, indices: Indices, path: Path) -> Polynomial:
        """Return an integer term as a polynomial."""
        return self.space.fold(self._index(term, indices, path))

    def _index(self, term: Term, indices: Indices, path: Path) -> Polynomial:
        match term:
            case bool() | float():
                raise UndecidedError(f"{term} is no index")
            case int():
                return constant(term)
            case Variable():
                return indices[term]
            case Symbol(name, kind) if kind != "real":
                return variable(name)
            case Apply(function, arguments) if function in _INDEX:
                parts = [self.index(argument, indices, path) for argument in arguments]
                if function in ("//", "%") and not self.space.is_positive(parts[1], parts[0]):
                    path.ask("holds", differs(parts[1], 0))
                return _polynomial(function, parts)
            case Select(condition, then, otherwise):
                truth = self.truth(condition, indices, path)
                if not isinstance(truth, Constraint):
                    raise UndecidedError("an index depends on a truth value")
                one = self.index(then, indices, path.inner(truth.conjuncts()))
                two = self.index(otherwise, indices, path.inner(truth.negation.conjuncts()))
                return choice(truth, one, two)
            case Read(tensor, inner) if self.algebra(tensor) == "integer":
                places = tuple(self.index(place, indices, path) for place in inner)
                return self._element(self.read(tensor, places, path))
            case _:
                raise UndecidedError(f"{term} is no index")

    def _element(self, whole: Sum) -> Polynomial:
        """Return an element of the integer algebra as an integer."""
        if any(product.outer_guards() for product in whole):
            raise UndecidedError("an index is an element by cases")
        known = functions.integral(whole)
        if known is not None:
            return known
        value = abstracted(whole, self.space)
        if isinstance(value, Fraction):
            return constant(int(value))
        if value.head in self.space.exact:
            value = Place(self.space.exact[value.head][0], value.indices)
        return value.indices[0] if value.head == "#INT" else element(value.head, value.indices)

    # ---- truth values
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
            case Apply(function, (left, right)) if function in _COMPARISONS:
                return self._comparison(function, left, right, indices, path)
            case Apply(function, (inner,)) if function in _PREDICATES:
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

    def is_truth(self, term: Term) -> bool:
        """Whether a term is a truth value."""
        match term:
            case bool():
                return True
            case Apply(function, _):
                return function in _COMPARISONS + _PREDICATES + _CONNECTIVES
            case Read(tensor, _):
                return self.algebra(tensor) == "boolean"
            case Reduce(kind):
                return kind in ("any", "all")
            case Select(_, then, otherwise):
                return self.is_truth(then) and self.is_truth(otherwise)
            case _:
                return False

    def kind(self, *terms: Term) -> Algebra:
        """Return the algebra in which terms are elements."""
        if all(map(self.is_truth, terms)):
            return "boolean"
        if all(self._integral(term) for term in terms):
            return "integer"
        return "real"

    def _integral(self, term: Term) -> bool:
        match term:
            case Apply(function, arguments):
                if function == "int32" or function[3:] in _INTEGERS:
                    return True
                if function in ("real", "pi") or function.startswith("to_"):
                    return False
                return all(map(self._integral, arguments))
            case Select(_, then, otherwise):
                return self._integral(then) and self._integral(otherwise)
            case Reduce():
                return self._integral(term.body)
            case _:
                return self.is_index(term) or self.is_truth(term)

    # ---- elements
    def value(self, term: Term, indices: Indices, algebra: Algebra, path: Path) -> list[Product]:
        """Return an element as a sum, in the algebra given."""
        match term:
            case bool():
                return number(int(term))
            case int():
                return number(term)
            case float():
                return _literal(term)
            case Variable():
                return integer_sum(indices[term])
            case Symbol(name, kind):
                return single(Place(name)) if kind == "real" else integer_sum(variable(name))
            case Select(condition, then, otherwise):
                return self._select(condition, then, otherwise, indices, algebra, path)
            case Read(tensor, inner):
                return self._read(tensor, inner, indices, algebra, path)
            case Reduce():
                return self._reduce(term, indices, algebra, path)
            case Apply("pi", ()):
                return single(Place("N:pi"))
            case Apply(function, arguments):
                if self.is_truth(term):
                    return self.number(self.truth(term, indices, path))
                if self.is_index(term) and not _reads(term):
                    return integer_sum(self.index(term, indices, path))
                return self._apply(function, arguments, indices, algebra, path)

    def _read(
        self,
        tensor: str,
        inner: Sequence[Term],
        indices: Indices,
        algebra: Algebra,
        path: Path,
    ) -> list[Product]:
        own = self.algebra(tensor)
        places = tuple(self.index(place, indices, path) for place in inner)
        whole = self.read(tensor, places, path)
        if own == algebra or own == "boolean":
            return whole
        if own == "integer" and algebra == "real":
            return by_cases(whole, self.space, path, lambda part, _: self._as_real(part))
        raise UndecidedError(f"{tensor} is read as {algebra}, but is {own}")

    def _select(
        self,
        condition: Term,
        then: Term,
        otherwise: Term,
        indices: Indices,
        algebra: Algebra,
        path: Path,
    ) -> list[Product]:
        truth = self.truth(condition, indices, path)
        if isinstance(truth, Constraint):
            found: list[Product] = []
            for case, term in ((truth, then), (truth.negation, otherwise)):
                if case.known is not False:
                    inner = path.inner(case.conjuncts())
                    found += self._under(self.value(term, indices, algebra, inner), case)
            return found
        yes_path, no_path = Path(), Path()
        yes = self.value(then, indices, algebra, yes_path)
        no = self.value(otherwise, indices, algebra, no_path)
        self._conditional(truth, True, yes_path, path)
        self._conditional(truth, False, no_path, path)
        return chosen(truth, yes, no, self.space)

    def _conditional(self, truth: Sum, wanted: bool, inner: Path, path: Path) -> None:
        """Note what a branch asks for: it matters where the truth value is the one wanted."""
        if not inner.conditions:
            return

        def note(whole: Sum, case: Path) -> list[Product]:
            known = known_number(whole)
            literals = case.literals
            if known is not None:
                if (known != 0) != wanted:
                    return []
            else:
                place = abstracted(whole, self.space)
                assert not isinstance(place, Fraction)
                self.space.idempotent.add(place.head)
                literals = (*literals, (place, wanted))
            path.conditions += [one.under(case.guards, (), literals) for one in inner.conditions]
            return []

        by_cases(truth, self.space, path, note)

    def _bind(
        self,
        variables: Sequence[Variable],
        extents: Sequence[Term],
        condition: Term,
        indices: Indices,
        path: Path,
    ) -> tuple[dict[Variable, Polynomial], tuple[str, ...], tuple[Constraint, ...], Path]:
        """Return new indices for a reduction, their guards, and the path inside of it."""
        inner = dict(indices)
        names: list[str] = []
        guards: list[Constraint] = []
        for one, extent in zip(variables, extents, strict=True):
            size = self.index(extent, indices, path)
            name = self.space.fresh(size)
            names.append(name)
            inner[one] = variable(name)
            guards += within(variable(name), size)
        deeper = Path((*path.guards, *guards), path.literals)
        truth = self.truth(condition, inner, deeper)
        if not isinstance(truth, Constraint):
            raise UndecidedError("a reduction over indices chosen by elements")
        needed = self._needed(truth, deeper)
        guards += needed
        return (
            inner,
            tuple(names),
            tuple(guards),
            Path((*deeper.guards, *needed), path.literals, deeper.conditions),
        )

    def _needed(self, truth: Constraint, path: Path) -> list[Constraint]:
        """Return the parts of a condition that don't follow from what holds on the path."""
        if not self.in_context:
            return list(truth.conjuncts())
        follows = self.space.follows
        return [one for one in truth.conjuncts() if not follows(one, path.guards)]

    def _leave(self, names: Sequence[str], deeper: Path, path: Path) -> None:
        path.conditions += [one.under((), names) for one in deeper.conditions]

    def _reduce(
        self, term: Reduce, indices: Indices, algebra: Algebra, path: Path
    ) -> list[Product]:
        if term.kind in ("any", "all"):
            return self.number(self.truth(term, indices, path))
        inner, names, guards, deeper = self._bind(
            term.variables, term.extents, term.condition, indices, path
        )
        body = self.value(term.body, inner, algebra, deeper)
        self._leave(names, deeper, path)
        if term.kind == "sum":
            return summed(body, names, guards, self.space)
        if term.kind == "min" and algebra == "real":
            flipped = Element(names, guards, scaled(body, -1))
            return scaled(extreme_of("max", [flipped], self.space, path), -1)
        kind = term.kind
        if algebra == "integer":
            kind = {"max": "most", "min": "least"}.get(kind, kind)
        elif algebra == "boolean":
            kind = {"max": "any", "min": "all"}.get(kind, kind)
        if kind == "all":  # the smallest truth value
            body = negated(body)
        found = extreme_of(
            "any" if kind == "all" else kind, [Element(names, guards, body)], self.space, path
        )
        if kind in ("any", "all"):
            self.space.idempotent.update(p.head for one in found for p in one.factors)
        return negated(found) if kind == "all" else found

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
        known: what every element keeps its value in may be left out.
        """
        kind = self.kind(inner)
        if kind == "boolean":
            return self.number(self.truth(inner, indices, path))
        whole = self.value(inner, indices, kind, path)
        if algebra == "real":
            if kind == "real":
                return whole
            if self.is_index(inner) and not _reads(inner):
                return integer_sum(self.index(inner, indices, path))
            return by_cases(whole, self.space, path, lambda part, _: self._as_real(part))
        name = function[3:]
        if self._small(whole):
            return whole

        def convert(part: Sum, deeper: Path) -> list[Product]:
            if kind == "integer":
                value = abstracted(part, self.space)
                if isinstance(value, Place) and value.head in self.space.exact:
                    head, type_ = self.space.exact[value.head]
                    part = single(Place(head, value.indices))
                    if type_ == name:
                        return part
            found = functions.opaque(function, [part], self.space, deeper)
            if kind == "integer" and self._widens(inner, name):
                value = abstracted(part, self.space)
                head = next(iter(found[0].factors)).head
                if isinstance(value, Place) and isinstance(inner, Read):
                    self.space.exact.setdefault(head, (value.head, self.types[inner.tensor]))
            return found

        return by_cases(whole, self.space, path, convert)

    def _as_real(self, whole: Sum) -> list[Product]:
        return list(whole) if self._small(whole) else integer_sum(self._element(whole))

    def _small(self, whole: Sum) -> bool:
        """Whether a sum of truth values is an integer from 0 to 7, which every type holds."""
        truths = all(p.head in self.space.idempotent for one in whole for p in one.factors)
        whole_numbers = all(one.coefficient.denominator == 1 and one.plain for one in whole)
        above = sum(one.coefficient for one in whole if one.coefficient > 0)
        return truths and whole_numbers and above <= 7 and _not_below(whole)

    def _widens(self, inner: Term, name: str) -> bool:
        """Whether a conversion keeps the value of whatever the term reads."""
        if not isinstance(inner, Read):
            return False
        own = self.types.get(inner.tensor)
        if own is None or own not in _INTEGERS or name not in _INTEGERS:
            return False
        low, high = _INTEGERS[own]
        return _INTEGERS[name][0] <= low and high <= _INTEGERS[name][1]

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


def _not_below(whole: Sum) -> bool:
    """Whether a sum of truth values is seen to be at least 0, as 1 - x is."""
    below = sum(one.coefficient for one in whole if one.coefficient < 0)
    return below + sum(one.coefficient for one in whole if not one.factors) >= 0


def _reads(term: Term) -> bool:
    match term:
        case Read():
            return True
        case Apply(_, arguments):
            return any(map(_reads, arguments))
        case Select(condition, then, otherwise):
            return _reads(condition) or _reads(then) or _reads(otherwise)
        case _:
            return False


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
        case "abs":
            return extreme("max", parts[0], -parts[0])
        case _:  # floor and ceil of an integer
            return parts[0]


def _literal(value: float) -> list[Product]:
    """Return a number of a program: a decimal fraction, or the irrational that it rounds."""
    if not math.isfinite(value):
        raise UndecidedError(f"{value} is no real number")
    for near, factors in _IRRATIONAL:
        if abs(value) == near:
            sign = 1 if value > 0 else -1
            return [Product(sign, (), (), {Place(head): e for head, e in factors})]
    return number(Fraction(repr(value)))
