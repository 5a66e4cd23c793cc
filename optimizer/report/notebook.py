"""How notebooks show results: HTML without scripts that takes the colours of the page around it.

Names come from models and are never trusted: all that is shown is escaped here, and only here.
"""

from __future__ import annotations

import html
from collections.abc import Collection, Iterable, Sequence

# Longer sections are folded, longer lines are cut: a model may have any number of names, any long.
SHOWN_LINES, SHOWN_LETTERS = 16, 400
_PAGE = "line-height:1.4;max-width:72em;overflow-wrap:anywhere"
_LINES = "margin:.2em 0 .6em 1em;padding:0;background:none;color:inherit;white-space:pre-wrap"
_TABLE = "border-collapse:collapse;margin:.4em 0;background:none;color:inherit"
# Grey by half is seen on white and on black.
_CELL = "padding:.15em .8em .15em 0;border-bottom:1px solid rgba(128,128,128,.35);background:none"


class Text(str):
    """A text of paragraphs, each a title and its lines, which a notebook can fold."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return page(*paragraphs(self))


def page(*parts: str) -> str:
    """Put parts of HTML together."""
    return f'<div style="{_PAGE}">{"".join(parts)}</div>'


def paragraphs(text: str) -> list[str]:
    """Show each paragraph of a text by its title, to be unfolded where it is long."""
    return [_section(*block.split("\n")) for block in text.split("\n\n") if block.strip()]


def heading(text: str) -> str:
    """Show a sentence that says it all."""
    return f"<div><b>{_escaped(text)}</b></div>"


def table(
    head: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: Collection[int] = ()
) -> str:
    """Show rows; the columns in `numbers` are aligned to the right."""

    def line(kind: str, cells: Sequence[object]) -> str:
        sides = ["right" if place in numbers else "left" for place in range(len(cells))]
        shown = [
            f'<{kind} style="{_CELL};text-align:{side}">{_escaped(str(cell))}</{kind}>'
            for side, cell in zip(sides, cells, strict=True)
        ]
        return f"<tr>{''.join(shown)}</tr>"

    body = "".join(line("td", row) for row in rows)
    return f'<table style="{_TABLE}">{line("th", head)}{body}</table>'


def _section(title: str, *lines: str) -> str:
    if not lines:
        return f"<div>{_escaped(title)}</div>"
    shown = "\n".join(_escaped(line) for line in lines)
    unfolded = " open" if len(lines) <= SHOWN_LINES else ""
    return (
        f"<details{unfolded}><summary>{_escaped(title)}</summary>"
        f'<pre style="{_LINES}">{shown}</pre></details>'
    )


def _escaped(text: str) -> str:
    cut = text if len(text) <= SHOWN_LETTERS else f"{text[:SHOWN_LETTERS]}…"
    return html.escape(cut)
