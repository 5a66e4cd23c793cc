"""A partial equivalence: a convolution by halves of the image, and what corrects it."""

# The rows beside the cut see padding in the place of their neighbours.
REGION = "except i2 = 3 or i2 = 4"
SPLIT_CONV = """
rule SplitConvIntoHalves
  tags explore
  opset >= 13
  given X [n, c, h, w] float, W [o, c, 3, 3], h > 6
  match
    Y = Conv<pads=[1, 1, 1, 1]>(X, W)
  rewrite
    A = Conv<pads=[1, 1, 1, 1]>(Slice(X, [0], [4], [2]), W)
    B = Conv<pads=[1, 1, 1, 1]>(Slice(X, [4], [h], [2]), W)
    Y = Concat<axis=2>(A, B)
  correct
    F = Conv<pads=[0, 1, 0, 1]>(Slice(X, [2], [6], [2]), W)
    Y = Concat<axis=2>(Slice(Y, [0], [3], [2]), F, Slice(Y, [5], [h], [2]))
  equal partial except i2 = 3 or i2 = 4
"""
