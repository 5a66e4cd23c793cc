"""Training: boosted trees over the bound (`kernel_trees.py`), and graph networks.

In: samples. Out: models that `../exported.py` writes. Begin with `ensemble.py`; `training_loop.py`,
`network.py` and `segments.py` need torch, `kernel_trees.py` needs scikit-learn, and
`training_options.py` neither.
"""
