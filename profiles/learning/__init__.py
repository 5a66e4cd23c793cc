"""What measurements teach: graphs with timed configurations, and what is predicted of them.

In: measurements of the catalog, files of TpuGraphs, times of other devices. Out: rows of the
catalog, predictions and how good they are, configurations to use. Begin with `archive.py` for data,
`kernel_costs.py` for what the product predicts, `baselines.py` for how well that may be done,
`network.py` for the graph network, `chooser.py` for configurations. Modules marked with * need
torch, `kernel_trees.py` scikit-learn to train.

| module | holds |
|---|---|
| `archive.py`, `cost_graphs.py` | TpuGraphs' files, and the same as rows |
| `features.py`, `kernel_graphs.py`, `kernel_samples.py` | kernels as numbers and as graphs |
| `kernel_rows.py`, `kernel_trees.py`, `kernel_costs.py` | trees over the bound, trained and used |
| `adaptation.py` | what measurements on a machine change in predictions |
| `baselines.py`, `graph_scores.py` | how well kernels and configurations are told |
| `examples.py` | graphs as a network reads them |
| `network.py`*, `segments.py`*, `training.py`*, `training_options.py`, `ensemble.py` | training |
| `exported.py`, `predictor.py` | the network as an ONNX model, and what ONNX Runtime makes of it |
| `chooser.py` | configurations chosen on a new device |
| `metrics.py`, `errors.py` | how well predictions rank and foretell; why nothing is learned |
"""
