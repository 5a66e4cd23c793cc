"""Execution in memory, for few rows: clauses as steps over tuples of Python.

Rows go in and come out (`derivation.py`). A program becomes a plan, which is data (`plan.py`):
`program_plans.py` makes it and `clause_plans.py` that of a clause. `execution.py` carries it out,
and computes with `scalars.py`. `program_cache.py` keeps the plans of tensolog's own
programs on disk.
"""
