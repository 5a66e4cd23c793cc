"""Rules as rows of the catalog: rule, rule_node, rule_edge, rule_condition, rule_source."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from .language.canonical_text import attributes_text, expression_text, input_text, operand_text
from .language.conditions import conditions
from .language.syntax import PatternNode, Rule

if TYPE_CHECKING:
    from ..catalog import Catalog

Columns = dict[str, list[object]]
COLUMNS = {
    "rule": (
        "rule_hash",
        "name",
        "family",
        "tag",
        "equal",
        "finite_math",
        "target",
        "opset_from",
        "opset_to",
        "summary",
        "text",
    ),
    "rule_node": ("rule_hash", "side", "position", "op_type", "attributes"),
    "rule_edge": ("rule_hash", "side", "position", "direction", "slot", "value"),
    "rule_condition": ("rule_hash", "position", "condition"),
    "rule_source": ("rule_hash", "position", "source"),
}


def rule_rows(rules: Sequence[Rule]) -> dict[str, Columns]:
    """The columns of each table for some rules; a rule occurs once whatever its spelling."""
    rows: dict[str, list[tuple[object, ...]]] = {table: [] for table in COLUMNS}
    for rule in {rule.hash: rule for rule in rules}.values():
        rows["rule"].append(
            (
                rule.hash,
                rule.name,
                rule.family,
                rule.tag,
                rule.equal,
                rule.finite_math,
                rule.target,
                rule.opset_from,
                rule.opset_to,
                rule.summary,
                rule.text,
            )
        )
        for side, nodes in (("match", rule.match), ("rewrite", rule.rewrite)):
            for position, node in enumerate(nodes):
                rows["rule_node"].append((rule.hash, side, position, *_node(node)))
                rows["rule_edge"] += [(rule.hash, side, position, *e) for e in _edges(node)]
        conditions_text = [operand_text(o) for o in rule.operands]
        conditions_text += [expression_text(e) for e in rule.given]
        conditions_text += [
            text for c in conditions(rule) if (text := str(c)) not in conditions_text
        ]
        rows["rule_condition"] += [(rule.hash, i, text) for i, text in enumerate(conditions_text)]
        rows["rule_source"] += [(rule.hash, i, text) for i, text in enumerate(rule.sources)]
    return {
        table: {column: [row[i] for row in rows[table]] for i, column in enumerate(COLUMNS[table])}
        for table in COLUMNS
    }


@lru_cache(maxsize=2)
def _rows(rules: tuple[Rule, ...]) -> dict[str, Columns]:
    """Spell rules out once for all catalogs that a process fills with them."""
    return rule_rows(rules)


def _node(node: PatternNode) -> tuple[str, str]:
    return "|".join(node.operators), attributes_text(node)


def _edges(node: PatternNode) -> list[tuple[str, int, str]]:
    inputs = [("input", i, input_text(item)) for i, item in enumerate(node.inputs)]
    outputs = [("output", i, ("*" if o.star else "") + o.value) for i, o in enumerate(node.outputs)]
    return inputs + outputs


def store_rules(catalog: Catalog, rules: Sequence[Rule]) -> int:
    """Put the rules that the catalog lacks into it; return how many they were."""
    known = {row[0] for row in catalog.sql("SELECT rule_hash FROM rule").fetchall()}
    new = [rule for rule in rules if rule.hash not in known]
    if not new:
        return 0
    for table, columns in _rows(tuple(new)).items():
        if columns["rule_hash"]:
            catalog.insert(table, columns)
    return len({rule.hash for rule in new})
