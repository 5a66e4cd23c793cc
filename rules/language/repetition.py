"""Repeated nodes: `*B = each Relu(*A)` is as many nodes as `*A` has items, one for each.

`*B = each t < k Slice(X, [t], [t + 1])` is k nodes, which know their number t.

How many there are the model says. For a number of them the rule is one like any other, with a node
and a name for each item: `unrolled` writes it out, for the prover as for the matcher, so that
nothing else knows of repetition. In a declared shape `_` is a size of each item's own; all other
names agree, as they do everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from itertools import chain

from ...catalog.terms.syntax_tree import (
    Binary,
    Call,
    Expression,
    ListOf,
    Literal,
    Name,
)
from .syntax import Alias, Input, Operand, Output, PatternNode, Rule, Star

ANY_SIZE = Name("_")
# The words for sets of types.
_SEVERAL_TYPES = {"float", "int", "number"}


@cache
def repeated_lists(rule: Rule) -> tuple[str, ...]:
    """The lists whose items have a node each, in order of occurrence; all are of one length."""
    lists: dict[str, None] = {}
    for node in (*rule.match, *rule.rewrite, *rule.correct):
        if node.each and node.count is None:
            lists |= dict.fromkeys(i.value for i in node.inputs if i.star and i.value)
            lists |= dict.fromkeys(output.value for output in node.outputs)
    return tuple(lists)


def repeats(rule: Rule) -> bool:
    """Whether some node of a rule is repeated for the items of a list."""
    return bool(repeated_lists(rule))


@cache
def numbered_lists(rule: Rule) -> tuple[str, ...]:
    """The lists that a right side makes of nodes with a number; all are of one length."""
    numbered_nodes = (node for node in rule.rewrite if node.count is not None)
    return tuple(output.value for node in numbered_nodes for output in node.outputs)


def count_of(rule: Rule) -> Expression | None:
    """How many nodes with a number there are of each; None where there are none."""
    return next((node.count for node in rule.rewrite if node.count is not None), None)


def expressions_of_node(node: PatternNode) -> Iterator[Expression]:
    """What a node says in expressions; of several with a number, what the first of them does."""
    if node.count is not None:
        yield node.count
    for _, expression in node.attributes:
        yield _numbered(expression, node.index, 0)
    for item in node.inputs:
        if item.literal is not None:
            yield _numbered(item.literal, node.index, 0)


def gathers(rule: Rule) -> bool:
    """Whether a rule matches any number of nodes, of which each by itself may do."""
    return any(node.each for node in rule.match)


def own_sizes(rule: Rule) -> set[str]:
    """The names that sizes of each item's own have in the rule for one item."""
    return {
        size.text
        for operand, single in zip(rule.operands, of_one(rule).operands, strict=True)
        for size, before in zip(single.shape or (), operand.shape or (), strict=True)
        if before == ANY_SIZE and isinstance(size, Name)
    }


def item_name(name: str, item: int) -> str:
    """The name of an item of a list."""
    return f"{name}.{item}"


def pattern(rule: Rule) -> Rule:
    """What is looked for in a graph: a rule that gathers nodes is first found at one of them."""
    return of_one(rule) if gathers(rule) else rule


@cache
def unrolled(rule: Rule, count: int) -> Rule:
    """The rule for so many items, without repeated nodes."""
    names = {name: tuple(item_name(name, i) for i in range(count)) for name in repeated_lists(rule)}
    return replace(_written_out(rule, names, f"{rule.hash} of {count}"), items=count)


@cache
def with_numbers(rule: Rule, count: int) -> Rule:
    """The rule where there are so many nodes with a number, a node and a name for each."""
    names = {name: tuple(item_name(name, i) for i in range(count)) for name in numbered_lists(rule)}
    return _written_out(rule, names, f"{rule.hash} of {count} with numbers")


@cache
def of_one(rule: Rule) -> Rule:
    """The rule for one item, which bears the name of its list."""
    names = {name: (name,) for name in repeated_lists(rule)}
    return _written_out(rule, names, f"{rule.hash} of one")


def _written_out(rule: Rule, names: Mapping[str, tuple[str, ...]], hash_: str) -> Rule:
    say = partial(_said, names)

    def nodes(pattern_nodes: tuple[PatternNode, ...]) -> tuple[PatternNode, ...]:
        return tuple(chain(*(_nodes(node, names) for node in pattern_nodes)))

    return replace(
        rule,
        operands=tuple(chain(*(_operands(operand, names) for operand in rule.operands))),
        given=(*map(say, rule.given), *_types_agree(rule, names)),
        match=nodes(rule.match),
        rewrite=nodes(rule.rewrite),
        correct=nodes(rule.correct),
        aliases=tuple(chain(*(_aliases(alias, names) for alias in rule.aliases))),
        region=None if rule.region is None else say(rule.region),
        hash=hash_,
    )


