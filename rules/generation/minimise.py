"""What needs no rule of its own: equalities that rules known so far derive by saturation.

The e-graph that says so is the optimizer's, which imports this folder: it is handed in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import onnx

from ..language.syntax import Rule
from .candidates import Candidate
from .terms import model_of

# Equalities put into one e-graph: together they share rounds, and budget.
BATCH = 200

Pair = tuple[str, str]


class Saturation(Protocol):
    """The e-graph's part, as optimizer/egraph/equalities.py has it."""

    def derived_equalities(
        self, model: onnx.ModelProto, pairs: Sequence[Pair], rules: Iterable[Rule]
    ) -> list[bool]:
        """Whether rules make each pair of outputs one class."""

    def derivation(
        self, model: onnx.ModelProto, pair: Pair, rules: Iterable[Rule]
    ) -> tuple[str, ...] | None:
        """Rules that suffice for a pair; None if none do."""


def derived(
    candidates: Sequence[Candidate], rules: Sequence[Rule], saturation: Saturation
) -> list[bool]:
    """Say of each candidate whether rules derive it."""
    found: list[bool] = []
    for start in range(0, len(candidates), BATCH):
        some = candidates[start : start + BATCH]
        model = model_of([term for one in some for term in (one.left, one.right)])
        pairs = [(f"term_{2 * at}", f"term_{2 * at + 1}") for at in range(len(some))]
        found += saturation.derived_equalities(model, pairs, rules)
    return found


def derivation(
    candidate: Candidate, rules: Sequence[Rule], saturation: Saturation
) -> tuple[str, ...] | None:
    """The rules by which a candidate is derived, none of them in vain; None if it isn't."""
    model = model_of([candidate.left, candidate.right])
    return saturation.derivation(model, ("term_0", "term_1"), rules)
