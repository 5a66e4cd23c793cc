"""Apply rules without asking what they cost: each must be right, not only those that pay."""

from __future__ import annotations

import functools

from tensolog.optimizer.graph.convert import load_graph, to_model
from tensolog.optimizer.graph.infer import infer_types
from tensolog.optimizer.match.matcher import Matcher
from tensolog.optimizer.match.rewrite import apply_all, simplify
from tensolog.optimizer.setting import Setting
from tensolog.rules import load_rules

FOLD_LIMIT = 64 * 1024
# Each round may undo the one before it: explorative rules have no common direction.
ROUNDS = 2


@functools.cache
def shipped_rules():
    return load_rules()


def half_of(rules, random):
    """Draw a random half of the rules, kept in their order."""
    return tuple(rule for rule in rules if random.random() < 0.5)


def rewritten(model, rules, *, target="onnxruntime-cpu"):
    """Rewrite by all the given rules that can fire; returns (model, names of the rules fired)."""
    graph = load_graph(model)
    graph.types = infer_types(graph)
    setting = Setting(target=target)
    always = Matcher(setting.select(rules, graph, "always"))
    explorative = Matcher(setting.select(rules, graph, "explore"))
    steps = simplify(graph, always, fold_limit=FOLD_LIMIT)
    for _ in range(ROUNDS):
        applied = apply_all(graph, explorative.find(graph), set())
        steps += applied + simplify(graph, always, fold_limit=FOLD_LIMIT)
        if not any(step.accepted for step in applied):
            break
    for step in steps:
        assert step.accepted or "change its type" not in step.reason, f"{step.rule}: {step.reason}"
    return to_model(graph), {step.rule for step in steps}
