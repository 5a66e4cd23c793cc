"""Equalities that no rule says yet, stated once growth has ended (`rewrites/unproved.py`).

In: an e-graph. Out: the same with what they state. Begin with `derive_all.py`; `derivation.py` is
what each of the others reads and makes e-nodes by.
"""
