"""The package's long description: README as it is shown elsewhere, where no page lies beside it.

Everything else is in pyproject.toml. Where its project.urls name a Source, links lead there; until
then they are plain names, of files that the source distribution holds.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).parent


# Fenced code, links (whose labels may hold code), and other code, in which nothing is a link.
PARTS = re.compile(
    r"^```.*?^```|\[((?:`[^`\n]*`|[^\]`])*)\]\(([^)\s]+)\)|`[^`\n]*`", re.MULTILINE | re.DOTALL
)
AWAY = re.compile(r"[a-z]+:|#")


def shown_elsewhere(text: str, source: str | None) -> str:
    """Make the relative links of a page absolute, or plain text where nobody knows to where."""

    def part(match: re.Match[str]) -> str:
        label, target = match.groups()
        if target is None or AWAY.match(target):
            return match[0]
        return f"[{label}]({source.rstrip('/')}/blob/main/{target})" if source else str(label)

    return PARTS.sub(part, text)


def long_description() -> str:
    """Give README for a package's page."""
    with (HERE / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    return shown_elsewhere(readme, project.get("urls", {}).get("Source"))


if __name__ == "__main__":
    setup(long_description=long_description(), long_description_content_type="text/markdown")
