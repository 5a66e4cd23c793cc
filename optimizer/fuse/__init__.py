"""`@tensolog.fuse`: NumPy functions that run as generated kernels.

A Python function over arrays enters; one that returns the same, and usually sooner, leaves. Begin
with tracing/decorator.py (`Fused.__call__` is one call from its arguments to its results). Data
flows through the folders in this order:

    tracing    a call runs over lazy arrays; what it computes is collected as a region, and run
    arrays     lazy arrays, dense and sparse, and what NumPy's and SciPy's functions make of them
    program    a region as a DAG of operators: its meaning by NumPy, and its rewrites
    planning   the DAG's nodes grouped into fused operators, the cheapest by a model of costs
    codegen    fused operators as C, compiled, kept and called
    blocks     regions over arrays in blocks, as tasks of Dask, each a plan of its own

What an operator of a program means is asked in program/numpy_operators.py (the specifications) and
program/kept_axes.py; an operator of a plan is priced by TemplateCosts.price
(planning/template_costs.py); the C of a node is made in codegen/statements.py, that of the loops
around it in cell_kernel.py, row_text.py and entry_text.py beside it.

tracing, arrays and blocks depend on each other: a lazy array belongs to the trace of its call,
which may run in blocks. The others know nothing of what comes after them: program of plans,
planning of C.
"""
