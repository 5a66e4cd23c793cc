"""The six algorithms of examples/ in SystemDS's language, statement by statement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Script:
    """Functions; the statement that calls `run` on the example's data, A1, A2 and so on; a result.

    `result` is the sum of the squares of what the example returns first, to compare by.
    """

    text: str
    call: str
    result: str


_L2SVM = """
run = function(Matrix[Double] X, Matrix[Double] y, Integer steps) return (Matrix[Double] w) {
  w = matrix(0, rows=ncol(X), cols=1)
  Xw = matrix(0, rows=nrow(X), cols=1)
  gradient = t(X) %*% y
  direction = gradient
  more = TRUE
  i = 0
  while (more & i < steps) {
    Xd = X %*% direction
    step = 0.0
    search = TRUE
    k = 0
    while (search & k < 20) {
      out = max(1 - y * (Xw + step * Xd), 0)
      dd = sum(direction * direction)
      slope = sum(w * direction) + step * dd - sum(out * y * Xd)
      curvature = dd + sum((out > 0) * Xd * Xd)
      step = step - slope / curvature
      search = slope * slope >= 1e-20 * curvature
      k = k + 1
    }
    w = w + step * direction
    Xw = Xw + step * Xd
    out = max(1 - y * Xw, 0)
    loss = 0.5 * sum(out * out) + 0.5 * sum(w * w)
    old = gradient
    gradient = t(X) %*% (out * y) - w
    more = step * sum(direction * old) >= 1e-9 * loss
    direction = gradient + sum(gradient * gradient) / sum(old * old) * direction
    i = i + 1
  }
}
"""

_MLOGREG = """
log_softmax = function(Matrix[Double] scores) return (Matrix[Double] found) {
  shifted = scores - rowMaxs(scores)
  found = shifted - log(rowSums(exp(shifted)))
}
run = function(Matrix[Double] X, Matrix[Double] Y, Integer steps) return (Matrix[Double] B) {
  B = matrix(0, rows=ncol(X), cols=ncol(Y))
  scores = X %*% B
  loss = -sum(Y * log_softmax(scores))
  first = -1.0
  more = TRUE
  i = 0
  while (more & i < steps) {
    P = exp(log_softmax(scores))
    G = t(X) %*% (P - Y) + B
    size = sum(G * G)
    if (first < 0) { first = size }
    more = size > 1e-16 * first
    if (more) {
      D = matrix(0, rows=nrow(B), cols=ncol(B))
      R = G
      S = -R
      rest = size
      k = 0
      while (rest >= 0.01 * size & k < length(B)) {
        Q = P * (X %*% S)
        HS = t(X) %*% (Q - P * rowSums(Q)) + S
        alpha = rest / sum(S * HS)
        D = D + alpha * S
        R = R + alpha * HS
        before = rest
        rest = sum(R * R)
        S = rest / before * S - R
        k = k + 1
      }
      worse = TRUE
      k = 0
      while (worse & k < 30) {
        new = X %*% (B + D)
        found = -sum(Y * log_softmax(new)) + 0.5 * sum((B + D)^2)
        worse = found > loss
        if (worse) { D = D / 2 }
        k = k + 1
      }
      B = B + D
      scores = new
      loss = found
    }
    i = i + 1
  }
}
"""

_POISSON = """
run = function(Matrix[Double] X, Matrix[Double] y, Integer steps) return (Matrix[Double] w) {
  w = matrix(0, rows=ncol(X), cols=1)
  first = -1.0
  more = TRUE
  i = 0
  while (more & i < steps) {
    mean = exp(X %*% w)
    gradient = t(X) %*% (mean - y) + 1e-3 * w
    rest = sum(gradient * gradient)
    if (first < 0) { first = rest }
    more = rest > 1e-18 * first
    if (more) {
      residual = gradient
      search = -gradient
      step = matrix(0, rows=nrow(w), cols=1)
      k = 0
      while (rest > 1e-12 * first & k < nrow(w)) {
        product = t(X) %*% (mean * (X %*% search)) + 1e-3 * search
        alpha = rest / sum(search * product)
        step = step + alpha * search
        residual = residual + alpha * product
        before = rest
        rest = sum(residual * residual)
        search = rest / before * search - residual
        k = k + 1
      }
      w = w + step
    }
    i = i + 1
  }
}
"""

_KMEANS = """
run = function(Matrix[Double] X, Matrix[Double] C, Integer steps)
    return (Matrix[Double] found, Double distance) {
  squares = sum(X * X)
  last = 1.0 / 0.0
  more = TRUE
  i = 0
  while (more & i < steps) {
    D = -2 * (X %*% t(C)) + t(rowSums(C * C))
    nearest = rowMins(D)
    P = (D <= nearest)
    P = P / rowSums(P)
    distance = squares + sum(nearest)
    C = (t(P) %*% X) / max(t(colSums(P)), 1)
    more = last - distance > 1e-12 * distance
    last = distance
    i = i + 1
  }
  found = C
}
"""

_ALS = """
factor = function(Matrix[Double] X, Matrix[Double] W, Matrix[Double] U0, Matrix[Double] V)
    return (Matrix[Double] U) {
  U = U0
  R = (W * (U %*% t(V))) %*% V - X %*% V + 0.1 * U
  S = -R
  rest = sum(R * R)
  first = rest
  more = TRUE
  k = 0
  while (more & k < 60) {
    HS = (W * (S %*% t(V))) %*% V + 0.1 * S
    alpha = rest / sum(S * HS)
    U = U + alpha * S
    R = R + alpha * HS
    before = rest
    rest = sum(R * R)
    more = rest > 1e-18 * first
    S = rest / before * S - R
    k = k + 1
  }
}
run = function(Matrix[Double] X, Matrix[Double] U0, Matrix[Double] V0, Integer steps)
    return (Double loss) {
  U = U0
  V = V0
  W = (X != 0)
  Xt = t(X)
  Wt = t(W)
  for (i in 1:steps) {
    U = factor(X, W, U, V)
    V = factor(Xt, Wt, V, U)
  }
  loss = 0.5 * sum((W * (U %*% t(V)) - X)^2) + 0.05 * (sum(U * U) + sum(V * V))
}
"""

_AUTOENCODER = """
run = function(Matrix[Double] X, Matrix[Double] V1, Matrix[Double] V2, Integer epochs)
    return (Double found) {
  found = 0.0
  W1 = V1
  W2 = V2
  b1 = matrix(0, rows=1, cols=ncol(W1))
  b2 = matrix(0, rows=1, cols=ncol(W2))
  sW1 = W1 * 0
  sW2 = W2 * 0
  sb1 = b1
  sb2 = b2
  for (epoch in 1:epochs) {
    total = 0.0
    for (batch in 1:(nrow(X) / 256)) {
      Xb = X[((batch - 1) * 256 + 1):(batch * 256), ]
      H = 1 / (1 + exp(-(Xb %*% W1 + b1)))
      Y = 1 / (1 + exp(-(H %*% W2 + b2)))
      E = Y - Xb
      dY = 2 / 256 * E * Y * (1 - Y)
      dH = (dY %*% t(W2)) * H * (1 - H)
      total = total + sum(E * E) / 256
      gW1 = t(Xb) %*% dH
      gb1 = colSums(dH)
      gW2 = t(H) %*% dY
      gb2 = colSums(dY)
      sW1 = 0.9 * sW1 - 0.5 * gW1
      sb1 = 0.9 * sb1 - 0.5 * gb1
      sW2 = 0.9 * sW2 - 0.5 * gW2
      sb2 = 0.9 * sb2 - 0.5 * gb2
      W1 = W1 + sW1
      b1 = b1 + sb1
      W2 = W2 + sW2
      b2 = b2 + sb2
    }
    found = found + (total * 256 / nrow(X))^2
  }
}
"""

SCRIPTS: Mapping[str, Script] = {
    "L2SVM": Script(_L2SVM, "w = run(A1, A2, 10)", "sum(w * w)"),
    "MLogreg": Script(_MLOGREG, "B = run(A1, A2, 5)", "sum(B * B)"),
    "GLM, Poisson": Script(_POISSON, "w = run(A1, A2, 5)", "sum(w * w)"),
    "KMeans": Script(_KMEANS, "[C, distance] = run(A1, A2, 10)", "sum(C * C)"),
    "ALS-CG, sparse": Script(_ALS, "loss = run(A1, A2, A3, 2)", "loss * loss"),
    "AutoEncoder": Script(_AUTOENCODER, "found = run(A1, A2, A3, 2)", "found"),
}
