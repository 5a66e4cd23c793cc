"""A region of a graph as loops over cells, and the C text of these loops.

In: a region (`kernel_region.py`), read from the operators' specifications (`affine.py`,
`cells.py`). Out: a kernel (`lower.py`) with its text (`row_text.py`, `column_text.py`). What C all
kernels have in common is in `c_function.py`; kernels of products compute what follows them by an
`elementwise_chain.py`.
"""
