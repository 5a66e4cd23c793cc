"""Explanations: which rules fired where, and for those that did not, the condition that failed."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...catalog.datalog.syntax import String
from ...rules import Rule, describe_miss, is_reported
from ...rules import near_misses as find_near_misses
from ..graph.graph import Graph
from ..match.clauses import near_clauses, readings
from ..match.rewrite import Step, tables_of, with_place
from ..report.notebook import Text
from ..unproved import marked

if TYPE_CHECKING:
    from ..report.schema import NearMiss

SHOWN_PLACES = 4
SHOWN_MISSES = 3
WIDTH = 100


@dataclass
class Explanation:
    """What the rules do to a model without anything being measured.

    `fired` lists the rewrites that are always made, `weighed` the places where measured costs
    would decide, `near_misses` those where all conditions of a rule but one hold, `idle` the rules
    that have no such place, `foreign` those of them about operators that do not occur, `barred`
    those that may not be applied to the model, and why. `reason` says of a rule that was asked for
    why it has no place. `opset_in_file` is the operator set of the model, `opset` the one in which
    the rules read it.
    """

    model: str
    fired: list[Step]
    weighed: list[Step]
    near_misses: list[NearMiss]
    idle: list[str]
    foreign: list[str] = field(default_factory=list)
    barred: dict[str, str] = field(default_factory=dict)
    reason: str = ""
    opset_in_file: int = 0
    opset: int = 0

    def text(self) -> str:
        """Lay the explanation out for a terminal."""
        parts = [
            _section("Fired", _places(self.fired)),
            _section("Decided by cost (tensolog optimize measures them)", _places(self.weighed)),
            _section("Nearly fired", _misses(self.near_misses)),
            *self._idle(),
            *(_section(f"Not applied: {why}", _names(of)) for why, of in self._by_reason()),
            read_as(self.opset_in_file, self.opset),
        ]
        found = [part for part in parts if part]
        return "\n\n".join(found) if found else "No rule has a place in this model."

    def _repr_html_(self) -> str:
        return Text(self.text())._repr_html_()

    def _idle(self) -> Iterator[str]:
        if self.reason:
            yield f"No place for {', '.join(self.idle)}: {self.reason}"
        elif self.idle:
            foreign = set(self.foreign)
            lines = _names([name for name in self.idle if name not in foreign])
            if foreign:
                lines.append(f"  {len(foreign)} more are about operators that the model has not")
            yield _section(f"No place for {len(self.idle)} rules (--rule NAME says why)", lines)

    def _by_reason(self) -> Iterable[tuple[str, list[str]]]:
        found: dict[str, list[str]] = {}
        for name, why in self.barred.items():
            found.setdefault(why, []).append(name)
        return found.items()

    def to_json(self) -> dict[str, object]:
        """Give the explanation as plain values."""
        from ..result.optimization import steps_json

        return {
            "model": self.model,
            "fired": steps_json(self.fired),
            "weighed": steps_json(self.weighed),
            "near_misses": self.near_misses,
            "idle": self.idle,
            "foreign": self.foreign,
            "barred": self.barred,
            "reason": self.reason,
            "opset_in_file": self.opset_in_file,
            "opset": self.opset,
        }


def read_as(opset_before: int, opset_after: int) -> str:
    """Say that a model was read in a newer operator set than its file's; nothing if it was not."""
    if opset_before == opset_after:
        return ""
    return (
        f"Operator set {opset_before} became {opset_after}, in which more rules apply: each node "
        "means there what it meant, or was written anew."
    )


def explain_text(
    plan: Sequence[Step], near: Sequence[NearMiss], verdict: str = "", raised: str = ""
) -> Text:
    """Say what an optimization applied, weighed and nearly fired; the verdict comes last."""
    accepted = [step for step in plan if step.accepted]
    refused = [step for step in plan if not step.accepted]
    parts = [
        _section("Applied", _places(accepted)),
        _section("Weighed and left", _places(refused)),
        _section("Nearly fired", _misses(near)),
        raised,
        verdict,
    ]
    return Text("\n\n".join(part for part in parts if part))


