"""Which nodes may one kernel compute together? Derived by Datalog, of a graph's relations.

In: a graph, and what its operators' specifications say at its shapes, as facts (`region_facts.py`).
Out: what kernels of each sort may have (`region_candidates.py`). Begin with `regions.dl`.

| file | of kernels that |
|---|---|
| `computable.dl` | are of any sort: what may be computed by one at all |
| `cells.dl` | run over cells or rows, by sink and frame |
| `finishing.dl` | make a result, and what follows it: products, convolutions over blocks |
| `blocked_convolutions.dl` | convolve blocks of channels, two of them at once |
| `products.dl` | multiply by a constant matrix |
| `block_weights.dl` | multiply by weights of 4 bits, with a scale by block |
| `attention.dl` | have a softmax between two products |
| `rows.dl` | scatter rows |
| `integers.dl` | compute with integers of 8 bits, between QDQ nodes; what no kernel takes apart |
| `dynamic_integers.dl` | multiply integers that a model quantizes while it runs |
| `norms.dl` | add and normalize as one of the runtime's operators does, to the bit |

Which of it becomes kernels is chosen by `optimizer/native/fuse_graph.py`, and where C is
written. What functions of one 8-bit number have, and what loops over steps, is told by code:
`native/byte_tables.py`, `recurrence/`.
"""
