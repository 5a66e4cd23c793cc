"""Native operators inside ONNX models: kernels that any ONNX Runtime host loads as a library.

In: a plan. Out: plans in which regions that gain are one operator each, and the library of these
(`library.py`). Begin with `candidates.py`; regions are found by `grow.py` and `fuse_graph.py`.
"""
