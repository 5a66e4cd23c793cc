"""Conditions of rules as Datalog: comparisons, symbols, shapes, types, numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from .. import schemas
from ..conditions import bindings, optional_values
from ..syntax import Binary, Call, Expression, ListOf, Literal, Name, Rule

Atoms = tuple[list[str], bool]
"""Atoms that follow from an expression, and whether they imply it."""

LEFT_OVER: Atoms = ([], False)


@dataclass(frozen=True)
class Term:
    """A Datalog term with the atoms that bind its variables.

    `guards` say that the symbolic sizes in it are numbers: needed for all but plain equality.
    """

    text: str
    atoms: tuple[str, ...] = ()
    guards: tuple[str, ...] = ()
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
                    return LEFT_OVER
                return [f"({', '.join(first[0])}; {', '.join(second[0])})"], True
            case Binary("in", left, ListOf(items)):
                cases = [self.comparison(Binary("=", left, item)) for item in items]
                if not cases or not all(complete for _, complete in cases):
                    return LEFT_OVER
                return [f"({'; '.join(', '.join(atoms) for atoms, _ in cases)})"], True
            case Call("fits", (Name(c), Name(target))) if self._beside(c, target):
                return [f"fits(v_{c}, v_{target})"], True
            case Binary("=", Call("shape", (Name(a),)), Call("shape", (Name(b),))):
                if not self._beside(a, b):
                    return LEFT_OVER
                return [f"fits(v_{a}, v_{b})", f"fits(v_{b}, v_{a})"], True
            case Binary("=", Call("dtype", (Name(a),)), Call("dtype", (Name(b),))):
                return [f"dtype(v_{a}, t_{a})", f"dtype(v_{b}, t_{b})", f"t_{a} = t_{b}"], True
            case Binary("=" | "!=" | "<" | "<=" | ">" | ">=" as operator, left, right):
                return self._compared(operator, self.term(left), self.term(right))
        return LEFT_OVER

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
            return LEFT_OVER
        if left.real != right.real:
            left, right = _as_real(left), _as_real(right)
            if left is None or right is None:
                return LEFT_OVER
        atoms = [*left.atoms, *right.atoms]
        if operator != "=" or not (left.plain and right.plain):
            atoms += [*left.guards, *right.guards]
        return [*atoms, f"{left.text} {operator} {right.text}"], True

    def term(self, expression: Expression) -> Term | None:
        """Compile a number; None when it is beyond Datalog."""
        match expression:
            case Literal(bool()):
                return None
            case Literal(int() as value):
                return Term(str(value), literal=float(value))
            case Literal(float() as value):
                return Term(real_text(value), real=True, literal=value)
            case Name(text) if text in self.names.scalars and text not in self.optional:
                return Term(f"x_{text}", real=True)
            case Name(text) if text in self.integers:
                self.needed.add(text)
                return Term(f"d_{text}")
            case Name(text) if text in self.sizes:
                self.needed.add(text)
                return Term(f"d_{text}", guards=(f"d_{text} >= 0",))
            case Call("rank", (Name(value),)):
                return Term(f"r_{value}", (f"rank(v_{value}, r_{value})",))
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
            atom = f"dim(v_{value}, {place}, {variable})"
        else:
            variable = f"e_{value}_last{-place}"
            atom = f"last_dim(v_{value}, {-place}, {variable})"
        return Term(variable, (atom,), (f"{variable} >= 0",))

    def _axis(self, place: Term | None, value: str) -> Term | None:
        if place is None or place.real:
            return None
        r = f"r_{value}"
        atoms = (*place.atoms, f"rank(v_{value}, {r})", f"{r} > 0")
        return Term(f"(({place.text} + {r}) % {r})", atoms, place.guards)

    def _arithmetic(self, operator: str, left: Term | None, right: Term | None) -> Term | None:
        if left is None or right is None or left.real or right.real:
            return None
        return Term(
            f"({left.text} {operator} {right.text})",
            (*left.atoms, *right.atoms),
            (*left.guards, *right.guards),
            plain=False,
        )


def _as_real(term: Term) -> Term | None:
    if term.real:
        return term
    if term.literal is None:
        return None
    return Term(real_text(term.literal), real=True, literal=term.literal)


def real_text(value: float) -> str:
    """A float in positional notation, which every Datalog dialect reads."""
    return np.format_float_positional(float(value), unique=True, trim="0")


TYPE_RELATIONS = {"float": "floating", "int": "integral", "number": "numeric"}


def quoted(text: str) -> str:
    """A symbol as Datalog text."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


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


def shape_atoms(value: str, terms: list[str]) -> list[str]:
    """The atoms for a declared shape: its rank, then each size that matters."""
    match terms:
        case []:
            return [f"rank(v_{value}, 0)"]
        case [d] if d != "*":
            return [f"vector(v_{value}, {d})"]
        case [d, e] if "*" not in terms:
            return [f"matrix(v_{value}, {d}, {e})"]
        case ["*", d, e]:
            return [f"batch_of_matrices(v_{value}, {d}, {e})"]
    if "*" not in terms:
        atoms, star = [f"rank(v_{value}, {len(terms)})"], len(terms)
    else:
        atoms, star = [f"rank(v_{value}, r_{value})"], terms.index("*")
        if len(terms) > 1:
            atoms.append(f"r_{value} >= {len(terms) - 1}")
    for place, term in enumerate(terms):
        if term not in ("_", "*"):
            front = f"dim(v_{value}, {place}, {term})"
            back = f"last_dim(v_{value}, {len(terms) - place}, {term})"
            atoms.append(front if place < star else back)
    return atoms


def type_atom(value: str, dtypes: tuple[str, ...]) -> str:
    """The atom that a value has one of some element types."""
    if len(dtypes) == 1 and dtypes[0] in TYPE_RELATIONS:
        return f"{TYPE_RELATIONS[dtypes[0]]}(v_{value})"
    if set(dtypes) == {"float32", "float64"}:
        return f"single_or_double(v_{value})"
    atoms = [
        f"{TYPE_RELATIONS[t]}(v_{value})"
        if t in TYPE_RELATIONS
        else f"dtype(v_{value}, {quoted(t)})"
        for t in dtypes
    ]
    return atoms[0] if len(atoms) == 1 else f"({'; '.join(atoms)})"


def scalar_atom(value: str, number: float) -> str:
    """The atom that a constant is a number, as its own element type rounds it."""
    x = float(number)
    rounded = {t: float(np.dtype(t).type(x)) for t in ("float16", "float32")}
    if all(r == x for r in rounded.values()):
        return f"scalar(v_{value}, {real_text(x)})"
    cases = [
        f"dtype(v_{value}, {quoted(t)}), scalar(v_{value}, {real_text(r)})"
        for t, r in (*rounded.items(), ("float64", x))
    ]
    return f"({'; '.join(cases)})"


def declared(relation: str, columns: Sequence[str], body: Iterable[str]) -> str:
    """The declaration of a relation of numbers and its one clause."""
    typed = ", ".join(f"{column}:number" for column in columns)
    head = f"{relation}({', '.join(columns)})"
    return f".decl {relation}({typed})\n{head} :-\n{joined(body)}.\n"


def joined(atoms: Iterable[str]) -> str:
    """Atoms of a body, one a line, repeated ones once."""
    return ",\n".join(f"    {atom}" for atom in dict.fromkeys(atoms))
