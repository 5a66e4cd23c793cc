"""Products, convolutions and pools of 8-bit integers, as QDQ nodes or operators spell them.

In: a graph. Out: regions with their kernels, whose results are the runtime's to the bit. Begin with
`kernel.py`: `groups.py` says what is such a product, `sums.py` what it is added to, `packing.py`
how filters lie in memory, `whole.py` what no other kernel may take apart.
"""
