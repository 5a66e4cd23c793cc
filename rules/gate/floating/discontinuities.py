"""Where a rule lets rounding decide between two results, and the two sides round differently.

That results differ by rounding says something of a continuous function only. A comparison, Floor, a
Cast to an integer jump: the last bit of what reaches them decides whether the result is this one or
another. So what reaches a jump must be equal bit by bit on both sides. Which functions jump, and in
which operand, is read off the specifications: every function that isn't known to be continuous
does, and a choice does unless its two branches agree where its condition turns.

What reaches a jump is one of these, or the rule is refused:

- elements of operands, moved, negated, or the largest of some: nothing was rounded;
- the same arithmetic on both sides. In the statement that says so each result is put through a
  function of which is known only that it is odd and never falls, as rounding to nearest is: where
  the prover shows that statement, the bits are equal whatever the type rounds to. Sums of many
  elements and functions that kernels approximate depend on the kernel's order and place, and count
  as the same only where both sides compute them by the same operators from the same tensors;
- arithmetic of which Z3 shows that its bits are equal (bit_equality.py).
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from ....catalog.operators.expand import Definition
from ....catalog.terms.comparisons import COMPARISONS
from ....catalog.terms.index_notation import (
    Apply,
    Read,
    Reduce,
    Select,
    Symbol,
    Term,
    Variable,
    elements,
    is_constant,
    is_integer,
    map_children,
)
from ....catalog.terms.term_evaluator import PrefixText
from ...language.schemas import EARLIEST_OPSET
from ...language.syntax import PatternNode, Rule
from ...prover.cases.composition import UndescribedError, described
from ...prover.cases.element_types import Classes, chosen, opsets, signature, source_classes
from ...prover.cases.rule_analysis import types_said
from ...prover.lowering.term_kinds import INTEGERS
from ...prover.prove import prove
from ...prover.statement import Algebra, Operand, Statement
from ..evaluation.arithmetic import NoValueError, Scalars
from .bit_equality import bit_equality

# Functions of real numbers that hand their operand on, or one of them, unrounded.
_KEEPING = frozenset({"neg", "abs", "max", "min", "fmod"})
# Continuous where they have a value. Whatever is not named here jumps.
_CONTINUOUS = (
    _KEEPING
    | {"+", "-", "*", "/", "sqrt", "pow", "exp", "log", "erf", "real", "pi"}
    | {"sin", "cos", "tan", "asin", "acos", "atan"}
    | {"sinh", "cosh", "tanh", "asinh", "acosh", "atanh"}
) - {"fmod"}
# IEEE 754 fixes their results: one rounding, to nearest, of the exact one.
_FIXED = frozenset({"+", "-", "*", "/", "sqrt", "real"})
_TRUTHS = frozenset(COMPARISONS) | {"and", "or", "not", "xor", "to_bool"}
_TRUTHS |= {"isnan", "is_positive_inf", "is_negative_inf"}
# The integers up to 2 to so many are numbers of a type; of those of integers, all are.
_DIGITS = {"bfloat16": 8, "float16": 11, "float32": 24, "float64": 53}
_WIDER = {
    "bfloat16": ("bfloat16", "float32", "float64"),
    "float16": ("float16", "float32", "float64"),
    "float32": ("float32", "float64"),
    "float64": ("float64",),
}
# By how much less than 1 what is rounded may be off, so that it is rounded to the same integer.
_HALF = 0.49
_PROOF_S = 10.0
_SOLVER_S = 2.0
# Points at which two branches of a choice are compared, and how close they must come.
_POINTS, _CLOSE = 12, 1e-9


def discontinuity_problem(rule: Rule, statements: Sequence[Statement]) -> str:
    """Say where the sides may fall on different sides of a jump; empty where they can't.

    `statements` are those of the rule, all proved.
    """
    types = _Types.of(rule)
    for statement in statements:
        sides = _Sides(statement, types)
        if not sides.jumps:
            continue
        if prove(sides.rounded_alike, _PROOF_S).status == "proved":
            continue
        equality = bit_equality(rule, statements, proved=True, timeout=_SOLVER_S)
        if all(
            bits.result == "proved" and (not bits.finite or rule.finite_math) for bits in equality
        ):
            return ""
        return (
            f"{sides.jumps[0]} jumps, and what reaches it is rounded in another way on the other "
            "side: no class allows that, for another result is no rounding"
        )
    return ""


@dataclass(frozen=True)
class _Factors:
    """A product of `above` divided by that of `below`, as texts of `terms`, and its roundings."""

    above: Counter[str]
    below: Counter[str]
    terms: Mapping[str, Term]
    roundings: int = 0

    @staticmethod
    def of(term: Term) -> _Factors:
        return _Factors(Counter([str(term)]), Counter(), {str(term): term})

    @property
    def inverse(self) -> _Factors:
        return replace(self, above=self.below, below=self.above)

    def times(self, other: _Factors) -> _Factors:
        return _Factors(
            self.above + other.above,
            self.below + other.below,
            {**self.terms, **other.terms},
            self.roundings + other.roundings + 1,
        )


@dataclass(frozen=True)
class _Sides:
    """The tensors of a statement: which are rounded, and what jumps."""

    statement: Statement
    types: _Types

    # ---- what is the same on both sides
    @cached_property
    def names(self) -> dict[str, str]:
        """Of each tensor the first that is computed in the same way from the same tensors."""
        names: dict[str, str] = {}
        first: dict[str, str] = {}
        for definition in self.statement.definitions:
            key = _meaning(definition, names) + (
                " converted" if self._converts(definition.name) else ""
            )
            names[definition.name] = first.setdefault(key, definition.name)
        return names

    # ---- what is rounded
    @cached_property
    def _algebras(self) -> Mapping[str, Algebra]:
        algebras: dict[str, Algebra] = {
            operand.name: operand.algebra for operand in self.statement.operands
        }
        return {**self.statement.algebras, **algebras}

    def _algebra_of(self, tensor: str) -> Algebra:
        return self._algebras.get(tensor, "real")

    @cached_property
    def _own_types(self) -> Mapping[str, str]:
        return self.statement.origin.types if self.statement.origin else {}

    def _converts(self, tensor: str) -> bool:
        """Whether an operator made a tensor of one of a type of reals that may hold more."""
        name = tensor.removesuffix(".new")
        if name not in self.types.sources:
            return False
        source = self.types.sources[name] or ""
        if tensor != name and f"{source}.new" in self._own_types:
            source = f"{source}.new"
        wide = self.types.possible(tensor, self._own_types) & _WIDER.keys()
        reals = self.types.possible(source, self._own_types) & _WIDER.keys()
        return not all(dtype in _WIDER[narrow] for narrow in reals for dtype in wide)

    @cached_property
    def rounded(self) -> frozenset[str]:
        """The tensors whose elements are results of rounding."""
        rounded_names: set[str] = set()
        for definition in self.statement.definitions:
            if self._algebra_of(definition.name) == "real" and (
                self._converts(definition.name)
                or self._rounds(definition.value, rounded_names, definition.name)
            ):
                rounded_names.add(definition.name)
        return frozenset(rounded_names)

    def _rounds(self, term: Term, rounded_names: Collection[str], tensor: str) -> bool:
        """Whether a term of a tensor's definition is a result of rounding, or may be."""

        def any_of(terms: Sequence[Term]) -> bool:
            return any(self._rounds(term, rounded_names, tensor) for term in terms)

        match term:
            case Read(tensor):
                return tensor in rounded_names
            case Select(_, then, otherwise):
                return any_of([then, otherwise])
            case Apply() if not self._is_real(term):
                return False
            case Apply("real", (inner,)) if self._is_real(inner):
                return any_of([inner])
            case Apply("real", (inner,)):
                return not is_integer(inner) and self._digits(inner) > self._least_digits(tensor)
            case Apply(
                "min", (Apply("max", (Apply("+" | "-", parts), int() as low)), int() as high)
            ):
                # a sum of whole numbers is one of the type wherever it lies within such bounds
                most = 2 ** self._least_digits(tensor)
                whole = all(map(self._is_whole, parts)) and max(abs(low), abs(high)) <= most
                return any_of(parts) or not whole
            case Apply(function, arguments) if function in _KEEPING:
                return any_of(arguments)
            case Apply(function):
                return function in _CONTINUOUS or function == "mod"
            case Reduce("max" | "min", body=body):
                return any_of([body])
            case Reduce("sum" | "prod"):
                return self._is_real(term)
            case _:
                return False

    def _is_whole(self, term: Term) -> bool:
        """Whether a number is an integer."""
        match term:
            case Apply("round" | "floor" | "ceil" | "sign", _):
                return True
            case Apply("real", (inner,)):
                return not self._is_real(inner)
            case _:
                return isinstance(term, int)

    def _least_digits(self, tensor: str) -> int:
        """How many binary digits the reals have at least in which a tensor is computed."""
        names = [element.tensor for element in elements(self._definitions[tensor].value)]
        for name in (tensor, *names):
            types = self.types.possible(name, self._own_types) & _DIGITS.keys()
            if types:
                return min(_DIGITS[dtype] for dtype in types)
        return _DIGITS["float32"]

    def _digits(self, term: Term) -> int:
        """How many binary digits an integer has at most."""
        if not isinstance(term, Read):
            return 64
        name = self._own_types.get(term.tensor, "int64").removeprefix("u").removeprefix("int")
        return int(name) if name.isdigit() else 1

    def _is_real(self, term: Term) -> bool:
        """Whether a term is a real number that is made of elements, or of scalars of the rule."""
        match term:
            case Read(tensor):
                return self._algebra_of(tensor) == "real"
            case Symbol(_, kind):
                return kind == "real"
            case Apply("real", (inner,)):
                return not is_integer(inner)
            case Apply(function, arguments):
                if function in _TRUTHS or function.startswith("to_") or function == "int32":
                    return False
                return any(map(self._is_real, arguments))
            case Select(_, then, otherwise):
                return self._is_real(then) or self._is_real(otherwise)
            case Reduce(kind, body=body):
                return kind not in ("any", "all") and self._is_real(body)
            case _:
                return False

    # ---- what jumps
    @cached_property
    def jumps(self) -> tuple[str, ...]:
        """What jumps where its operand is rounded, as texts; each tensor's first."""
        return tuple(str(term) for _, term, _ in self._sites())

    def _sites(self) -> Iterator[tuple[Definition, Term, tuple[Term, ...]]]:
        """Yield the definition, the term that jumps, and those of its operands that are rounded.

        What both sides compute in the same way from the same is none.
        """
        shared = self._shared
        for definition in self.statement.definitions:
            if definition.name not in shared:
                for term, operands in self._jumping(definition.value, definition.name):
                    yield definition, term, operands

    @cached_property
    def _shared(self) -> frozenset[str]:
        """The tensors of either side that the other one has too."""
        source = self.statement.source
        sides: dict[str, set[bool]] = {}
        for name, first in self.names.items():
            sides.setdefault(first, set()).add(name in source)
        return frozenset(name for name, first in self.names.items() if len(sides[first]) == 2)

    def _jumping(self, term: Term, tensor: str) -> Iterator[tuple[Term, tuple[Term, ...]]]:
        match term:
            case Apply(function, arguments):
                for argument in arguments:
                    yield from self._jumping(argument, tensor)
                if function in _CONTINUOUS or function in ("and", "or", "not", "xor"):
                    return
                reached = tuple(
                    argument for argument in arguments if self._reaches(argument, tensor)
                )
                if not reached or (function == "round" and self._nearly_whole(arguments[0])):
                    return
                yield term, reached
            case Select(condition, then, otherwise):
                turns = [
                    (jump, operands)
                    for jump, operands in self._jumping(condition, tensor)
                    if jump != condition or not _meet(condition, then, otherwise)
                ]
                yield from turns
                yield from self._jumping(then, tensor)
                yield from self._jumping(otherwise, tensor)
            case Read(_, indices):
                for index in indices:
                    yield from self._jumping(index, tensor)
            case Reduce(_, _, _, condition, body):
                yield from self._jumping(condition, tensor)
                yield from self._jumping(body, tensor)

    def _reaches(self, term: Term, tensor: str) -> bool:
        return self._is_real(term) and self._rounds(term, self.rounded, tensor)

    # ---- what is rounded, and yet far from where rounding to an integer turns
    def _nearly_whole(self, term: Term) -> bool:
        """Whether a number is an integer but for so few roundings that no half is reached.

        Quotients and products err in proportion, unless they leave the range, which is measured.
        """
        read = [self.types.possible(element.tensor, self._own_types) for element in elements(term)]
        digits = min(_DIGITS[dtype] for types in read for dtype in types if dtype in _DIGITS)
        for factors in self._factors(term):
            rest = factors.above - factors.below
            if factors.below - factors.above or sum(rest.values()) > 1:
                return False
            ranges = [self._range(factors.terms[text]) for text in rest]
            size = max((abs(end) for range_ in ranges if range_ for end in range_), default=1)
            if None in ranges or size * factors.roundings > _HALF * 2**digits:
                return False
        return True

    def _factors(self, term: Term) -> list[_Factors]:
        """The products that a number may be: one for each of the elements that is chosen."""
        match term:
            case Apply("*", (left, right)):
                return [a.times(b) for a in self._factors(left) for b in self._factors(right)]
            case Apply("/", (left, right)):
                whole = [(a, b) for a in self._factors(left) for b in self._factors(right)]
                return [a.times(b.inverse) for a, b in whole]
            case Apply("real" | "neg", (inner,)) if self._is_real(inner):
                return self._factors(inner)
            case Apply("max" | "min", (left, right)) | Select(_, left, right):
                return [*self._factors(left), *self._factors(right)]
            case Reduce("max" | "min", body=body):
                return self._factors(body)
            case Read(name, indices) if name in self._definitions and name in self.rounded:
                definition = self._definitions[name]
                index_values = dict(zip(definition.indices, indices, strict=True))
                return self._factors(_at_indices(definition.value, index_values))
            case _:
                return [_Factors.of(term)]

    def _range(self, term: Term) -> tuple[int, int] | None:
        """The least and the largest that an integer is; None for what is none, or has no end."""
        match term:
            case int() if not isinstance(term, bool):
                return term, term
            case Apply("real", (inner,)):
                return self._range(inner)
            case Apply("+" | "-" as function, (left, right)):
                first, other = self._range(left), self._range(right)
                if first is None or other is None:
                    return None
                low, high = other if function == "+" else (-other[1], -other[0])
                return first[0] + low, first[1] + high
            case Read(name) if self._algebra_of(name) == "integer":
                return INTEGERS.get(self._own_types.get(name, ""))
            case _:
                return None

    @cached_property
    def _definitions(self) -> Mapping[str, Definition]:
        return {definition.name: definition for definition in self.statement.definitions}

    # ---- the statement with rounding in it
    @property
    def rounded_alike(self) -> Statement:
        """The statement with every result on the way to a jump put through a rounding function.

        What no such function describes becomes an operand of its own, one for both sides where they
        compute it in the same way.
        """
        statement = self.statement
        upstream = self._upstream
        way = upstream | {site.name for site, _, _ in self._sites()}
        operands = list(statement.operands)
        names: set[str] = set()
        definitions: list[Definition] = []
        for definition in statement.definitions:
            if definition.name not in way:
                definitions.append(definition)
                continue
            first = self.names[definition.name]
            if (first in self._shared and first in self.rounded) or not self._is_fixed(
                definition.value
            ):
                rounded_name = f"{first}.rounded"
                if rounded_name not in names:
                    names.add(rounded_name)
                    operands.append(
                        Operand(rounded_name, definition.shape, self._algebra_of(definition.name))
                    )
                definitions.append(
                    replace(definition, value=Read(rounded_name, definition.indices))
                )
                continue
            if definition.name not in upstream:
                definitions.append(
                    replace(definition, value=self._before_jumps(definition.value, definition.name))
                )
                continue
            real = self._algebra_of(definition.name) == "real"
            value = (self._real if real else self._wrapped)(definition.value, definition.name)
            if self._converts(definition.name):  # to no type that all cases of the rule share
                value = Apply(f"converted.{definition.name}", (value,))
            definitions.append(replace(definition, value=value))
        return replace(statement, operands=tuple(operands), definitions=tuple(definitions))

    @cached_property
    def _upstream(self) -> frozenset[str]:
        """The tensors on the way to a jump."""
        waiting = [
            read.tensor
            for _, _, operands in self._sites()
            for operand in operands
            for read in elements(operand)
        ]
        upstream: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name in self._definitions and name not in upstream:
                upstream.add(name)
                waiting += [read.tensor for read in elements(self._definitions[name].value)]
        return frozenset(upstream)

    def _before_jumps(self, term: Term, tensor: str) -> Term:
        """A term with rounding in what reaches its jumps; what is computed from those stays."""
        jumping = {jump for jump, _ in self._jumping(term, tensor)}

        def put(term: Term) -> Term:
            if term in jumping:
                return self._wrapped(term, tensor)
            return term if isinstance(term, Read) else map_children(put, term)

        return put(term)

    def _is_fixed(self, term: Term) -> bool:
        """Whether each result in a term is one rounding of an exact one, or none."""
        match term:
            case Apply(function, arguments):
                approximated = (_CONTINUOUS | {"mod"}) - _FIXED - _KEEPING
                if function in approximated and self._is_real(term):
                    return False
                return all(map(self._is_fixed, arguments))
            case Select(condition, then, otherwise):
                return all(map(self._is_fixed, (condition, then, otherwise)))
            case Reduce(kind, _, _, condition, body):
                adds = kind in ("sum", "prod") and self._is_real(term)
                return not adds and self._is_fixed(condition) and self._is_fixed(body)
            case _:
                return True

    def _real(self, term: Term, tensor: str) -> Term:
        """A real number; one that not every type has stands for the nearest that one has."""
        if is_constant(term) and not _is_short(term):
            return Apply(self._rounding(tensor), (term,))
        return self._wrapped(term, tensor)

    def _rounding(self, tensor: str) -> str:
        """The function that rounds to the type in which a tensor's elements are computed."""
        value = self._definitions[tensor].value
        read = sorted(self._own_types.get(element.tensor, "") for element in elements(value))
        types = [self._own_types.get(tensor, ""), *read, "float32"]
        return f"rounded_{next(dtype for dtype in types if dtype in _DIGITS)}"

    def _wrapped(self, term: Term, tensor: str) -> Term:
        match term:
            case Apply(function, arguments):
                real = any(map(self._is_real, arguments))
                rewrite = self._real if real else self._wrapped
                inner = Apply(function, tuple(rewrite(argument, tensor) for argument in arguments))
                rounds = function in _FIXED and self._rounds(term, self.rounded, tensor)
                return Apply(self._rounding(tensor), (inner,)) if rounds else inner
            case Select(condition, then, otherwise):
                rewrite = self._real if self._is_real(term) else self._wrapped
                branches = rewrite(then, tensor), rewrite(otherwise, tensor)
                return Select(self._wrapped(condition, tensor), *branches)
            case Reduce(reducer, variables, extents, condition, body):
                inside = (self._wrapped(part, tensor) for part in (condition, body))
                return Reduce(reducer, variables, extents, *inside)
            case _:
                return term


