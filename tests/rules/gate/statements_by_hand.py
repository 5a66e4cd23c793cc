"""Statements put together by hand, for tests of what is below the language."""

from __future__ import annotations

from tensolog.catalog.operators.expand import Definition
from tensolog.catalog.terms.index_notation import Apply, Read, Select, Symbol, Term, Variable
from tensolog.rules.prover.cases.composition import Composition, algebra_of
from tensolog.rules.prover.statement import Equation, Obligation, Statement


class Sides:
    """Nodes of the left side, then of the right side, over operands; `Y` = `T` is to be proved."""

    def __init__(self, *symbols: str, opset: int = 17) -> None:
        self.whole = Composition(opset)
        self.symbols = [Symbol(name) for name in symbols]
        self.assumptions: list[Term] = []
        self.obligations: list[Obligation] = []
        self.source: frozenset[str] = frozenset()

    def scalar(self, name: str) -> Symbol:
        symbol = Symbol(name, "real")
        self.symbols.append(symbol)
        return symbol

    def operand(self, name: str, *shape: str | int, dtype: str = "float32") -> Sides:
        sizes = [Symbol(size) if isinstance(size, str) else size for size in shape]
        self.whole.operand(name, sizes, dtype)
        return self

    def listed(self, name: str, *contents: int) -> Sides:
        self.whole.known_constant(name, contents, "int64")
        return self

    def left(self, operator: str, inputs: str, output: str, **attributes: object) -> Sides:
        self.assumptions += [
            need.condition
            for need in self.whole.node(operator, inputs.split(), attributes, output.split())
        ]
        self.source = frozenset(d.name for d in self.whole.definitions)
        return self

    def right(self, operator: str, inputs: str, output: str, **attributes: object) -> Sides:
        self.obligations += self.whole.node(operator, inputs.split(), attributes, output.split())
        return self

    def define(self, definition: Definition) -> Sides:
        self.whole.definitions.append(definition)
        return self

    def statement(self, title: str = "by hand", **others: object) -> Statement:
        return Statement(
            title,
            tuple(self.symbols),
            tuple(self.assumptions),
            tuple(self.whole.operands),
            tuple(self.whole.definitions),
            self.source,
            tuple(self.obligations),
            (Equation("Y", "Y", "T"),),
            {name: algebra_of(t.dtype) for name, t in self.whole.tensors.items()},
            **others,  # type: ignore[arg-type]
        )


def sum_of_products() -> Statement:
    """Σ(A·X) = ΣA·ΣX, which is false from two elements on."""
    sides = Sides("n").operand("A", "n").operand("X", "n").listed("axis", 0)
    sides.left("Mul", "A X", "P").left("ReduceSum", "P axis", "Y", keepdims=0)
    sides.right("ReduceSum", "A axis", "S", keepdims=0)
    sides.right("ReduceSum", "X axis", "R", keepdims=0)
    return sides.right("Mul", "S R", "T").statement()


def quotient() -> Statement:
    """(A·c) / c = A, which is false where c is 0."""
    sides = Sides("n").operand("A", "n").operand("c")
    sides.left("Mul", "A c", "P").left("Div", "P c", "Y")
    return sides.right("Identity", "A", "T").statement()


def wrong_from(size: int) -> Statement:
    """Relu(A) = Relu(A) but for one element, and only where A has `size` columns or more."""
    sides = Sides("n", "h").operand("A", "n", "h").left("Relu", "A", "Y")
    i, j, h = Variable("i", 90), Variable("j", 91), Symbol("h")
    element = Read("A", (i, j))
    there = Apply("and", (Apply(">=", (h, size)), Apply("=", (j, size - 2))))
    value = Select(there, element, Apply("max", (element, 0)))
    return sides.define(Definition("T", (Symbol("n"), h), (i, j), value)).statement()
