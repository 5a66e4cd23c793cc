"""Damaged models and what the command line makes of them.

`models` are damaged by `mutations`; `campaign` sends them through the commands and judges what
comes out. `python -m tests.corruption --help` says how to run many; a few are run by
tests/tensolog/test_damaged_models.py.
"""
