"""Attention as one kernel: a product, whatever lies between, a softmax, and a product."""
