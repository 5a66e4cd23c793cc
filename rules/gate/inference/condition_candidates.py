"""Simple side conditions that may be what a rule lacks, the weakest first.

All are texts of the rule language over the names that the rule has; which of them is the missing
one, proofs decide (preconditions.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from ....catalog.operators import specification
from ....catalog.terms.index_notation import Apply, Symbol, Term
from ....catalog.terms.syntax_tree import Expression
from ...language.canonical_text import rule_text
from ...language.conditions import bindings
from ...language.errors import RuleError
from ...language.parser import parse_rules
from ...language.syntax import Rule


@dataclass(frozen=True)
class Candidate:
    """A condition as text of `given`; a larger weight excludes more.

    `operand` names the one whose elements it says to be real numbers.
    """

    text: str
    weight: int
    operand: str | None = None


def candidates(rule: Rule, failed: Sequence[Term] = ()) -> tuple[Candidate, ...]:
    """Conditions over a rule's names, each once, by weight; first the obligations that failed."""
    by_text: dict[str, Candidate] = {}
    for candidate in (
        *_obliged(rule, failed),
        *_of_names(rule),
        *_of_shapes(rule),
        *_of_types(rule),
    ):
        known = by_text.get(candidate.text)
        if known is None or candidate.weight < known.weight:
            by_text[candidate.text] = candidate
    return tuple(sorted(by_text.values(), key=lambda candidate: candidate.weight))


def with_conditions(rule: Rule, texts: Sequence[str]) -> Rule | None:
    """The rule with more in its `given`, read anew from its text; None where that is no rule."""
    changed = rule
    items = []
    for text in texts:
        name, _, rest = text.partition(" ")
        operand = changed.operand(name)
        if rest == "float":
            operands = [o for o in changed.operands if o.name != name]
            operands.append(replace(operand, dtypes=("float",)))
            changed = replace(changed, operands=tuple(operands))
        else:
            items.append(text)
    lines = rule_text(changed).splitlines()
    line_number = next((i for i, line in enumerate(lines) if line.startswith("  given ")), None)
    if items and line_number is not None:
        lines[line_number] = (
            f"  given   {', '.join(items)}, {lines[line_number].removeprefix('  given   ')}"
        )
    elif items:
        match = lines.index("  match")
        lines.insert(match, f"  given   {', '.join(items)}")
    try:
        (conditioned,) = parse_rules("\n".join(lines) + "\n")
    except RuleError:
        return None
    return conditioned


def added(rule: Rule, changed: Rule) -> tuple[Expression, ...]:
    """The conditions that a changed rule has and the rule has not."""
    return tuple(expression for expression in changed.given if expression not in rule.given)


# ----------------------------------------------------------------------------------- sources


def _obliged(rule: Rule, failed: Sequence[Term]) -> Iterator[Candidate]:
    """What the right side needs, where the rule's names can say it."""
    names = bindings(rule).variables()
    for condition in failed:
        text = _text(condition, names)
        if text is not None:
            yield Candidate(text, 0)


def _text(term: Term, names: set[str]) -> str | None:
    match term:
        case bool() | float():
            return None
        case int():
            return str(term)
        case Symbol(name):
            return name if name in names else None
        case Apply(function, (left, right)) if function in (
            "=", "!=", "<", "<=", ">", ">=", "+", "-", "*", "//", "%", "and", "or",
        ):  # fmt: skip
            first, other = _text(left, names), _text(right, names)
            return None if first is None or other is None else f"({first} {function} {other})"
        case _:
            return None


# Attributes with the values at which they do nothing.
_NEUTRAL = {
    "group": ("1",),
    "alpha": ("1",),
    "beta": ("1",),
    "keepdims": ("1", "0"),
    "transA": ("0",),
    "transB": ("0",),
    "count_include_pad": ("1", "0"),
    "ceil_mode": ("0",),
    "auto_pad": ('"NOTSET"', '"VALID"'),
    "mode": ('"constant"',),
    "approximate": ('"none"',),
}
_LISTS = {"strides": "1", "dilations": "1", "pads": "0", "kernel_shape": "1"}


