"""Statements computed at concrete sizes and numbers.

In go a statement and numbers for its symbols and operands; out come the elements of both sides, and
which have a value. Begin at evaluate.py; its arithmetic is that of float64.py, field.py or
exact.py. solver_terms.py writes what is said of sizes for Z3 instead.
"""
