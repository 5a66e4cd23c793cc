"""Kernels measured one by one: what a graph's nodes are measured as, timed, kept, or bounded.

In: a graph's nodes (`graph_kernels.py`). Out: their costs (`costs.py`), measured (`timing.py`) or
bounded (`roofline.py`).
"""
