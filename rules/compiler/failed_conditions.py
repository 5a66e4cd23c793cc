"""Near misses: where all conditions of a rule but one hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import NoneType

from ...catalog.datalog.language import builders
from ...catalog.datalog.language.builders import Definition, absent, atom, distinct
from ...catalog.datalog.language.formulas import formula_variables
from ...catalog.datalog.language.syntax import Atom
from ...catalog.terms.syntax_tree import Name
from ..language.conditions import (
    Condition,
    HasAttribute,
    HasDefaults,
    HasShape,
    HasType,
    Holds,
    IsConstant,
    IsLiteral,
    IsScalar,
    ListAgrees,
    RestAgrees,
    UnusedOutputs,
    UsedOnlyHere,
    bindings,
    conditions,
)
from ..language.rank_bounds import Within
from ..language.repetition import pattern
from ..language.syntax import Rule
from .bindings import Bindings
from .compile import clause_of
from .match_rows import match_of
from .view import ABSENT, Match, NamedView

# A literal or a fixed attribute tells which operation is meant: an Add of something else than 0 is
# not a failed attempt at adding 0.
IDENTIFYING = (IsLiteral, HasAttribute, ListAgrees)


@dataclass(frozen=True)
class NearMiss:
    """A place where the structure of a rule was found and a condition fails."""

    rule: Rule
    condition: Condition
    match: Match


def nearly(rule: Rule) -> list[Definition]:
    """The relation `nearly_<Name>` of a rule; nothing where no condition is left to Datalog.

    One clause for each condition: the others hold, and the rule does not match. Its rows are read
    by `near_match_of`.
    """
    clause = clause_of(rule)
    name, columns = f"nearly_{rule.name}", clause.structural
    missing = ["_" if column.startswith("d_") else column for column in clause.columns()]
    head, no_match = atom(name, *columns), absent(f"match_{rule.name}", *missing)
    bodies = [
        distinct([*_grounded(clause.body(without=part.condition)), no_match])
        for part in clause.parts
        if part.atoms and not isinstance(part.condition, (*IDENTIFYING, NoneType))
    ]
    typed = tuple((column, "number") for column in columns)
    return [Definition(name, typed, tuple((head, body) for body in bodies))] if bodies else []


def near_match_of(rule: Rule, row: tuple[int, ...]) -> Match:
    """One row of `nearly_<Name>` as a match on which a condition fails; its sizes are not known."""
    unknown_sizes = len(clause_of(rule).columns()) - len(row)
    return match_of(rule, (*row, *(0,) * unknown_sizes))


def is_reported(rule: Rule) -> bool:
    """Whether near misses of a rule tell a reader something."""
    return len(rule.match) > 1 or len(_telling(rule)) > 2


def _telling(rule: Rule) -> list[Condition]:
    return [c for c in conditions(pattern(rule)) if not isinstance(c, IDENTIFYING)]


def _grounded(parts: Iterable[builders.Part]) -> list[builders.Part]:
    """Leave out comparisons of variables that nothing binds any more."""
    kept = list(parts)
    bound = set().union(*(_names(part) for part in kept if isinstance(part, Atom)))
    return [part for part in kept if isinstance(part, Atom) or _names(part) <= bound]


def _names(part: builders.Part) -> set[str]:
    return {variable.name for variable in formula_variables(part)}


def misses_among(rule: Rule, candidates: Iterable[Match], view: NamedView) -> list[NearMiss]:
    """List the candidates on which exactly one condition of a rule fails, each place once.

    Candidates are the near matches, and the matches where conditions are left to Python.
    """
    misses: dict[tuple[Condition, tuple[int, ...]], NearMiss] = {}
    for match in candidates:
        failed = failed_conditions(match, view)
        if len(failed) == 1 and not isinstance(failed[0], IDENTIFYING):
            place = tuple(sorted(match.nodes.values()))
            misses.setdefault((failed[0], place), NearMiss(rule, failed[0], match))
    return list(misses.values())


def failed_conditions(match: Match, view: NamedView) -> list[Condition]:
    """The conditions of a rule that don't hold where its structure was found."""
    bound = Bindings(match, view)
    failed: list[Condition] = []
    for condition in conditions(match.rule):
        match condition:
            case UsedOnlyHere(value, uses):
                holds = view.use_count(bound.value(value)) == uses
            case UnusedOutputs(node, listed):
                extra = view.outputs(bound.match.nodes[node])[listed:]
                holds = not any(v != ABSENT and view.use_count(v) for v in extra)
            case _:
                holds = bound.holds(condition)
        if not holds:
            failed.append(condition)
    return failed


