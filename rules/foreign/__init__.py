"""Substitutions of other systems, read into the rule language and put through the gate.

In goes a file of TASO's or TENSAT's rules; out comes a report of what became of each. Begin at
import_report.py; jsonl.py and equations.py read the formats into the terms of terms.py, readings.py
says what a rule may mean, with the sizes that shapes.py finds, and translate.py writes it down.
"""

from .attempts import Imported
from .equations import read_equations
from .import_report import Report, import_rules, read_foreign
from .readings import candidates
from .terms import ForeignError, ForeignRule, Problem

__all__ = [
    "ForeignError",
    "ForeignRule",
    "Imported",
    "Problem",
    "Report",
    "candidates",
    "import_rules",
    "read_equations",
    "read_foreign",
]
