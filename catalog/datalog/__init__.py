"""Datalog over the catalog's tables: Soufflé's dialect, one syntax tree and two executions.

A program's text goes in; relations come out, as tables of DuckDB or as rows of Python. Begin with
`program.py`, which parses (`language`), checks (`analysis`) and compiles a program into the steps
of `steps.py`; `sql` runs these on DuckDB, `memory` runs loops instead where rows are few. Files
are read and written by `program_files.py` and `fact_files.py`.
"""

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
