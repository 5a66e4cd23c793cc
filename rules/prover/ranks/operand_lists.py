"""Lists of operands: from a few entries to any number, by joining neighbours.

Take a match in which `*A` stands for more operands than were tried, and join two neighbours, A and
A' to Concat(A, A'), until it stands for as many as the most that were: that match was proved. Where
the list only enters Concats, or leaves Splits, both sides are the same after joining as before:
Concat(.., A, A', ..) = Concat(.., Concat(A, A'), ..) along the same axis, and the parts of a Split
are those of their Concat. So a list must be joined along one axis wherever it stands, and a Split
that the match finds must be one whose parts may have any sizes: joined parts are not as large as
the others. What else a rule says of such a list must not tell the joined list from the other: sums
of sizes, and lists of sizes that are handed on to a Split, don't.

That an operator treats the entries of a list alike is read from its specification: it may go
through them, add the sizes up, or those of the entries before one, and name no entry by a number.
What isn't understood isn't alike.

So it is with the parts of a Split that a pattern doesn't name: joined to one, they leave the named
parts as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial

from onnx import defs

from ....catalog.operators import Specification, specification
from ....catalog.operators import syntax as spec
from ....catalog.terms.syntax_tree import (
    Binary,
    Call,
    Expression,
    Index,
    ListOf,
    Literal,
    Name,
    Unary,
    walk,
)
from ...language.conditions import bindings
from ...language.rank_bounds import measure_of
from ...language.schemas import EARLIEST_OPSET
from ...language.syntax import PatternNode, Rule, Star

# The first operator set in which the sizes of a Split's parts are an input.
_SIZES_ARE_INPUT = 13


def any_number_follows(rule: Rule, name: str, longest: int) -> bool:
    """Whether any number of entries of an operand list follows from the numbers tried.

    `name` is "len(A)", or "outputs(Y)" of outputs that nothing reads; `longest` the most entries
    tried.
    """
    lists = bindings(rule).lists
    if measure_of(name)[0] == "outputs":
        return longest >= 1 and _joins_unused(rule, measure_of(name)[1])
    if measure_of(name)[0] != "len" or measure_of(name)[1] not in lists:
        return False
    if longest < 2 or not all(map(_only_joins, (*rule.match, *rule.rewrite, *rule.correct))):
        return False
    for node in (*rule.rewrite, *rule.correct):
        if _gives_list(node) and (len(node.inputs) < 2 or node.inputs[1].optional):
            return False  # parts of one size, which joined parts are not
    if not _along_one_axis(rule) or not all(map(partial(_any_sizes, rule), rule.match)):
        return False
    sizes = {n.inputs[1].value for n in rule.match if _gives_list(n) and len(n.inputs) > 1}
    return all(_sees_sums(part, set(lists), sizes) for part in expressions_of(rule))


def _joins_unused(rule: Rule, name: str) -> bool:
    """Whether parts of a Split that nothing reads may be one part: of as many elements as all.

    The rule must say nothing of the sizes of parts, which then are others, and told as a list:
    parts of one size are parts of listed sizes too.
    """
    node = next(candidate for candidate in rule.match if candidate.name == name)
    others = [n for n in (*rule.match, *rule.rewrite, *rule.correct) if n is not node]
    if node.operators != ("Split",) or not alike_everywhere("Split") or len(node.inputs) != 2:
        return False
    sizes = node.inputs[1].value
    if sizes is None or any(item.value == sizes for other in others for item in other.inputs):
        return False
    if any(attribute != "axis" for attribute, _ in node.attributes):
        return False
    if node.rest is not None and any(other.rest == node.rest for other in others):
        return False
    said = {
        part.text
        for expression in expressions_of(rule)
        for part in walk(expression)
        if isinstance(part, Name | Star)
    }
    sourced = any(alias.source.value == sizes for alias in rule.aliases)
    return sizes not in said and not sourced and rule.operand(sizes).shape is None


def _gives_list(node: PatternNode) -> bool:
    return any(output.star for output in node.outputs)


def _only_joins(node: PatternNode) -> bool:
    """Whether a node does nothing with lists but to put them together or to take them apart."""
    if any(item.star for item in node.inputs):
        return node.operators == ("Concat",) and alike_everywhere("Concat")
    if _gives_list(node):
        return node.operators == ("Split",) and alike_everywhere("Split")
    return True


def _any_sizes(rule: Rule, node: PatternNode) -> bool:
    """Whether the parts of a Split that the match finds may have any sizes, in any operator set.

    Up to 12 an attribute tells them, which may stand in `*rest`; then an input.
    """
    if not _gives_list(node):
        return True
    has_attribute = node.rest is not None or "split" in dict(node.attributes)
    old = rule.opset_from is None or rule.opset_from < _SIZES_ARE_INPUT
    new = rule.opset_to is None or rule.opset_to >= _SIZES_ARE_INPUT
    return (has_attribute or not old) and (len(node.inputs) > 1 or not new)


def _along_one_axis(rule: Rule) -> bool:
    """Whether the lists of a rule are put together and taken apart along one axis.

    The axes may have several names where a condition says of a tensor beside the lists that they
    are one axis of it.
    """
    nodes = [
        node
        for node in (*rule.match, *rule.rewrite, *rule.correct)
        if _gives_list(node) or any(item.star for item in node.inputs)
    ]
    beside = {name for node in nodes for name in _data(node)}
    axes: list[Expression] = [dict(node.attributes).get("axis", Literal(0)) for node in nodes]
    same = axes[:1]
    for same_axis in same:  # grows as names of the same axis are found
        for condition in rule.given:
            match condition:
                case Binary("=", Call("axis", (i, Name(x))), Call("axis", (j, Name(y)))):
                    if x == y and x in beside and same_axis in (i, j):
                        same += [other for other in (i, j) if other not in same]
    return all(axis in same for axis in axes)


def _data(node: PatternNode) -> Iterator[str]:
    """The single tensors that a Concat or a Split reads or gives, of the rank of its lists."""
    data = node.inputs if node.op_type == "Concat" else node.inputs[:1]
    yield from (item.value for item in data if item.value is not None and not item.star)
    yield from (output.value for output in node.outputs if not output.star)


def expressions_of(rule: Rule) -> Iterator[Expression]:
    """Everything that a rule says in expressions."""
    yield from rule.given
    for operand in rule.operands:
        yield from operand.shape or ()
    if rule.region is not None:
        yield rule.region
    for node in (*rule.match, *rule.rewrite, *rule.correct):
        yield from (expression for _, expression in node.attributes)
        for item in node.inputs:
            if item.literal is not None:
                yield item.literal
    for alias in rule.aliases:
        if alias.source.literal is not None:
            yield alias.source.literal


def _sees_sums(part: Expression, lists: set[str], sizes: set[str | None]) -> bool:
    """Whether an expression means the same when neighbours in lists are joined.

    `sizes` are the operands that list the sizes of parts.
    """
    match part:
        case Call("sum", (Call("sizes", (_, place)),)):
            return _sees_sums(place, lists, sizes)
        case Binary("=" | "++", left, right):
            return all(
                _is_handed_on(p, lists, sizes) or _sees_sums(p, lists, sizes) for p in (left, right)
            )
        case Call("sizes"):
            return False
        case Call("ints", (Name(text),)):
            return text not in sizes
        case Call("len", (Name(text) | Star(text),)):
            return text not in lists
        case Call("take" | "drop"):
            return _is_handed_on(part, lists, sizes) or _every(part.arguments, lists, sizes)
        case Call(_, arguments):
            return _every(arguments, lists, sizes)
        case Index(of, items):
            return _every((of, *items), lists, sizes)
        case ListOf(items):
            return _every(items, lists, sizes)
        case Unary(_, operand):
            return _sees_sums(operand, lists, sizes)
        case Binary(_, left, right):
            return _every((left, right), lists, sizes)
        case Name(text) | Star(text):
            return text not in lists
        case Literal():
            return True
    return False


def _every(items: tuple[Expression, ...], lists: set[str], sizes: set[str | None]) -> bool:
    return all(_sees_sums(item, lists, sizes) for item in items)


def _is_handed_on(part: Expression, lists: set[str], sizes: set[str | None]) -> bool:
    """Whether a list of sizes has an entry for each entry of lists, whole or cut at their ends."""
    match part:
        case Call("sizes", (_, place)):
            return _sees_sums(place, lists, sizes)
        case Call("ints", (Name(text),)):
            return text in sizes
        case Call("take" | "drop", (listed, Call("len", (Name(text) | Star(text),)))):
            return text in lists and _is_handed_on(listed, lists, sizes)
        case Call(
            "drop", (listed, Binary("+", Call("len", (Name(text) | Star(text),)), Literal(1)))
        ):
            return text in lists and _is_handed_on(listed, lists, sizes)
        case Binary("++", left, right):
            return all(_is_handed_on(p, lists, sizes) for p in (left, right))
        case _:
            return False


# --------------------------------------------------------------------------------- operators


@cache
def alike_everywhere(operator: str) -> bool:
    """Whether an operator treats the entries of lists alike in every operator set."""
    numbers = range(EARLIEST_OPSET, defs.onnx_opset_version() + 1)
    versions = [version for n in numbers if (version := specification("", operator, n)) is not None]
    return bool(versions) and all(block_alike(b) for version in versions for b in version.blocks)


def block_alike(block: spec.Operator) -> bool:
    """Whether a text treats the entries of its lists of inputs or outputs alike."""
    shapes = [input_.shape for input_ in block.inputs if input_.variadic]
    shapes += [output.shape for output in block.outputs if output.variadic]
    entry_names = {entry.name for shape in shapes for entry in shape if entry.kind == "each"}
    lists = {name for name in entry_names if name} | {
        input_.name for input_ in block.inputs if input_.variadic
    }
    if not lists:
        return False
    expressions: list[Expression] = [require.condition for require in block.requires]
    expressions += [let.expression for let in block.lets if let.name not in lists]
    shapes_made = [output.shape for output in block.outputs] + [
        local.shape for local in block.locals
    ]
    expressions += [
        entry.expression for shape in shapes_made for entry in shape if entry.kind != "each"
    ]
    entries = {value.each for value in block.values if value.each is not None}
    return all(_alike(expression, lists, frozenset()) for expression in expressions) and all(
        _alike(value.expression, lists, frozenset(entries)) for value in block.values
    )


def _alike(part: Expression, lists: set[str], entries: frozenset[str]) -> bool:
    """Whether an expression tells no entry of a list from another; `entries` are their numbers."""
    match part:
        case Name(name):
            return name not in lists and name not in entries
        case Call("total", (Name(name),)) if name in lists:
            return True
        case Call("total", (spec.Slice(Name(name), None, Name(last)),)):
            return name in lists and last in entries
        case Binary("=", Call("length", (Name(name),)), Name("outputs")):
            return name in lists
        case Index(Name(name), (Name(entry),)) if name in lists:
            return entry in entries
        case spec.Reduction("pick", (spec.Over(name, values), *items), body):
            if not _is_range(values, lists):
                return False
            inner = entries | {name}
            return all(
                _alike(operand, lists, inner) for operand in (*map(spec.expression_of, items), body)
            )
        case spec.Reduction() | spec.Comprehension():
            return False
        case _:
            return all(_alike(part, lists, entries) for part in part.parts)


def _is_range(values: Expression, lists: set[str]) -> bool:
    match values:
        case Call("range", (Call("length", (Name(name),)),)):
            return name in lists
        case _:
            return False


# ------------------------------------------------------------------------- in whatever order

# What may be made of a list in any order, and of any part of it first.
_IN_ANY_ORDER = ("sum", "max", "min")


def joining(meaning: Specification) -> str | None:
    """How an operator joins the elements of its inputs; None unless they may be in any order."""
    kinds = {_joining(block) for block in meaning.blocks}
    return kinds.pop() if len(kinds) == 1 else None


def _joining(block: spec.Operator) -> str | None:
    lists = [input_.name for input_ in block.inputs if input_.variadic]
    if len(lists) != 1 or block.lets or block.requires or block.locals or len(block.values) != 1:
        return None
    match block.values[0].expression:
        case spec.Reduction(kind, (spec.Over(item, Name(listed)),), Name(body)):
            return kind if [listed] == lists and item == body and kind in _IN_ANY_ORDER else None
        case _:
            return None


@cache
def joins_in_any_order(operator: str, opset_from: int | None, opset_to: int | None) -> bool:
    """Whether an operator joins the elements of its inputs in any order in some operator sets."""
    last = min(opset_to or defs.onnx_opset_version(), defs.onnx_opset_version())
    numbers = range(opset_from or EARLIEST_OPSET, last + 1)
    versions = [specification("", operator, number) for number in numbers]
    return bool(versions) and all(
        version is not None and joining(version) is not None for version in versions
    )
