"""Kernels against NumPy: random regions, and each template's own cases."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from tensolog.optimizer.codegen import find_compiler

from tests.campaigns import examples

from .build import Builder, check, reachable
from .regions import FORMS, array, regions, tolerance

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="there is no C compiler")


@settings(max_examples=examples(25), deadline=None)
@given(regions())
def test_random_regions(case):
    """Kernels or fallbacks: the same as NumPy either way."""
    builder, outputs, driver = case
    check(
        builder, outputs, template="Row", driver=driver, kernel=False, tolerance=tolerance(builder)
    )


@settings(max_examples=examples(8), deadline=None)
@given(regions(sparse=True))
def test_random_regions_over_sparse_rows(case):
    pytest.importorskip("scipy")
    builder, outputs, driver = case
    compiled = builder.compiled(outputs, template="Row", driver=driver)
    if compiled.fallbacks:  # SciPy doesn't compute all that NumPy does
        return
    check(builder, outputs, template="Row", driver=driver, tolerance=tolerance(builder))


@pytest.mark.parametrize("form", FORMS)
def test_arrays_however_they_lie(form):
    rng = np.random.default_rng(1)
    builder = Builder()
    x = builder.input(array(rng, (130, 70), "float64", form))
    y = builder.input(array(rng, (130, 70), "float64", "plain"))
    product = builder.cell("Mul", x, y)
    check(builder, [product, builder.reduce("ReduceSum", product, (0, 1))])
    check(builder, [builder.reduce("ReduceSum", product, (0,))], template="Row", driver=x)


@pytest.mark.parametrize("level", reachable())
@pytest.mark.parametrize("wide", [1, 2, 3, 10, 31])
def test_rows_and_columns_beside_short_rows(level, wide):
    rng = np.random.default_rng(wide)
    for dtype in ("float64", "float32"):
        builder = Builder(dtype)
        x = builder.input(rng.normal(size=(1100, wide)).astype(dtype))
        row = builder.input(rng.normal(size=wide).astype(dtype))
        column = builder.input(rng.normal(size=(1100, 1)).astype(dtype))
        few = builder.cell("Cast", builder.input(rng.integers(0, 9, (1100, 1), np.uint8)), to=dtype)
        product = builder.cell("Sub", builder.cell("Mul", builder.cell("Add", x, row), column), few)
        whole = builder.reduce("ReduceSum", product, (0, 1))
        check(
            builder,
            [product, whole],
            levels=(level,),
            tolerance=1e-12 if dtype == "float64" else 1e-5,
        )


def distributions():
    rng = np.random.default_rng(7)
    count = 100_000
    normal = rng.normal(size=count)
    return {
        "normal": normal,
        "far": 1e8 + normal,
        "cancelling": np.concatenate([normal * 1e6, -normal * 1e6, normal[:10]]),
        "wide": np.exp(rng.normal(size=count) * 20),
    }


DISTRIBUTIONS = distributions()


@pytest.mark.parametrize("kind", ["float64", "float32"])
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_sums_keep_to_the_stated_bound(name, kind):
    """|error| <= (tile / lanes + log2(lanes) + 2) u sum|x|; at worst a tile has two lanes."""
    values = np.clip(DISTRIBUTIONS[name], -1e30, 1e30).astype(kind)
    values = values[: len(values) // 50 * 50].reshape(-1, 50)
    builder = Builder(kind)
    x = builder.input(values)
    cell = builder.reduce("ReduceSum", x, (0, 1))
    (sums,) = builder.compiled([cell]).run([values])
    exact = math.fsum(map(float, values.ravel()))
    size = math.fsum(map(float, np.abs(values).ravel()))
    unit = float(np.finfo(kind).eps) / 2
    assert abs(float(sums) - exact) <= (1024 / 2 + 3) * unit * size + unit * abs(exact)
    columns = builder.reduce("ReduceSum", x, (0,))
    (sums,) = builder.compiled([columns], template="Row", driver=x).run([values])
    for column in range(0, 50, 7):
        exact = math.fsum(map(float, values[:, column]))
        size = math.fsum(map(float, np.abs(values[:, column])))
        assert abs(float(sums[column]) - exact) <= (260 + 3) * unit * size + unit * abs(exact)


@pytest.mark.parametrize("level", reachable())
@pytest.mark.parametrize("kind", ["float64", "float32"])
@pytest.mark.parametrize("form", ["plain", "strided", "special"])
def test_light_sums_of_any_number_of_cells(level, kind, form):
    """They are summed in lanes, in tiles that are larger where nothing is copied."""
    rng = np.random.default_rng(5)
    for count in (1, 31, 32, 4095, 4096, 4097, 8200, 70_003):
        builder = Builder(kind)
        x, y = (builder.input(array(rng, (count,), kind, form)) for _ in range(2))
        product = builder.cell("Mul", x, y)
        squares = builder.reduce("ReduceSumSquare", x, (0,))
        sums = [builder.reduce("ReduceSum", product, (0,)), squares]
        size = math.sqrt(count)  # of a sum of random signs: its terms' sum is as much larger
        tolerance = size * (1e-13 if kind == "float64" else 1e-5)
        check(builder, sums, levels=(level,), tolerance=tolerance)


@pytest.mark.parametrize("level", reachable())
@pytest.mark.parametrize("kind", ["float64", "float32"])
@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMin"])
def test_the_greatest_and_the_least_in_lanes(level, kind, op):
    """Wherever it is, and wherever a NaN is: in any lane, or behind the last whole step."""
    rng = np.random.default_rng(6)
    for count in (1, 31, 32, 33, 4097, 70_003):
        values = rng.normal(size=count).astype(kind)
        builder = Builder(kind)
        reduced = builder.reduce(op, builder.cell("Neg", builder.input(values)), (0,))
        compiled = builder.compiled([reduced], levels=(level,))
        for position in {0, 17 % count, count // 2, count - 1}:
            for special in (50.0, -50.0, math.inf, -math.inf, math.nan):
                changed = values.copy()
                changed[position] = special
                expected = (-changed).max() if op == "ReduceMax" else (-changed).min()
                np.testing.assert_array_equal(compiled.run([changed])[0], expected)


@pytest.mark.parametrize("special", [math.nan, math.inf, -math.inf, (math.inf, -math.inf)])
def test_special_numbers_pass_through_reductions(special):
    rng = np.random.default_rng(2)
    values = rng.normal(size=(700, 40))
    values.reshape(-1)[[100, 20_000]] = special
    builder = Builder()
    x = builder.input(values)
    full = [builder.reduce(op, x, (0, 1)) for op in ("ReduceSum", "ReduceMax", "ReduceMin")]
    check(builder, full)
    parts = [builder.reduce(op, x, (a,)) for op in ("ReduceSum", "ReduceMax") for a in (0, 1)]
    check(builder, [*full, *parts], template="Row", driver=x)


def test_the_least_of_nothing_is_numpys_error():
    builder = Builder()
    compiled = builder.compiled(
        [builder.reduce("ReduceMax", builder.input(np.ones((0, 3))), (0, 1))]
    )
    with pytest.raises(ValueError, match="zero-size"):
        compiled.run(builder.arrays)


def test_signed_zeros_and_subnormal_numbers_are_kept():
    values = np.array([[0.0, -0.0, 5e-324, -5e-324, 1e-310, 1.0]])
    builder = Builder()
    x = builder.input(values)
    negated = builder.cell("Neg", x)
    half = builder.cell("Mul", x, builder.constant(0.5))
    (negatives, halved) = builder.compiled([negated, half]).run([values])
    np.testing.assert_array_equal(np.signbit(negatives), ~np.signbit(values))
    np.testing.assert_array_equal(halved, values * 0.5)


def test_arithmetic_rounds_as_numpys():
    """No contraction: x * x - y * y of equal numbers is 0."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(2, 1000))
    builder = Builder()
    a, b = builder.input(x), builder.input(y)
    difference = builder.cell("Sub", builder.cell("Mul", a, b), builder.cell("Mul", b, a))
    mixed = builder.cell("Div", builder.cell("Add", a, builder.cell("Mul", a, b)), b)
    results = builder.compiled([difference, mixed]).run([x, y])
    np.testing.assert_array_equal(results[0], 0.0)
    np.testing.assert_array_equal(results[1], (x + x * y) / y)


