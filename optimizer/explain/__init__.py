"""Why: what rules did to a model, what they would have done, and what kept them from it.

In: a graph, rules and, for one node, an e-graph with its costs. Out: reasons (types in
`reasons.py`), which `reason_text.py` lays out for a terminal. Begin with `explain_model.py`.
A reason why a rule did not fire is made where the cause lies: a condition that does not hold in
`near_misses.py`, by `rules/compiler/failed_conditions.py`; a pattern that is not there in
`partial_match.py`; a rule that is not allowed in `optimizer/setting.py`; one node among others in
`node_story.py`.
"""