def _section(title: str, lines: Sequence[str]) -> str:
    return "\n".join([title, *lines]) if lines else ""


def _names(names: Sequence[str]) -> list[str]:
    """Names on lines that fit a terminal."""
    indent = "  "
    return textwrap.wrap(", ".join(names), WIDTH, initial_indent=indent, subsequent_indent=indent)


def _places(steps: Iterable[Step]) -> list[str]:
    by_rule: dict[tuple[str, str], list[Step]] = {}
    for step in steps:
        by_rule.setdefault((step.rule, step.reason), []).append(step)
    lines: list[str] = []
    for (rule, reason), found in by_rule.items():
        count = f" ({len(found)}x)" if len(found) > 1 else ""
        lines.append(f"  {marked(rule)}{count}: {reason}")
        for step in found[:SHOWN_PLACES]:
            if step.nodes:
                shown = ", ".join(step.nodes[:SHOWN_PLACES])
                more = len(step.nodes) - SHOWN_PLACES
                lines.append(f"    at {shown}" + (f" and {more} more" if more > 0 else ""))
        if len(found) > SHOWN_PLACES:
            lines.append(f"    and at {len(found) - SHOWN_PLACES} more places")
    return lines


def _misses(near: Sequence[NearMiss]) -> list[str]:
    by_rule: dict[str, list[NearMiss]] = {}
    for miss in near:
        by_rule.setdefault(miss["rule"], []).append(miss)
    lines: list[str] = []
    for rule, found in by_rule.items():
        lines.append(f"  {rule}: {len(found)} near miss{'es' if len(found) > 1 else ''}")
        details = [miss.get("detail") or miss["condition"] for miss in found[:SHOWN_MISSES]]
        lines += [f"    {detail.removeprefix(f'{rule}: ')}" for detail in details]
        if len(found) > SHOWN_MISSES:
            lines.append(f"    and {len(found) - SHOWN_MISSES} more")
    return lines


class _Nearly(Mapping[str, "_Rows"]):
    """The relations that near misses are read from, for the rules whose structure occurs."""

    def __init__(self, rules: Sequence[Rule], graph: Graph) -> None:
        self.symbols: dict[str, int] = {}
        self.tables = tables_of(graph, rules, self.symbols)
        self.rules = [
            rule
            for rule, reading in readings(rules, uses=True).items()
            if reading.may_match(self.tables)
        ]
        self.names: list[str] = []
        for rule in self.rules:
            clauses = near_clauses(rule)
            self.tables.define(clauses)
            self.names += clauses
            for conjunction in clauses.get(f"nearly_{rule.name}", ()):
                for term in conjunction.head:
                    if isinstance(term, String):
                        self.symbols.setdefault(term.value, len(self.symbols))

    def __getitem__(self, name: str) -> _Rows:
        columns = [column.tolist() for column in self.tables.rows(name)]
        if name.startswith("nearly_") and columns:
            texts = list(self.symbols)
            columns[0] = [texts[number] for number in columns[0]]
        return _Rows(list(zip(*columns, strict=True)))

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True)
class _Rows:
    rows: list[tuple[Any, ...]]

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self.rows


def near_misses(rules: Sequence[Rule], graph: Graph) -> list[NearMiss]:
    """List the places in a graph where all conditions of a rule hold but one."""
    possible = [rule for rule in with_place(rules, graph) if is_reported(rule)]
    if not possible:
        return []
    relations = _Nearly(possible, graph)
    return [
        {
            "rule": miss.rule.name,
            "nodes": [graph.node_name(number) for number in miss.match.nodes.values()],
            "condition": miss.condition,
            "detail": describe_miss(miss.rule, miss.condition, miss.match, graph),
        }
        for miss in find_near_misses(relations.rules, relations, graph)
    ]
