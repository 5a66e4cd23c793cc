"""Where rules match in a graph, derived by Datalog, and what applying a match changes.

In: a graph as relations (`relations.py`) and the clauses of rules (`clauses.py`), joined set-wise
(`joins.py`). Out: steps of a plan. Begin with `rewrite.py`.
"""
