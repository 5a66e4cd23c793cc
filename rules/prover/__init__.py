"""Proofs that two tensor programs are equal for all sizes.

In goes a rule; out come statements (cases/), an outcome for each (prove.py), and the ranks for
which they prove the rule (ranks/). Begin at statement.py, which says what is to be proved, and at
prove.py, which says how and why that is sound: lowering/ brings both sides to the normal form of
normal/, functions/ has the laws of real functions, and solve/ asks about integers.
"""
