"""Rewrites that are code, since no rule can say them or see where they pay, and the table of such.

In: a graph. Out: the graph rewritten, and the steps that say so. Each module is named like the step
that it makes; `unproved.py` lists every equality, of other folders too, that no proved rule states.
"""
