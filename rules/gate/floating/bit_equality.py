"""Whether both sides of a rule are equal bit by bit, by proof; NaNs may differ in payload.

Two arguments. A rule that only moves elements, and is proved equal, takes the same element to each
place on both sides, so its bits are equal whatever the elements are. A rule of operators that
IEEE 754 fixes (each result rounded once) is one scalar expression on either side; Z3 proves the two
equal in its theory of floating-point numbers, or a search finds operands that tell them apart. Of
operators whose kernels approximate (Exp, Tanh) or choose an order of summation nothing is proved.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import z3

from ....catalog.operators import classifications
from ....catalog.operators.expand import Definition
from ....catalog.terms.index_notation import (
    Apply,
    Read,
    Select,
    Term,
    elements,
    is_constant,
    map_children,
)
from ....catalog.terms.syntax_tree import Binary, Call, Expression, ListOf, Literal, Name, Unary
from ...language.syntax import PatternNode, Rule
from ...prover.statement import Equation, Statement
from ...prover.work_clock import limit
from ..counterexample.symbol_values import endable_solver
from ..evaluation.arithmetic import NoValueError, number
from ..onnx_models import allows
from .ieee754 import (
    NotFloatingError,
    condition_formula,
    index_formula,
    is_of_elements,
    is_of_indices,
)
from .inlining import NotScalarError, inlined_element
from .scalar_bits import Bits, Problem, equal_bits

DTYPES = ("float32", "float16")
# Results that IEEE 754 fixes, whatever the kernel; of Max, Min and Sum with two operands. Not
# Where: ONNX Runtime's adds what it has chosen to zeros, and makes 0.0 of -0.0.
FIXED = frozenset(
    {"Abs", "Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"}
    | {"Mul", "Neg", "Not", "Or", "Reciprocal", "Sqrt", "Sub", "Xor"}
    | {"Relu", "Max", "Min", "Clip", "Sum"}
)
# Operators whose kernels treat zeros of two signs in one way everywhere. Those of Max and Min go by
# the shapes that they broadcast.
_STEADY = ("Relu", "Clip")
# Operators that compute where they move, or may.
_COMPUTING = frozenset({"Upsample", "Scatter", "ScatterElements", "ScatterND", "TensorScatter"})
# Operators that hand their operand on.
_HANDING_ON = frozenset({"Identity", "Dropout"})
_INDEX_S = 1.0


def bit_equality(
    rule: Rule, statements: Sequence[Statement], *, proved: bool, timeout: float = 5.0
) -> tuple[Bits, ...]:
    """Return what is known of the bits, by element type.

    `proved`: both sides were proved equal as tensors. `statements` are not looked at where the rule
    only moves, or is unfit. `timeout` is the solver's, in seconds, for each question. Of a rule
    under `finite_math` that is not equal otherwise, finite numbers are asked about.
    """
    if moves_only(rule):
        if proved:
            return (Bits("any", "proved", "movement"),)
        reason = "the rule only moves elements, but is not proved to move them to the same places"
        return (Bits("any", "unknown", "none", reason),)
    if reason := unfit(rule):
        return (Bits("any", "unknown", "none", reason),)
    results = []
    for dtype in DTYPES:
        if allows(rule, dtype):
            start = time.perf_counter()
            result = _in_type(rule, statements, dtype, False, timeout)
            if result.result != "proved" and rule.finite_math:
                result = _in_type(rule, statements, dtype, True, timeout)
            results.append(replace(result, seconds=round(time.perf_counter() - start, 4)))
    if results and all(result.dtype == "bool" for result in results):
        return (results[0],)
    return tuple(results) or (Bits("any", "unknown", "none", "no type that the solver knows"),)


# ----------------------------------------------------------------------------- what a rule is of


def moves_only(rule: Rule) -> bool:
    """Tell whether every operator of a rule hands elements on as they are.

    All that is moved must be operands: a number of the rule matches 0.0 and -0.0 alike.
    """
    return not any(alias.source.literal is not None for alias in rule.aliases) and all(
        _moves(rule, node, operator) and not _moves_numbers(rule, node, operator)
        for node in (*rule.match, *rule.rewrite)
        for operator in node.operators
    )


def unfit(rule: Rule) -> str:
    """Say why no scalar expressions that IEEE 754 fixes can be had of a rule; "" where they can."""
    for node in (*rule.match, *rule.rewrite):
        for operator in node.operators:
            if _moves(rule, node, operator):
                continue
            if operator not in FIXED:
                return f"IEEE 754 does not fix what {operator} computes"
            wide = len(node.inputs) > 2 or any(item.star for item in node.inputs)
            if operator in ("Max", "Min", "Sum") and wide:
                return f"{operator} of more than two operands may take them in any order"
    for node in rule.rewrite:
        for item in node.inputs:
            if item.literal is not None and not _exact(item.literal):
                return "the target has a number that is computed when the rule is applied"
    return "" if rule.equal != "partial" else "the sides differ in a region"


def _exact(expression: Expression) -> bool:
    """Tell whether a number of the target is one of the match, or an extreme of some."""
    match expression:
        case Literal() | Name() | ListOf():
            return True
        case Unary("-", operand):
            return _exact(operand)
        case Call("min" | "max", arguments):
            return all(map(_exact, arguments))
        case _:
            return False


def _moves(rule: Rule, node: PatternNode, operator: str) -> bool:
    if operator in _HANDING_ON:
        return True
    if operator == "Cast":
        return _keeps_type(rule, node)
    classification = classifications().get(("", operator))
    return (
        classification is not None
        and classification.kind == "movement"
        and operator not in _COMPUTING
    )


def _moves_numbers(rule: Rule, node: PatternNode, operator: str) -> bool:
    places = {"Concat": range(len(node.inputs)), "Pad": (0, 2), "OneHot": (2,)}.get(operator, (0,))
    moved = [item for i, item in enumerate(node.inputs) if i in places]
    return any(i.literal is not None or rule.operand(i.value or "").scalar for i in moved)


def _keeps_type(rule: Rule, node: PatternNode) -> bool:
    """Tell whether the rule says that a Cast is to the type that its operand has."""
    both = {node.inputs[0].value, node.outputs[0].value}
    for condition in rule.given:
        match condition:
            case Binary("=", Call("dtype", (Name(name),)), Call("dtype", (Name(other),))):
                if {name, other} == both:
                    return True
    return False


# ----------------------------------------------------------------------------- one element type


def _in_type(
    rule: Rule, statements: Sequence[Statement], dtype: str, finite: bool, timeout: float
) -> Bits:
    asked: dict[object, Bits] = {}
    for statement in statements:
        try:
            for problem in _problems(rule, statement):
                if problem.key not in asked:
                    kinds = set(problem.unknowns().values())
                    said = "bool" if problem.boolean and kinds <= {"truth"} else dtype
                    bits = equal_bits(problem, dtype, finite=finite, timeout=timeout)
                    asked[problem.key] = replace(bits, dtype=said)
                if asked[problem.key].result != "proved":
                    return asked[problem.key]
        except (NotScalarError, NotFloatingError) as error:
            return Bits(dtype, "unknown", "none", str(error), finite)
    if not asked:
        return Bits(dtype, "unknown", "none", "no case of the rule is of floating-point numbers")
    return max(asked.values(), key=lambda bits: (bits.dtype != "bool", len(bits.script)))


def _problems(rule: Rule, statement: Statement) -> Iterator[Problem]:
    zeros = _zeros(rule, statement)
    definitions = {
        definition.name: replace(definition, value=_of_kernel(rule, definition))
        for definition in statement.definitions
        if definition.name not in zeros
    }
    algebras = {operand.name: operand.algebra for operand in statement.operands}
    truths = frozenset(name for name, algebra in algebras.items() if algebra == "boolean")
    assumed = tuple(
        assumption for assumption in statement.assumptions if is_of_elements(assumption)
    )
    whole = {definition.name: definition for definition in statement.definitions}
    for equation in statement.equations:
        source, target = _sides(equation, definitions, whole)
        read_elements = elements(source) | elements(target)
        kind = statement.algebras.get(equation.source, "real")
        if kind == "integer" or any(
            algebras.get(element.tensor) == "integer" for element in read_elements
        ):
            continue  # integers are exact, and no matter of rounding
        places, distinct = _places(statement, whole[equation.source], read_elements)
        named = frozenset(name for read, name in places.items() if read.tensor in zeros)
        yield Problem(source, target, places, kind == "boolean", truths, named, distinct, assumed)


def _sides(
    equation: Equation, definitions: Mapping[str, Definition], whole: Mapping[str, Definition]
) -> tuple[Term, Term]:
    def side(name: str) -> Term:
        if name in definitions:
            return inlined_element(definitions[name], definitions, indices)
        return Read(name, indices)  # an operand that is handed on, or a zero

    indices = whole[equation.source].indices
    return side(equation.source), side(equation.target)


def _zeros(rule: Rule, statement: Statement) -> frozenset[str]:
    """Name the numbers that are 0 by the match alone: -0.0 matches as well."""
    operands = {item.value for node in rule.match for item in node.inputs if item.value}
    return frozenset(
        definition.name
        for definition in statement.definitions
        if definition.name in operands
        and definition.name in statement.source
        and statement.algebras.get(definition.name, "real") == "real"
        and isinstance(definition.value, int | float)
        and definition.value == 0
    )


def _of_kernel(rule: Rule, definition: Definition) -> Term:
    """Return a value whose max and min say whose they are: each may treat zeros anew."""
    name = definition.name.removesuffix(".new")
    nodes = rule.rewrite if name != definition.name else rule.match
    operators = [n.op_type for n in nodes if any(o.value == name for o in n.outputs)]
    kernel = operators[0] if operators and operators[0] in _STEADY else definition.name
    if isinstance(definition.value, Apply) and is_constant(definition.value):
        return _constant(definition.value)

    def marked(term: Term) -> Term:
        match term:
            case Apply("max" | "min" as function, arguments) if not is_of_indices(term):
                return Apply(f"{function}:{kernel}", tuple(map(marked, arguments)))
            case Apply() | Select():
                return map_children(marked, term)
            case _:
                return term

    return marked(definition.value)


def _constant(term: Term) -> float:
    """Return the number that a rule's text had where a statement has an exact expression.

    What the text had is a rounding of that; NotFloatingError where another one would make another
    constant of a model.
    """
    try:
        exact = float(number(term, {}))
    except NoValueError as error:
        raise NotFloatingError(str(error)) from None
    for dtype, wider in (("float32", np.float64), ("float16", np.float32)):
        middle = wider(exact)
        near = [middle, *(np.nextafter(middle, wider(side)) for side in (-np.inf, np.inf))]
        if len({float(np.dtype(dtype).type(value)) for value in near}) > 1:
            raise NotFloatingError(f"{term} rounds in two ways")
    return exact


def _places(
    statement: Statement, output: Definition, elements_read: set[Read]
) -> tuple[dict[Read, str], bool]:
    """Name the elements that are read, and tell whether two names may be one element."""
    solver = endable_solver()
    limit(solver, _INDEX_S)
    for assumption in statement.assumptions:
        try:
            solver.add(condition_formula(assumption))
        except NotFloatingError:
            continue  # one assumption less: less is seen to be equal
    for symbol in statement.symbols:
        if symbol.kind == "dimension":
            solver.add(z3.Int(symbol.name) >= 0)
    for index, extent in zip(output.indices, output.shape, strict=True):
        solver.add(index_formula(index) >= 0, index_formula(index) < index_formula(extent))
    named: dict[Read, str] = {}
    leaders: dict[str, list[Read]] = {}
    for read in sorted(elements_read, key=str):
        reads = leaders.setdefault(read.tensor, [])
        leader = next(
            (leader_read for leader_read in reads if _same_place(solver, leader_read, read)), None
        )
        if leader is None:
            reads.append(read)
            named[read] = read.tensor + "'" * (len(reads) - 1)
        else:
            named[read] = named[leader]
    return named, all(len(reads) == 1 for reads in leaders.values())


def _same_place(solver: z3.Solver, read: Read, other: Read) -> bool:
    pairs = [(a, b) for a, b in zip(read.indices, other.indices, strict=True) if a != b]
    if not pairs:
        return True
    return bool(
        solver.check(z3.Or(*(index_formula(a) != index_formula(b) for a, b in pairs))) == z3.unsat
    )
