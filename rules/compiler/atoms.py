"""Conditions of rules as atoms of Datalog: comparisons, shapes, types, numbers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from ...catalog.datalog.language.builders import (
    Argument,
    Part,
    atom,
    comparison,
    either,
    infix,
    symbol,
)
from ...catalog.datalog.language.syntax import Expression as DatalogExpression
from ...catalog.datalog.language.syntax import Literal as DatalogLiteral
from ...catalog.datalog.language.syntax import Wildcard
from ...catalog.terms.syntax_tree import Binary, Call, Expression, ListOf, Literal, Name
from ..language import schemas
from ..language.conditions import bindings, optional_values
from ..language.syntax import Rule

Atoms = tuple[list[Part], bool]
"""Atoms that follow from an expression, and whether they imply it."""

NOT_IN_DATALOG: Atoms = ([], False)


@dataclass(frozen=True)
class Term:
    """A Datalog term with the atoms that bind its variables.

    `guards` say that the symbolic sizes in it are numbers: needed for all but plain equality.
    """

    value: Argument
    atoms: tuple[Part, ...] = ()
    guards: tuple[Part, ...] = ()
    real: bool = False
    literal: float | None = None
    plain: bool = True


class Terms:
    """Compiles comparisons of one rule; `needed` collects those of its `sizes` they read."""

    def __init__(self, rule: Rule, sizes: Collection[str], needed: set[str]) -> None:
        self.rule, self.sizes, self.needed = rule, sizes, needed
        self.names = bindings(rule)
        self.optional = optional_values(rule)
        self.integers = {
            name
            for name, (node, attribute) in self.names.attributes.items()
            if self._is_integer(node, attribute)
        }

    def _is_integer(self, node: str, attribute: str) -> bool:
        """Whether `attribute_int` always lists the attribute of a pattern node."""
        operators = next(n.operators for n in self.rule.match if n.name == node)
        return (
            len(operators) == 1
            and schemas.is_integer(operators[0], attribute)
            and schemas.is_always_set(operators[0], attribute)
        )

    def comparison(self, expression: Expression) -> Atoms:
        """Compile a condition; what Datalog can't say is left over."""
        match expression:
            case Binary("and", left, right):
                first, second = self.comparison(left), self.comparison(right)
                return first[0] + second[0], first[1] and second[1]
            case Binary("or", left, right):
                first, second = self.comparison(left), self.comparison(right)
                if not (first[1] and second[1]):
                    return NOT_IN_DATALOG
                return [either([first[0], second[0]])], True
            case Binary("in", left, ListOf(items)):
                cases = [self.comparison(Binary("=", left, item)) for item in items]
                if not cases or not all(complete for _, complete in cases):
                    return NOT_IN_DATALOG
                return [either(atoms for atoms, _ in cases)], True
            case Call("fits", (Name(c), Name(target))) if self._beside(c, target):
                return [atom("fits", f"v_{c}", f"v_{target}")], True
            case Binary("=", Call("shape", (Name(a),)), Call("shape", (Name(b),))):
                if not self._beside(a, b):
                    return NOT_IN_DATALOG
                there = atom("fits", f"v_{a}", f"v_{b}")
                return [there, atom("fits", f"v_{b}", f"v_{a}")], True
            case Binary("=", Call("dtype", (Name(a),)), Call("dtype", (Name(b),))):
                types = [atom("dtype", f"v_{name}", f"t_{name}") for name in (a, b)]
                return [*types, comparison(f"t_{a}", "=", f"t_{b}")], True
            case Binary("=" | "!=" | "<" | "<=" | ">" | ">=" as operator, left, right):
                return self._compared(operator, self.term(left), self.term(right))
        return NOT_IN_DATALOG

    def _beside(self, a: str, b: str) -> bool:
        """Whether two values meet at a node: graph.dl derives `fits` for those only."""
        for node in self.rule.match:
            inputs = {i.value for i in node.inputs if not i.star}
            outputs = {o.value for o in node.outputs if not o.star}
            if {a, b} <= inputs | outputs and not {a, b} <= outputs:
                return True
        return False

    def _compared(self, operator: str, left: Term | None, right: Term | None) -> Atoms:
        if left is None or right is None:
            return NOT_IN_DATALOG
        if left.real != right.real:
            left, right = _as_real(left), _as_real(right)
            if left is None or right is None:
                return NOT_IN_DATALOG
        atoms = [*left.atoms, *right.atoms]
        if operator != "=" or not (left.plain and right.plain):
            atoms += [*left.guards, *right.guards]
        return [*atoms, comparison(left.value, operator, right.value)], True

    def term(self, expression: Expression) -> Term | None:
        """Compile a number; None when it is beyond Datalog."""
        match expression:
            case Literal(bool()):
                return None
            case Literal(int() as value):
                return Term(value, literal=float(value))
            case Literal(float() as value):
                return Term(value, real=True, literal=value)
            case Name(text) if text in self.names.scalars and text not in self.optional:
                return Term(f"x_{text}", real=True)
            case Name(text) if text in self.integers:
                self.needed.add(text)
                return Term(f"d_{text}")
            case Name(text) if text in self.sizes:
                self.needed.add(text)
                return Term(f"d_{text}", guards=(comparison(f"d_{text}", ">=", 0),))
            case Call("rank", (Name(value),)):
                return Term(f"r_{value}", (atom("rank", f"v_{value}", f"r_{value}"),))
            case Call("dim", (Name(value), Literal(int() as place))):
                return self._dim(value, place)
            case Call("axis", (place, Name(value))):
                return self._axis(self.term(place), value)
            case Binary("+" | "-" | "*" as operator, left, right):
                return self._arithmetic(operator, self.term(left), self.term(right))
        return None

    def _dim(self, value: str, place: int) -> Term:
        if place >= 0:
            variable = f"e_{value}_{place}"
            size = atom("dim", f"v_{value}", place, variable)
        else:
            variable = f"e_{value}_last{-place}"
            size = atom("last_dim", f"v_{value}", -place, variable)
        return Term(variable, (size,), (comparison(variable, ">=", 0),))

    def _axis(self, place: Term | None, value: str) -> Term | None:
        if place is None or place.real:
            return None
        r = f"r_{value}"
        atoms = (*place.atoms, atom("rank", f"v_{value}", r), comparison(r, ">", 0))
        return Term(infix(infix(place.value, "+", r), "%", r), atoms, place.guards)

    def _arithmetic(self, operator: str, left: Term | None, right: Term | None) -> Term | None:
        if left is None or right is None or left.real or right.real:
            return None
        return Term(
            infix(left.value, operator, right.value),
            (*left.atoms, *right.atoms),
            (*left.guards, *right.guards),
            plain=False,
        )


