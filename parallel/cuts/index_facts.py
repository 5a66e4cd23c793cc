"""The index notation of a specification as relations: what cuts.dl reads.

Facts speak of one output at known sizes. Where a read's index is no sum of multiples of indices,
or one of these divided, it is `tangled`; what depends on data is read as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ...catalog.operators.expand import Definition, Expansion
from ...catalog.terms.index_notation import (
    Apply,
    Read,
    Reduce,
    Term,
    Variable,
    children,
    subterms,
    tensors_read,
)
from ...catalog.terms.polynomials import linear

Facts = dict[str, list[tuple[int | str, ...]]]


def index_facts(expansion: Expansion, output: Definition) -> Facts:
    """Return the facts about one output of an expansion at numbers, by relation."""
    builder = _Builder(expansion, output)
    builder.build()
    return builder.facts


@dataclass
class _Builder:
    expansion: Expansion
    output: Definition
    facts: Facts = field(
        default_factory=lambda: {
            name: []
            for name in (
                "variable", "result", "read", "input_tensor", "place", "whole", "tangled", "tests",
                "summed", "addend", "shifts",
            )
        }
    )  # fmt: skip
    extents: dict[Variable, int] = field(default_factory=dict)
    reads: int = 0

    def add(self, relation: str, *row: int | str) -> None:
        self.facts[relation].append(row)

    def build(self) -> None:
        self.add("result", self.output.name)
        for name, tensor in zip(self.expansion.names, self.expansion.inputs, strict=False):
            if tensor is not None:
                self.add("input_tensor", name)
        for definition in (*self.expansion.locals, self.output):
            for axis, (v, size) in enumerate(
                zip(definition.indices, definition.shape, strict=True)
            ):
                self.add("variable", definition.name, axis, str(v))
                self.extents[v] = _size(size)
            self.value(definition.name, definition.value)
        self.outermost(self.output.value)

    # ---- what a value reads
    def value(self, definition: str, term: Term) -> None:
        """Note the reads of a value, and the indices that are numbers in it."""
        match term:
            case Variable():
                self.add("tests", definition, str(term))
            case Read(tensor, indices):
                self.read(definition, tensor, indices)
            case Reduce(_, variables, extents, condition, body):
                for v, extent in zip(variables, extents, strict=True):
                    self.extents[v] = _size(extent)
                self.value(definition, body)
                inside = list(_indices(body))
                for clause in _conjuncts(condition):
                    if not _is_bound(clause, inside):
                        self.value(definition, clause)
            case _:
                for part in children(term):
                    self.value(definition, part)

    def read(self, definition: str, tensor: str, indices: tuple[Term, ...]) -> None:
        number = self.reads
        self.reads += 1
        self.add("read", number, definition, tensor)
        for axis, term in enumerate(indices):
            if any(isinstance(part, Read) for part in subterms(term)):
                # Where it reads depends on data: anywhere. The data is read itself.
                for inner in _outer_reads(term):
                    self.value(definition, inner)
                continue
            for v in dict.fromkeys(part for part in subterms(term) if isinstance(part, Variable)):
                self.place(number, axis, v, term)

    def place(self, number: int, axis: int, v: Variable, term: Term) -> None:
        """Say how an axis runs along with v."""
        inner, divisor, modulus = term, 1, 0
        if isinstance(term, Apply) and term.function in ("//", "%"):
            by = term.arguments[1]
            if isinstance(by, int) and by > 0:
                inner = term.arguments[0]
                divisor, modulus = (by, 0) if term.function == "//" else (1, by)
        sum_ = linear(inner)
        coefficients = {} if sum_ is None else sum_.coefficients or {}
        if sum_ is None or v not in coefficients:
            self.add("tangled", number, str(v))
            return
        stride = coefficients[v]
        if len(coefficients) > 1:
            self.add("shifts", str(v))
        low = high = sum_.constant
        for other, coefficient in coefficients.items():
            if other != v:
                span = coefficient * (self.extents[other] - 1)
                low, high = low + min(span, 0), high + max(span, 0)
        fits = low >= 0 and high < stride
        if stride <= 0:
            self.add("tangled", number, str(v))
        elif modulus:
            if stride % modulus == 0:
                return
            if modulus % stride == 0 and fits:
                self.add("whole", number, axis, str(v), modulus // stride)
            else:
                self.add("tangled", number, str(v))
        elif stride % divisor == 0:
            low, high, stride = low // divisor, high // divisor, stride // divisor
            self.add("place", number, axis, str(v), stride, -low, high - low + 1, 1, 1)
        elif divisor % stride == 0 and fits:
            granule = divisor // stride
            self.add("place", number, axis, str(v), 1, 0, 1, granule, granule)
        else:
            self.add("tangled", number, str(v))

    # ---- what is summed
    def outermost(self, term: Term) -> None:
        """Note the indices of a reduction that is outermost but for factors and addends."""
        match term:
            case Reduce(kind, variables, _, _, _) if kind in ("sum", "max", "min", "prod"):
                for v in variables:
                    self.add("summed", str(v), kind)
            case Apply("*", (int() | float(), other)) | Apply("*", (other, int() | float())):
                if _reduces(other, "sum"):
                    self.outermost(other)
            case Apply("+", (left, right)):
                for sum_, beside in ((left, right), (right, left)):
                    if _reduces(sum_, "sum") and not _reduces(beside, "sum"):
                        self.outermost(sum_)
                        for tensor in sorted(tensors_read(beside)):
                            for number, _, name in self.facts["read"]:
                                if name == tensor:
                                    self.add("addend", number)


def _size(term: Term) -> int:
    if not isinstance(term, int):
        raise TypeError(f"the size {term} is no number")
    return term


def _reduces(term: Term, kind: str) -> bool:
    match term:
        case Reduce():
            return term.kind == kind
        case Apply("*", (int() | float(), other)) | Apply("*", (other, int() | float())):
            return _reduces(other, kind)
        case Apply("+", (left, right)):
            return _reduces(left, kind) != _reduces(right, kind)
    return False


def _outer_reads(term: Term) -> Iterator[Read]:
    """Yield the reads in an index, without those in the indices of others."""
    if isinstance(term, Read):
        yield term
        return
    for part in children(term):
        yield from _outer_reads(part)


def _indices(term: Term) -> Iterator[Term]:
    """Yield the index terms of all reads of a term."""
    for part in subterms(term):
        if isinstance(part, Read):
            yield from part.indices


def _conjuncts(condition: Term) -> Iterator[Term]:
    if isinstance(condition, Apply) and condition.function == "and":
        for argument in condition.arguments:
            yield from _conjuncts(argument)
    elif condition is not True:
        yield condition


def _is_bound(clause: Term, inside: list[Term]) -> bool:
    """Whether a condition only keeps an index that is read within its tensor."""
    if not isinstance(clause, Apply) or len(clause.arguments) != 2:
        return False
    left, right = clause.arguments
    if clause.function == "<=" and left == 0:
        return right in inside
    return clause.function == "<" and isinstance(right, int) and left in inside
