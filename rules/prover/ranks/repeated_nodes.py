"""Repeated nodes: any number of them, where what they do is done to all operands joined.

Let f act point by point along an axis: f(X)[.., i, ..] is made of the elements X[.., i, ..] and of
operands that have no such axis, alike for all i. Let C be the Concat of X1 .. Xn along that axis,
and s_t the sizes of X1 .. Xt-1 along it added up. By what Concat and Split are,

    f(C)[.., s_t + i, ..] = f(Xt)[.., i, ..]    for each i that Xt has,

since both are made of the same elements. So for every n

    f(Concat(X1, .., Xn)) = Concat(f(X1), .., f(Xn))
    Split(f(Concat(X1, .., Xn)), their sizes) = f(X1), .., f(Xn).

So it is of f(X, Y), of lists X1 .. Xn and Y1 .. Yn with as many elements along the axis in Xt as in
Yt, each joined.

Or let g move elements: g(X)[i] = X[h(i)], where the places h(i) depend on no element of X. An
operator that joins the elements of its inputs in any order, as Sum and Max do (operand_lists.py),
joins those of X1 .. Xn at one place, if they have one shape:

    Sum(g(X1), .., g(Xn)) = g(Sum(X1, .., Xn)).

A rule that says one of the three, in either direction, holds of any number of nodes. That its two
sides are of this form is read from its text: the same nodes, once repeated and once between a
Concat of each list and an output or a Split, along one axis. That they act point by point along the
axis is seen of the elements that the cases give, as it is for axes that are taken away
(slicing.py). That a Split of the right side is told the sizes of the parts is said by its text, or
they are declared to be equal. All cases of one node and of two were proved besides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ....catalog.operators.expand import Definition
from ....catalog.terms.index_notation import (
    Apply,
    Read,
    Select,
    Symbol,
    Term,
    Variable,
    children,
    elements,
    symbol_names,
    tensors_read,
)
from ....catalog.terms.syntax_tree import Call, Expression, Literal, Name, Unary
from ...language.repetition import ANY_SIZE, item_name, repeated_lists
from ...language.syntax import Input, Output, PatternNode, Rule, Star
from ..statement import Statement
from .operand_lists import alike_everywhere, joins_in_any_order
from .slicing import without

Nodes = tuple[PatternNode, ...]


def any_number_of_nodes(rule: Rule, statements: Sequence[Statement]) -> bool:
    """Whether a rule of repeated nodes holds of any number of them, by its cases of one."""
    if rule.correct or rule.aliases or rule.region is not None:
        return False
    if any(node.each for node in rule.match):
        repeated, whole = rule.match, rule.rewrite
    else:
        repeated, whole = rule.rewrite, rule.match
    if (listed := _list_that_is_moved(rule, repeated, whole)) is not None:
        return all(_moves_elements(listed, repeated[0], statement) for statement in statements)
    axis = _axis_of_sides(rule, repeated, whole)
    return axis is not None and all(
        _point_by_point(rule, axis, statement) for statement in statements
    )


def _axis_of_sides(rule: Rule, repeated: Nodes, whole: Nodes) -> Expression | None:
    """The axis along which one side does to operands joined what the other does to each.

    None where the sides are not of this form.
    """
    lists = set(repeated_lists(rule))
    joins = [node for node in whole if _joins_list(node, lists)]
    axis = dict(joins[0].attributes).get("axis") if joins else None
    alike = all(dict(join.attributes) == dict(joins[0].attributes) for join in joins)
    if axis is None or not alike or not alike_everywhere("Concat"):
        return None
    names = {join.inputs[0].value or "": join.outputs[0].value for join in joins}
    if len(names) != len(joins):
        return None
    done = [node for node in whole if node not in joins]
    if done and done[-1].op_type == "Split" and _is_list(done[-1].outputs):
        split = done.pop()
        end, parted = split.inputs[0].value or "", split.outputs[0].value
        if not alike_everywhere("Split") or dict(split.attributes).get("axis") != axis:
            return None
        if not any(_gives_parts_back(rule, split, listed, axis) for listed in names):
            return None
        same = repeated
    else:
        if not repeated or repeated[-1].op_type != "Concat" or not _is_list(repeated[-1].inputs):
            return None
        *inner, last = repeated
        if dict(last.attributes).get("axis") != axis or last.rest or len(last.outputs) != 1:
            return None
        end, parted = last.outputs[0].value, last.inputs[0].value or ""
        same = tuple(inner)
    if not all(node.each for node in same) or any(map(_speaks_of_lists, done)):
        return None
    if len(done) != len(same) or not done:
        return None
    names[parted] = end
    for node, other in zip(same, done, strict=True):
        names.setdefault(node.outputs[0].value, other.outputs[0].value)
        if _of_all(node, names) != _of_all(other, {}):
            return None
    return axis


def _list_that_is_moved(rule: Rule, repeated: Nodes, whole: Nodes) -> str | None:
    """The list of which one side joins what each item is moved to, and the other moves the join.

    None where the sides are not of this form.
    """
    if len(repeated) != 2 or len(whole) != 2:
        return None
    (move, join), (joined, moved) = repeated, whole
    lists = [item.value for item in move.inputs if item.star]
    shape = rule.operand(lists[0] or "").shape if lists else None
    if shape is None or ANY_SIZE in shape or any(isinstance(size, Star) for size in shape):
        return None
    if not move.each or any(map(_speaks_of_lists, (moved,))) or join.each or joined.each:
        return None
    if len(lists) != 1 or not _is_list(join.inputs) or not _is_list(joined.inputs):
        return None
    if (join.inputs[0].value, joined.inputs[0].value) != (move.outputs[0].value, lists[0]):
        return None
    names = {lists[0] or "": joined.outputs[0].value, move.outputs[0].value: join.outputs[0].value}
    if _of_all(move, names) != _of_all(moved, {}) or _alone(join) != _alone(joined):
        return None
    in_order = (rule.opset_from, rule.opset_to)
    if not all(joins_in_any_order(operator, *in_order) for operator in join.operators):
        return None
    return lists[0]


def _alone(node: PatternNode) -> PatternNode:
    """What a node does, whatever it reads and its result is called."""
    return replace(node, name="", inputs=(), outputs=(), fold=False)


def _moves_elements(listed: str, move: PatternNode, statement: Statement) -> bool:
    """Whether in one case each element of the first item's result is one of the item.

    Where it stands may depend on what else the node reads, and on no item of the list.
    """
    item, result = item_name(listed, 0), item_name(move.outputs[0].value, 0)
    for definition in statement.definitions:
        if definition.name in (result, f"{result}.new"):
            if not isinstance(definition.value, Read) or definition.value.tensor != item:
                return False
            read = {part.tensor for index in definition.value.indices for part in elements(index)}
            return not any(name.startswith(f"{listed}.") for name in read)
    return False


def _joins_list(node: PatternNode, lists: set[str]) -> bool:
    """Whether a node joins the items of a repeated list, and does nothing else."""
    if node.op_type != "Concat" or node.domain or node.rest or len(node.outputs) != 1:
        return False
    return _is_list(node.inputs) and node.inputs[0].value in lists


def _is_list(items: Sequence[Input | Output]) -> bool:
    return len(items) == 1 and items[0].star


def _speaks_of_lists(node: PatternNode) -> bool:
    return node.each or any(item.star for item in node.inputs)


def _of_all(node: PatternNode, names: Mapping[str, str]) -> PatternNode:
    """A repeated node as one of all items joined: each list is called what it is joined to."""
    return replace(
        node,
        name="",
        each=False,
        fold=False,
        inputs=tuple(
            replace(item, value=_value_of_all(item, names), star=False) for item in node.inputs
        ),
        outputs=tuple(Output(names.get(output.value, output.value)) for output in node.outputs),
    )


def _value_of_all(item: Input, names: Mapping[str, str]) -> str | None:
    """What an operand is called among all items joined: a literal is what it says."""
    return None if item.literal is not None else names.get(item.value or "", item.value)


def _gives_parts_back(rule: Rule, split: PatternNode, listed: str, axis: Expression | None) -> bool:
    """Whether a Split gives as many elements along the axis as each item of a list has."""
    if axis is None or split.rest is not None:
        return False
    sizes = Call("sizes", (Name(listed), axis))
    if len(split.inputs) == 2:
        return split.inputs[1].literal == sizes and dict(split.attributes).keys() == {"axis"}
    counted = dict(split.attributes).get("num_outputs")
    if counted not in (None, Call("len", (Name(listed),))):
        return False
    shape = rule.operand(listed).shape or ()
    if not isinstance(axis, Literal) or type(axis.value) is not int:
        return False
    if not 0 <= axis.value < len(shape):
        return False
    size = shape[axis.value]  # a name agrees wherever it stands
    return not any(isinstance(entry, Star) for entry in shape) and (
        isinstance(size, Name) and size != ANY_SIZE
    )


def _point_by_point(rule: Rule, axis: Expression, statement: Statement) -> bool:
    """Whether what is repeated acts point by point along the axis, in one case of a rule.

    The first item is looked at: its size along the axis has to be a symbol, of which nothing is
    supposed and nothing is made but the size of results.
    """
    number = _number(rule, axis, statement)
    shapes = {operand.name: operand.shape for operand in statement.operands}
    shapes |= {definition.name: definition.shape for definition in statement.definitions}
    suffix = "" if any(node.each for node in rule.match) else ".new"
    produced = {output.value for node in _repeated(rule) for output in node.outputs}
    first_items = [item_name(name, 0) for name in repeated_lists(rule) if name not in produced]
    places = {name: _place(number, shapes.get(name, ())) for name in first_items}
    sizes = {shapes[name][item_axis] for name, item_axis in places.items() if item_axis is not None}
    if None in places.values() or len(sizes) != 1:
        return False
    (size,) = sizes
    if not isinstance(size, Symbol):
        return False
    if any(size.name in symbol_names(assumption) for assumption in statement.assumptions):
        return False
    wanted = {item_name(name, 0) + suffix for name in produced}
    needed = _needed(statement.definitions, wanted)
    if not wanted <= shapes.keys():
        return False
    alike = {definition.name for definition in _alike_for_all(needed, places)}
    acting = [definition for definition in needed if definition.name not in alike]
    for name in (*first_items, *(definition.name for definition in acting)):
        item_axis = places.setdefault(name, _place(number, shapes[name]))
        if item_axis is None or shapes[name][item_axis] != size:
            return False
        if any(size.name in symbol_names(other) for other in without(shapes[name], item_axis)):
            return False
    for definition in needed:
        if definition.name in alike and size.name in symbol_names(definition.value):
            return False
    read = {name for definition in needed for name in tensors_read(definition.value)}
    for name in read - places.keys():
        if any(size.name in symbol_names(other) for other in shapes[name]):
            return False
    return all(
        _stays_in_place(
            definition.value,
            definition.indices[places[definition.name] or 0],
            size,
            places,
        )
        for definition in acting
    )


def _alike_for_all(
    definitions: Sequence[Definition], places: Mapping[str, int | None]
) -> list[Definition]:
    """The definitions, of some in order, that no item of a list has a part in: literals."""
    touched = set(places)
    untouched = []
    for definition in definitions:
        if touched.isdisjoint(tensors_read(definition.value)):
            untouched.append(definition)
        else:
            touched.add(definition.name)
    return untouched


def _repeated(rule: Rule) -> list[PatternNode]:
    return [node for node in (*rule.match, *rule.rewrite) if node.each]


def _number(rule: Rule, axis: Expression, statement: Statement) -> int | None:
    """The axis in one case: a number of the rule's text, or of the node that it is matched at."""
    match axis:
        case Literal(int() as number) | Unary("-", Literal(int() as number)):
            return number if isinstance(axis, Literal) else -number
        case Name() if statement.origin is not None:
            outputs = {
                node.name for node in rule.match if dict(node.attributes).get("axis") == axis
            }
            for node in statement.origin.nodes:
                value = node.attributes.get("axis")
                if node.outputs and node.outputs[0] in outputs and isinstance(value, int):
                    return value
    return None


def _place(number: int | None, shape: tuple[Term, ...]) -> int | None:
    """An axis counted from the front; None where there is no such axis."""
    rank = len(shape)
    return number % rank if number is not None and -rank <= number < rank else None


def _needed(definitions: Sequence[Definition], wanted: set[str]) -> list[Definition]:
    """The definitions that some tensors are made by, in order."""
    needed: list[Definition] = []
    for definition in reversed(definitions):
        if definition.name in wanted:
            wanted = wanted | tensors_read(definition.value)
            needed.append(definition)
    return needed[::-1]


def _stays_in_place(
    term: Term, index: Variable, size: Symbol, places: Mapping[str, int | None]
) -> bool:
    """Whether a value reads what has the axis at its own index of it, and says no more of either.

    An index may be 0 where the size is 1: it is then.
    """
    if term in (index, size):
        return False
    if isinstance(term, Read) and (place := places.get(term.tensor)) is not None:
        allowed = (index, Select(Apply("=", (size, 1)), 0, index))
        others = without(term.indices, place)
        return term.indices[place] in allowed and all(
            _stays_in_place(other, index, size, places) for other in others
        )
    return all(_stays_in_place(child, index, size, places) for child in children(term))
