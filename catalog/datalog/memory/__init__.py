"""Execution in memory, for few rows: programs as functions of Python.

Rows go in and come out (`derivation.py`). Begin with `generate.py`, which writes a program as one
function; `nested_loops.py` writes a clause, and `runtime.py` is what the function calls.
"""
