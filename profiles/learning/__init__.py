"""What measurements teach: costs of kernels, and which configuration of a graph is fast.

In: measurements of the catalog, files of TpuGraphs, times of other devices. Out: predictions, how
good they are, and configurations to use. Begin with `kernel_costs.py` for what the product predicts
and `chooser.py` for configurations; where data comes from says `samples/`.

| module or folder | holds |
|---|---|
| `samples/` | kernels and graphs with their times, as rows, as files, as numbers |
| `training/` | trees and graph networks, trained on them |
| `scores/` | how well they rank and foretell times |
| `kernel_costs.py` | times of kernels that nobody measured here, by the trees that ship |
| `adaptation.py` | what measurements on a machine change in predictions |
| `exported.py`, `predictor.py` | a network as an ONNX model, and its predictions |
| `chooser.py` | configurations chosen on a new device |
| `errors.py` | why nothing can be learned |
"""
