"""Conditions spelled as Datalog: symbols, shapes, types, numbers, clauses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from . import schemas
from .terms import real_text

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
