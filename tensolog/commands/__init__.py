"""The commands, one module each, imported when they are called.

What a command computes with is imported within its function: --help and completion take none of it.
"""

from __future__ import annotations

from importlib import import_module

import click

from .. import __version__

# Name of the command = name of its module and of the click command in it (`import` is a keyword,
# so groups hold their own commands).
COMMANDS = (
    "optimize",
    "deploy",
    "serve",
    "explain",
    "profile",
    "devices",
    "sql",
    "catalog",
    "datalog",
    "rules",
    "costs",
)


class LazyGroup(click.Group):
    """A group that imports the module of a command only when that command is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands in the order in which a newcomer meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module; `None` when there is no such command."""
        if cmd_name not in COMMANDS:
            return None
        command = getattr(import_module(f".{cmd_name}", __name__), cmd_name)
        assert isinstance(command, click.Command)
        return command


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Set TENSOLOG_CATALOG to keep the catalog elsewhere, TENSOLOG_DEBUG=1 for tracebacks.",
)
@click.version_option(__version__, "-V", "--version", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def tensolog(debug: bool) -> None:
    """Make ONNX models faster on this machine, and say why.

    \b
    Start with:
      tensolog optimize model.onnx -o fast.onnx
      tensolog explain model.onnx
      tensolog sql "SELECT name, summary FROM rule ORDER BY name"
    """
