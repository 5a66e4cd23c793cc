"""Pages that end in a generated part, below a line that names the command."""

from __future__ import annotations

import sys
from pathlib import Path


def write_below(page: Path, mark: str, generated: str) -> int:
    """Write what is generated below the mark; with --check only say whether it is there."""
    text = page.read_text(encoding="utf-8")
    wanted = f"{text.split(mark)[0]}{mark}\n{generated}"
    if "--check" not in sys.argv[1:]:
        page.write_text(wanted, encoding="utf-8")
    elif text != wanted:
        print(f"docs/{page.name} is out of date: run python {sys.argv[0]}")
        return 1
    return 0
