"""Write the table of docs/operators.md from the specifications: this file, [--check]."""

from __future__ import annotations

import sys
from pathlib import Path

from generated_page import write_below
from tensolog.catalog.operators import Specification, specification, specified
from tensolog.catalog.operators.contributed import DOMAINS, LAYOUTS
from tensolog.catalog.operators.definition import texts
from tensolog.catalog.operators.syntax import Operator

PAGE = Path(__file__).parent / "operators.md"
MARK = "<!-- Generated from here on by: python docs/operators_table.py -->\n"
# Later than any operator set: the newest text of each operator is shown.
_LATEST = 1000

RUNTIME = "What a runtime adds: rules for that target alone bring them in.\n"
NOTATION = "How rules about layouts are stated: no model has them.\n"


def table() -> str:
    """Lay out the operators by class, then those that are opaque."""
    described: dict[str, list[str]] = {}
    opaque: dict[str, list[str]] = {}
    for name in specified():
        meaning = specification("", name, _last(name))
        assert meaning is not None
        if meaning.opaque is not None:
            opaque.setdefault(meaning.opaque, []).append(name)
        else:
            described.setdefault(meaning.kind, []).append(_row(meaning))
    count = sum(map(len, described.values()))
    parts = [f"## {count} operators\n"]
    for kind in sorted(described):
        parts.append(f"### {kind}\n")
        parts.append(
            "| operator | opsets | newest signature | zeros pass from |\n|---|---|---|---|"
        )
        parts[-1] += "\n" + "\n".join(described[kind]) + "\n"
    for domain, version in DOMAINS.items():
        names = specified(domain)
        rows = [_row(spec) for name in names if (spec := specification(domain, name, version))]
        parts.append(f"## {len(names)} operators of {domain}\n")
        parts.append(NOTATION if domain == LAYOUTS else RUNTIME)
        parts.append("| operator | opsets | signature | zeros pass from |\n|---|---|---|---|")
        parts[-1] += "\n" + "\n".join(rows) + "\n"
    parts.append(f"## {sum(map(len, opaque.values()))} opaque operators\n")
    parts.append("They pass through every graph untouched.\n\n| operators | why |\n|---|---|")
    parts[-1] += "".join(
        f"\n| {', '.join(names)} | {why} |" for why, names in sorted(opaque.items())
    )
    return "\n".join(parts) + "\n"


def _last(name: str) -> int:
    """The last operator set with an operator."""
    ends = [block.opset_to for block in texts(name) if isinstance(block, Operator)]
    return max((end or _LATEST for end in ends), default=_LATEST)


def _row(specification: Specification) -> str:
    signatures = "<br>".join(f"`{signature(block)}`" for block in specification.blocks)
    zeros = ", ".join(specification.sparse_safe)
    return f"| {specification.op_type} | {_opsets(specification)} | {signatures} | {zeros} |"


def _opsets(specification: Specification) -> str:
    """The operator sets between which the text changes."""
    ranges = {
        (b.opset_from, b.opset_to)
        for b in texts(specification.op_type, specification.domain)
        if isinstance(b, Operator)
    }
    shown = [f"{first}–{last or ''}" for first, last in sorted(ranges)]
    return ", ".join(shown)


def signature(block: Operator) -> str:
    """Return `(inputs) -> outputs` as the text has it."""
    head = block.text.split("->", 1)
    inputs = head[0].split("(", 1)[1].rsplit(")", 1)[0]
    rest = head[1]
    for word in ("\n  attribute", "\n  let", "\n  require", "\n  local", "\n  value", " opset "):
        rest = rest.split(word, 1)[0]
    return " ".join(f"({inputs}) -> {rest}".split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(write_below(PAGE, MARK, table()))
