"""Rows that indices name: gathered, computed with element by element, and scattered, in one pass.

In: a graph. Out: regions with their kernels. Begin with `scattered_rows.py`: `row_operators.py`
says which operators pick rows or put some in their places, `scatter_text.py` writes the loops. What
moves elements by indices that are the same all along a row is such an operator, however it is
spelled.
"""
