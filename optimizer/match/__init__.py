"""Where rules match in a graph, and what applying a match changes: matching carried out.

In: a graph as relations (`relations.py`), and the rules' clauses, which `rules/compiler/compile.py`
writes and `clauses.py` prepares. Out: matches, and steps of a plan. Begin with `matcher.py`, which
has them joined set-wise (`joins.py`); `rewrite.py` applies matches. In an e-graph the same clauses
are joined by `optimizer/egraph/saturation/e_matching.py`.
"""
