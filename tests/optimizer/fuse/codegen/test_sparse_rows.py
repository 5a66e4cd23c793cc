"""Where rows of sparse matrices begin: short, long, empty ones, told in 32 bits and in 64."""

import numpy as np
import pytest

from .build import Builder, check, reachable

sparse = pytest.importorskip("scipy.sparse")
LEVELS = reachable()
TOLERANCE = {"float64": 1e-12, "float32": 1e-4}
# Entries of the rows: none, and more than a tile of 1024 or a step of four tiles has.
COUNTS = {
    "empty": [0] * 700,
    "few": [0, 1, 0, 0, 2, 3, 0, 4, 5, 7, 8, 9, 0] * 60,
    "long": [0, 1500, 0, 3, 4999, 1, 0, 0, 1024, 1024, 0],
    "last": [0] * 300 + [1],
    "ends": [1023, 1, 0, 1024, 0, 1, 1023],
}


def matrix(counts, columns, kind, special=False):
    """A matrix with so many entries in its rows, some of them zeros."""
    rng = np.random.default_rng(3)
    begins = np.concatenate([[0], np.cumsum(counts)])
    taken = [np.sort(rng.choice(columns, n, replace=False)) for n in counts]
    data = rng.normal(size=begins[-1]).astype(kind)
    data[::7] = 0
    if special:
        data[3::400], data[5::500], data[7::500] = np.nan, np.inf, -np.inf
    return sparse.csr_array((data, np.concatenate(taken), begins), shape=(len(counts), columns))


def sparse_input(builder, name, kind, index, layout="csr", **options):
    entries = matrix(COUNTS[name], 12 if name == "few" else 5000, kind, **options)
    entries = entries if layout == "csr" else entries.T
    entries.indices, entries.indptr = entries.indices.astype(index), entries.indptr.astype(index)
    return builder.input(entries)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize("kind", ["float64", "float32"])
@pytest.mark.parametrize("name", COUNTS)
def test_sums_of_entries(name, kind, index, level):
    """All, rows and columns; alone, as with light sums all is added up in larger steps."""
    for axes in [((0, 1),), ((1,),), ((0,),), ((0, 1), (0,), (1,))]:
        for special in (False, True):
            builder = Builder(kind)
            x = sparse_input(builder, name, kind, index, special=special)
            sums = [builder.reduce("ReduceSum", x, axis) for axis in axes]
            options = {"driver": x, "sparse": True, "levels": [level]}
            check(builder, sums, tolerance=TOLERANCE[kind], **options)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize("layout", ["csr", "csc"])
@pytest.mark.parametrize("name", COUNTS)
def test_entries_beside_vectors(name, layout, index, level):
    """Two kinds of row sums, and what reads the row and the column of each entry."""
    kind = "float64"
    builder = Builder(kind)
    x = sparse_input(builder, name, kind, index, layout)
    m, n = builder.shape(x)
    rng = np.random.default_rng(4)
    w, v = builder.input(rng.normal(size=(m, 1))), builder.input(rng.normal(size=(1, n)))
    sized = {"nnz": builder.nodes[x].nnz, "layout": layout}
    scaled = builder.cell("Mul", builder.cell("Mul", x, w, **sized), v, **sized)
    squares = builder.cell("Mul", x, x, **sized)
    sums = [
        builder.reduce("ReduceSum", term, (axis,)) for term in (scaled, squares) for axis in (0, 1)
    ]
    options = {"driver": x, "sparse": True, "levels": [level]}
    check(builder, [scaled, *sums, builder.reduce("ReduceSum", squares, (0, 1))], **options)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize("kind", ["float64", "float32"])
@pytest.mark.parametrize("layout", ["csr", "csc"])
@pytest.mark.parametrize("name", COUNTS)
def test_products_with_vectors_and_narrow_matrices(name, layout, kind, index, level):
    """S v, S^T (w (S v)), and the same with three columns; all rows are needed, also empty ones."""
    for columns in ((), (3,)):
        builder = Builder(kind)
        x = sparse_input(builder, name, kind, index, layout)
        m, n = builder.shape(x)
        rng = np.random.default_rng(5)
        v = builder.input(rng.normal(size=(n, *columns)).astype(kind))
        w = builder.input(rng.normal(size=(m, *columns)).astype(kind))
        product = builder.matmul(x, v)
        scaled = builder.cell("Mul", product, w)
        back = builder.matmul(builder.transpose(x), scaled)
        options = {"template": "Row", "driver": x, "sparse": True, "levels": [level]}
        check(builder, [back], tolerance=TOLERANCE[kind], **options)
        check(builder, [back, product, scaled], tolerance=TOLERANCE[kind], **options)


@pytest.mark.parametrize("layout", ["csr", "csc"])
@pytest.mark.parametrize("messy", ["duplicates", "unused places"])
def test_what_was_given_stays(messy, layout):
    """SciPy allows unsorted duplicates, and arrays that are longer than the last row's end."""
    data, columns = np.array([1.0, 2.0, -3.0, 4.0, 9.0]), np.array([3, 1, 3, 0, 0])
    if messy == "unused places":
        columns[:] = 1, 3, 0, 3, 0
    begins = np.array([0, 3, 3, 4]) if messy == "duplicates" else np.array([0, 2, 2, 4])
    size = begins[-1]
    array = sparse.csr_array((data[:size], columns[:size], begins), shape=(3, 5))
    if messy == "unused places":
        array.data, array.indices = data, columns.astype(array.indices.dtype)
    array = array if layout == "csr" else array.T
    arrays = [array.data, array.indices, array.indptr]
    before = [array.copy() for array in arrays]
    builder = Builder()
    x = builder.input(array)
    y = builder.input(abs(matrix([3] * array.shape[0], array.shape[1], "float64")))
    sized = {"nnz": array.nnz, "layout": layout}
    twice = builder.cell("Mul", x, builder.constant(2.0), **sized)
    outputs = [twice, builder.cell("Mul", x, y, **sized)]
    outputs += [builder.reduce("ReduceSum", twice, axes) for axes in ((0, 1), (0,), (1,))]
    check(builder, outputs, driver=x, sparse=True)
    product = Builder()
    x = product.input(array)
    sums = product.matmul(x, product.input(np.ones(array.shape[1])))
    check(product, [sums], template="Row", driver=x)
    for operand, now, was in zip(
        arrays, (array.data, array.indices, array.indptr), before, strict=True
    ):
        assert operand is now
        np.testing.assert_array_equal(operand, was)
