"""The shipped rules, kept on disk as read, and the choice of those that apply to a model."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from functools import cache
from importlib import resources
from importlib.metadata import version
from importlib.resources.abc import Traversable
from pathlib import Path

from ..catalog import operators, terms
from ..catalog.disk_cache import cache_path, cached_on_disk, text_hash
from .language.errors import RuleError, refuse_all
from .language.parser import parse_rules
from .language.promise import promise
from .language.syntax import Rule

REJECTED = "rejected.rules"
# The folder of those that `tensolog rules generate` found.
FOUND = "found"


@cache
def _shipped() -> tuple[Rule, ...]:
    return cached_on_disk(cache_path() / f"shipped-{_version()}.pickle", _read)


def _read() -> tuple[Rule, ...]:
    rules: list[Rule] = []
    for folder, prefix in zip(_folders(), ("", f"{FOUND}/"), strict=False):
        for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
            if file.name.endswith(".rules") and file.name != REJECTED:
                rules += parse_rules(file.read_text(encoding="utf-8"), prefix + file.name)
    return _distinct(rules)


def _folders() -> tuple[Traversable, ...]:
    """The folders of the shipped rules."""
    here = resources.files(__package__)
    found_folder = here / FOUND
    return (here, found_folder) if found_folder.is_dir() else (here,)


def _version() -> str:
    """What reading depends on: the rules, their parser and its tree, and the operators it knows."""
    folders = (
        *_folders(),
        resources.files(__package__) / "language",
        resources.files(operators),
        resources.files(terms),
    )
    texts = [text_hash(folder, (".rules", ".ops", ".lark", ".py")) for folder in folders]
    return hashlib.sha256(" ".join([*texts, version("onnx")]).encode()).hexdigest()[:32]


@cache
def load_rejected() -> tuple[Rule, ...]:
    """Read the rules that were refused: plausible, and false; each comment shows why."""
    file = resources.files(__package__) / REJECTED
    if not file.is_file():
        return ()
    return parse_rules(file.read_text(encoding="utf-8"), REJECTED)


def load_rules(paths: Sequence[Path] | None = None) -> tuple[Rule, ...]:
    """Read the given rule files, or all that are shipped."""
    if paths is None:
        return _shipped()
    rules: list[Rule] = []
    errors: list[RuleError] = []
    for path in paths:
        try:
            rules += _rules_of(path)
        except RuleError as error:
            errors.append(error)
    refuse_all(errors)
    return _distinct(rules)


def _rules_of(path: Path) -> tuple[Rule, ...]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RuleError(str(path), 1, 1, f"can't read the rules: {error}") from error
    return parse_rules(text, str(path))


def _distinct(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    first: dict[str, Rule] = {}
    for rule in rules:
        if (other := first.setdefault(rule.name, rule)) is not rule:
            reason = f"{rule.name} is also defined in {other.path}:{other.line}"
            raise RuleError(rule.path, rule.line, 1, reason, "rename one of them")
    return tuple(rules)


def select_rules(
    rules: Sequence[Rule],
    *,
    opset: int,
    target: str,
    allow: Collection[str],
    operators: Collection[str] | None = None,
) -> tuple[Rule, ...]:
    """Keep the rules for an opset of the default domain, a target and the allowed classes.

    With `operators`, those of a graph, also leave out the rules that need others to match: a
    smaller program is planned in less time.
    """
    return tuple(
        rule
        for rule in rules
        if (rule.opset_from is None or rule.opset_from <= opset)
        and (rule.opset_to is None or opset <= rule.opset_to)
        and rule.target in (None, target)
        and promise(rule) in allow
        and (
            operators is None
            or all(any(op in operators for op in node.operators) for node in rule.match)
        )
    )
