"""What may change: substitutions as text, parsed, and compiled to Datalog."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..catalog.lazy_imports import lazily

if TYPE_CHECKING:
    from .generation.run import generate
    from .language.errors import RuleError
    from .language.parser import parse_rules
    from .language.promise import correction, promise
    from .language.syntax import Rule
    from .load import load_rules, select_rules
    from .matching.atoms import attribute_text
    from .matching.compile import compile_program
    from .matching.match_rows import check_conditions, match_of, matches
    from .matching.near_misses import (
        NearMiss,
        compile_misses,
        describe_miss,
        is_reported,
        near_misses,
        nearly,
        why_missed,
    )
    from .matching.replacement import instantiate
    from .matching.view import ABSENT, GraphView, Match, NamedView, NewNode, Reference, Replacement
    from .rule_tables import rule_rows, store_rules

__all__ = [
    "ABSENT",
    "GraphView",
    "Match",
    "NamedView",
    "NearMiss",
    "NewNode",
    "Reference",
    "Replacement",
    "Rule",
    "RuleError",
    "attribute_text",
    "check_conditions",
    "compile_misses",
    "compile_program",
    "correction",
    "describe_miss",
    "generate",
    "instantiate",
    "is_reported",
    "load_rules",
    "match_of",
    "matches",
    "near_misses",
    "nearly",
    "parse_rules",
    "promise",
    "rule_rows",
    "select_rules",
    "store_rules",
    "why_missed",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "ABSENT": ".matching.view",
        "GraphView": ".matching.view",
        "Match": ".matching.view",
        "NamedView": ".matching.view",
        "NearMiss": ".matching.near_misses",
        "NewNode": ".matching.view",
        "Reference": ".matching.view",
        "Replacement": ".matching.view",
        "Rule": ".language.syntax",
        "RuleError": ".language.errors",
        "attribute_text": ".matching.atoms",
        "check_conditions": ".matching.match_rows",
        "compile_misses": ".matching.near_misses",
        "compile_program": ".matching.compile",
        "correction": ".language.promise",
        "describe_miss": ".matching.near_misses",
        "generate": ".generation.run",
        "instantiate": ".matching.replacement",
        "is_reported": ".matching.near_misses",
        "load_rules": ".load",
        "match_of": ".matching.match_rows",
        "matches": ".matching.match_rows",
        "near_misses": ".matching.near_misses",
        "nearly": ".matching.near_misses",
        "parse_rules": ".language.parser",
        "promise": ".language.promise",
        "rule_rows": ".rule_tables",
        "select_rules": ".load",
        "store_rules": ".rule_tables",
        "why_missed": ".matching.near_misses",
    },
)
