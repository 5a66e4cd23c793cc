"""The rules of the rule base applied to a program, before it is planned.

Rules that hold exactly, NaN and signs of zeros included, are applied where they are always an
improvement, and otherwise where the program costs less by counts of operations. Of those that hold
up to rounding only the ones about sums and products of matrices are applied, where that costs less:
so the tolerance and the reservation about infinities are those of a reordered product. A rule is
applied only while its proof in the ledger holds.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from typing import TYPE_CHECKING

from ...catalog.kept import cache_path, kept, load_data
from .dag import Program

if TYPE_CHECKING:
    from ...rules import Rule

# Rounds of matching, each of which leaves the program cheaper by one rule.
_ROUNDS = 12
# Matches tried on a program: what each leads to is built, which takes as long as the program is.
_TRIED = 64

# Operators that every part of a program can be computed with: here, by kernels, in blocks.
_KNOWN = frozenset(
    [
        *("Abs", "Neg", "Sign", "Ceil", "Floor", "Round", "Exp", "Log", "Sqrt", "Reciprocal"),
        *("Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Tanh", "Asinh", "Acosh"),
        *("Atanh", "IsNaN", "IsInf", "Sigmoid", "Erf", "Not", "Identity", "Cast", "Where", "Mod"),
        *("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "And", "Or", "Xor", "Equal", "Greater"),
        *("Less", "GreaterOrEqual", "LessOrEqual", "MatMul", "Transpose", "Reshape", "Expand"),
        *("Squeeze", "Unsqueeze", "Slice", "Concat", "CumSum", "ReduceSum", "ReduceMax"),
        *("ReduceMin", "ReduceProd", "ReduceMean", "ReduceSumSquare"),
    ]
)
_SUMMING = frozenset(["MatMul", "ReduceSum", "ReduceMean"])
_LINEAR = _SUMMING | {"Add", "Sub", "Transpose", "Concat", "Slice", "Reshape", "Expand"}
_DEAR = frozenset(["Exp", "Log", "Pow", "Tanh", "Sigmoid", "Erf", "Div", "Sqrt"])


def apply_rules(program: Program) -> tuple[Program, tuple[str, ...]]:
    """Return a program that computes the same, and the rules that were applied, in order."""
    present = {node.op for node in program.nodes}
    rules = tuple(one.rule for one in usable() if one.occurs(present))
    if not rules:
        return program, ()
    applied: list[str] = []
    refused: set[tuple[str, tuple[int, ...]]] = set()
    for _ in range(_ROUNDS):
        found = _round(program, rules, applied, refused)
        if found is None:
            break
        program = found
    return program, tuple(applied)


def _round(
    program: Program,
    rules: Sequence[Rule],
    applied: list[str],
    refused: set[tuple[str, tuple[int, ...]]],
) -> Program | None:
    """Apply the first match that pays; None where none does."""
    from ..match.rewrite import Matcher, RewriteError, apply_match, with_place
    from .translate import TranslationError, graph_of, program_of

    graph = graph_of(program)
    for match in Matcher(with_place(rules, graph)).find(graph):
        key = (match.rule.name, tuple(sorted(match.nodes.values())))
        if key in refused:
            continue
        if len(refused) + len(applied) >= _TRIED:
            return None
        changed = graph.copy()
        try:
            apply_match(changed, match)
            after = program_of(changed, program)
        except (RewriteError, TranslationError):
            refused.add(key)
            continue
        if _cost(after) < _cost(program) * (1.0 if _is_exact(match.rule) else 0.95):
            applied.append(match.rule.name)
            refused.clear()  # nodes have other numbers now
            return after
        refused.add(key)
    return None


def _cost(program: Program) -> float:
    """Return the operations of a program, each node computed on its own; a node counts as some."""
    total = 0.0
    for node in program.nodes:
        if node.is_leaf:
            continue
        operands = [program.nodes[at] for at in node.inputs]
        if node.op == "MatMul":
            work = 2.0 * node.size * operands[0].shape[-1]
        else:
            moved = max([node.size, *(one.size for one in operands)])
            work = moved * (8.0 if node.op in _DEAR else 1.0)
        total += 8.0 + work + node.size
    return total


def _is_exact(rule: Rule) -> bool:
    return rule.equal == "exact" and not rule.finite_math


@dataclass(frozen=True)
class Usable:
    """A rule that may be applied to programs, read where the operators that it matches occur."""

    operators: tuple[frozenset[str], ...]  # of each matched node: those that it may be
    pickled: bytes

    def occurs(self, present: Set[str]) -> bool:
        """Whether a program of these operators may have a match."""
        return all(present & one for one in self.operators)

    @cached_property
    def rule(self) -> Rule:
        """The rule itself."""
        found: Rule = load_data(self.pickled)
        return found


@cache
def usable() -> tuple[Usable, ...]:
    """Return the rules that may be applied to programs, kept on disk as read and admitted."""
    return kept(cache_path() / f"rules-{_version()}.pickle", _read)


def _read() -> tuple[Usable, ...]:
    from ...rules import load_rules
    from ...rules.gate.ledger.ledger import admitted

    return described(admitted(load_rules()))


def described(rules: Iterable[Rule]) -> tuple[Usable, ...]:
    """Return those of the rules that suit programs."""
    return tuple(
        Usable(tuple(frozenset(node.operators) for node in rule.match), pickle.dumps(rule))
        for rule in rules
        if _is_usable(rule)
    )


def _version() -> str:
    """Return what the usable rules depend on: rules, proofs, prover, specifications, Python."""
    from ...rules.gate.ledger.fingerprints import library, normaliser

    digest = hashlib.sha256(f"{sys.version}{normaliser()}{library()}{__name__}".encode())
    folder = resources.files(normaliser.__module__.partition(".gate")[0])
    for file in sorted(folder.iterdir(), key=lambda one: one.name):
        if file.name.endswith((".rules", ".jsonl", ".py")):
            digest.update(file.read_bytes())
    digest.update((resources.files(str(__package__)) / "ruled.py").read_bytes())
    return digest.hexdigest()[:16]


def _is_usable(rule: Rule) -> bool:
    operators = [set(node.operators) for node in (*rule.match, *rule.rewrite)]
    if rule.target or not rule.match:
        return False
    known = all(one & _KNOWN for one in operators[: len(rule.match)])
    if not known or not all(one <= _KNOWN for one in operators[len(rule.match) :] if len(one) == 1):
        return False
    if _is_exact(rule):
        return True
    matched = {name for one in operators[: len(rule.match)] for name in one}
    return bool(matched & _SUMMING) and all(one <= _LINEAR for one in operators)
