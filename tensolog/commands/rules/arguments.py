"""What the commands of `tensolog rules` are given: files of rules, and names of shipped ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from .. import completion

if TYPE_CHECKING:
    from ...rules import Rule

rules_argument = click.argument(
    "rules", metavar="[FILE.rules|NAME]...", nargs=-1, shell_complete=completion.any_rule
)
REFUSED = 1  # exit code: the question was answered, and the answer is no


def chosen(names: Sequence[str], *, everything: bool = False) -> list[Rule]:
    """Read what was named; all shipped rules where `everything` is asked for."""
    from ...rules import load_rules

    if everything:
        if names:
            raise click.UsageError("--all and names exclude each other")
        return list(load_rules())
    if not names:
        raise click.UsageError("name files or rules, or say --all for the shipped ones")
    rules: list[Rule] = []
    for name in names:
        rules += from_file(Path(name)) if _is_path(name) else [shipped(name)]
    return list({(rule.path, rule.name): rule for rule in rules}.values())


def named_rule(name: str) -> Rule:
    """Read one rule: a shipped one by name, or the only one of a file."""
    if not _is_path(name):
        return shipped(name)
    rules = from_file(Path(name))
    if len(rules) != 1:
        names = ", ".join(rule.name for rule in rules) or "none"
        raise click.ClickException(f"{name} should hold one rule; it holds {names}")
    return rules[0]


def shipped(name: str) -> Rule:
    """Find a shipped rule, refused ones among them."""
    import difflib

    from ...rules import load_rules
    from ...rules.load import load_rejected

    known = {rule.name: rule for rule in (*load_rejected(), *load_rules())}
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3)
        advice = f"did you mean {' or '.join(near)}?" if near else "see 'tensolog rules list'"
        raise click.ClickException(f"there is no rule {name!r}: {advice}")
    return known[name]


def from_file(path: Path) -> list[Rule]:
    """Read the rules of a file; at least one."""
    from ...rules import load_rules

    readable(path)
    rules = list(load_rules([path]))
    if not rules:
        raise click.ClickException(f"{path} holds no rule")
    return rules


def readable(path: Path) -> None:
    """Refuse what is no file that can be read."""
    if path.is_dir():
        raise click.ClickException(f"{path} is a folder: name a file of rules")
    if not path.exists():
        raise click.ClickException(f"{path} does not exist")


def is_shipped(rule: Rule) -> bool:
    """Tell whether a rule is one of tensolog's own, word for word."""
    from ...rules import load_rules

    return any(rule.hash == other.hash and rule.name == other.name for other in load_rules())


def refuse() -> NoReturn:
    """End with the exit code of a no."""
    raise click.exceptions.Exit(REFUSED)


def file_of(rule: Rule) -> Path:
    """Name the file that a rule was read from."""
    from importlib import resources

    from ...rules.load import FOUND

    shipped_path = Path(str(resources.files("tensolog.rules"))) / rule.path
    is_own = Path(rule.path).parent.as_posix() in (".", FOUND)
    return shipped_path if is_own and shipped_path.is_file() else Path(rule.path)


def source_text(rule: Rule) -> str:
    """Give a rule as its author wrote it, comment included."""
    from ...rules.language.formatter import cut_rule

    return cut_rule(file_of(rule).read_text(encoding="utf-8"), rule)[0]


def counted(count: int, word: str, words: str = "") -> str:
    """Say how many: 1 rule, 2 rules; 1 entry, 2 entries."""
    return f"{count} {word if count == 1 else words or f'{word}s'}"


def _is_path(name: str) -> bool:
    return name.endswith(".rules") or "/" in name or "\\" in name or Path(name).exists()