def _of_names(rule: Rule) -> Iterator[Candidate]:
    known = bindings(rule)
    for name in sorted(known.scalars):
        yield Candidate(f"{name} != 0", 1)
        yield Candidate(f"{name} > 0", 3)
        yield Candidate(f"{name} >= 0", 2)
        yield Candidate(f"{name} = 1", 8)
    for first, other in combinations(sorted(known.scalars), 2):
        yield Candidate(f"{first} <= {other}", 3)
        yield Candidate(f"{other} <= {first}", 3)
    by_attribute: dict[str, list[str]] = {}
    for name, (_, attribute) in sorted(known.attributes.items()):
        by_attribute.setdefault(attribute, []).append(name)
        for value in _NEUTRAL.get(attribute, ()):
            yield Candidate(f"{name} = {value}", 7)
        if attribute in ("alpha", "beta"):
            yield Candidate(f"{name} != 0", 1)
            yield Candidate(f"{name} > 0", 3)
        if attribute in _LISTS:
            yield Candidate(f"{name} = repeat({_LISTS[attribute]}, len({name}))", 7)
    for names in by_attribute.values():
        for first, other in combinations(names, 2):
            yield Candidate(f"{first} = {other}", 5)
    for name in sorted(known.shapes):
        yield Candidate(f"{name} > 0", 1)
        yield Candidate(f"{name} = 1", 8)
    for first, other in combinations(sorted(known.shapes), 2):
        yield Candidate(f"{first} = {other}", 5)
    for name in sorted(known.stars):
        yield Candidate(f"prod({name}) > 0", 1)
        yield Candidate(f"{name} = repeat(1, len({name}))", 8)
    for first, other in combinations(sorted(known.stars), 2):
        yield Candidate(f"{first} = {other}", 5)


def _of_shapes(rule: Rule) -> Iterator[Candidate]:
    computed = {o.value for n in rule.match for o in n.outputs if not o.star}
    leaves = list(
        dict.fromkeys(
            i.value
            for n in rule.match
            for i in n.inputs
            if i.value and not i.star and i.literal is None and not i.optional
            and i.value not in computed
        )
    )  # fmt: skip
    values = [*leaves, *sorted(computed)]
    beside = _beside(rule)
    for name in leaves:
        if rule.operand(name).scalar:
            continue
        yield Candidate(f"size({name}) > 0", 1)
        if rule.operand(name).shape is None:
            for rank in (4, 3, 2, 1):
                yield Candidate(f"rank({name}) = {rank}", 9)
            yield Candidate(f"size({name}) = 1", 9)
        for other in values:
            if other != name and (name, other) in beside:
                yield Candidate(f"fits({name}, {other})", 4)
    for first, other in combinations(values, 2):
        if (first, other) in beside and (
            rule.operand(first).shape is None or rule.operand(other).shape is None
        ):
            yield Candidate(f"rank({first}) = rank({other})", 4)
            yield Candidate(f"shape({first}) = shape({other})", 6)


def _beside(rule: Rule) -> set[tuple[str, str]]:
    """Values that broadcast with each other, or take each other's place."""
    pairs: set[tuple[str, str]] = set()
    for node in rule.match:
        known = specification(node.domain, node.operators[0], rule.opset_to or 21)
        if known is None or known.kind != "elementwise":
            continue
        names = [i.value for i in node.inputs if i.value and not i.star]
        names += [o.value for o in node.outputs if not o.star]
        pairs |= {(first, other) for first in names for other in names if first != other}
    for alias in rule.aliases:
        if alias.source.value and not alias.source.star:
            pairs |= {(alias.source.value, alias.output), (alias.output, alias.source.value)}
    return pairs


def _of_types(rule: Rule) -> Iterator[Candidate]:
    """Integers behave otherwise: `/` cuts off, and an order doesn't bear + and *."""
    first = next((i.value for n in rule.match for i in n.inputs if i.value and not i.star), None)
    if first is not None and not any(operand.dtypes for operand in rule.operands):
        yield Candidate(f"{first} float", 2, first)
