"""The page on contributing a rule: its commands exist, its texts are judged as it says."""

import re
from pathlib import Path

import click
import pytest
from tensolog.rules import parse_rules
from tensolog.rules.gate.quick_check import quick_check

from .test_cli_help import EVERY

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "contributing-a-rule.md").read_text(encoding="utf-8")
PAGES = ("contributing-a-rule.md", "laws.md", "rules.md")
(RULE,) = re.findall(r"^```\n(# PushMulThroughTile .*?)^```", PAGE, re.MULTILINE | re.DOTALL)
(GIVEN,) = re.findall(r"^```\n(  given .*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def commands():
    shown = re.findall(r"^\$ (tensolog .*)$", PAGE, re.MULTILINE)
    return [line.split(" | ")[0] for line in shown + re.findall(r"`(tensolog [^`]*)`", PAGE)]


def test_its_commands_exist_with_their_options():
    assert len(commands()) > 10
    for line in commands():
        path = max((path for path in EVERY if f"{line} ".startswith(f"{path} ")), key=len)
        assert not isinstance(EVERY[path], click.Group) or line in ("tensolog catalog",), line
        known = {name for parameter in EVERY[path].params for name in parameter.opts}
        assert {word for word in line.split() if word.startswith("-")} <= known, line


def test_the_first_text_is_refuted_and_the_second_stands():
    (first,) = parse_rules(RULE)
    assert quick_check(first, 4.0).status == "refuted"
    (second,) = parse_rules(RULE.replace("  given   X float32|float64\n", GIVEN))
    assert second.given and second.hash != first.hash
    assert quick_check(second, 1.0).status == "sound"


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert target.startswith("http") or (DOCS / target).exists(), target
