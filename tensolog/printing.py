"""Text for people: what models, catalogs and files hold must neither steer a terminal nor flood it.

JSON, and what is written to files, stays as it is.
"""

from __future__ import annotations

import re

# Imported within functions: click, which importers of the package do without.

LONGEST_WORD, LONGEST_LINE = 200, 2000
_LONG_WORD = re.compile(rf"\S{{{LONGEST_WORD + 1},}}")


def one_line(text: str) -> str:
    """Show control characters and line breaks as escapes; shorten long words in the middle."""
    if len(text) > LONGEST_LINE * 10:  # what follows takes time for each letter
        text = _shortened(text, LONGEST_LINE * 10)
    if not text.isprintable():
        text = "".join(
            letter if letter.isprintable() else letter.encode("unicode_escape").decode()
            for letter in text
        )
    text = _LONG_WORD.sub(lambda word: _shortened(word.group(), LONGEST_WORD), text)
    return _shortened(text, LONGEST_LINE)


def printable(text: str) -> str:
    """Show each line of a text as `one_line` does; tabs are spaces."""
    return "\n".join(one_line(line) for line in text.expandtabs().split("\n"))


def echo(text: str, *, nl: bool = True) -> None:
    """Print a text on standard output."""
    import click

    click.echo(printable(text), nl=nl)


def _shortened(text: str, length: int) -> str:
    """Leave the middle of a text out, so that it is at most so long."""
    if len(text) <= length:
        return text
    head = (length - 1) // 2
    return f"{text[:head]}…{text[len(text) - (length - 1 - head) :]}"
