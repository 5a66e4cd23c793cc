"""Layouts as part of a plan: blocked values of convolutional models, and the ways in and out.

In: an e-graph (`space.py` adds classes of blocked values, `values.py`, with enforcers between
layouts). Out: plans (`plans.py`). Begin with `space.py`; `growing.py` and `operators/` say what can
be computed on blocked values, `blocked_costs.py` what that costs, and `selection.py` where a search
starts. `runtime.py` asks ONNX Runtime for its blocks, and `guard.py` keeps a plan from machines
where they differ. `assignments.py` has each choice of operators in blocks as a plan of its own, and
`timed_assignments.py` times them, to judge what ranks them.
"""
