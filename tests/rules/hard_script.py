"""A question that no solver answers in time."""

# Fermat's last theorem for cubes: true, and beyond both solvers.
HARD = """(set-logic ALL)
(declare-fun x () Int)
(declare-fun y () Int)
(declare-fun z () Int)
(assert (and (> x 2) (> y 2) (> z 2) (= (+ (* x x x) (* y y y)) (* z z z))))
(check-sat)
"""
