"""Scans over time in one kernel: the state of a row stays in the first cache from step to step.

In: a graph in which a loop is written out, as exporters write one, or `optimizer/graph/branches.py`
writes it. Out: regions with their kernels. Begin with `recurrences.py`: `steps.py` finds the loop
again, `step_cells.py` says what a step computes, `step_text.py` writes the loop. Steps that
multiply by constant matrices are those of `stepped_products.py`.
"""