def _as_real(term: Term) -> Term | None:
    if term.real:
        return term
    if term.literal is None:
        return None
    return Term(term.literal, real=True, literal=term.literal)


TYPE_RELATIONS = {"float": "floating", "int": "integral", "number": "numeric"}
Size = DatalogExpression | None  # of a shape: None is a list of sizes


def attribute_text(value: object) -> str:
    """An attribute as the relation `attribute` spells it: `1`, `0.5`, `NOTSET`, `[0, 2, 1]`.

    Floats are spelled at the float32 precision they are stored in.
    """
    value = schemas.plain(value)
    if isinstance(value, float):
        return str(np.float32(value))
    if isinstance(value, tuple):
        return f"[{', '.join(map(attribute_text, value))}]"
    return str(value)


def shape_atoms(value: str, sizes: Sequence[Size]) -> list[DatalogLiteral]:
    """The atoms for a declared shape: its rank, then each size that matters."""
    v, r = f"v_{value}", f"r_{value}"
    match sizes:
        case []:
            return [atom("rank", v, 0)]
        case [d] if d is not None:
            return [atom("vector", v, d)]
        case [d, e] if d is not None and e is not None:
            return [atom("matrix", v, d, e)]
        case [None, d, e] if d is not None and e is not None:
            return [atom("batch_of_matrices", v, d, e)]
    atoms: list[DatalogLiteral]
    if None not in sizes:
        atoms, star = [atom("rank", v, len(sizes))], len(sizes)
    else:
        atoms, star = [atom("rank", v, r)], sizes.index(None)
        if len(sizes) > 1:
            atoms.append(comparison(r, ">=", len(sizes) - 1))
    for place, size in enumerate(sizes):
        if size is not None and not isinstance(size, Wildcard):
            front = atom("dim", v, place, size)
            atoms.append(front if place < star else atom("last_dim", v, len(sizes) - place, size))
    return atoms


def type_atom(value: str, dtypes: tuple[str, ...]) -> Part:
    """The atom that a value has one of some element types."""
    if set(dtypes) == {"float32", "float64"}:
        return atom("single_or_double", f"v_{value}")
    return either([_has_type(value, dtype)] for dtype in dtypes)


def _has_type(value: str, dtype: str) -> DatalogLiteral:
    if dtype in TYPE_RELATIONS:
        return atom(TYPE_RELATIONS[dtype], f"v_{value}")
    return atom("dtype", f"v_{value}", symbol(dtype))


def scalar_atom(value: str, number: float) -> Part:
    """The atom that a constant is a number, as its own element type rounds it."""
    x, v = float(number), f"v_{value}"
    rounded = {t: float(np.dtype(t).type(x)) for t in ("float16", "float32")}
    if all(r == x for r in rounded.values()):
        return atom("scalar", v, x)
    return either(
        [atom("dtype", v, symbol(t)), atom("scalar", v, r)]
        for t, r in (*rounded.items(), ("float64", x))
    )
