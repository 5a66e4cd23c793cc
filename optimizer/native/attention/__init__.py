"""Attention as one kernel: a product, what lies between, a softmax, a product.

In: a graph, in a copy of which `attention_operator.py` spells out ONNX's own operator. Out: regions
with their kernels. Begin with `attentions.py`; `attention_text.py` writes the loops, `mask.py` what
tells which keys count for nothing.
"""
