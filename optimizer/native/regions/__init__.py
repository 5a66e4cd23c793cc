"""Which nodes may one kernel compute together? Derived by Datalog, of a graph's relations.

In: a graph, and what its operators' specifications say at its shapes, as facts (`region_facts.py`).
Out: candidates for regions of cells, by sink and frame (`region_candidates.py`). Begin with
`regions.dl`.
Which candidates become kernels is chosen by `optimizer/native/grow.py`.
"""
