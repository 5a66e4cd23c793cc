"""`tensolog rules`: the substitutions that tensolog knows, and the gate that new ones pass."""

from __future__ import annotations

import click

from .check import check
from .derive import derive
from .generate import generate
from .impact import impact
from .import_rules import import_rules
from .list_rules import list_rules
from .mutate import mutate
from .prove import prove
from .reject import reject
from .replay import replay
from .show import show
from .text import format_files, new
from .value import value


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
