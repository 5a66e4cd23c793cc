"""Which rules name a kernel of the runtime that takes in what stands beside an operator."""

from __future__ import annotations

from ...rules import Rule

DOMAIN = "com.microsoft"
# How many operands such kernels have from which on they do more than an operator of their own.
OPERANDS = {
    "BiasGelu": 2,
    "FastGelu": 2,
    "FusedConv": 2,
    "FusedGemm": 2,
    "FusedMatMul": 2,
    "SkipLayerNormalization": 3,
    "SkipSimplifiedLayerNormalization": 3,
}


def is_naming(rule: Rule) -> bool:
    """Tell whether a rule names such a kernel; it is applied when all others have been."""
    return any(
        node.domain == DOMAIN
        and len(node.inputs) >= OPERANDS.get(node.op_type, len(node.inputs) + 1)
        for node in rule.rewrite
    )
