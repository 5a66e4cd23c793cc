"""Growth of an e-graph: matches of rules derived, applied and closed under congruence.

In: an e-graph and rules. Out: the same with all that they lead to, and the matches that were
applied. Begin with `saturate.py`; `e_matching.py` finds matches, `application.py` applies them,
`chains.py` reorders sums, products and extremes without rules.
"""
