"""Substitutions of other systems, read into the rule language and put through the gate."""

from .attempts import Imported
from .equations import read_equations, read_tensat
from .imported import Report, import_rules, read_foreign
from .jsonl import read_taso
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
    "read_taso",
    "read_tensat",
]
