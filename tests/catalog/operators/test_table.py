"""The table in the documentation is what the specifications say, and its examples run."""

from __future__ import annotations

import ast
import contextlib
import re
import sys
from pathlib import Path

import numpy as np
from tensolog.catalog.operators import specification
from tensolog.catalog.operators.definition import functions
from tensolog.catalog.operators.functions import FUNCTIONS
from tensolog.catalog.operators.parser import parse

DOCS = Path(__file__).parents[3] / "docs"
sys.path.insert(0, str(DOCS))

from operators_table import MARK, PAGE, table  # noqa: E402


def test_table_is_up_to_date() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text.split(MARK)[1].strip() == table().strip(), "run python docs/operators_table.py"


def test_examples_are_the_shipped_texts() -> None:
    text = PAGE.read_text(encoding="utf-8").split("```")[1]
    for block in parse(text):
        spec = specification("", block.name, 21)
        assert spec is not None
        assert block in [*spec.blocks] or " ".join(block.text.split()) in [
            " ".join(described.text.split()) for described in spec.blocks
        ]


def test_example_calls_run() -> None:
    """Each gives what stands behind it, where its comment is a value of Python."""
    code = PAGE.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    names = {"a": np.ones((2, 3), np.float32), "b": np.ones((3, 4), np.float32)}
    examples = {}
    for line in code.splitlines():
        call, _, comment = line.partition("  # ")
        if not comment:
            exec(call, names)
            continue
        returned = eval(call, names)
        with contextlib.suppress(SyntaxError, ValueError):
            examples[call] = (returned, ast.literal_eval(comment))
    assert len(examples) >= 3
    for call, (returned, stated) in examples.items():
        assert returned == stated or list(returned) == stated, call


def test_functions_named_exist() -> None:
    page = PAGE.read_text(encoding="utf-8")
    listed = page.split("Functions:")[1].split("\n\n")[0]
    names = set(re.findall(r"`(\w+)", listed))
    assert names <= {*FUNCTIONS, *functions(), "ceil_div", "present", "absent", "shape"}
