"""Convolutions over blocks of channels as kernels: sliding, by minimal filtering, or in pairs.

In: convolutions of a graph whose values lie in blocks. Out: kernels, and filters laid out for them
(`filters.py`). Begin with `blocked.py`.

| convolution | its C text |
|---|---|
| by minimal filtering | `winograd_text.py`, with the matrices of `winograd.py` |
| sliding, in groups, line by line | `grouped.py` |
| two of them, points and then each channel | `convolution_pair.py` |

Loops that are the same in each lie beside these, as `.h` files.
"""
