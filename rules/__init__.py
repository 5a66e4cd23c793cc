"""What may change: substitutions as text, parsed, and compiled to Datalog.

The rules are the `.rules` files here, those that were found by enumeration in `found/`, their
proofs in `ledger.jsonl`. Begin with `load.py`.

| folder | holds |
|---|---|
| `language/` | the text of rules, parsed and checked |
| `compiler/` | rules as clauses of Datalog, and what takes the place of a match |
| `gate/` | what a rule goes through before it is admitted |
| `prover/` | proofs for all sizes |
| `sampling/` | random models on which a rule matches |
| `generation/` | rules that are found |
| `foreign/` | rules of other systems |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..catalog.lazy_imports import lazily

if TYPE_CHECKING:
    from .compiler.atoms import attribute_text
    from .compiler.compile import compile_program
    from .compiler.failed_conditions import (
        NearMiss,
        is_reported,
        misses_among,
        near_match_of,
        nearly,
        why_missed,
    )
    from .compiler.match_rows import check_conditions, match_of
    from .compiler.replacement import instantiate
    from .compiler.view import ABSENT, GraphView, Match, NamedView, NewNode, Reference, Replacement
    from .generation.run import generate
    from .language.errors import RuleError
    from .language.parser import parse_rules
    from .language.promise import correction, promise
    from .language.syntax import Rule
    from .load import load_rules, select_rules
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
    "compile_program",
    "correction",
    "generate",
    "instantiate",
    "is_reported",
    "load_rules",
    "match_of",
    "misses_among",
    "near_match_of",
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
        "ABSENT": ".compiler.view",
        "GraphView": ".compiler.view",
        "Match": ".compiler.view",
        "NamedView": ".compiler.view",
        "NearMiss": ".compiler.failed_conditions",
        "NewNode": ".compiler.view",
        "Reference": ".compiler.view",
        "Replacement": ".compiler.view",
        "Rule": ".language.syntax",
        "RuleError": ".language.errors",
        "attribute_text": ".compiler.atoms",
        "check_conditions": ".compiler.match_rows",
        "compile_program": ".compiler.compile",
        "correction": ".language.promise",
        "generate": ".generation.run",
        "instantiate": ".compiler.replacement",
        "is_reported": ".compiler.failed_conditions",
        "load_rules": ".load",
        "match_of": ".compiler.match_rows",
        "near_match_of": ".compiler.failed_conditions",
        "misses_among": ".compiler.failed_conditions",
        "nearly": ".compiler.failed_conditions",
        "parse_rules": ".language.parser",
        "promise": ".language.promise",
        "rule_rows": ".rule_tables",
        "select_rules": ".load",
        "store_rules": ".rule_tables",
        "why_missed": ".compiler.failed_conditions",
    },
)