def why_missed(miss: NearMiss, view: NamedView) -> str:
    """Say in one sentence which condition of a rule failed, for which values and shapes."""
    rule, match = miss.rule, miss.match
    places = " feeds ".join(view.node_name(match.nodes[node.name]) for node in rule.match)
    reason = _reason(miss.condition, Bindings(match, view), view)
    return f"{places if _is_chain(rule) else _listed(rule, match, view)}, but {reason}"


def _is_chain(rule: Rule) -> bool:
    """Whether each node of the pattern reads an output of the one before."""
    return all(
        {o.value for o in a.outputs} & {i.value for i in b.inputs}
        for a, b in zip(rule.match, rule.match[1:], strict=False)
    )


def _listed(rule: Rule, match: Match, view: NamedView) -> str:
    names = [view.node_name(match.nodes[node.name]) for node in rule.match]
    return f"{', '.join(names[:-1])} and {names[-1]} are there" if names[1:] else names[0]


def _reason(condition: Condition, bound: Bindings, view: NamedView) -> str:
    def named(value: str) -> str:
        number = bound.match.values.get(value, ABSENT)
        return value if number == ABSENT else f"{value} ({view.value_name(number)})"

    match condition:
        case IsConstant(value) | IsScalar(value):
            kind = "a constant of one element" if isinstance(condition, IsScalar) else "constant"
            return f"{named(value)} is not {kind}"
        case HasType(value, dtypes):
            dtype = view.dtype(bound.value(value)) or "of unknown type"
            return f"{named(value)} is {dtype}, not {' or '.join(dtypes)}"
        case HasShape(value):
            shape = view.shape(bound.value(value))
            shown = "unknown" if shape is None else f"[{', '.join(map(str, shape))}]"
            wanted = str(condition).rsplit(" has shape ", 1)[1]
            known = _sizes(condition, bound)
            return f"{named(value)} has shape {shown}, not {wanted}{known}"
        case UsedOnlyHere(value, uses):
            users = view.use_count(bound.value(value))
            return f"value {view.value_name(bound.value(value))} has {users} users, not {uses}"
        case UnusedOutputs(node, listed):
            name = view.node_name(bound.match.nodes[node])
            return f"an output of {name} after the first {listed} is used"
        case HasDefaults(node, attributes):
            pattern = bound.patterns[node]
            changed = set(bound.remaining(node, pattern.mentioned)) & set(attributes)
            name = view.node_name(bound.match.nodes[node])
            return f"{', '.join(sorted(changed))} of {name} is not the default"
        case RestAgrees(node, _, mentioned, first):
            here, there = bound.remaining(node, mentioned), bound.remaining(first, mentioned)
            names = sorted(n for n in {*here, *there} if here.get(n) != there.get(n))
            return f"they differ in {', '.join(names)}"
        case Within():
            return f"the rule is {bound.explain(condition)}"
        case Holds():
            return f"it does not hold that {bound.explain(condition)}"
    return f"it is not so that {bound.explain(condition)}"


def _sizes(condition: HasShape, bound: Bindings) -> str:
    """The sizes that the names of a shape have from other operands."""
    binding = {**bindings(bound.rule).stars}
    binding |= {name: operand for name, (operand, _) in bindings(bound.rule).shapes.items()}
    known = [
        f"{size.text} = {bound.names[size.text]}"
        for size in condition.shape
        if isinstance(size, Name)
        and size.text in bound.names
        and binding.get(size.text) != condition.value
    ]
    return f" with {', '.join(known)}" if known else ""
