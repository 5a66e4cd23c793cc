"""What rules do to a model, and to one node of it, without anything being measured or stored."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...catalog import Catalog
from ...catalog.interruption import interruptible
from ...profiles.kernels.costs import CostModel
from ...profiles.machine import cores
from ...rules import Rule, correction, load_rules, promise
from ...rules.gate.ledger.admission import applicable
from ..graph.fold import FOLD_LIMIT
from ..graph.free_sizes import guesses
from ..match.matcher import Matcher, with_present_operators
from ..match.rewrite import Step, simplify
from ..price import Prices
from ..report.notebook import Text
from ..report.schema import steps_json
from ..rewrites.compute_in_float32 import basis_of
from ..setting import CLASSES, OptionError, Setting, allowed
from ..target import AUTO, for_rules
from .model_graph import read_graph, stored_graph
from .near_misses import near_misses
from .node_story import NodeStory, Question, about, answer
from .partial_match import nearest
from .reason_text import explanation_text
from .reasons import Reason

if TYPE_CHECKING:
    from ..driver import Source


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
    near_misses: list[Reason]
    idle: list[str]
    foreign: list[str] = field(default_factory=list)
    barred: dict[str, str] = field(default_factory=dict)
    reason: str = ""
    opset_in_file: int = 0
    opset: int = 0

    def text(self) -> str:
        """Lay the explanation out for a terminal."""
        return explanation_text(self)

    def _repr_html_(self) -> str:
        return Text(self.text())._repr_html_()

    def to_json(self) -> dict[str, object]:
        """Give the explanation as plain values."""
        return {
            "model": self.model,
            "fired": steps_json(self.fired),
            "weighed": steps_json(self.weighed),
            "near_misses": [miss.near_miss_json() for miss in self.near_misses],
            "idle": self.idle,
            "foreign": self.foreign,
            "barred": self.barred,
            "reason": self.reason,
            "opset_in_file": self.opset_in_file,
            "opset": self.opset,
        }


@interruptible()
def explain_model(
    model: Source,
    *,
    rule: str | None = None,
    target: str = AUTO,
    allow: str | Collection[str] = CLASSES,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    rules: Sequence[Rule] | None = None,
) -> Explanation:
    """Say which rules fire where in a model, and which nearly do; nothing is measured or stored.

    `rule` restricts the answer to one rule. Arguments are those of `optimize`; it raises the same.
    """
    setting = Setting(target=for_rules(target), allow=allowed(allow))
    base = applicable() if rules is None else tuple(rules)
    if rule is not None:
        _named(base, rule)
    with read_graph(model, input_shapes) as read:
        in_file = read.graph.opset()
        graph, basis_steps = basis_of(read.graph, setting, base)
        always = setting.select(base, graph, "always")
        explorative = setting.select(base, graph, "explore")
        fired = basis_steps + simplify(graph, Matcher(always), fold_limit=FOLD_LIMIT)
        weighed = [
            Step(
                rule=match.rule.name,
                nodes=tuple(graph.node_name(number) for number in match.nodes.values()),
                removed=len(match.nodes),
                added=len(match.rule.rewrite) + len(match.rule.correct),
                accepted=False,
                reason="cost decides",
                equal=promise(match.rule),
                summary=match.rule.summary,
                correction=correction(match.rule),
            )
            for match in Matcher(explorative).find(graph)
        ]
        near = near_misses((*always, *explorative), graph)
        seen = {step.rule for step in (*fired, *weighed)} | {miss.rule for miss in near}
        barred = {r.name: setting.bar(r, graph.opset()) for r in base}
        idle = [r.name for r in base if not barred[r.name] and r.name not in seen]
        barred = {name: why for name, why in barred.items() if why}
        at_home = {r.name for r in with_present_operators(base, graph)}
        foreign = [name for name in idle if name not in at_home]
        explanation = Explanation(
            _name_of(model),
            fired,
            weighed,
            near,
            idle,
            foreign,
            barred,
            opset_in_file=in_file,
            opset=graph.opset(),
        )
        if rule is None:
            return explanation
        reason = "" if rule not in idle else nearest(_named(base, rule), graph).reason
    return replace(_only(explanation, rule), reason=reason)


def _named(rules: Sequence[Rule], name: str) -> Rule:
    rule_ = next((rule for rule in rules if rule.name == name), None)
    if rule_ is None:
        raise OptionError(f"there is no rule {name!r}: tensolog rules list names them all")
    return rule_


@interruptible()
def explain_node(
    model: Source,
    name: str,
    *,
    rule: str | None = None,
    target: str = AUTO,
    threads: int | None = None,
    allow: str | Collection[str] = CLASSES,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    rules: Sequence[Rule] | None = None,
    catalog: Catalog,
) -> NodeStory:
    """Say what becomes of one node of a model, and why not something else.

    `name` is the node's, or that of a value it gives; `rule` restricts what is said of rules to
    one. Costs are those that `catalog` holds of this
    machine, else bounds; nothing is measured or stored. Other arguments are those of `optimize`;
    it raises the same, and OptionError where there is no such node.
    """
    setting = Setting(
        target=for_rules(target),
        allow=allowed(allow),
        threads=cores() if threads is None else threads,
    )
    with read_graph(model, input_shapes) as read:
        sizes = next(guesses(read.graph, read.sizes))
        question = Question(setting, applicable() if rules is None else tuple(rules), sizes)
        graph, _ = basis_of(read.graph, setting, question.rules)
        story = answer(graph, name, question, _stored_prices(catalog, setting))
    return story if rule is None else about(story, _named((*question.rules, *load_rules()), rule))


def explain_node_of(
    catalog: Catalog, model_id: int, name: str, question: Question, steps: Sequence[Step]
) -> NodeStory:
    """Say the same of a model that a catalog holds, with the steps of its plan."""
    with stored_graph(catalog, model_id) as read:
        graph, _ = basis_of(read.graph, question.setting, question.rules)
        prices = _stored_prices(catalog, question.setting)
        return answer(graph, name, question, prices, steps)


def _stored_prices(catalog: Catalog, setting: Setting) -> Prices:
    model = CostModel(catalog, threads=setting.threads, measure=False)
    return Prices(model, budget_s=0.0)


def _only(explanation: Explanation, rule: str) -> Explanation:
    return replace(
        explanation,
        fired=[step for step in explanation.fired if step.rule == rule],
        weighed=[step for step in explanation.weighed if step.rule == rule],
        near_misses=[miss for miss in explanation.near_misses if miss.rule == rule],
        idle=[name for name in explanation.idle if name == rule],
        foreign=[name for name in explanation.foreign if name == rule],
        barred={name: why for name, why in explanation.barred.items() if name == rule},
    )


def _name_of(model: Source) -> str:
    return str(model) if isinstance(model, (str, Path)) else "model"
