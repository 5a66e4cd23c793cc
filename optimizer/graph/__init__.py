"""A model in memory, and what every optimizer does to one: types, folding, dead and common code.

In: an ONNX model (`convert.py`). Out: the same, changed. Begin with `graph.py`; `infer.py` has
types of values, `free_sizes.py` sizes that a model leaves open. What holds for every model is done
by `fold.py`, `simplify.py`, `branches.py`, `default_inputs.py` and `raise_opset.py`. `widen.py`
makes the float64 reference, and `torch_modules.py` has models exported.
"""
