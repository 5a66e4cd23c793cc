"""Near misses: where all conditions of a rule but one hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...catalog.datalog.language import builders
from ...catalog.datalog.language.builders import Definition, absent, atom, distinct, symbol
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
from .compile import Clause, clause_of, compile_program, remainder
from .match_rows import Rows, match_of, matches
from .view import ABSENT, Match, NamedView

# A literal or a fixed attribute tells which operation is meant: an Add of something else than 0 is
# not a failed attempt at adding 0.
IDENTIFYING = (IsLiteral, HasAttribute, ListAgrees)


@dataclass(frozen=True)
class NearMiss:
    """A place where the structure of a rule and all its conditions but one were found."""

    rule: Rule
    condition: str
    match: Match


def compile_misses(rules: Sequence[Rule]) -> str:
    """Compile the rules and for each of them what nearly matches.

    `nearly_<Name>(condition, n_*, v_*, p_*)`: all conditions that Datalog decides hold but the one
    named. `reached_<Name>(n_*, v_*)`: all nodes of the pattern but the last were found.
    Rules whose single node makes every other use of an operator a near miss have neither.
    """
    parts = [compile_program(rules)]
    for rule in rules:
        if not is_reported(rule):
            continue
        definitions = nearly(rule) + (_reached(clause_of(rule)) if len(rule.match) > 1 else [])
        for definition in definitions:
            name = definition.name
            output = "" if name.startswith("found_") else f".output {name}\n"
            parts.append(definition.text() + output)
    return "\n".join(parts)


def nearly(rule: Rule) -> list[Definition]:
    """The relation `nearly_<Name>` of a rule; nothing where no condition is left to Datalog.

    One clause for each condition: the others hold, and the rule does not match.
    """
    clause = clause_of(rule)
    name, columns = f"nearly_{rule.name}", clause.structural
    missing = ["_" if column.startswith("d_") else column for column in clause.columns()]
    rules: list[tuple[Atom, tuple[builders.Part, ...]]] = []
    for part in clause.parts:
        condition = part.condition
        if condition is None or isinstance(condition, IDENTIFYING) or not part.atoms:
            continue
        body = _grounded(clause.body(without=condition))
        head = atom(name, symbol(str(condition)), *columns)
        rules.append((head, distinct([*body, absent(f"match_{rule.name}", *missing)])))
    typed = (("condition", "symbol"), *((column, "number") for column in columns))
    return [Definition(name, typed, tuple(rules))] if rules else []


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


def _reached(clause: Clause) -> list[Definition]:
    """All nodes but the last, where the last one is missing."""
    rule, structure = clause.rule, clause.parts[0].atoms
    last = f"n_{rule.match[-1].name}"
    grounded = _grounded(part for part in structure if last not in _names(part))
    bound = set().union(*(_names(part) for part in grounded if isinstance(part, Atom)))
    columns = [column for column in clause.structural if column in bound]
    absence = absent(f"found_{rule.name}", *columns)
    return [
        Definition.of_numbers(f"found_{rule.name}", columns, structure),
        Definition.of_numbers(f"reached_{rule.name}", columns, [*grounded, absence]),
    ]


def near_misses(
    rules: Sequence[Rule],
    relations: Mapping[str, Rows],
    view: NamedView,
) -> list[NearMiss]:
    """Read the near misses from the evaluated program: exactly one condition fails.

    What the clause leaves to Python counts too: a match on which one such condition fails, and a
    near match on which all of them hold.
    """
    misses: list[NearMiss] = []
    for rule in rules:
        if not is_reported(rule):
            continue
        candidates = [(m, None) for m in matches(rule, relations)] if remainder(rule) else []
        rows = _rows(rule, relations)
        for match, _ in [*candidates, *((match, text) for text, match in rows)]:
            failed = failed_conditions(match, view)
            if len(failed) == 1 and not isinstance(failed[0], IDENTIFYING):
                misses.append(NearMiss(rule, str(failed[0]), match))
    unique: dict[tuple[str, str, tuple[int, ...]], NearMiss] = {}
    for miss in misses:
        key = (miss.rule.name, miss.condition, tuple(sorted(miss.match.nodes.values())))
        unique.setdefault(key, miss)
    return list(unique.values())


def _rows(rule: Rule, relations: Mapping[str, Rows]) -> list[tuple[str, Match]]:
    name = f"nearly_{rule.name}"
    if name not in relations:
        return []
    width = len(clause_of(rule).columns())
    rows = sorted(relations[name].fetchall())
    return [(row[0], match_of(rule, (*row[1:], *(0,) * (width - len(row) + 1)))) for row in rows]


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


def describe_miss(rule: Rule, condition: str, match: Match, view: NamedView) -> str:
    """Say in one sentence which condition of a rule failed, for which values and shapes."""
    return f"{rule.name}: {why_missed(rule, condition, match, view)}"


def why_missed(rule: Rule, condition: str, match: Match, view: NamedView) -> str:
    """Say the same without the rule's name."""
    places = " feeds ".join(view.node_name(match.nodes[node.name]) for node in rule.match)
    failed = next((c for c in conditions(rule) if str(c) == condition), None)
    reason = condition if failed is None else _reason(failed, Bindings(match, view), view)
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
