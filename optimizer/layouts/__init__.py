"""Layouts as part of a plan: blocked values of convolutional models, and the ways in and out.

In: an e-graph (`space.py` adds classes of blocked values, `values.py`, with enforcers between
layouts). Out: plans (`plans.py`). Which values may lie in blocks, what may be computed there and by
which rules is derived by `layouts.dl`, with `convolutions.dl`, of facts (`layout_facts.py`): begin
there. `legal_steps.py` has the steps, `growing.py` and `operators/` take them, layout by layout;
`space.py` is the e-graph then, `blocked_costs.py` says what it costs, and `selection.py` where a
search starts. `runtime.py` asks ONNX Runtime for its blocks, and `guard.py` keeps a plan from
machines where they differ. `assignments.py` has each choice of operators in blocks as a plan of its
own, and `timed_assignments.py` times them, to judge what ranks them.
"""
