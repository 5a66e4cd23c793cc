"""What an optimization is asked to do."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from ..catalog.errors import TensologError
from ..profiles.machine import most_threads
from ..rules import Rule, promise, select_rules
from .graph.fold import FOLD_LIMIT
from .graph.graph import Graph

# What plans for it are opened with, and which kernels it has, is known of this runtime alone.
RUNTIME_TARGET = "onnxruntime-cpu"
# The same with kernels of its own: the result comes with a library of native code.
KERNELS_TARGET = "onnxruntime-cpu+kernels"
TARGETS = (RUNTIME_TARGET, KERNELS_TARGET, "onnx")
# Seconds for measuring and races where none were asked for, and what all may take then.
BUDGET_S, MOST_S = 30.0, 120.0
# What may come on top of seconds that were asked for: reading, running the original, verifying.
GRACE_S = 10.0
CLASSES = ("exact", "rounding")
# Beside the classes, that NaN and infinities may come out otherwise than the original gives them.
FINITE_MATH = "finite_math"
ALLOWED = (*CLASSES, FINITE_MATH)
# How plans are found: by an e-graph beside single gains, or by single gains alone.
SEARCHES = ("egraph", "gains")
# What is predicted of kernels that nobody measured: nothing decides, but a first gain is told of;
# it decides what to measure, and stands for what there is no time to measure; nothing at all.
COSTS = ("foretold", "predicted", "measured")


class OptionError(TensologError, ValueError):
    """An option with a value that there is none of."""


def allowed(classes: Collection[str]) -> tuple[str, ...]:
    """Read the classes of substitutions to allow; a string names them with commas in between."""
    named = classes.split(",") if isinstance(classes, str) else classes
    try:
        words = tuple(dict.fromkeys(word.strip() for word in named))
    except (TypeError, AttributeError):
        raise OptionError(
            f"what is allowed is a list of {' and '.join(ALLOWED)}, not {classes!r}"
        ) from None
    for word in words:
        if word not in ALLOWED:
            raise OptionError(f"unknown class {word!r} to allow; known: {', '.join(ALLOWED)}")
    if not words:
        raise OptionError(f"allow at least one of {', '.join(ALLOWED)}")
    return words


@dataclass(frozen=True)
class Setting:
    """Target, threads, seconds for measuring, allowed classes, shapes, bytes, seed, search, costs.

    Where `stretches`, races of a model that takes long to open and to run may take longer.
    """

    target: str = TARGETS[0]
    threads: int = 1
    budget: float = BUDGET_S
    stretches: bool = False
    allow: tuple[str, ...] = CLASSES
    input_shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    fold_limit: int = FOLD_LIMIT
    seed: int = 0
    search: str = SEARCHES[0]
    costs: str = COSTS[0]

    def __post_init__(self) -> None:
        object.__setattr__(self, "allow", allowed(self.allow))
        if self.target not in TARGETS:
            raise OptionError(f"unknown target {self.target!r}; known: {', '.join(TARGETS)}")
        if self.search not in SEARCHES:
            raise OptionError(f"unknown search {self.search!r}; known: {', '.join(SEARCHES)}")
        if self.costs not in COSTS:
            raise OptionError(f"unknown costs {self.costs!r}; known: {', '.join(COSTS)}")
        if self.threads < 1:
            raise OptionError(f"threads must be at least 1, not {self.threads}")
        if self.threads > (most := most_threads()):
            raise OptionError(
                f"{self.threads} threads are more than this machine can tell anything about: "
                f"ask for at most {most}"
            )
        if not 0 <= self.budget < math.inf:
            raise OptionError(f"the budget is in seconds and can't be {self.budget}")

    @property
    def most_s(self) -> float:
        """Seconds after which all has to be over, as far as it can be cut."""
        return MOST_S if self.stretches else self.budget + GRACE_S

    @property
    def for_runtime(self) -> bool:
        """Tell whether the result is for ONNX Runtime, with kernels or without."""
        return self.target in (RUNTIME_TARGET, KERNELS_TARGET)

    @property
    def finite_math(self) -> bool:
        """Tell whether NaN and infinities may come out otherwise than the original gives them."""
        return FINITE_MATH in self.allow

    @property
    def contributes(self) -> bool:
        """Tell whether the runtime's own operators may stand for what rounds otherwise."""
        return self.for_runtime and "rounding" in self.allow

    @property
    def fuses(self) -> bool:
        """Tell whether operators may be fused into kernels; they round in other places."""
        return self.target == KERNELS_TARGET and "rounding" in self.allow

    def bar(self, rule: Rule, opset: int) -> str:
        """Say why a rule may not be applied to models of an opset; '' where it may."""
        if (kept := promise(rule)) not in self.allow:
            return f"its result is {kept}, and only {', '.join(self.allow)} is allowed"
        if rule.target not in (None, RUNTIME_TARGET if self.for_runtime else self.target):
            return f"it is for the target {rule.target}"
        if rule.opset_from is not None and opset < rule.opset_from:
            return f"it is for opsets from {rule.opset_from} on, the model has {opset}"
        if rule.opset_to is not None and opset > rule.opset_to:
            return f"it is for opsets up to {rule.opset_to}, the model has {opset}"
        return ""

    def select(self, rules: Sequence[Rule], graph: Graph, tag: str) -> list[Rule]:
        """Choose the rules of a tag that may be applied to a graph."""
        target = RUNTIME_TARGET if self.for_runtime else self.target
        chosen = select_rules(rules, opset=graph.opset(), target=target, allow=self.allow)
        return [rule for rule in chosen if rule.tag == tag]
