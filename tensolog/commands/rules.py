"""`tensolog rules`: the substitutions that tensolog knows, and the gate that new ones pass."""

from __future__ import annotations

import click

from .rules_check import check
from .rules_derive import derive
from .rules_generate import generate
from .rules_impact import impact
from .rules_import import import_rules
from .rules_list import list_rules
from .rules_mutate import mutate
from .rules_prove import prove
from .rules_reject import reject
from .rules_replay import replay
from .rules_show import show
from .rules_text import format_files, new
from .rules_value import value


class InOrder(click.Group):
    """A group that lists its commands in the order in which a contributor meets them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name them as they were added."""
        return list(self.commands)


@click.group(cls=InOrder)
def rules() -> None:
    """Write, check, prove, list or show rules.

    A rule is one block of text that says which piece of a graph may take the place of another
    (docs/rules.md). It is admitted by a proof for all sizes, which the ledger keeps
    (docs/contributing-a-rule.md).

    \b
    Examples:
      tensolog rules list
      tensolog rules show EliminateIdentity
      tensolog rules new EliminateAddOfZero
      tensolog rules check EliminateAddOfZero.rules
      tensolog rules prove EliminateAddOfZero.rules
    """


for command in (
    new,
    format_files,
    check,
    prove,
    impact,
    value,
    reject,
    list_rules,
    show,
    replay,
    mutate,
    import_rules,
    generate,
    derive,
):
    rules.add_command(command)
