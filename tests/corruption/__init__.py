"""Damaged models and what the command line makes of them.

`models` are damaged by `mutations`; `campaign` sends them through the commands and judges what
comes out. `python -m tests.corruption --help` runs many; tests/face/test_corruption.py runs a few.
"""
