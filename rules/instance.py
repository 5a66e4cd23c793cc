"""Random instances of a rule's left side: small ONNX models on which all its conditions hold."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import shape_inference

from .bound import Bound
from .builder import Builder, array_for
from .conditions import Condition, conditions
from .functions import UnknownError
from .model_view import ModelView, dtype_name
from .relax import without
from .sampling import RejectedError
from .syntax import Rule
from .view import Match

ATTEMPTS = 2000
BREAKING_ATTEMPTS = 60
# What a choice can end in on which an operator is not defined; another is drawn then.
REJECTED = (
    RejectedError,
    UnknownError,
    shape_inference.InferenceError,
    IndexError,
    ArithmeticError,
    ValueError,
)


@dataclass(frozen=True)
class Instance:
    """A left side as a model; its values bear the names of the pattern (`*A` is A.0, A.1, ...).

    `domains` says for float inputs what keeps the model away from poles: "any", "positive",
    "nonzero".
    """

    rule: Rule
    model: onnx.ModelProto
    view: ModelView
    match: Match
    domains: Mapping[str, str]

    def feeds(self, rng: np.random.Generator, family: str) -> dict[str, NDArray[Any]]:
        """Random inputs: family "normal", "shifted" (mean far above spread) or "mixed"."""
        return {
            info.name: array_for(
                rng,
                dtype_name(info.type.tensor_type.elem_type),
                [d.dim_value for d in info.type.tensor_type.shape.dim],
                self.domains.get(info.name, "any"),
                family,
            )
            for info in self.model.graph.input
        }


def instances(
    rule: Rule,
    count: int,
    seed: int = 0,
    dtype: str = "float32",
    breaking: Condition | None = None,
    empty: bool = False,
) -> list[Instance]:
    """Draw instances on which every condition holds; fewer where that does not succeed.

    `dtype` is the element type of operands, as far as the rule allows it. With `breaking`, that
    condition of the rule fails on them, and it alone. With `empty`, some dimensions may be 0.
    """
    drawn = rule if breaking is None else without(rule, breaking)
    if drawn is None:
        return []
    found: list[Instance] = []
    rng = random.Random(f"{rule.name}:{seed}:{dtype}")
    for _ in range(ATTEMPTS if breaking is None else BREAKING_ATTEMPTS):
        if len(found) == count:
            break
        builder = Builder(drawn, rng, dtype, empty)
        try:
            model = builder.build()
            view = ModelView(model)
        except REJECTED:
            continue
        match = view.match(rule, builder.positions)
        bound = Bound(match, view)
        failed = [c for c in conditions(rule) if not bound.holds(c)]
        if failed == ([] if breaking is None else [breaking]):
            found.append(Instance(rule, model, view, match, builder.domains))
    return found
