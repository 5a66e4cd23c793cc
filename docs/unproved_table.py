"""Write the table of docs/unproved.md from rewrites/unproved.py: this file, [--check]."""

from __future__ import annotations

import sys
from pathlib import Path

from generated_page import write_below
from tensolog.optimizer.rewrites.unproved import table

PAGE = Path(__file__).parent / "unproved.md"
MARK = "<!-- Generated from here on by: python docs/unproved_table.py -->\n"


if __name__ == "__main__":
    sys.exit(write_below(PAGE, MARK, table()))
