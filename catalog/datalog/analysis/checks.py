"""What declarations and clauses must not say, besides what scopes and types tell of clauses."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ...terms.syntax_tree import walk
from ..language.syntax import (
    COUNTER,
    Atom,
    Clause,
    DatalogError,
    Declaration,
    Directive,
    Errors,
    Functor,
    Number,
    Subsumption,
    counters,
    walk_inside,
)
from .type_inference import FLOAT, Kinds

# -- declarations


@dataclass
class Directives:
    """The directives of a program: what is read, by relation, written, and sized up.

    `limits` are numbers of rows by relation, with which a recursion ends.
    """

    inputs: dict[str, list[Directive]] = field(default_factory=dict)
    outputs: list[Directive] = field(default_factory=list)
    printsizes: list[Directive] = field(default_factory=list)
    limits: dict[str, int] = field(default_factory=dict)


def declared(declarations: Iterable[Declaration], errors: Errors) -> dict[str, Declaration]:
    """Give the declarations by name; the first one counts of two."""
    by_name: dict[str, Declaration] = {}
    for declaration in declarations:
        first = by_name.setdefault(declaration.name, declaration)
        if first is not declaration:
            reason = f"relation {declaration.name} is declared twice"
            line = first.position.line
            errors.reported.append(
                DatalogError.at(declaration.position, f"{reason} (first in line {line})")
            )
    return by_name


def check_qualifiers(
    declarations: Mapping[str, Declaration],
    columns: Mapping[str, tuple[str, ...]],
    errors: Errors,
) -> None:
    """Refuse an eqrel relation that is none of pairs of one type."""
    for name, kinds in columns.items():
        declaration = declarations[name]
        if "eqrel" in declaration.qualifiers and (len(kinds) != 2 or kinds[0] != kinds[1]):
            reason = f"eqrel relation {name} needs two columns of one type"
            errors.reported.append(DatalogError.at(declaration.position, reason))


def keys_of(declaration: Declaration) -> tuple[tuple[int, ...], ...]:
    """Give the columns of each key, each key once; of columns that there are."""
    places = {attribute.name: place for place, attribute in enumerate(declaration.attributes)}
    keys = (sorted({places[name] for name in key if name in places}) for key in declaration.keys)
    return tuple(dict.fromkeys(tuple(key) for key in keys if key))


def check_keys(
    declarations: Mapping[str, Declaration], subsumptions: Iterable[Subsumption], errors: Errors
) -> None:
    """Refuse a choice-domain of columns that aren't there, or of rows that enter in other ways."""
    losing = {subsumption.dominated.name for subsumption in subsumptions}
    for name, declaration in declarations.items():
        known = {attribute.name for attribute in declaration.attributes}
        reasons = [
            f"the choice-domain of {name} names {column}, which is no column of it"
            for column in dict.fromkeys(itertools.chain.from_iterable(declaration.keys))
            if column not in known
        ]
        if declaration.keys and "eqrel" in declaration.qualifiers:
            reasons.append(
                f"choice-domain of the eqrel relation {name} is outside the dialect: choose in a "
                "relation that it reads"
            )
        if declaration.keys and name in losing:
            reasons.append(
                f"choice-domain and subsumption of {name} are outside the dialect together: "
                "choose in a relation that reads it"
            )
        for reason in reasons:
            errors.reported.append(DatalogError.at(declaration.position, reason))


def directives_of(
    directives: Iterable[Directive], declarations: Mapping[str, Declaration], errors: Errors
) -> Directives:
    """Sort directives by what they ask for; of relations that are declared."""
    sorted_directives = Directives()
    for directive in directives:
        name = directive.relation
        if name not in declarations:
            reason = f"relation {name} is not declared"
            errors.reported.append(DatalogError.at(directive.position, reason))
        elif directive.action == "input":
            sorted_directives.inputs.setdefault(name, []).append(directive)
        elif directive.action == "output":
            sorted_directives.outputs.append(directive)
        elif directive.action == "limitsize":
            sorted_directives.limits[name] = int(directive.parameters["n"])
        else:
            sorted_directives.printsizes.append(directive)
    return sorted_directives


# -- clauses


def check_atom(atom: Atom, columns: Mapping[str, tuple[str, ...]]) -> None:
    """Refuse an atom of a relation that is not declared, or of another number of columns."""
    if atom.name not in columns:
        raise DatalogError.at(atom.position, f"relation {atom.name} is not declared")
    have, want = len(atom.arguments), len(columns[atom.name])
    if have != want:
        raise DatalogError.at(
            atom.position,
            f"relation {atom.name} has {want} {'column' if want == 1 else 'columns'}, not {have}",
        )


def check_subsumption(subsumption: Subsumption, columns: Mapping[str, tuple[str, ...]]) -> None:
    """Refuse a subsumption of tuples of two relations, or of one without columns."""
    dominated, dominating = subsumption.dominated, subsumption.dominating
    check_atom(dominated, columns)
    check_atom(dominating, columns)
    if dominated.name != dominating.name:
        raise DatalogError.at(
            dominating.position,
            f"subsumption compares tuples of one relation, not of {dominated.name} "
            f"and {dominating.name}",
        )
    if not columns[dominated.name]:
        raise DatalogError.at(
            dominated.position, f"subsumption needs columns, {dominated.name} has none"
        )


def check_divisors(clause: Clause, kinds: Kinds) -> None:
    """Refuse a fact that divides by zero: no solution is needed to meet it."""
    for node in () if clause.body else (n for a in clause.head.arguments for n in walk(a)):
        if isinstance(node, Functor) and node.name in ("/", "%") and kinds.of(node) != FLOAT:
            divisor = node.arguments[1]
            if isinstance(divisor, Number) and divisor.value == 0:
                raise DatalogError.at(node.position, "division by zero")


def check_counters(clause: Clause) -> None:
    """Refuse counters but in heads of rules: elsewhere there is no solution to number."""
    allowed = list(counters(clause)) if clause.body else []
    body = (e for b in clause.body for e in b.parts)
    for node in (n for e in (*clause.head.arguments, *body) for n in walk_inside(e)):
        if isinstance(node, Functor) and node.name == COUNTER and node not in allowed:
            where = "bodies and aggregates" if clause.body else "facts"
            raise DatalogError.at(
                node.position, f"autoinc() ($) can't stand in {where}, but in heads of rules"
            )