# ------------------------------------------------------------------------ between types of reals


@dataclass(frozen=True)
class _Types:
    """What a rule says of the element types that its tensors may have.

    `sources` are the operands of operators whose results are of a type of real numbers of its own,
    by the names of their results; `asked` the tensors whose types the rule asks for: a statement is
    of one type of theirs, and of any that the rule allows of the others. `alike` are the operands
    whose types results have, by their names.
    """

    classes: Classes
    asked: frozenset[str]
    sources: Mapping[str, str | None]
    alike: Mapping[str, str]

    @staticmethod
    def of(rule: Rule) -> _Types:
        latest = opsets(rule, EARLIEST_OPSET)[-1]
        operators = {name: options[0] for name, options in rule.choices}
        classes = source_classes(rule, latest, operators)
        stated = {classes.root(name) for name in types_said(rule) if name in classes.parents}
        sources: dict[str, str | None] = {}
        alike: dict[str, str] = {}
        for written in (*rule.match, *rule.rewrite, *rule.correct):
            node = chosen(written, operators)
            node_signature = signature(node.operator, latest)
            if node_signature is None:
                continue
            inputs = {node_signature.slot(i).variable for i in range(len(node.inputs))}
            for i, output in enumerate(node.outputs):
                slot = node_signature.slot(i, output=True)
                if slot.variable not in inputs and slot.types & _WIDER.keys():
                    sources[output.value] = node.inputs[0].value if node.inputs else None
                if (operand := _operand_alike(node, i, latest)) is not None:
                    alike[output.value] = operand
        stated = {name for name in classes.parents if classes.root(name) in stated}
        return _Types(classes, frozenset(stated), sources, alike)

    def possible(self, tensor: str, types: Mapping[str, str]) -> frozenset[str]:
        """The types that a tensor of a statement stands for; `types` are those of the statement."""
        name, here = tensor.removesuffix(".new"), types.get(tensor, "float32")
        if name in self.alike:
            operand = self.alike[name]
            return self.possible(f"{operand}.new" if f"{operand}.new" in types else operand, types)
        if name in self.classes.parents:
            return frozenset([here]) if name in self.asked else self.classes.of(name)
        others = [
            self.classes.of(root)
            for root in self.classes.roots()
            if types.get(root) == here and root not in self.asked
        ]
        return frozenset([here]).union(*others)


