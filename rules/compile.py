"""Rules to a Datalog program that finds where they match."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import resources

from . import schemas
from .atoms import attribute_text, quoted
from .clause import choice_name, clause_of
from .conditions import Condition, HasDefaults, conditions
from .syntax import Rule

__all__ = ["attribute_text", "columns", "compile_program", "graph_relations", "remainder"]


@cache
def graph_relations() -> str:
    """The text of rules/graph.dl: the relations of a graph and what is derived from them."""
    return (resources.files(__package__) / "graph.dl").read_text(encoding="utf-8")


def compile_program(rules: Sequence[Rule]) -> str:
    """Compile the left sides: rules/graph.dl and one relation `match_<Name>` a rule.

    Columns: the nodes `n_*`, the values `v_*`, bound dimensions and integer attributes `d_*`,
    positions of operands between two lists `p_*`; `matches` reads them.
    """
    parts = [graph_relations(), default_facts(rules)]
    for rule in rules:
        clause = clause_of(rule)
        relation = f"match_{rule.name}"
        parts.append(f"// {rule.summary}\n{clause.text()}\n.output {relation}\n")
    return "\n".join(parts)


def default_facts(rules: Sequence[Rule]) -> str:
    """Facts that rules need: defaults of attributes they leave out, choices of operators."""
    facts: set[str] = set()
    for rule in rules:
        asked = {c.node for c in conditions(rule) if isinstance(c, HasDefaults)}
        for node in rule.match:
            if node.name not in asked:
                continue
            for operator in node.operators:
                defaults = schemas.attribute_defaults(operator, rule.opset_from, rule.opset_to)
                for name, value in ((n, v) for n, values in defaults.items() for v in values):
                    spelled = quoted(attribute_text(value))
                    fact = f"{quoted(operator)}, {quoted(name)}, {spelled}"
                    facts.add(f"default_attribute({fact}).")
    for rule in rules:
        for variable, operators in rule.choices:
            name = quoted(choice_name(rule, variable))
            facts |= {f"choice({name}, {quoted(operator)})." for operator in operators}
    return "".join(f"{fact}\n" for fact in sorted(facts))


@cache
def columns(rule: Rule) -> tuple[str, ...]:
    """The columns of a rule's match relation."""
    return clause_of(rule).columns()


@cache
def remainder(rule: Rule) -> tuple[Condition, ...]:
    """The conditions that the Datalog clause leaves to `check_conditions`."""
    return clause_of(rule).left_over
