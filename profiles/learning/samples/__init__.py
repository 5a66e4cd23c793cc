"""What is learned from: kernels and graphs with measured times.

In: rows of the catalog, files of TpuGraphs. Out: cost graphs, and the arrays that trees and
networks read. Begin with `archive.py`, which has the graph itself; `kernel_samples.py` takes
kernels from models, `kernel_graphs.py` and `kernel_rows.py` spell them,
`examples.py` prepares graphs.
"""
