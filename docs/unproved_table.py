"""Write the table of docs/unproved.md from optimizer/unproved.py: this file, [--check]."""

from __future__ import annotations

import sys
from pathlib import Path

from tensolog.optimizer.unproved import table

PAGE = Path(__file__).parent / "unproved.md"
MARK = "<!-- Generated from here on by: python docs/unproved_table.py -->\n"


def main() -> int:
    """Write the table below the mark, or with --check say whether it is what it should be."""
    text = PAGE.read_text(encoding="utf-8")
    page = f"{text.split(MARK)[0]}{MARK}\n{table()}"
    if "--check" in sys.argv[1:]:
        if text != page:
            print("docs/unproved.md is not what optimizer/unproved.py says: run", sys.argv[0])
            return 1
        return 0
    PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
