"""TASO's rules in their neutral form: one JSON object to a line.

`{id, src: [Op], dst: [Op], outputs: [[srcNode, srcOut, dstNode, dstOut]]}`, where
`Op = {op, op_id, params: {PM_x: int}, inputs: [[node or -input, output]]}`.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from .operators import DEEPEST, UnknownOperatorError, UnreadableError, build
from .terms import ForeignRule, Problem, Term, Variable, lines_of

_SHOWN = 200
# op_id of include/taso/ops.h, where a rule gives no name that is known here.
NUMBERS = {
    3: "conv2d",
    6: "poolmax",
    7: "poolavg",
    8: "relu",
    9: "sigmoid",
    10: "tanh",
    12: "concat",
    13: "split",
    15: "transpose",
    16: "ewadd",
    17: "ewmul",
    18: "matmul",
    19: "smul",
    20: "enlarge",
    22: "identity",
    23: "iconv",
    24: "ones",
    25: "cpool",
}
NAMES = {
    "CONV2D": "conv2d",
    "POOL2D_MAX": "poolmax",
    "POOL2D_AVG": "poolavg",
    "RELU": "relu",
    "SIGMOID": "sigmoid",
    "TANH": "tanh",
    "CONCAT": "concat",
    "SPLIT": "split",
    "TRANSPOSE": "transpose",
    "EW_ADD": "ewadd",
    "EW_MUL": "ewmul",
    "MATMUL": "matmul",
    "MUL": "smul",
    "ENLARGE": "enlarge",
    "CONSTANT_IMM": "identity",
    "CONSTANT_IMATMUL": "imatmul",
    "CONSTANT_IEWMUL": "ones",
    "CONSTANT_ICONV": "iconv",
    "CONSTANT_ONE": "ones",
    "CONSTANT_ONES": "ones",
    "CONSTANT_POOL": "cpool",
    "CONSTANT_CPOOL": "cpool",
    "IMATMUL": "imatmul",
    "IEWMUL": "ones",
    "ICONV": "iconv",
    "CPOOL": "cpool",
}
PARAMETERS = {
    "PM_KERNEL_H": "kernel_h",
    "PM_KERNEL_W": "kernel_w",
    "PM_STRIDE_H": "stride_h",
    "PM_STRIDE_W": "stride_w",
    "PM_PAD": "pad",
    "PM_ACTI": "acti",
    "PM_AXIS": "axis",
    "PM_PERM": "perm",
    "PM_NUMDIM": "rank",
    "PM_NUM_OUTPUTS": "parts",
}


def read_lines(text: str) -> tuple[ForeignRule | Problem, ...]:
    """Read rules from lines of JSON; a line that can't be read gives a Problem."""
    entries: list[ForeignRule | Problem] = []
    names: set[str] = set()
    for line, content in enumerate(lines_of(text), 1):
        content = content.strip()
        if not content or content.startswith(("#", "//")):
            continue
        name = f"TasoLine{line}"
        try:
            entry = json.loads(content)
            if not isinstance(entry, dict):
                raise UnreadableError("a rule is a JSON object")
            name = _name(entry, line, names)
            entries.append(ForeignRule(name, "taso", line, content, _outputs(entry)))
        except json.JSONDecodeError as error:
            reason = f"not JSON: {error.msg} (column {error.colno})"
            entries.append(Problem(name, line, content, reason))
        except ValueError as error:  # a number of thousands of digits
            entries.append(Problem(name, line, content[:_SHOWN], f"not JSON: {error}"))
        except RecursionError:
            entries.append(Problem(name, line, content, "nested too deeply"))
        except UnreadableError as error:
            malformed = not isinstance(error, UnknownOperatorError)
            entries.append(Problem(name, line, content, str(error), malformed))
        names.add(name)
    return tuple(entries)


def _name(entry: dict[str, Any], line: int, taken: set[str]) -> str:
    """`Taso17` of id 17; the line instead where the id is missing, odd or taken."""
    number = "".join(c for c in str(entry.get("id", "")) if c.isascii() and c.isalnum())
    name = f"Taso{number}"
    return name if number and name not in taken else f"TasoLine{line}"


