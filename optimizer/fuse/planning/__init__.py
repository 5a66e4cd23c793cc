"""Operator fusion: which nodes of a program become one pass over their inputs, by cost.

Enters: a program and the machine's rates. Leaves: a plan, fused operators and plain ones in
execution order. Begin with fusion_planner.py. The source of all is Boehm et al., PVLDB 11(12),
2018.

    fusion_planner     from a program to its plan
    fusion_plan        what a plan is
    fusion_candidates  which nodes may be fused with which: templates.dl over the program
    planning_graph     the program as the planner reads it
    plan_space         a partition's plans: which nodes are stored, what each operator covers then
    plan_search        the cheapest of them (MPSkipEnum, by lower bounds), or one by a heuristic
    operator_unions    operators over the same cells as one of several results
    template_costs     what one operator costs, by which template
    work               how much computing an operator is, from its specification
    sparsity           what fused operators do where nothing is stored
    machine_rates      the rates of this machine
"""

from .fusion_plan import (
    FusedOperator,
    FusionPlan,
    MemoEntry,
    Partition,
    PlainOperator,
    PlanCounts,
    Point,
)
from .fusion_planner import FusionError, plan
from .machine_rates import Machine
from .plan_search import Pruning

__all__ = [
    "FusedOperator",
    "FusionError",
    "FusionPlan",
    "Machine",
    "MemoEntry",
    "Partition",
    "PlainOperator",
    "PlanCounts",
    "Point",
    "Pruning",
    "plan",
]
