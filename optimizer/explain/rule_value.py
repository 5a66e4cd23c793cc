"""What rules are worth on a model: where they match, whether the winner uses them, what it gains.

In: rules and a model. Out: a `ModelValue`, from an optimization as `tensolog optimize` does it, and
for a rule that the winner uses one more without that rule: a plan gains by all of its rewrites
together, and only their absence says what one of them is worth.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from ...catalog import Catalog
from ...rules import Rule
from ..driver import optimize
from ..match.matcher import count_matches
from ..race.contest import ORIGINAL
from ..setting import CLASSES, Setting
from ..target import AUTO, for_rules
from .model_graph import read_graph

if TYPE_CHECKING:
    from ..driver import Source
    from ..result.optimization import Optimization


@dataclass(frozen=True)
class Interval:
    """The time that a result takes of the original's, with its 95 % interval."""

    ratio: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class RuleValue:
    """A rule on a model.

    `places` are its matches in the model as it was read, `reached` those in the e-graph, which
    other rules led to as well. `applied` counts its rewrites in the winner, and `gain_ns` is what
    their kernels cost less, None where no kernel tells. `without` is the ratio of the winner where
    the rule may not be used; None where that was not asked for. `why_not` says why the winner does
    without it.
    """

    rule: str
    places: int
    reached: int
    applied: int
    gain_ns: float | None = None
    without: Interval | None = None
    why_not: str = ""


@dataclass(frozen=True)
class ModelValue:
    """A model, its winner, and the rules that match in it, those that the winner uses first."""

    model: str
    nodes: int
    chosen: str
    winner: Interval
    rules: tuple[RuleValue, ...]
    plan_id: int | None = None


def value_of(
    judged_rules: Sequence[Rule],
    others: Sequence[Rule],
    model: Source,
    *,
    name: str,
    catalog: Catalog,
    leave_one_out: bool = False,
    save: Path | None = None,
    **options: Any,
) -> ModelValue:
    """Say what rules are worth on a model, beside `others`, which may be applied as well.

    With `leave_one_out`, the model is optimized once more without each rule of the winner; with
    `save` the winner is written there. What was found is stored in `catalog` with the plan.
    `options` are those of `optimize`, and so is what is raised.
    """
    names = {rule.name for rule in judged_rules}
    rules = (*judged_rules, *(rule for rule in others if rule.name not in names))
    reached: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="tensolog-value-") as folder:
        search_file = Path(folder) / "search.duckdb"
        result = optimize(model, rules=rules, catalog=catalog, keep=search_file, **options)
        if search_file.exists():
            reached = _reached(search_file)
    if save is not None:
        result.save(save)
    setting = Setting(
        target=for_rules(options.get("target", AUTO)), allow=options.get("allow", CLASSES)
    )
    places, values_of_rules = _places(judged_rules, model, setting), []
    for rule in judged_rules:
        value = _value(rule.name, result, places.get(rule.name, 0), reached.get(rule.name, 0))
        if leave_one_out and value.applied:
            without = [other for other in rules if other.name != rule.name]
            value = replace(
                value,
                without=_interval(optimize(model, rules=without, catalog=catalog, **options)),
            )
        if value.places or value.reached or value.applied:
            values_of_rules.append(value)
    values_of_rules.sort(key=lambda value: (not value.applied, -value.places, value.rule))
    if result.plan_id is not None:
        _store(catalog, result.plan_id, values_of_rules)
    return ModelValue(
        name,
        result.nodes_before,
        result.chosen,
        _interval(result),
        tuple(values_of_rules),
        result.plan_id,
    )


def _places(rules: Sequence[Rule], model: Source, setting: Setting) -> Counter[str]:
    """Count the matches of rules that may be applied to a model, as it is read."""
    with read_graph(model) as read:
        allowed = [rule for rule in rules if not setting.bar(rule, read.graph.opset())]
        return count_matches(allowed, read.graph)


def _reached(path: Path) -> dict[str, int]:
    """Count the matches that a search applied, by rule."""
    with duckdb.connect(str(path), read_only=True) as kept:
        tables = kept.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        if ("e_match",) not in tables:
            return {}
        query = "SELECT rule, count(*) FROM e_match WHERE refusal = '' GROUP BY rule"
        return dict(kept.execute(query).fetchall())


def _value(rule: str, result: Optimization, places: int, reached: int) -> RuleValue:
    steps = [step for step in result.plan if step.rule == rule]
    taken = [step for step in steps if step.accepted and result.chosen != ORIGINAL]
    if taken:
        gains = [
            step.cost_before_ns - step.cost_after_ns
            for step in taken
            if step.cost_before_ns is not None and step.cost_after_ns is not None
        ]
        return RuleValue(rule, places, reached, len(taken), sum(gains) if gains else None)
    why = next((step.reason for step in steps if not step.accepted), "")
    if not why and result.chosen == ORIGINAL:
        why = "the original was kept"
    return RuleValue(rule, places, reached, 0, why_not=why)


def _interval(result: Optimization) -> Interval:
    """The ratio of a result; the original takes its own time."""
    chosen = next(
        (candidate for candidate in result.candidates if candidate.candidate == result.chosen), None
    )
    if chosen is None or chosen.ratio is None or result.chosen == ORIGINAL:
        return Interval(1.0)
    return Interval(chosen.ratio, chosen.ratio_low, chosen.ratio_high)


def _store(catalog: Catalog, plan_id: int, values: Collection[RuleValue]) -> None:
    columns: dict[str, list[object]] = {
        "plan_id": [plan_id for _ in values],
        "rule": [value.rule for value in values],
        "places": [value.places for value in values],
        "reached": [value.reached for value in values],
        "applied": [value.applied for value in values],
        "gain_ns": [value.gain_ns for value in values],
        "ratio_without": [value.without.ratio if value.without else None for value in values],
        "why_not": [value.why_not for value in values],
    }
    if values:
        catalog.insert("plan_rule", columns)
