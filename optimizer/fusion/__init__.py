"""Operator fusion: which regions of a program become one pass over their inputs, by cost."""

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

__all__ = [
    "FusedOperator",
    "FusionPlan",
    "MemoEntry",
    "OuterProduct",
    "Partition",
    "PlainOperator",
    "PlanCounts",
    "Point",
]
