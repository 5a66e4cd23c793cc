"""Datalog over the catalog's tables: Souffle's dialect, compiled to DuckDB SQL, or to loops."""

from .engine import Relations, evaluate, explain
from .limits import Limits
from .program import Program, parse
from .rows import derive
from .syntax import DatalogError

__all__ = [
    "DatalogError",
    "Limits",
    "Program",
    "Relations",
    "derive",
    "evaluate",
    "explain",
    "parse",
]
