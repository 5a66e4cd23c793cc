"""What may change: substitutions as text, parsed, and compiled to Datalog."""

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