def _outputs(entry: dict[str, Any]) -> tuple[tuple[Term, Term], ...]:
    source = _Side("src", _list(entry, "src"))
    target = _Side("dst", _list(entry, "dst"))
    pairs: list[tuple[Term, Term]] = []
    for item in _list(entry, "outputs"):
        if not isinstance(item, list) or len(item) != 4 or not all(map(_is_integer, item)):
            raise UnreadableError(f"an output is [srcNode, srcOut, dstNode, dstOut], not {item}")
        left, right = source.value(item[0], item[1]), target.value(item[2], item[3])
        pair = (_settled(left, "imatmul"), _settled(right, "imatmul"))
        if pair not in pairs:
            pairs.append(pair)
    if not pairs:
        raise UnreadableError("the rule has no outputs")
    return tuple(pairs)


def _settled(term: Term, identity: str) -> Term:
    """A term whose constants of number 22 are the identity of the operator around them."""
    if isinstance(term, Variable):
        return term
    if term.operator == "identity":
        return build(identity, {}, ())
    inner = {"matmul": "imatmul", "ewmul": "ones"}.get(term.operator, identity)
    return replace(term, operands=tuple(_settled(operand, inner) for operand in term.operands))


def _list(entry: dict[str, Any], key: str) -> list[Any]:
    items = entry.get(key)
    if not isinstance(items, list):
        raise UnreadableError(f"'{key}' is missing or no list")
    return items


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


class _Side:
    """The nodes of one side as terms."""

    def __init__(self, title: str, nodes: list[Any]) -> None:
        if len(nodes) > DEEPEST:
            raise UnreadableError(f"{title} has {len(nodes)} nodes; {DEEPEST} are the most")
        self.title, self.nodes = title, nodes
        self.open: list[int] = []
        self.terms: dict[tuple[int, int], Term] = {}

    def value(self, node: int, output: int) -> Term:
        """Output `output` of a node, or the input -node."""
        if node < 0:
            return Variable(f"input_{-node}")
        if node >= len(self.nodes):
            raise UnreadableError(f"{self.title} has no node {node}")
        if node in self.open:
            raise UnreadableError(f"node {node} of {self.title} reads itself")
        if (node, output) not in self.terms:
            self.open.append(node)
            self.terms[node, output] = self._term(node, output)
            self.open.pop()
        return self.terms[node, output]

    def _term(self, node: int, output: int) -> Term:
        entry = self.nodes[node]
        if not isinstance(entry, dict):
            raise UnreadableError(f"node {node} of {self.title} is no JSON object")
        operator = _operator(entry)
        operands: list[Term] = []
        for item in _list(entry, "inputs"):
            if not isinstance(item, list) or len(item) != 2 or not all(map(_is_integer, item)):
                raise UnreadableError(f"an input is [node, output], not {item}")
            operands.append(self.value(item[0], item[1]))
        values = {"rank": 0, "parts": 0} | _parameters(entry, operator)
        if operator == "concat" and values.get("operands", len(operands)) != len(operands):
            reason = f"CONCAT has {len(operands)} inputs, not {values['operands']}"
            raise UnreadableError(reason)
        if output and operator != "split":
            raise UnreadableError(f"{entry.get('op')} has no output {output}")
        if operator == "enlarge" and len(operands) == 2:
            operator = "enlarge_like"
        return build(operator, values, tuple(operands), output)


def _operator(entry: dict[str, Any]) -> str:
    name = str(entry.get("op", "")).upper().removeprefix("OP_")
    operator = NAMES.get(name)
    if operator is None and (not name or name.startswith("CONSTANT")):
        operator = NUMBERS.get(entry.get("op_id", -1))
    if operator is None:
        raise UnknownOperatorError(f"unknown operator {entry.get('op') or entry.get('op_id')}")
    return operator


def _parameters(entry: dict[str, Any], operator: str) -> dict[str, int]:
    parameters = entry.get("params", {})
    if not isinstance(parameters, dict) or not all(map(_is_integer, parameters.values())):
        raise UnreadableError(f"the parameters of {entry.get('op')} are no integers by name")
    values = {PARAMETERS[key]: value for key, value in parameters.items() if key in PARAMETERS}
    if "PM_NUM_INPUTS" in parameters:
        values["operands"] = parameters["PM_NUM_INPUTS"]
    if operator == "transpose":
        values.setdefault("rank", 0)
    return values