@pytest.mark.parametrize("kind", ["float64", "float32"])
@pytest.mark.parametrize(("m", "n", "k"), [(1000, 37, 4), (3, 5, 1), (1, 7, 3), (600, 1500, 5)])
def test_rows_with_products(m, n, k, kind):
    """t(X) (w (X v)), the core of multinomial regression, and softmax with what is around it."""
    rng = np.random.default_rng(4)
    builder = Builder(kind)
    x = builder.input(rng.normal(size=(m, n)).astype(kind))
    v, w = (builder.input(rng.normal(size=s).astype(kind)) for s in (n, m))
    weighted = builder.matmul(builder.transpose(x), builder.cell("Mul", w, builder.matmul(x, v)))
    many, p = (builder.input(rng.uniform(size=s).astype(kind)) for s in ((n, k), (m, k)))
    q = builder.cell("Mul", p, builder.matmul(x, many))
    rest = builder.cell("Sub", q, builder.cell("Mul", p, builder.reduce("ReduceSum", q, (1,), 1)))
    core = builder.matmul(builder.transpose(x), rest)
    shifted = builder.cell("Sub", x, builder.reduce("ReduceMax", x, (1,), 1))
    grown = builder.cell("Exp", shifted)
    softmax = builder.cell("Div", grown, builder.reduce("ReduceSum", grown, (1,), 1))
    outputs = [weighted, core, softmax, builder.reduce("ReduceSum", softmax, (0,))]
    check(
        builder, outputs, template="Row", driver=x, tolerance=1e-12 if kind == "float64" else 1e-4
    )


