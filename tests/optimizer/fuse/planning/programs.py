"""The expressions and loop bodies of the paper's evaluation (PVLDB 2018, section 5) as programs."""

from .build import Build


def product_sum(nnz=None, m=2000, n=1000):
    """sum(X * Y * Z), X perhaps sparse."""
    b = Build()
    x, y, z = b.input(m, n, nnz=nnz), b.input(m, n), b.input(m, n)
    return b.program(b.sum(b.op("Mul", b.op("Mul", x, y, nnz=nnz), z, nnz=nnz)))


def two_sums():
    """sum(X * Y), sum(X * Z)."""
    b = Build()
    x, y, z = (b.input(2000, 1000) for _ in range(3))
    return b.program(b.sum(b.op("Mul", x, y)), b.sum(b.op("Mul", x, z)))


def weighted_distance():
    """sum((X - Y)^2 * Z / (1 + abs(X)))."""
    b = Build()
    x, y, z = (b.input(2000, 1000) for _ in range(3))
    square = b.op("Pow", b.op("Sub", x, y), b.number(2.0))
    below = b.op("Add", b.number(1.0), b.op("Abs", x))
    return b.program(b.sum(b.op("Div", b.op("Mul", square, z), below)))


def chain(weighted=False, nnz=None, m=100_000, n=100):
    """t(X) @ (X @ v), or t(X) @ (w * (X @ v)); X perhaps sparse."""
    b = Build()
    x, v = b.input(m, n, nnz=nnz), b.input(n)
    inner = b.matmul(x, v)
    if weighted:
        inner = b.op("Mul", b.input(m), inner)
    return b.program(b.matmul(b.t(x), inner))


def mlogreg_core(m=100_000, n=200, k=4):
    """t(X) @ (Q - P * rowSums(Q)) with Q = P * (X @ V)."""
    b = Build()
    x, v, p = b.input(m, n), b.input(n, k), b.input(m, k)
    q = b.op("Mul", p, b.matmul(x, v))
    inner = b.op("Sub", q, b.op("Mul", p, b.sum(q, 1, keepdims=1)))
    return b.program(b.matmul(b.t(x), inner))


def cross_entropy(rank=20, nnz=1_000_000, m=10_000, n=10_000):
    """sum(X * log(U @ t(V) + 1e-15)) with sparse X."""
    b = Build()
    x, u, v = b.input(m, n, nnz=nnz), b.input(m, rank), b.input(n, rank)
    log = b.op("Log", b.op("Add", b.matmul(u, b.t(v)), b.number(1e-15)))
    return b.program(b.sum(b.op("Mul", x, log, nnz=nnz)))


def als_gradient(side="right", nnz=250_000, m=5000, n=5000, rank=20):
    """(W * (U @ t(V)) - X) @ V or its mirror image, in ALS-CG: W * (U @ t(V)) @ V."""
    b = Build()
    w, u, v = b.input(m, n, nnz=nnz), b.input(m, rank), b.input(n, rank)
    inner = b.op("Mul", w, b.matmul(u, b.t(v)), nnz=nnz)
    if side == "right":
        return b.program(b.matmul(inner, v))
    turned = b.t(inner)
    return b.program(b.matmul(turned, u))


def l2svm_inner(m=500_000):
    """The line search of L2SVM: two sums over one margin."""
    b = Build()
    y, xw, xd = b.input(m), b.input(m), b.input(m)
    step, wd, dd = b.input(), b.input(), b.input()
    one, zero = b.number(1.0), b.number(0.0)
    margin = b.op("Sub", one, b.op("Mul", y, b.op("Add", xw, b.op("Mul", step, xd))))
    inside = b._add("Cast", [b.op("Greater", margin, zero)], (m,), to="float64")
    margin = b.op("Mul", margin, inside)
    g = b.sum(b.op("Mul", b.op("Mul", margin, y), xd))
    g = b.op("Sub", b.op("Add", wd, b.op("Mul", step, dd)), g)
    h = b.op("Add", dd, b.sum(b.op("Mul", b.op("Mul", xd, inside), xd)))
    return b.program(b.op("Sub", step, b.op("Div", g, h)))


def l2svm_outer(m=500_000, n=10):
    """The gradient of L2SVM and its norms."""
    b = Build()
    x, y, xw, w = b.input(m, n), b.input(m), b.input(m), b.input(n)
    one, zero = b.number(1.0), b.number(0.0)
    margin = b.op("Sub", one, b.op("Mul", y, xw))
    inside = b._add("Cast", [b.op("Greater", margin, zero)], (m,), to="float64")
    margin = b.op("Mul", margin, inside)
    loss = b.sum(b.op("Mul", margin, margin))
    gradient = b.op("Sub", b.matmul(b.t(x), b.op("Mul", margin, y)), b.op("Mul", one, w))
    return b.program(gradient, loss, b.sum(b.op("Mul", gradient, gradient)))


