"""JSON that every reader accepts: no NaN or Infinity, no types of ours."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

_UNUSUAL = re.compile(r"[^\n -~]")


def json_text(value: object) -> str:
    """One object as indented JSON; NaN and infinities become null, bytes become hex.

    What steers a terminal is written as an escape, which readers of JSON undo.
    """
    text = json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False)
    return _UNUSUAL.sub(lambda letter: _letter(letter.group()), text)


def _letter(letter: str) -> str:
    return letter if letter.isprintable() else json.dumps(letter)[1:-1].replace("\x7f", "\\u007f")


def plain(value: Any) -> Any:
    """Reduce a value to what JSON knows."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case Decimal():  # DuckDB's HUGEINT too
            return int(value) if value == value.to_integral_value() else float(value)
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(item) for item in value]
        case bytes() | bytearray() | memoryview():
            return bytes(value).hex()
        case datetime() | date() | time():
            return value.isoformat()
        case Path():
            return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if hasattr(value, "tolist"):  # a NumPy scalar or array
        return plain(value.tolist())
    return str(value)