def _operand_alike(node: PatternNode, position: int, opset: int) -> str | None:
    """Name the operand whose type an output has by the operator's specification, if it says one."""
    try:
        block = described(node.operator, opset).blocks[0]
    except UndescribedError:
        return None
    like = block.outputs[position].like if position < len(block.outputs) else None
    places = [place for place, input_ in enumerate(block.inputs) if input_.name == like]
    return node.inputs[places[0]].value if places and places[0] < len(node.inputs) else None


# ----------------------------------------------------------------------------------- of choices


def _meet(condition: Term, then: Term, otherwise: Term) -> bool:
    """Whether both branches of a choice have one value where its condition turns.

    The condition compares what is computed from elements with what is computed from others. At
    points drawn at random on the boundary, two analytic functions that agree do so everywhere.
    """
    match condition:
        case Apply("<" | "<=" | ">" | ">=", (left, right)):
            element, bound = (left, right) if elements(left) else (right, left)
        case _:
            return False
    if elements(element) & elements(bound):
        return False
    rng = random.Random(0)
    met = 0
    for _ in range(_POINTS):
        point = _RandomPoint(rng)
        try:
            point.numbers[element] = float(point.value(bound))
            first, other = (float(point.value(branch)) for branch in (then, otherwise))
        except NoValueError:
            continue
        if not abs(first - other) <= _CLOSE * max(1.0, abs(first), abs(other)):
            return False
        met += 1
    return met >= _POINTS // 3