def kmeans(m=500_000, n=10, k=5):
    """One step of KMeans: distances, assignment, new centroids, and the within-sum."""
    b = Build()
    x, c = b.input(m, n), b.input(k, n)
    norms = b.sum(b.op("Mul", c, c), 1)
    d = b.op("Add", b.op("Mul", b.number(-2.0), b.matmul(x, b.t(c))), norms)
    least = b.reduce("ReduceMin", d, (1,), 1)
    p = b._add("Cast", [b.op("LessOrEqual", d, least)], (m, k), to="float64")
    p = b.op("Div", p, b.sum(p, 1, keepdims=1))
    weights = b.sum(p, 0)
    fresh = b.op("Div", b.matmul(b.t(p), x), b.column(weights))
    return b.program(fresh, b.sum(least))


def mlogreg(m=500_000, n=10, k=4):
    """Probabilities, objective, gradient and one Hessian product of MLogreg."""
    b = Build()
    x, beta, y, v = b.input(m, n), b.input(n, k), b.input(m, k), b.input(n, k)
    scores = b.matmul(x, beta)
    scores = b.op("Sub", scores, b.reduce("ReduceMax", scores, (1,), 1))
    e = b.op("Exp", scores)
    mass = b.sum(e, 1, keepdims=1)
    p = b.op("Div", e, mass)
    objective = b.op("Sub", b.sum(b.op("Log", mass)), b.sum(b.op("Mul", y, scores)))
    gradient = b.matmul(b.t(x), b.op("Sub", p, y))
    q = b.op("Mul", p, b.matmul(x, v))
    inner = b.op("Sub", q, b.op("Mul", p, b.sum(q, 1, keepdims=1)))
    return b.program(objective, gradient, b.matmul(b.t(x), inner))


def glm(m=500_000, n=10):
    """Link, variance and weights of a probit GLM; gradient, Hessian product and log-likelihood."""
    b = Build()
    x, beta, y, v = b.input(m, n), b.input(n), b.input(m), b.input(n)
    one, half = b.number(1.0), b.number(0.5)
    eta = b.matmul(x, beta)
    scaled = b.op("Mul", eta, b.number(0.70710678))
    mean = b.op("Mul", half, b.op("Add", one, b.op("Erf", scaled)))
    density = b.op("Exp", b.op("Mul", b.op("Neg", half), b.op("Mul", eta, eta)))
    density = b.op("Mul", density, b.number(0.39894228))
    low = b.op("Max", mean, b.number(1e-12))
    high = b.op("Min", low, b.number(1.0 - 1e-12))
    variance = b.op("Mul", high, b.op("Sub", one, high))
    weight = b.op("Div", b.op("Mul", density, density), variance)
    residual = b.op("Div", b.op("Mul", b.op("Sub", y, high), density), variance)
    gradient = b.matmul(b.t(x), residual)
    hessian = b.matmul(b.t(x), b.op("Mul", weight, b.matmul(x, v)))
    gain = b.op("Mul", y, b.op("Log", high))
    loss = b.op("Mul", b.op("Sub", one, y), b.op("Log", b.op("Sub", one, high)))
    likelihood = b.sum(b.op("Add", gain, loss))
    deviance = b.sum(b.op("Mul", residual, b.op("Sub", y, high)))
    return b.program(gradient, hessian, likelihood, deviance, b.sum(weight))


def autoencoder(batch=512, n=784, h1=500, h2=2):
    """Forward and backward pass of a two-layer autoencoder's inner layers."""
    b = Build()
    x, w1, w2, w3, w4 = (
        b.input(batch, n),
        b.input(n, h1),
        b.input(h1, h2),
        b.input(h2, h1),
        b.input(h1, n),
    )
    one = b.number(1.0)

    def layer(a, w):
        y = b.op("Sigmoid", b.matmul(a, w))
        return y, b.op("Mul", y, b.op("Sub", one, y))

    y1, d1 = layer(x, w1)
    y2, d2 = layer(y1, w2)
    y3, d3 = layer(y2, w3)
    y4, d4 = layer(y3, w4)
    e = b.op("Sub", y4, x)
    loss = b.sum(b.op("Mul", e, e))
    e4 = b.op("Mul", e, d4)
    e3 = b.op("Mul", b.matmul(e4, b.t(w4)), d3)
    e2 = b.op("Mul", b.matmul(e3, b.t(w3)), d2)
    e1 = b.op("Mul", b.matmul(e2, b.t(w2)), d1)
    pairs = [(y3, e4), (y2, e3), (y1, e2), (x, e1)]
    return b.program(loss, *(b.matmul(b.t(y), e) for y, e in pairs))


ALL = {
    "product_sum": product_sum,
    "product_sum_sparse": lambda: product_sum(nnz=200_000),
    "two_sums": two_sums,
    "weighted_distance": weighted_distance,
    "chain": chain,
    "chain_weighted": lambda: chain(weighted=True),
    "chain_sparse": lambda: chain(weighted=True, nnz=10_000_000, m=200_000, n=1000),
    "mlogreg_core": mlogreg_core,
    "cross_entropy": cross_entropy,
    "cross_entropy_100": lambda: cross_entropy(rank=100),
    "als_right": als_gradient,
    "als_left": lambda: als_gradient("left"),
    "l2svm_inner": l2svm_inner,
    "l2svm_outer": l2svm_outer,
    "kmeans": kmeans,
    "mlogreg": mlogreg,
    "glm": glm,
    "autoencoder": autoencoder,
}
