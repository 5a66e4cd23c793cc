"""A few rules over few operators: for brute force and for a second e-graph engine."""

import functools

from tensolog.rules import parse_rules

TEXT = """
# EliminateDoubleNegation lets what is negated twice be itself.
rule EliminateDoubleNegation
  tags    always
  source  [ieee754]
  match
    Y = Neg(Neg(X))
  rewrite
    Y = X
  equal   exact

# EliminateNegationOfAbs leaves out a sign that is taken away.
rule EliminateNegationOfAbs
  tags    always
  source  [ieee754]
  match
    Y = Abs(Neg(X))
  rewrite
    Y = Abs(X)
  equal   exact

# PushNegationThroughSub turns a difference round.
rule PushNegationThroughSub
  tags    explore
  source  [ieee754]
  match
    Y = Neg(Sub(A, B))
  rewrite
    Y = Sub(B, A)
  equal   exact

# PushNegationThroughMatMul negates the left factor.
rule PushNegationThroughMatMul
  tags    explore
  source  [golub13]
  match
    Y = Neg(MatMul(A, B))
  rewrite
    Y = MatMul(Neg(A), B)
  equal   rounding

# MergeDifferencesOfMatMuls subtracts before it multiplies.
rule MergeDifferencesOfMatMuls
  tags    explore
  source  [golub13]
  given   A [m, k],
          B [m, k]
  match
    P = MatMul(A, C)
    Q = MatMul(B, C)
    Y = Sub(P, Q)
  rewrite
    Y = MatMul(Sub(A, B), C)
  equal   rounding

# ReorderMatMuls brackets a product the other way.
rule ReorderMatMuls
  tags    explore
  source  [golub13]
  given   A [m, k],
          B [k, l],
          C [l, n]
  match
    Y = MatMul(MatMul(A, B), C)
  rewrite
    Y = MatMul(A, MatMul(B, C))
  equal   rounding

# SplitDifference turns a difference of differences round.
rule SplitDifference
  tags    explore
  source  [ieee754]
  match
    Y = Sub(A, Sub(B, C))
  rewrite
    Y = Sub(A, Neg(Sub(C, B)))
  equal   rounding
"""


@functools.cache
def small_rules():
    """The rules; their conditions on use counts are for graphs, no e-graph asks for them."""
    return parse_rules(TEXT, "small.rules")