def _types_agree(rule: Rule, names: Mapping[str, tuple[str, ...]]) -> list[Expression]:
    """That the items of a list which may be of several types are of one: they are declared once."""
    return [
        Binary("=", Call("dtype", (Name(item),)), Call("dtype", (Name(first),)))
        for operand in rule.operands
        if len(operand.dtypes) > 1 or set(operand.dtypes) & _SEVERAL_TYPES
        for first, *others in [names.get(operand.name, (operand.name,))]
        for item in others
    ]


def _nodes(node: PatternNode, names: Mapping[str, tuple[str, ...]]) -> list[PatternNode]:
    """One node for each item, or the one node with the items of lists one by one."""
    attributes = tuple((name, _said(names, value)) for name, value in node.attributes)
    if not node.each or node.name not in names:
        inputs = tuple(chain(*(_inputs(item, names) for item in node.inputs)))
        outputs = tuple(
            item_output
            for output in node.outputs
            for item_output in (
                map(Output, names[output.value])
                if output.star and output.value in names
                else (output,)
            )
        )
        name = outputs[0].value if outputs else node.name
        return [replace(node, name=name, attributes=attributes, inputs=inputs, outputs=outputs)]
    nodes = []
    for i, name in enumerate(names[node.name]):
        inputs = tuple(
            replace(item, value=names[item.value][i], star=False)
            if item.star and item.value is not None and item.value in names
            else replace(
                item,
                value=_literal_name(item, name, node.name),
                literal=None if item.literal is None else _numbered(item.literal, node.index, i),
            )
            for item in node.inputs
        )
        outputs = tuple(Output(names[output.value][i]) for output in node.outputs)
        nodes.append(
            replace(
                node,
                name=name,
                inputs=inputs,
                outputs=outputs,
                attributes=tuple((key, _numbered(v, node.index, i)) for key, v in attributes),
                each=False,
                index="",
                count=None,
            )
        )
    return nodes


def _literal_name(item: Input, name: str, node: str) -> str | None:
    """The name that a literal of a pattern has at one of several nodes."""
    if item.literal is None or item.value is None or name == node:
        return item.value
    return f"{name}:{item.value}"


def _inputs(item: Input, names: Mapping[str, tuple[str, ...]]) -> tuple[Input, ...]:
    if item.star and item.value is not None and item.value in names:
        return tuple(map(Input, names[item.value]))
    if item.literal is not None:
        return (replace(item, literal=_said(names, item.literal)),)
    return (item,)


def _operands(operand: Operand, names: Mapping[str, tuple[str, ...]]) -> list[Operand]:
    operands = []
    for name in names.get(operand.name, (operand.name,)):
        shape = operand.shape
        if shape is not None and operand.name in names:
            shape = tuple(
                Name(f"{name}_{axis}") if size == ANY_SIZE else size
                for axis, size in enumerate(shape)
            )
        operands.append(replace(operand, name=name, shape=shape))
    return operands


def _aliases(alias: Alias, names: Mapping[str, tuple[str, ...]]) -> list[Alias]:
    if alias.output not in names:
        return [replace(alias, source=source) for source in _inputs(alias.source, names)]
    sources = _inputs(alias.source, names)
    return [
        replace(alias, output=output, source=source)
        for output, source in zip(names[alias.output], sources, strict=True)
    ]


def _said(names: Mapping[str, tuple[str, ...]], part: Expression) -> Expression:
    """An expression about lists as one about their items."""
    say = partial(_said, names)
    match part:
        case Call("sizes", (Name(text) | Star(text), place)) if text in names:
            return ListOf(tuple(Call("dim", (Name(item), say(place))) for item in names[text]))
        case Call("len", (Name(text) | Star(text),)) if text in names:
            return Literal(len(names[text]))
    return part.with_parts(say)


def _numbered(part: Expression, index: str, number: int) -> Expression:
    """An expression of one of several nodes, which is the one of this number."""
    if not index:
        return part
    if part == Name(index):
        return Literal(number)
    return part.with_parts(lambda inner: _numbered(inner, index, number))
