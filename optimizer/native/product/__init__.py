"""Products with a constant matrix as kernels, with what is elementwise behind them.

In: a graph. Out: regions with their kernels, and matrices laid out for them (`panels.py`,
`block_weights.py`). Begin with `matrix_products.py`, which `four_bits.py` lowers weights of 4 bits
by; `product_text.py` writes the loops of all forms.
"""
