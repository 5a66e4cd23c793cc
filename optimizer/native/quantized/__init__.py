"""Products, convolutions and pools of 8-bit integers, as QDQ nodes or operators spell them.

In: a graph. Out: regions with their kernels, whose results are the runtime's to the bit. Begin with
`quantized_products.py`: `groups.py` says what is such a product, `sums.py` what it is added to,
`packing.py` how filters lie in memory, `whole.py` what no other kernel may take apart.
`matrices.py` and `softmax.py` are what attention has beside these, `elementwise_pairs.py` is what
is added or multiplied element by element. `spelled.py` gives the runtime's own operators the form
of QDQ nodes before all that.
"""
