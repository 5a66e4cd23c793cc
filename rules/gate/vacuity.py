"""Rules that say nothing: both sides the same program, or conditions that can't hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..syntax import Input, PatternNode, Rule

if TYPE_CHECKING:
    from ..prover.statement import Outcome


def same_program(rule: Rule) -> bool:
    """Whether both sides are written alike, whatever the values on the way are called.

    Operands in another order are another program: that they commute is something to be proved.
    """
    aliases = {alias.output: alias.source for alias in rule.aliases}
    return _written_out(rule.match, {}, rule.outputs) == _written_out(
        rule.rewrite, aliases, rule.outputs
    )


def _written_out(
    nodes: Sequence[PatternNode], aliases: dict[str, Input], outputs: Sequence[str]
) -> tuple[object, ...]:
    makers = {o.value: (node, at) for node in nodes for at, o in enumerate(node.outputs)}

    def value(name: str) -> object:
        if name in aliases:
            return argument(aliases[name])
        if name not in makers:
            return name
        node, at = makers[name]
        attributes = tuple(sorted((key, repr(said)) for key, said in node.attributes))
        inputs = tuple(argument(given) for given in node.inputs)
        stars = tuple(o.star for o in node.outputs)
        return (at, stars, node.operator, node.choices, attributes, node.rest, inputs)

    def argument(given: Input) -> object:
        if given.value is None:
            return repr(given.literal)
        return (given.star, given.optional, value(given.value))

    return tuple(value(name) for name in outputs)


def cannot_arise(outcome: Outcome) -> bool:
    """Whether the prover left a statement open because its assumptions contradict each other."""
    return outcome.status == "open" and outcome.reason.startswith("vacuous:")
