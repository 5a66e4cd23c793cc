"""What it costs: kernels measured on this machine, and bounds for those not measured yet.

| folder | holds |
|---|---|
| `kernels/` | nodes as kernels: timed one by one, or bounded |
| `races/` | whole models timed against each other |
| `sessions/` | ONNX Runtime sessions: opened, run and fed |
| `learning/` | data sets of measurements, and predictions learned from them |

`machine.py` says which machine this is, `kernel.py` what a kernel is.
"""
