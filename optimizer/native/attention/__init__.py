"""Attention as one kernel: a product, what lies between, a softmax, a product (`text.py`)."""
