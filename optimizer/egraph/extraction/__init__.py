"""The cheapest program of an e-graph, the next best ones, and what else each could have been.

In: an e-graph and what e-nodes cost (`e_node_costs.py`), as a problem of choices (`problem.py`).
Out: selections of e-nodes. Begin with `extract.py`: regions (`regions.py`) decided one by one, by
branch and bound (`branch_and_bound.py`). `merges.py` and `absorbing_kernels.py` go on
from what was selected, `alternatives.py` gives the next best plans.
"""
