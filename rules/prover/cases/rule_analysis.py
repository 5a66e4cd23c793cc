"""What the text of a rule says of its cases before one is made up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from string import ascii_lowercase

from ....catalog.operators import Specification, instantiate
from ....catalog.operators import syntax as spec
from ....catalog.operators.definition import functions, texts
from ....catalog.terms.syntax_tree import Binary, Call, Expression, Literal, Name, Unary, walk
from ...language.conditions import Holds, IsComputable, conditions
from ...language.expressions import names_in, operands_in
from ...language.schemas import VARIADIC, versions
from ...language.syntax import PatternNode, Rule
from .enumeration import NoCaseError

_OTHER_LETTERS = str.maketrans(ascii_lowercase, ascii_lowercase[13:] + ascii_lowercase[:13])
# Of the parts of a described shape, those that stand for any number of dimensions.
FREE = ("star", "broadcast", "any")


@cache
def asked(rule: Rule) -> Mapping[int, tuple[bool, set[str], set[str]]]:
    """What each condition of a rule asks about, by its identity: operands, and names.

    First, whether it asks for types alone, which are there from the start.
    """
    subjects = {}
    for condition in conditions(rule):
        if isinstance(condition, Holds):
            inner = walk(condition.expression)
            called = {part.function for part in inner if isinstance(part, Call)}
            operands, names = operands_in(condition.expression), names_in(condition.expression)
            subjects[id(condition.expression)] = (
                called == {"dtype"} and not names,
                operands,
                names,
            )
    return subjects


def repeats_outputs(operator: str) -> bool:
    """Whether an operator has as many outputs as a node names, Split for one."""
    return any(s.outputs and s.outputs[-1].option == VARIADIC for s in versions(operator))


@cache
def saturates(operator: str) -> bool:
    """Whether an operator cuts results off at the ends of their type, in any operator set."""
    domain, _, name = operator.rpartition(":")
    stated = (text for text in texts(name, domain) if isinstance(text, spec.Operator))
    waiting = [expression for text in stated for expression in spec.expressions(text)]
    called: set[str] = set()
    while waiting:
        for part in walk(waiting.pop()):
            if isinstance(part, Call) and part.function not in called:
                called.add(part.function)
                if part.function in functions():
                    waiting.append(functions()[part.function].expression)
    return "saturate" in called


def in_order(nodes: Iterable[PatternNode]) -> list[PatternNode]:
    """Nodes after those whose outputs they read."""
    waiting = list(nodes)
    pending_outputs = {o.value for node in waiting for o in node.outputs}
    done: list[PatternNode] = []
    while waiting:
        ready = [n for n in waiting if not any(i.value in pending_outputs for i in n.inputs)]
        if not ready:
            raise NoCaseError("the left side is a circle")
        for node in ready:
            done.append(node)
            pending_outputs -= {o.value for o in node.outputs}
            waiting.remove(node)
            break
    return done


@cache
def reach_windows(rule: Rule) -> set[str]:
    """The values that become, node by node, the data of a convolution or a pooling."""
    reached = {node.inputs[0].value for node in rule.match if windowed(node)}
    for node in reversed(in_order(rule.match)):
        if any(output.value in reached for output in node.outputs):
            reached |= {item.value for item in node.inputs}
    return {name for name in reached if name}


@cache
def permutes_once(rule: Rule) -> bool:
    """Whether one permutation is all that there is to choose beside a rank, or nearly."""
    names = {
        expression
        for node in rule.match
        for name, expression in node.attributes
        if name == "perm" and isinstance(expression, Name)
    }
    choosing = ("Reduce", "Squeeze", "Unsqueeze", "Slice", "Split", "Concat")
    return len(names) == 1 and not any(
        operator.startswith(choosing) for node in rule.match for operator in node.operators
    )


def of_any_rank(meaning: Specification, position: int, kinds: Sequence[str] = FREE) -> bool:
    """Whether an input may have any rank, as an operator is described."""
    return any(
        item.kind in kinds
        for block in meaning.blocks
        for item in block.inputs[min(position, len(block.inputs) - 1)].shape
    )


def left_out_is_a_case(meanings: Sequence[Specification], name: str) -> bool:
    """Whether leaving an attribute of `*rest` out is another case than any value given.

    `meanings` are the operators of the nodes that bear the rest, the first of them first. Each node
    takes its own default then, which may depend on what it reads: a Transpose reverses the axes
    that its operand has. A default that is one number at all nodes is a value like any other, and
    so is any default where one node alone bears the rest.
    """
    defaults = [_defaults(meaning, name) for meaning in meanings]
    if _REQUIRED in defaults[0]:
        return False
    if len(meanings) == 1:
        return _NONE in defaults[0]
    default_values = frozenset().union(*defaults)
    return len(default_values) > 1 or not default_values.isdisjoint((_NONE, _DEPENDS))


# What an attribute is where a node leaves it out, if not a number.
_REQUIRED, _NONE, _DEPENDS = "required", "none", "depends on the operands"


def _defaults(meaning: Specification, name: str) -> frozenset[str]:
    """What an operator takes for an attribute that is left out, in each of its texts."""
    attributes = [
        attribute
        for block in meaning.blocks
        for attribute in block.attributes
        if attribute.name == name
    ]
    return frozenset(map(_default, attributes)) or frozenset([_NONE])


def _default(attribute: spec.Attribute) -> str:
    if attribute.default is None:
        return _NONE if attribute.optional else _REQUIRED
    if any(isinstance(part, Name) for part in walk(attribute.default)):
        return _DEPENDS
    return repr(instantiate.evaluate(attribute.default, instantiate.Scope({}, functions())))


def windowed(node: PatternNode) -> bool:
    """Whether a node is a convolution or a pooling."""
    return any(part in node.op_type for part in ("Conv", "Pool"))


def decides(part: Expression) -> bool:
    """Whether an expression may hold though a part of it doesn't."""
    return isinstance(part, Unary) or (isinstance(part, Binary) and part.operator == "or")


