"""What may change: substitutions as text, parsed, and compiled to Datalog."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..catalog.lazily import lazily

if TYPE_CHECKING:
    from .compile import attribute_text, compile_program
    from .errors import RuleError
    from .load import load_rules, select_rules
    from .match import check_conditions, match_of, matches
    from .misses import (
        NearMiss,
        compile_misses,
        describe_miss,
        is_reported,
        near_misses,
        nearly_text,
    )
    from .parser import parse_rules
    from .rewrite import instantiate
    from .rows import rule_rows, store_rules
    from .syntax import Rule
    from .view import ABSENT, GraphView, Match, NamedView, NewNode, Reference, Replacement

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
    "describe_miss",
    "instantiate",
    "is_reported",
    "load_rules",
    "match_of",
    "matches",
    "near_misses",
    "nearly_text",
    "parse_rules",
    "rule_rows",
    "select_rules",
    "store_rules",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "ABSENT": ".view",
        "GraphView": ".view",
        "Match": ".view",
        "NamedView": ".view",
        "NearMiss": ".misses",
        "NewNode": ".view",
        "Reference": ".view",
        "Replacement": ".view",
        "Rule": ".syntax",
        "RuleError": ".errors",
        "attribute_text": ".compile",
        "check_conditions": ".match",
        "compile_misses": ".misses",
        "compile_program": ".compile",
        "describe_miss": ".misses",
        "instantiate": ".rewrite",
        "is_reported": ".misses",
        "load_rules": ".load",
        "match_of": ".match",
        "matches": ".match",
        "near_misses": ".misses",
        "nearly_text": ".misses",
        "parse_rules": ".parser",
        "rule_rows": ".rows",
        "select_rules": ".load",
        "store_rules": ".rows",
    },
)
