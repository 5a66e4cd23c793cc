"""Operator fusion: which regions of a program become one pass over their inputs, by cost."""

from .enumerate import Pruning
from .machine import Limits, Machine
from .plan import (
    FusedOperator,
    FusionPlan,
    MemoEntry,
    OuterProduct,
    Partition,
    PlainOperator,
    PlanCounts,
    Point,
)
from .planner import FusionError, plan

__all__ = [
    "FusedOperator",
    "FusionError",
    "FusionPlan",
    "Limits",
    "Machine",
    "MemoEntry",
    "OuterProduct",
    "Partition",
    "PlainOperator",
    "PlanCounts",
    "Point",
    "Pruning",
    "plan",
]
