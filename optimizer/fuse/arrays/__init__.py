"""Lazy arrays, and what NumPy's and SciPy's functions make of them.

Enters: a call through NumPy's protocols (`__array_ufunc__`, `__array_function__`) or a method.
Leaves: a lazy array over an expression of operators (program/dag.py says which there are), or
UnsupportedError with why, upon which NumPy computes it at once (tracing/eager.py). Begin with
lazy_array.py, then ufuncs.py.

    lazy_array        stands for an ndarray or a NumPy number
    views             transposes, reshapes, slices: they share memory once somebody writes
    operands          operands as expressions, expressions as lazy arrays
    ufuncs            elementwise functions, with NumPy's rules of types
    compositions      elementwise functions made of others (heaviside, floor_divide, …)
    reductions        sums, extremes, means, norms; ufuncs' reduce and accumulate
    products          products of matrices, einsum, tensordot
    arrangements      concatenations, flips, rolls
    functions         NumPy's other functions, each to one of the above
    lazy_sparse       stands for a sparse array or matrix of SciPy's
    sparse_operators  what is traced of SciPy's operators
    sparse_values     sparse arguments as expressions, and the object that a lazy one stands for
"""
