"""Execution by DuckDB, for relations of any size.

Checked clauses go in (`compiler.py`); statements come out, which `engine.py` runs on a connection.
Begin with `compiler.py`; `conjunction.py` makes FROM and WHERE of a body, `expressions.py` the
rest.
"""
