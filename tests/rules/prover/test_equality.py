"""Statements that hold are proved, and those beside them that don't stay open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import z3
from tensolog.catalog.terms.index_notation import Apply, Symbol, Term, apply
from tensolog.rules.prover.cases.composition import Composition, algebra_of
from tensolog.rules.prover.prove import prove
from tensolog.rules.prover.statement import Equation, Obligation, Statement

OPSET = 21


class Sides:
    """A statement in the making: source nodes first, then, after `target`, the others."""

    def __init__(self) -> None:
        self.composition = Composition(OPSET)
        self.symbols: dict[str, Symbol] = {}
        self.assumptions: list[Term] = []
        self.obligations: list[Obligation] = []
        self.source: frozenset[str] | None = None
        self.count = 0

    def dims(self, names: str) -> list[Symbol]:
        return [self.symbols.setdefault(name, Symbol(name)) for name in names.split()]

    def input(self, name: str, dims: str, dtype: str = "float32") -> str:
        self.composition.operand(name, self.dims(dims), dtype)
        return name

    def scalar(self, name: str) -> str:
        symbol = self.symbols[name] = Symbol(name, "real")
        self.composition.constant(name, (), symbol, "float32")
        return name

    def list(self, *entries: Any) -> str:
        self.count += 1
        name = f"list{self.count}"
        self.composition.known_constant(name, entries, "int64")
        return name

    def node(self, operator: str, *inputs: str | None, **attributes: Any) -> str:
        return self.nodes(1, operator, *inputs, **attributes)[0]

    def nodes(self, outputs: int, operator: str, *inputs: str | None, **attributes: Any) -> Any:
        self.count += 1
        names = [f"T{self.count}.{i}" for i in range(outputs)]
        needs = self.composition.node(operator, inputs, attributes, names)
        if self.source is None:
            self.assumptions += [need.condition for need in needs]
        else:
            self.obligations += needs
        return names

    def target(self) -> None:
        self.source = frozenset(definition.name for definition in self.composition.definitions)

    def statement(self, *pairs: tuple[str, str]) -> Statement:
        tensors = self.composition.tensors
        for first, second in pairs:
            for a, b in zip(tensors[first].shape, tensors[second].shape, strict=True):
                condition = apply("=", a, b)
                if condition is not True:
                    self.obligations.append(Obligation(f"{a} = {b}", condition))
        return Statement(
            "a test",
            tuple(self.symbols.values()),
            tuple(self.assumptions),
            tuple(self.composition.operands),
            tuple(self.composition.definitions),
            self.source or frozenset(),
            tuple(self.obligations),
            tuple(Equation(f"Y{i}", first, second) for i, (first, second) in enumerate(pairs)),
            {name: algebra_of(tensor.dtype) for name, tensor in tensors.items()},
        )


Build = Callable[[Sides], Statement]
HOLDS: dict[str, Build] = {}
OPEN: dict[str, tuple[Build, str]] = {}


def holds(build: Build) -> Build:
    HOLDS[build.__name__] = build
    return build


def stays_open(reason: str) -> Callable[[Build], Build]:
    def add(build: Build) -> Build:
        OPEN[build.__name__] = (build, reason)
        return build

    return add


@holds
def associative_matmul(s: Sides) -> Statement:
    a, b, c = s.input("A", "m k"), s.input("B", "k n"), s.input("C", "n p")
    left = s.node("MatMul", s.node("MatMul", a, b), c)
    s.target()
    return s.statement((left, s.node("MatMul", a, s.node("MatMul", b, c))))


@holds
def matmuls_sharing_an_operand(s: Sides) -> Statement:
    x, w, v = s.input("X", "m k"), s.input("W", "k n"), s.input("V", "k p")
    first, second = s.node("MatMul", x, w), s.node("MatMul", x, v)
    s.target()
    both = s.node("MatMul", x, s.node("Concat", w, v, axis=1))
    parts = s.nodes(2, "Split", both, s.list(*s.dims("n p")), axis=1)
    return s.statement((first, parts[0]), (second, parts[1]))


@holds
def transposed_product(s: Sides) -> Statement:
    a, b = s.input("A", "m k"), s.input("B", "k n")
    left = s.node("Transpose", s.node("MatMul", a, b))
    s.target()
    right = s.node("MatMul", s.node("Transpose", b), s.node("Transpose", a))
    return s.statement((left, right))


@holds
def softmax_of_shifted(s: Sides) -> Statement:
    x, c = s.input("X", "m n"), s.input("c", "m")
    left = s.node("Softmax", s.node("Add", x, s.node("Unsqueeze", c, s.list(1))))
    s.target()
    return s.statement((left, s.node("Softmax", x)))


@holds
def mean_of_means(s: Sides) -> Statement:
    x = s.input("X", "m n")
    left = s.node("ReduceMean", x, s.list(0, 1), keepdims=0)
    s.target()
    rows = s.node("ReduceMean", x, s.list(1), keepdims=0)
    return s.statement((left, s.node("ReduceMean", rows, s.list(0), keepdims=0)))


@holds
def division_by_reciprocal(s: Sides) -> Statement:
    a, b = s.input("A", "n"), s.input("B", "n")
    left = s.node("Div", a, b)
    s.target()
    return s.statement((left, s.node("Mul", a, s.node("Reciprocal", b))))


@holds
def division_by_a_nonzero_scalar(s: Sides) -> Statement:
    a, c = s.input("A", "n"), s.scalar("c")
    s.assumptions.append(Apply("!=", (s.symbols["c"], 0)))
    left = s.node("Div", s.node("Mul", a, c), c)
    s.target()
    return s.statement((left, s.node("Identity", a)))


@holds
def absolute_value_by_order(s: Sides) -> Statement:
    x = s.input("X", "n")
    left = s.node("Max", x, s.node("Neg", x))
    s.target()
    return s.statement((left, s.node("Abs", x)))


@holds
def shift_of_a_largest(s: Sides) -> Statement:
    a, b, c = s.input("A", "n"), s.input("B", "n"), s.input("C", "n")
    left = s.node("Max", s.node("Add", a, c), s.node("Add", b, c))
    s.target()
    return s.statement((left, s.node("Add", s.node("Max", a, b), c)))


@stays_open("coefficients")
def other_sign(s: Sides) -> Statement:
    a, b, c = s.input("A", "m k"), s.input("B", "k n"), s.input("C", "k n")
    left = s.node("Sub", s.node("MatMul", a, b), s.node("MatMul", a, c))
    s.target()
    return s.statement((left, s.node("MatMul", a, s.node("Add", b, c))))


@stays_open("needs c")
def division_by_what_may_be_zero(s: Sides) -> Statement:
    a, c = s.input("A", "n"), s.input("c", "n")
    left = s.node("Div", s.node("Mul", a, c), c)
    s.target()
    return s.statement((left, s.node("Identity", a)))


@stays_open("target needs")
def target_divides(s: Sides) -> Statement:
    a, c = s.input("A", "n"), s.input("c", "n")
    left = s.node("Identity", a)
    s.target()
    return s.statement((left, s.node("Div", s.node("Mul", a, c), c)))


@stays_open("needs X")
def square_of_a_root(s: Sides) -> Statement:
    x = s.input("X", "n")
    root = s.node("Sqrt", x)
    left = s.node("Mul", root, root)
    s.target()
    return s.statement((left, s.node("Identity", x)))


@stays_open("coefficients")
def root_of_a_square(s: Sides) -> Statement:
    x = s.input("X", "n")
    left = s.node("Sqrt", s.node("Mul", x, x))
    s.target()
    return s.statement((left, s.node("Identity", x)))


@stays_open("needs X")
def exponential_of_a_logarithm(s: Sides) -> Statement:
    x = s.input("X", "n")
    left = s.node("Exp", s.node("Log", x))
    s.target()
    return s.statement((left, s.node("Identity", x)))


@stays_open("differ")
def root_of_a_product_with_a_square(s: Sides) -> Statement:
    # where y is 0, the left side is 0 whatever the sign of x
    x, y = s.input("X", "n"), s.input("Y", "n")
    left = s.node("Sqrt", s.node("Mul", s.node("Mul", y, y), x))
    s.target()
    return s.statement((left, s.node("Mul", s.node("Abs", y), s.node("Sqrt", x))))


@stays_open("coefficients")
def shift_of_a_largest_integer(s: Sides) -> Statement:
    a, b, c = (s.input(name, "n", "int32") for name in "ABC")
    left = s.node("Max", s.node("Add", a, c), s.node("Add", b, c))
    s.target()
    return s.statement((left, s.node("Add", s.node("Max", a, b), c)))


@stays_open("differ")
def product_of_sums(s: Sides) -> Statement:
    a, b = s.input("A", "m n"), s.input("B", "m n")
    left = s.node("ReduceSum", s.node("Mul", a, b), s.list(0, 1), keepdims=0)
    s.target()
    sums = [s.node("ReduceSum", summed, s.list(0, 1), keepdims=0) for summed in (a, b)]
    return s.statement((left, s.node("Mul", *sums)))


@stays_open("vacuous")
def nothing_to_prove(s: Sides) -> Statement:
    x = s.input("X", "n")
    s.assumptions += [apply(">", s.symbols["n"], 3), apply("<", s.symbols["n"], 2)]
    left = s.node("Neg", x)
    s.target()
    return s.statement((left, s.node("Abs", x)))


@stays_open("needs")
def mean_over_nothing(s: Sides) -> Statement:
    # for n = 0 the mean divides by 0, while the sum of nothing is 0
    x, y = s.input("X", "m n"), s.input("Y", "m")
    mean = s.node("ReduceMean", x, s.list(1), keepdims=0)
    left = s.node("Add", s.node("Sub", mean, mean), y)
    s.target()
    return s.statement((left, s.node("Identity", y)))


@pytest.mark.parametrize("name", sorted(HOLDS))
def test_is_proved(name: str) -> None:
    outcome = prove(HOLDS[name](Sides()))
    assert outcome.status == "proved", outcome.reason
    for query in outcome.queries:
        solver = z3.Solver()
        solver.from_string(query.script)
        assert str(solver.check()) == query.result == "unsat"


@pytest.mark.parametrize("name", sorted(OPEN))
def test_false_statements_are_not_proved(name: str) -> None:
    build, reason = OPEN[name]
    outcome = prove(build(Sides()))
    assert outcome.status == "open"
    assert reason in outcome.reason


def test_proofs_are_repeatable() -> None:
    scripts = [
        [query.script for query in prove(HOLDS["softmax_of_shifted"](Sides())).queries]
        for _ in range(2)
    ]
    assert scripts[0] == scripts[1]