@pytest.mark.parametrize("levels", [(name,) for name in reachable()] + [tuple(reachable())])
@pytest.mark.parametrize("kind", ["float64", "float32"])
def test_products_at_each_instruction_set(levels, kind):
    """Widths around those of vectors, of one, several and many columns."""
    rng = np.random.default_rng(8)
    for m, n, k in [(37, 21, 7), (9, 1, 2), (6, 130, 9), (1, 17, 40)]:
        builder = Builder(kind)
        x = builder.input(rng.normal(size=(m, n)).astype(kind))
        v, p = (builder.input(rng.normal(size=s).astype(kind)) for s in ((n, k), (m, k)))
        q = builder.cell("Mul", p, builder.matmul(x, v))
        outputs = [q, builder.matmul(builder.transpose(x), q)]
        tight = 1e-12 if kind == "float64" else 1e-4
        check(builder, outputs, template="Row", driver=x, tolerance=tight, levels=levels)


def test_columns_where_rows_would_have_to_wait():
    """X - mean(X, axis=0) runs over columns."""
    builder = Builder()
    x = builder.input(np.random.default_rng(5).normal(size=(300, 20)))
    centred = builder.cell("Sub", x, builder.reduce("ReduceMean", x, (0,), 1))
    check(builder, [centred, builder.reduce("ReduceSumSquare", centred, (0,))], template="Row")


def test_what_needs_all_rows_first_is_left_to_numpy():
    builder = Builder()
    x = builder.input(np.random.default_rng(5).normal(size=(30, 20)))
    share = builder.cell("Div", x, builder.reduce("ReduceSum", x, (0, 1), 1))
    compiled = builder.compiled([share], template="Row", driver=x)
    assert "needs all rows" in compiled.fallbacks[0][1]
    np.testing.assert_array_equal(compiled.run(builder.arrays)[0], builder.expected([share])[0])


@pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
@pytest.mark.parametrize("kind", ["float64", "float32"])
@pytest.mark.parametrize(("m", "n", "k"), [(500, 80, 20), (40, 300, 1), (3, 3, 3)])
def test_entries_of_a_sparse_driver(m, n, k, kind, layout):
    """sum(X log(U V^T + eps)), products to both sides, row and column sums, other operands."""
    sparse = pytest.importorskip("scipy.sparse")
    rng = np.random.default_rng(6)
    some = sparse.random_array((m, n), density=0.1, random_state=rng, format=layout, dtype=kind)
    other = sparse.random_array((m, n), density=0.3, random_state=rng, format="csr", dtype=kind)
    builder = Builder(kind)
    x, z = builder.input(some), builder.input(other)
    u, v = (builder.input(rng.uniform(size=(s, k)).astype(kind)) for s in (m, n))
    dense = builder.input(np.asfortranarray(rng.normal(size=(m, n)).astype(kind)))
    w, r = (builder.input(rng.normal(size=s).astype(kind)) for s in ((m, 1), (n,)))
    product = builder.matmul(u, builder.transpose(v))
    sized = {"nnz": some.nnz, "layout": layout}
    logarithm = builder.cell("Log", builder.cell("Add", product, builder.constant(1e-15)))
    entropy = builder.cell("Mul", x, logarithm, **sized)
    right = builder.matmul(builder.cell("Mul", x, product, **sized), v)
    left = builder.matmul(builder.transpose(entropy), u)
    other_way = builder.matmul(builder.transpose(u), entropy)
    chain = x
    for factor in (dense, z, w, r):
        chain = builder.cell("Mul", chain, factor, **sized)
    sums = [builder.reduce("ReduceSum", entropy, axes) for axes in ((0, 1), (0,), (1,))]
    check(
        builder,
        [entropy, right, left, other_way, chain, *sums],
        template="Outer",
        driver=x,
        sparse=True,
        tolerance=1e-12 if kind == "float64" else 1e-4,
    )


def test_sparse_arrays_with_duplicates_and_explicit_zeros():
    sparse = pytest.importorskip("scipy.sparse")
    data = np.array([1.0, 2.0, 0.0, -3.0, 4.0])
    parts = (data, np.array([3, 3, 1, 0, 2]), np.array([0, 2, 3, 3, 5]))
    matrix = sparse.csr_array(parts, shape=(4, 5))
    before = matrix.copy()
    builder = Builder()
    x = builder.input(matrix)
    squares = builder.cell("Mul", x, x, nnz=5, layout="csr")
    outputs = [builder.reduce("ReduceSum", squares, (0, 1)), squares]
    check(builder, outputs, template="Cell", driver=x, sparse=True)
    v = builder.input(np.arange(5.0))
    check(builder, [builder.matmul(x, v)], template="Row", driver=x)
    np.testing.assert_array_equal(matrix.data, before.data)  # what was given stays


def test_rows_of_other_shapes_are_refused():
    builder = Builder()
    x = builder.input(np.ones((4, 3)))
    compiled = builder.compiled([builder.cell("Exp", x)])
    with pytest.raises(Exception, match="planned as float64"):
        compiled.run([np.ones((3, 4))])