class _RandomPoint(Scalars):
    """Evaluates terms at numbers drawn for what is not known; `numbers` are those that are."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__({})
        self.rng = rng
        self.numbers: dict[Term, float] = {}

    def value(self, term: Term) -> Any:
        if not isinstance(term, int | float) and term in self.numbers:
            return self.numbers[term]
        if isinstance(term, Symbol | Variable | Read):
            return self.numbers.setdefault(term, self.rng.uniform(-3, 3))
        return super().value(term)


# ------------------------------------------------------------------------------------ of terms


def _at_indices(term: Term, index_values: Mapping[Variable, Term]) -> Term:
    """A value at other indices."""
    match term:
        case Variable():
            return index_values.get(term, term)
        case Reduce(kind, variables, extents, condition, body):
            # what a reduction counts is another variable in each place
            fresh = {variable: Variable(f"{variable}'", variable.number) for variable in variables}
            inner = {**index_values, **fresh}
            counts = tuple(_at_indices(extent, index_values) for extent in extents)
            inside = (_at_indices(part, inner) for part in (condition, body))
            return Reduce(kind, tuple(fresh.values()), counts, *inside)
        case _:
            return map_children(lambda part: _at_indices(part, index_values), term)


def _is_short(term: Term) -> bool:
    """Whether a number is one of every type of reals: whole, or so many halves, and of 8 digits."""
    if not isinstance(term, int | float) or not math.isfinite(term):
        return False
    fraction = Fraction(term)
    shift = fraction.denominator.bit_length() - 1
    return shift <= _DIGITS["bfloat16"] and abs(fraction.numerator) <= 2 ** _DIGITS["bfloat16"]


class _ByFirstNames(PrefixText):
    """Spells terms with indices numbered and tensors by their first names."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names
        self.variables: dict[Variable, str] = {}

    def symbol(self, symbol: Symbol) -> str:
        return f"{symbol.kind} {symbol.name}"

    def variable(self, variable: Variable) -> str:
        return self.variables.setdefault(variable, f"#{len(self.variables)}")

    def read(self, element: Read) -> str:
        return f"{self.names.get(element.tensor, element.tensor)}[{self.values(element.indices)}]"


def _meaning(definition: Definition, names: Mapping[str, str]) -> str:
    """Spell a definition with its indices numbered and tensors by their first names."""
    text = _ByFirstNames(names)
    indices, shape = text.values(definition.indices), text.values(definition.shape)
    return f"[{indices}] < [{shape}] : {definition.type} = {text.value(definition.value)}"
