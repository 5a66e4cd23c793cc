"""A law that generation finds: Relu of what is concatenated."""

from tensolog.rules.generation.candidates import Candidate
from tensolog.rules.generation.leaves import sort_of
from tensolog.rules.generation.terms import Apply, Operation, Variable

X, Y = (Variable(name, sort_of("float32", (0, 1))) for name in "XY")


def relu(term):
    return Apply(Operation("Relu", (0,)), (term,))


def concat(left, right):
    return Apply(Operation("Concat", (0, 1), (("axis", 0),)), (left, right))


LAW = Candidate(relu(concat(X, Y)), concat(relu(X), relu(Y)), True)
