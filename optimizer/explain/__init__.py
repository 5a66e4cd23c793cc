"""Why: what rules did to a model, what they would have done, and what kept them from it.

In: a graph, rules and, for one node, an e-graph with its costs. Out: reasons (`reasons.py`), which
`reason_text.py` lays out for a terminal. Begin with `survey.py`.
"""
