"""From terms of index notation to normal forms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from ....catalog.operators.expand import Definition
from ....catalog.terms.index_notation import Apply, Read, Reduce, Select, Symbol, Term, Variable
from ..functions.extrema import extreme_of
from ..functions.monotone import Element
from ..normal.arithmetic import integer_sum, summed
from ..normal.context import UndecidedError
from ..normal.definedness import Path
from ..normal.interning import abstracted
from ..normal.piecewise import by_cases, choose, negated
from ..normal.sums import Place, Product, Sum, known_number, number, scaled, single
from ..solve.polynomials import Constraint, Polynomial, connected, variable, within
from ..statement import Algebra
from .elementwise import Elementwise
from .integers import Indices
from .term_kinds import INTEGERS, reads_elements

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


def literal(value: float) -> list[Product]:
    """Return a number of a program: a decimal fraction, or the irrational that it rounds."""
    if not math.isfinite(value):
        raise UndecidedError(f"{value} is no real number")
    for near, factors in _IRRATIONAL:
        if abs(value) == near:
            sign = 1 if value > 0 else -1
            return [Product(sign, (), (), {Place(head): e for head, e in factors})]
    return number(Fraction(repr(value)))


@dataclass
class Lowering(Elementwise):
    """Lowers the definitions of one statement: what its tensors hold at an index."""

    # ---- tensors
    def read(self, tensor: str, places: tuple[Polynomial, ...], path: Path) -> list[Product]:
        """Return an element of a tensor, in the tensor's own algebra."""
        self.context.deadline()
        if tensor in self.operands:
            self._in_bounds(self.operands[tensor].shape, places, path)
            if self.algebra(tensor) == "boolean":
                self.context.idempotent.add(tensor)
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
        path.conditions += [
            condition.under(path.guards, (), path.literals) for condition in conditions
        ]
        return list(whole)

    def _context(self, places: Sequence[Polynomial], path: Path) -> tuple[Constraint, ...]:
        """Return the guards on the path that say something of the places."""
        if not self.in_context:
            return ()
        names = frozenset().union(*(place.variables for place in places))
        return connected(path.guards, names, self.context.symbols)

    def _typed(self, definition: Definition) -> Term:
        """Return a definition's value; where it changes the type of integers, as a conversion."""
        value = definition.value
        if isinstance(value, Read):
            source_type, new = self.types.get(value.tensor), self.types.get(definition.name)
            if source_type in INTEGERS and new in INTEGERS and source_type != new:
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

    # ---- elements
    def value(self, term: Term, indices: Indices, algebra: Algebra, path: Path) -> list[Product]:
        """Return an element as a sum, in the algebra given."""
        match term:
            case bool():
                return number(int(term))
            case int():
                return number(term)
            case float():
                return literal(term)
            case Variable():
                return integer_sum(indices[term])
            case Symbol(name, kind):
                return single(Place(name)) if kind == "real" else integer_sum(self.symbol(name))
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
                if self.is_index(term) and not reads_elements(term):
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
        tensor_algebra = self.algebra(tensor)
        places = tuple(self.index(place, indices, path) for place in inner)
        whole = self.read(tensor, places, path)
        if tensor_algebra == algebra or tensor_algebra == "boolean":
            return whole
        if tensor_algebra == "integer" and algebra == "real":
            return by_cases(whole, self.context, path, self._as_real)
        raise UndecidedError(f"{tensor} is read as {algebra}, but is {tensor_algebra}")

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
            products: list[Product] = []
            for case, term in ((truth, then), (truth.negation, otherwise)):
                if case.truth is not False:
                    inner = path.inner(case.conjuncts())
                    products += self._under(self.value(term, indices, algebra, inner), case)
            return products
        yes_path, no_path = Path(), Path()
        yes = self.value(then, indices, algebra, yes_path)
        no = self.value(otherwise, indices, algebra, no_path)
        self._conditional(truth, True, yes_path, path)
        self._conditional(truth, False, no_path, path)
        return choose(truth, yes, no, self.context)

    def _conditional(self, truth: Sum, wanted: bool, inner: Path, path: Path) -> None:
        """Note what a branch asks for: it matters where the truth value is the one wanted."""
        if not inner.conditions:
            return

        def note(whole: Sum, case: Path) -> list[Product]:
            constant_value = known_number(whole)
            literals = case.literals
            if constant_value is not None:
                if (constant_value != 0) != wanted:
                    return []
            else:
                place = abstracted(whole, self.context)
                assert not isinstance(place, Fraction)
                self.context.idempotent.add(place.head)
                literals = (*literals, (place, wanted))
            path.conditions += [
                condition.under(case.guards, (), literals) for condition in inner.conditions
            ]
            return []

        by_cases(truth, self.context, path, note)

    # ---- reductions
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
        for reduced, extent in zip(variables, extents, strict=True):
            size = self.index(extent, indices, path)
            name = self.context.fresh(size)
            names.append(name)
            inner[reduced] = variable(name)
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
        follows = self.context.follows
        return [conjunct for conjunct in truth.conjuncts() if not follows(conjunct, path.guards)]

    def _leave(self, names: Sequence[str], deeper: Path, path: Path) -> None:
        path.conditions += [condition.under((), names) for condition in deeper.conditions]

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
            return summed(body, names, guards, self.context)
        if term.kind == "min" and algebra == "real":
            flipped = Element(names, guards, scaled(body, -1))
            return scaled(extreme_of("max", [flipped], self.context, path), -1)
        kind = term.kind
        if algebra == "integer":
            kind = {"max": "most", "min": "least"}.get(kind, kind)
        elif algebra == "boolean":
            kind = {"max": "any", "min": "all"}.get(kind, kind)
        if kind == "all":  # the smallest truth value
            body = negated(body)
        products = extreme_of(
            "any" if kind == "all" else kind, [Element(names, guards, body)], self.context, path
        )
        if kind in ("any", "all"):
            self.context.idempotent.update(p.head for product in products for p in product.factors)
        return negated(products) if kind == "all" else products
