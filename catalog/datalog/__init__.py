"""Datalog over the catalog's tables: Souffle's dialect, compiled to DuckDB SQL."""

from .engine import Relations, evaluate, explain
from .program import Program, parse
from .syntax import DatalogError

__all__ = ["DatalogError", "Program", "Relations", "evaluate", "explain", "parse"]
