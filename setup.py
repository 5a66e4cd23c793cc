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


def shown_elsewhere(text: str, source: str | None) -> str:
    """Make the relative links of a page absolute, or plain text where nobody knows to where."""

    def link(match: re.Match[str]) -> str:
        label, target = match.groups()
        if re.match(r"[a-z]+:|#", target):
            return match[0]
        return f"[{label}]({source.rstrip('/')}/blob/main/{target})" if source else label

    # Code is left as it is: in it, brackets before parentheses are no link.
    parts = re.split(r"(^```.*?^```|`[^`\n]*`)", text, flags=re.MULTILINE | re.DOTALL)
    parts[::2] = [re.sub(r"\[([^\]]*)\]\(([^)\s]+)\)", link, part) for part in parts[::2]]
    return "".join(parts)


def long_description() -> str:
    """Give README for a package's page."""
    with (HERE / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    return shown_elsewhere(readme, project.get("urls", {}).get("Source"))


if __name__ == "__main__":
    setup(long_description=long_description(), long_description_content_type="text/markdown")
