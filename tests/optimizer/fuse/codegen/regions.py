"""Random regions: cells, vectors, rows, columns and numbers; aggregates, products; dense, sparse.

Only functions that grow slowly are drawn, and comparisons of inputs alone, so that NumPy's results
and a kernel's differ by rounding only.
"""

import numpy as np
from hypothesis import strategies as st

from .build import Builder

UNARY = ["Neg", "Abs", "Exp", "Tanh", "Sigmoid", "Erf", "Square", "Sin", "Cos", "Atan", "Expm1"]
BINARY = ["Add", "Sub", "Mul", "Max", "Min"]
AGGREGATES = ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceSumSquare"]


def array(rng, shape, dtype, form):
    """An array in one of the ways in which it may lie in memory."""
    values = rng.uniform(-1.5, 1.5, size=shape).astype(dtype)
    if form == "fortran":
        return np.asfortranarray(values)
    if form == "strided":
        wide = rng.uniform(-1.5, 1.5, size=tuple(2 * n for n in shape)).astype(dtype)
        return wide[tuple(slice(None, None, 2) for _ in shape)]
    if form == "reversed":
        return values[tuple(slice(None, None, -1) for _ in shape)]
    if form == "unaligned":
        memory = np.zeros(values.nbytes + 1, np.uint8)
        unaligned = np.frombuffer(memory.data, dtype=dtype, offset=1, count=values.size).reshape(
            shape
        )
        unaligned[...] = values
        return unaligned
    if form == "swapped":
        return values.astype(np.dtype(dtype).newbyteorder())
    if form == "special" and values.size:
        flat = values.reshape(-1)
        flat[rng.integers(0, flat.size, 2)] = np.array([np.nan, np.inf], dtype)
    values.flags.writeable = False
    return values


FORMS = ["plain", "fortran", "strided", "reversed", "unaligned", "swapped", "special"]


def tolerance(builder):
    """How far results may differ: float32 loses digits in products of up to 1100 terms."""
    return 1e-9 if builder.dtype == "float64" else 5e-3


@st.composite
def regions(draw, sparse=False):
    """A builder, its outputs, and the driver."""
    dtype = draw(st.sampled_from(["float64", "float32"]))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    m, n = draw(st.sampled_from([1, 2, 5, 67, 300])), draw(st.sampled_from([1, 3, 33, 70, 1100]))
    builder = Builder(dtype)
    if sparse:
        from scipy.sparse import random_array

        kind = draw(st.sampled_from(["csr", "csc", "coo"]))
        matrix = random_array((m, n), density=0.1, random_state=rng, format=kind, dtype=dtype)
        driver = builder.input(matrix)
    else:
        driver = builder.input(array(rng, (m, n), dtype, draw(st.sampled_from(FORMS))))
    shapes = [(m, n), (n,), (1, n), (m, 1), (), (1, 1)]
    values = [driver]
    for _ in range(draw(st.integers(1, 3))):
        shape = draw(st.sampled_from(shapes))
        # zeros that aren't stored are skipped, as in SciPy: there 0 times infinity is no NaN
        forms = FORMS[:-1] if sparse else FORMS
        form = draw(st.sampled_from(forms)) if shape else "plain"
        values.append(builder.input(array(rng, shape, dtype, form)))
    for _ in range(draw(st.integers(1, 6))):
        values.append(_step(draw, builder, values, rng))
    computed = [v for v in values if not builder.nodes[v].is_leaf]
    outputs = [computed[-1]]
    for _ in range(draw(st.integers(0, 2))):
        last = _last(draw, builder, computed, driver)
        if last is not None:
            outputs.append(last)
    return builder, tuple(dict.fromkeys(outputs)), driver


def _step(draw, builder, values, rng):
    kind = draw(st.sampled_from(["unary", "binary", "binary", "where", "row", "times", "constant"]))
    x = draw(st.sampled_from(values))
    shape = builder.shape(x)
    if kind == "unary":
        op = draw(st.sampled_from(UNARY))
        if op == "Square":
            return builder.cell("Pow", builder.cell("Tanh", x), builder.constant(2.0))
        if op in ("Exp", "Expm1"):  # no products of products that grow beyond bounds
            return builder.cell(op, builder.cell("Tanh", x))
        return builder.cell(op, x)
    if kind == "constant":
        return builder.cell(draw(st.sampled_from(BINARY)), x, builder.constant(0.75))
    if kind == "row" and len(shape) == 2:
        op = draw(st.sampled_from(AGGREGATES))
        return builder.cell("Tanh", builder.reduce(op, x, (1,), 1))
    if kind == "times" and len(shape) == 2:
        width = draw(st.sampled_from([1, 3, 8, 33]))
        factor = builder.input(rng.uniform(-1, 1, size=(shape[1], width)).astype(builder.dtype))
        product = builder.matmul(x, factor)
        back = builder.input(rng.uniform(-1, 1, size=(width, shape[1])).astype(builder.dtype))
        return builder.cell("Tanh", builder.matmul(product, back))
    y = draw(st.sampled_from(values))
    if kind == "where":
        leaf = draw(st.sampled_from([v for v in values if builder.nodes[v].is_leaf]))
        least = builder.cell("Greater", leaf, builder.constant(0.0), dtype="bool")
        return builder.cell("Where", least, x, y)
    return builder.cell(draw(st.sampled_from(BINARY)), x, y)


def _last(draw, builder, values, driver):
    matrices = [v for v in values if len(builder.shape(v)) == 2]
    if not matrices:
        return None
    x = draw(st.sampled_from(matrices))
    kind = draw(st.sampled_from(["all", "columns", "rows", "transposed"]))
    if kind == "transposed":
        return (
            builder.matmul(builder.transpose(driver), x)
            if (builder.shape(driver)[0] == builder.shape(x)[0])
            else None
        )
    axes = {"all": (0, 1), "columns": (0,), "rows": (1,)}[kind]
    return builder.reduce(draw(st.sampled_from(AGGREGATES)), x, axes)