@cache
def whole_numbers(rule: Rule) -> set[str]:
    """The constants whose elements must be known as integers, whatever their type."""
    asking = [e for e in rule.given if not any(map(decides, walk(e)))]
    asking += [c.expression for c in conditions(rule) if isinstance(c, IsComputable)]
    return {
        name
        for expression in asking
        for part in walk(expression)
        if isinstance(part, Call) and part.function == "ints"
        for name in operands_in(part)
    }


@cache
def progressions(rule: Rule) -> set[str]:
    """The constants that a condition says to be a range of integers."""
    names: set[str] = set()
    for expression in rule.given:
        match expression:
            case Binary("=", Call("ints", (Name(text),)), Call("range")):
                names.add(text)
            case Binary("=", Call("range"), Call("ints", (Name(text),))):
                names.add(text)
    return names


@cache
def types_said(rule: Rule) -> dict[str, set[str]]:
    """The types that conditions name, by the tensors whose types they ask for."""
    types_by_tensor: dict[str, set[str]] = {}
    for expression in rule.given:
        parts = list(walk(expression))
        names = [p.arguments[0] for p in parts if isinstance(p, Call) and p.function == "dtype"]
        types = {str(part.value) for part in parts if isinstance(part, Literal)}
        for name in names:
            if isinstance(name, Name):
                types_by_tensor.setdefault(name.text, set()).update(types)
    return types_by_tensor


@cache
def equations(rule: Rule) -> list[str]:
    """The Einsum equations that the conditions name, and each in other letters.

    `equation(e)` is the same in any letters; what else is said of `e` may not be.
    """
    named = [
        part.value
        for expression in rule.given
        for part in walk(expression)
        if isinstance(part, Literal) and isinstance(part.value, str) and "->" in part.value
    ]
    return list(
        dict.fromkeys([*named, *(equation.translate(_OTHER_LETTERS) for equation in named)])
    )
