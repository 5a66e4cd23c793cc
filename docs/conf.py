"""The documentation as a site: sphinx-build -W --keep-going -c docs . build/site

Sphinx with MyST and Furo: it is kept, takes the pages from the folders where they lie, README and
CONTRIBUTING among them, and fails on a link or an anchor that leads nowhere. MkDocs and its theme
Material get security fixes alone. Zensical, their successor, checks links as well, but is before
its 0.2 and wants all pages in one folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tensolog import __version__

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "tensolog"
release = __version__
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/*.md",
    "benchmarks/README.md",
]
myst_heading_anchors = 4  # as GitHub names them
myst_enable_extensions = ["strikethrough"]
html_theme = "furo"
html_title = f"tensolog {release}"
html_copy_source = False
# Code in languages of ours has no lexer, and is shown as it is.
suppress_warnings = ["misc.highlighting_failure"]

# In the order in which a reader needs them. Beside the pages, so that these stay plain Markdown.
CONTENTS = """
```{toctree}
:hidden:
:caption: Use

docs/guide
docs/cli
docs/kernels
docs/fuse
docs/catalog
docs/datalog
```

```{toctree}
:hidden:
:caption: Rules

docs/rules
docs/contributing-a-rule
docs/laws
docs/ledger
docs/rearranged
docs/generating-rules
docs/operators
```

```{toctree}
:hidden:
:caption: How it works

docs/costs
docs/deploying
docs/learned-costs
docs/search
docs/unproved
docs/fusion-plans
docs/parallel
benchmarks/README
CONTRIBUTING
CHANGELOG
```
"""
FIRST_PAGE = f'<!doctype html><meta http-equiv="refresh" content="0; url={root_doc}.html">\n'


def add_contents(_: Sphinx, name: str, source: list[str]) -> None:
    """Add the table of contents to the first page."""
    if name == root_doc:
        source[0] += CONTENTS


def write_first_page(app: Sphinx, error: Exception | None) -> None:
    """Let the site's folder open on the README."""
    if error is None and app.builder.name == "html":
        Path(app.outdir, "index.html").write_text(FIRST_PAGE, encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Hook into the build."""
    app.connect("source-read", add_contents)
    app.connect("build-finished", write_first_page)
