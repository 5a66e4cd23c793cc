"""How well times are predicted, without the architecture that is asked about.

In: samples, and ways to predict. Out: errors and rank correlations (`metrics.py`), of kernels
(`baselines.py`, where to begin) and of the configurations of graphs (`graph_scores.py`).
"""
