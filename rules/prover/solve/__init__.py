"""Questions about integers, put to solvers and kept as they were put.

In go constraints on integers; out comes whether they can hold, with a script that says so to any
solver. Begin at smt.py; polynomials.py is what is asked about, smt_scripts.py stores scripts, and
recheck.py puts them to a second solver.
"""
