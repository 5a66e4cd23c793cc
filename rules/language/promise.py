"""What holds of a rule once it is applied: a partial equivalence is applied with its correction."""

from __future__ import annotations

from .canonical_text import expression_text
from .syntax import Rule


def promise(rule: Rule) -> str:
    """Return the class that a rule keeps where it is applied: exact, rounding, or partial.

    A correction makes the output whole, which the gate proves beside the region, so what is left
    is rounding. Without one a partial equivalence promises too little to be applied.
    """
    return "rounding" if rule.correct else rule.equal


def correction(rule: Rule) -> str:
    """Say where a partial equivalence differs, and what makes it whole; "" for any other rule."""
    if not rule.correct or rule.region is None:
        return ""
    operators = ", ".join("|".join(node.operators) for node in rule.correct)
    return f"equal except where {expression_text(rule.region)}; corrected by {operators}"
