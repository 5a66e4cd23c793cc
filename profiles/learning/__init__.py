"""What measurements teach: graphs with timed configurations, and what is predicted of them.

In: measurements of the catalog, files of TpuGraphs, times of other devices. Out: rows of the
catalog, predictions and how good they are, configurations to use. Begin with `archive.py` for data,
`baselines.py` for costs of kernels, `chooser.py` for configurations.

| module | holds |
|---|---|
| `archive.py`, `cost_graphs.py` | TpuGraphs' files, and the same as rows |
| `features.py`, `baselines.py` | kernels described and predicted |
| `chooser.py` | configurations chosen on a new device |
| `metrics.py` | how well predictions rank and foretell |
"""
