"""The one layout of rule files: clauses in order, columns aligned, lines of up to 100 letters.

It is made of the parse tree, not of the rule that was read from it: operations stay nested, and
declarations in the order in which their author put them. All between rules stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from lark import Token, Tree

from .canonical_text import INDEXED, NEGATION, STRENGTH, binary_text, enclosed
from .parser import parse_rules, parse_trees
from .reader import OPERATORS
from .syntax import Rule

WIDTH = 100
_CLAUSES = (
    "tags",
    "sources",
    "opset",
    "target",
    "given",
    "match",
    "fold",
    "rewrite",
    "correct",
    "equal",
)

Node = Tree[Token] | Token


def formatted(rule: Tree[Token]) -> list[str]:
    """Lay out a rule; returns its lines."""
    name, *clauses = rule.children
    lines = [f"rule {name}"]
    for clause in sorted(_trees(clauses), key=_place):
        lines += _clause(clause)
    return lines


def _place(clause: Tree[Token]) -> int:
    kind = str(clause.data)
    for place, prefix in enumerate(_CLAUSES):
        if kind.startswith(prefix):
            return place
    return len(_CLAUSES)


def _clause(clause: Tree[Token]) -> list[str]:
    parts = [part for part in clause.children if part is not None]
    match str(clause.data):
        case "tags" | "target" as word:
            return [f"  {word:<7} {parts[0]}"]
        case "sources":
            text = ", ".join(str(_tree(part).children[0]) for part in parts)
            return [f"  source  [{text}]"]
        case "opset_from":
            return [f"  opset   >= {parts[0]}"]
        case "opset_range":
            return [f"  opset   {parts[0]}..{parts[1]}"]
        case "given":
            return _given_clause([_tree(part) for part in parts])
        case "match" | "fold" | "rewrite" | "correct" as word:
            return [f"  {word}", *_statements([_tree(part) for part in parts])]
        case "equal":
            region = f" except {_text(parts[1])}" if len(parts) > 1 else ""
            return [f"  equal   {parts[0]}{region}"]
        case other:
            return [f"  {other}"]


# -------------------------------------------------------------------------------------- given


def _given_clause(items: Sequence[Tree[Token]]) -> list[str]:
    lines: list[str] = []
    for i, item in enumerate(items):
        head = "  given   " if i == 0 else " " * 10
        text = _item(item, WIDTH - 11)
        text[-1] += "," if i + 1 < len(items) else ""
        lines += [head + text[0], *(" " * 10 + line for line in text[1:])]
    return lines


def _item(item: Tree[Token], width: int) -> list[str]:
    declaration, *flags = item.children
    words = [_declared(declaration), *(_flag(_tree(flag)) for flag in flags)]
    line = " ".join(words)
    if len(line) <= width:
        return [line]
    if (
        isinstance(declaration, Tree)
        and declaration.data == "in_"
        and _is(declaration.children[1], "list")
    ):
        name, names = declaration.children
        listed = [_text(part) for part in _tree(names).children if part is not None]
        return [f"{_text(name)} in [", *_filled(listed, "  ", width), "]"]
    if isinstance(declaration, Tree) and declaration.data in ("and_", "or_"):
        return _joined(declaration, width)
    return [line]


def _joined(condition: Tree[Token], width: int) -> list[str]:
    """Break a long condition before its outermost `and` or `or`."""
    word = OPERATORS[str(condition.data)]
    parts: list[str] = []
    left: Node = condition
    while isinstance(left, Tree) and left.data == condition.data:
        left, right = left.children
        parts.insert(0, _text(right, STRENGTH[word] + 1))
    parts.insert(0, _text(left, STRENGTH[word]))
    lines = [parts[0]]
    for part in parts[1:]:
        if len(lines[-1]) + len(part) + len(word) + 2 <= width:
            lines[-1] += f" {word} {part}"
        else:
            lines.append(f"{word} {part}")
    return [lines[0], *(f"  {line}" for line in lines[1:])]


def _declared(declaration: Node) -> str:
    """An operand, `X [m, k]`, or a condition."""
    if (
        isinstance(declaration, Tree)
        and declaration.data == "index"
        and _is(declaration.children[0], "name")
    ):
        name, *sizes = declaration.children
        return f"{_text(name)} [{_listed(sizes)}]"
    return _text(declaration)


def _flag(flag: Tree[Token]) -> str:
    match str(flag.data):
        case "dtypes":
            return "|".join(map(str, flag.children))
        case "default":
            return f"default {_text(flag.children[0])}"
        case word:
            return word


# --------------------------------------------------------------------------------- statements


def _statements(statements: Sequence[Tree[Token]]) -> list[str]:
    pairs = [
        (_outputs(_tree(statement.children[0])), statement.children[1]) for statement in statements
    ]
    width = max(len(outputs) for outputs, _ in pairs)
    lines = []
    for left, right in pairs:
        line = f"    {left:<{width}} = {_value(right)}"
        repeated = (
            _each_prefix(right.children) if isinstance(right, Tree) and _is(right, "each") else ""
        )
        operation = _tree(right).children[-1] if repeated else right
        if len(line) > WIDTH and isinstance(operation, Tree) and _is(operation, "operation"):
            lines += _broken(f"    {left:<{width}} = {repeated}", operation)
        else:
            lines.append(line)
    return lines


def _outputs(outputs: Tree[Token]) -> str:
    stars = {"star_output": "*"}
    parts = [_tree(child) for child in outputs.children]
    return ", ".join(f"{stars.get(str(part.data), '')}{part.children[0]}" for part in parts)


def _value(value: Node) -> str:
    match value:
        case Tree("operation"):
            return _operation(value)
        case Tree("each", [*said, operation]):
            return f"{_each_prefix(said)}{_value(operation)}"
        case Tree("alias_list", [name]):
            return f"*{name}"
        case _:
            return _text(value)


def _each_prefix(nodes: Sequence[Node | None]) -> str:
    """How often something is repeated: `each`, or `each t < k`."""
    numbered = [part for part in nodes[1:] if part is not None and not _is(part, "operation")]
    return f"each {' < '.join(map(_text, numbered))} " if numbered else "each "


def _operation(operation: Tree[Token]) -> str:
    operator, attributes, arguments = _parts(operation)
    head = f"{operator}<{', '.join(attributes)}>" if attributes else operator
    return f"{head}({', '.join(map(_value, arguments))})"


def _broken(head: str, operation: Tree[Token]) -> list[str]:
    """Set the attributes of a long operation on lines of their own; or else its arguments."""
    operator, attributes, arguments = _parts(operation)
    values = [_value(argument) for argument in arguments]
    tail = f">({', '.join(values)})"
    if attributes and len(tail) + 4 <= WIDTH:
        return [f"{head}{operator}<", *_filled(attributes, " " * 6, WIDTH), f"    {tail}"]
    front = f"{operator}<{', '.join(attributes)}>" if attributes else operator
    return [f"{head}{front}(", *_filled(values, " " * 6, WIDTH), "    )"]


def _parts(operation: Tree[Token]) -> tuple[str, list[str], list[Node]]:
    operator, *rest = [part for part in operation.children if part is not None]
    attributes, arguments = [], []
    for part in rest:
        match part:
            case Tree("set_attribute", [name, value]):
                attributes.append(f"{name}={_text(value)}")
            case Tree("rest_attributes", [name]):
                attributes.append(f"*{name}")
            case _:
                arguments.append(part)
    return str(operator), attributes, arguments


def _filled(words: Sequence[str], indent: str, width: int) -> list[str]:
    """Set words on as few lines as they need, separated by commas."""
    lines = [indent]
    for i, word in enumerate(words):
        text = word + ("," if i + 1 < len(words) else "")
        if lines[-1].strip() and len(lines[-1]) + 1 + len(text) > width:
            lines.append(indent)
        lines[-1] += f" {text}" if lines[-1].strip() else text
    return lines


# -------------------------------------------------------------------------------- expressions


def _text(node: Node, strength: int = 0) -> str:
    """An expression with the fewest parentheses."""
    if isinstance(node, Token):
        return str(node)
    parts = [part for part in node.children if part is not None]
    kind = str(node.data)
    if kind == "binary" or kind in OPERATORS:
        left, right = parts[0], parts[-1]
        operator = str(parts[1]) if kind == "binary" else OPERATORS[kind]
        return binary_text(operator, left, right, strength, _text)
    match kind:
        case "negative":
            return enclosed(f"-{_text(parts[-1], NEGATION)}", NEGATION, strength)
        case "not_":
            binding = STRENGTH["not"]
            return enclosed(f"not {_text(parts[0], binding)}", binding, strength)
        case "index":
            return f"{_text(parts[0], INDEXED)}[{_listed(parts[1:])}]"
        case "call":
            return f"{parts[0]}({_listed(parts[1:])})"
        case "list":
            return f"[{_listed(parts)}]"
        case "star" | "star_value":
            return f"*{parts[0]}"
        case "optional_value":
            return f"{parts[0]}?"
    return _text(parts[0], strength)


def _listed(parts: Sequence[Node | None]) -> str:
    return ", ".join(_text(part) for part in parts if part is not None)


def _is(node: Node, kind: str) -> bool:
    return isinstance(node, Tree) and node.data == kind


def _tree(node: object) -> Tree[Token]:
    assert isinstance(node, Tree)
    return node


def _trees(nodes: Sequence[object]) -> list[Tree[Token]]:
    return [node for node in nodes if isinstance(node, Tree)]


def format_file(text: str, path: str = "<rules>") -> str:
    """Give every rule of a file the one spelling; comments inside a rule move to the one above.

    Raises RuleError where the text holds no rules.
    """
    lines = text.splitlines()
    trees = parse_trees(text, path)
    for rule, tree in reversed(list(zip(parse_rules(text, path), trees, strict=True))):
        start, end = _block(lines, rule)
        moved = [f"# {said}" for line in lines[start:end] if (said := _comment(line))]
        lines[start:end] = [*moved, *formatted(tree)]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def cut_rule(text: str, rule: Rule) -> tuple[str, str]:
    """Take a rule and its comment out of the text of its file; return both, and what is left."""
    lines = text.splitlines()
    start, end = _block(lines, rule)
    start -= len(rule.comment.splitlines())
    before = lines[:start]
    while before and not before[-1].strip():
        before.pop()
    after = lines[end:]
    while after and not after[0].strip():
        after.pop(0)
    parts = ["".join(f"{line}\n" for line in part) for part in (before, after) if part]
    return "".join(f"{line}\n" for line in lines[start:end]), "\n".join(parts)


def _block(lines: list[str], rule: Rule) -> tuple[int, int]:
    """Find where a rule starts and ends: its first line, and one past its last clause."""
    start = rule.line - 1
    end = start + 1
    for i in range(start + 1, len(lines)):
        code = _code(lines[i]).strip()
        if code.startswith("rule ") or code == "rule":
            break
        if code:
            end = i + 1
    return start, end


def _code(line: str) -> str:
    """Give a line without its comment."""
    quoted = False
    for i, letter in enumerate(line):
        if letter == '"':
            quoted = not quoted
        elif letter == "#" and not quoted:
            return line[:i]
    return line


def _comment(line: str) -> str:
    return line[len(_code(line)) + 1 :].strip()
