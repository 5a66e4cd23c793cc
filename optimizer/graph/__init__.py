"""A model in memory, and what every optimizer does to one: types, folding, dead and common code.

In: an ONNX model (`convert.py`). Out: the same, changed. Begin with `graph.py`.
"""
