"""Products, convolutions and pools of 8-bit integers, as QDQ nodes or operators spell them.

In: a graph. Out: regions with their kernels, whose results are the runtime's to the bit. Which
nodes these have is derived in `regions/`, by `integers.dl`, `dynamic_integers.dl` and `norms.dl`.
Begin with `quantized_products.py`: `groups.py` reads the numbers of such a product, `sums.py` those
of what it is added to, `packing.py` says how filters lie in memory.
`matrices.py` and `softmax.py` are what attention has beside these, `elementwise_pairs.py` is what
is added or multiplied element by element. `spelled.py` gives the runtime's own operators the form
of QDQ nodes before all that.
"""
