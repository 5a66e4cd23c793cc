"""The comparisons that terms, rules and Datalog share: how each is decided, negated and turned."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

# Python's operators: they compare numbers, arrays entry by entry, and terms of Z3.
COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
# What holds exactly where a comparison doesn't; of reals where there are no NaNs.
NEGATED: Mapping[str, str] = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
# What says the same of the operands in the other order.
MIRRORED: Mapping[str, str] = {"=": "=", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
