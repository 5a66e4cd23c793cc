"""Datalog over the catalog's tables: Soufflé's dialect, one syntax tree and two executions.

A program's text goes in; relations come out, as tables of DuckDB or as rows of Python. Begin with
`program.py`, which parses (`language`), checks (`analysis`) and compiles a program into the steps
of `steps.py`; `sql` runs these on DuckDB, `memory` derives rows of Python where they are few. Files
are read and written by `program_files.py` and `fact_files.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_imports import lazily

if TYPE_CHECKING:
    from .language.syntax import DatalogError
    from .limits import Limits
    from .memory.derivation import derive
    from .program import Program, parse
    from .sql.engine import Relations, evaluate, explain

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

# What a program in memory needs (memory/program_cache.py) loads neither the parser nor DuckDB.
__getattr__, __dir__ = lazily(
    __name__,
    {
        "DatalogError": ".language.syntax",
        "Limits": ".limits",
        "derive": ".memory.derivation",
        **dict.fromkeys(["Program", "parse"], ".program"),
        **dict.fromkeys(["Relations", "evaluate", "explain"], ".sql.engine"),
    },
)
