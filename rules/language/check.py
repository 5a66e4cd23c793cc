"""What a rule must be before anything is asked about its truth: complete, typed, connected."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import NoReturn

from ...catalog.operators.contributed import DOMAINS
from ...catalog.terms.syntax_tree import Call, Expression, walk
from . import schemas
from .conditions import TYPE_SETS, bindings, optional_values
from .errors import RuleError, refuse_all
from .expressions import names_in, operands_in
from .functions import FUNCTIONS
from .repetition import expressions_of_node, gathers
from .syntax import Input, Output, PatternNode, Rule, Star

# never worse, weighed by the search, or applied where a pass of the optimizer asks for it by name
TAGS = ("always", "explore", "pass")
ELEMENT_TYPES = {*TYPE_SETS, *(t for types in TYPE_SETS.values() for t in types), "string"}
ELEMENT_TYPES |= {"bfloat16", "complex64", "complex128"}


def check_rule(rule: Rule) -> None:
    """Refuse a rule that can't mean anything; RuleError says what to change, of all that is seen.

    What is looked at later takes for granted what was looked at before.
    """
    nodes = chain(rule.match, rule.rewrite, rule.correct)
    operators = [partial(_check_operator, rule, node) for node in nodes]
    _all_of(partial(_check_words, rule), *operators)
    _all_of(partial(_check_match, rule))
    checks = (
        _check_operands,
        _check_rewrite,
        _check_numbers,
        _check_partial,
        _check_expressions,
    )
    _all_of(*(partial(check, rule) for check in checks))


def _all_of(*checks: Callable[[], None]) -> None:
    """Make all of these checks; raise what they found, together."""
    errors: list[RuleError] = []
    for check in checks:
        try:
            check()
        except RuleError as error:
            errors.append(error)
    refuse_all(errors)


def _refuse(rule: Rule, reason: str, hint: str, line: int = 0, column: int = 1) -> NoReturn:
    raise RuleError(rule.path, line or rule.line, column or 1, f"{rule.name}: {reason}", hint)


def _closest(word: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(known)[:12])}"


def _check_words(rule: Rule) -> None:
    if rule.tag not in TAGS:
        hint = "write `tags always`, `tags explore` or `tags pass`"
        _refuse(rule, f"unknown tag '{rule.tag}'", hint, *rule.place("tags"))
    if gathers(rule) and rule.tag != "pass":
        hint = "write `tags pass`: which of them are merged a pass of the optimizer says"
        _refuse(rule, "it matches any number of nodes", hint, *rule.place("tags"))
    if rule.equal not in ("exact", "rounding", "partial"):
        hint = "write `equal exact`, `equal rounding` or `equal partial except REGION`"
        _refuse(rule, f"unknown class '{rule.equal}'", hint, *rule.place("equal"))
    if rule.region is not None and rule.equal != "partial":
        _refuse(rule, "`except` and `partial` belong together", "write `equal partial except ...`")
    low, high = rule.opset_from, rule.opset_to
    if low is not None and high is not None and low > high:
        _refuse(rule, f"the opset range {low}..{high} is empty", "write the lower one first")


def _check_operator(rule: Rule, node: PatternNode) -> None:
    if node.choices:
        for operator in node.choices:
            _check_operator(rule, replace(node, op_type=operator, choices=()))
        return
    position = (node.line, node.column)
    if node.domain in DOMAINS and rule.target is None:
        hint = "say which runtime the rule is for: `target onnxruntime-cpu`"
        _refuse(rule, f"{node.operator} is no operator of ONNX", hint, *position)
    if node.domain not in ("", "ai.onnx.ml", *DOMAINS):
        return  # onnx has no schema of them
    known = schemas.versions(node.operator, rule.opset_from, rule.opset_to)
    if not known:
        if schemas.versions(node.operator):
            _refuse(rule, f"{node.operator} is not in these opsets", "widen `opset`", *position)
        hint = _closest(node.op_type, schemas.names(node.domain))
        _refuse(rule, f"there is no operator {node.operator}", hint, *position)
    attributes = schemas.attribute_names(node.operator, rule.opset_from, rule.opset_to)
    for name, _ in node.attributes:
        if name not in attributes:
            hint = _closest(name, attributes)
            _refuse(rule, f"{node.operator} has no attribute '{name}'", hint, *position)
    if len(node.inputs) > max(s.max_input for s in known):
        most = max(s.max_input for s in known)
        _refuse(rule, f"{node.operator} takes {most} inputs", "drop the others", *position)
    if len(node.outputs) > max(s.max_output for s in known):
        most = max(s.max_output for s in known)
        _refuse(rule, f"{node.operator} has {most} outputs", "drop the others", *position)
    if node.each:
        from_lists = node.count is not None or any(item.star for item in node.inputs)
        if not from_lists or not all(output.star for output in node.outputs):
            hint = "write `*B = each Op(*A)`, or `*B = each t < n Op(A)`: a node for each item"
            _refuse(rule, "`each` goes from lists to lists", hint, *position)
        return
    stars = [i for i in node.inputs if i.star]
    if stars and not schemas.is_variadic(node.operator):
        _refuse(rule, f"{node.operator} has no variable inputs", "name them one by one", *position)


def _check_match(rule: Rule) -> None:
    results: set[str] = set()
    for node in rule.match:
        for output in node.outputs:
            if output.value in results:
                hint = "give each output a name of its own"
                _refuse(rule, f"{output.value} is made twice", hint, node.line, node.column)
            results.add(output.value)
        _check_defaults(rule, node)
        sides: tuple[Sequence[Input | Output], ...] = (node.inputs, node.outputs)
        for side in sides:
            stars = [i for i, item in enumerate(side) if item.star and not node.each]
            if len(stars) > 2:
                _refuse(rule, "more than two lists at one node", "write `*A, X, *B`", node.line)
            if len(stars) == 2 and (stars[1] - stars[0] != 2 or stars != [0, 2] or len(side) != 3):
                hint = "two lists enclose exactly one operand: `*A, X, *B`"
                _refuse(rule, f"can't match the operands of {node.name}", hint, node.line)
            if len(stars) == 1 and stars[0] != len(side) - 1:
                hint = "one list stands last: `X, *B`"
                _refuse(rule, f"can't match the operands of {node.name}", hint, node.line)
    if any(node.count is not None for node in (*rule.match, *rule.correct)):
        hint = "write `each Op(*A)`: how many there are the model says"
        _refuse(rule, "nodes with a number are made, and not found", hint)
    if len(rule.match) > 1:
        _check_connected(rule)
    if not rule.outputs:
        hint = "bind at least one name of the match again in the rewrite"
        _refuse(rule, "nothing of the match is replaced", hint)


def _check_defaults(rule: Rule, node: PatternNode) -> None:
    if node.rest is not None or node.domain:
        return
    for operator in node.operators:
        defaults = schemas.attribute_defaults(operator, rule.opset_from, rule.opset_to)
        for name, values in defaults.items():
            if len(values) > 1 and name not in dict(node.attributes):
                shown = " or ".join(str(v) for v in sorted(values, key=str))
                hint = f"mention {name}, or narrow `opset`"
                reason = f"the default of {operator}'s {name} is {shown} depending on the opset"
                _refuse(rule, reason, hint, node.line, node.column)


def _values(node: PatternNode) -> set[str]:
    return {i.value for i in node.inputs if i.value} | {o.value for o in node.outputs}


def _check_connected(rule: Rule) -> None:
    reached, waiting = _values(rule.match[0]), list(rule.match[1:])
    while near := [n for n in waiting if _values(n) & reached]:
        for node in near:
            reached |= _values(node)
            waiting.remove(node)
    if waiting:
        node = waiting[0]
        hint = "let the nodes share a value, or write two rules"
        _refuse(rule, f"{node.name} is not connected to the rest", hint, node.line, node.column)


def _check_operands(rule: Rule) -> None:
    matched = {value for node in rule.match for value in _values(node)}
    optional = optional_values(rule)
    for operand in rule.operands:
        position = (operand.line, operand.column)
        if operand.name not in matched:
            hint = _closest(operand.name, matched)
            _refuse(rule, f"{operand.name} is not in the match", hint, *position)
        for name in operand.dtypes:
            if name not in ELEMENT_TYPES:
                _refuse(
                    rule, f"'{name}' is no element type", _closest(name, ELEMENT_TYPES), *position
                )
        if operand.default is not None and operand.name not in optional:
            hint = f"write {operand.name}? in the match"
            _refuse(rule, f"{operand.name} has a default but can't be absent", hint, *position)
        if sum(isinstance(size, Star) for size in operand.shape or ()) > 1:
            _refuse(rule, f"{operand.name} has two lists of dimensions", "keep one", *position)


def _check_rewrite(rule: Rule) -> None:
    matched = {value for node in rule.match for value in _values(node)}
    interior = {o.value for n in rule.match for o in n.outputs} - set(rule.outputs)
    for name in sorted(interior & set(bindings(rule).lists)):
        if not rule.operand(name).shared:
            hint = f"declare it in `given`: {name} shared"
            _refuse(rule, f"the values of *{name} may have other users", hint)
    optional = optional_values(rule)
    constants = {o.name for o in rule.operands if o.const}
    constants |= {i.value for n in rule.match for i in n.inputs if i.literal and i.value}
    results: set[str] = set()
    for node in rule.rewrite:
        position = (node.line, node.column)
        for item in node.inputs:
            if item.value is None:
                continue
            if item.value not in matched | results:
                reason = f"{item.value} is used before it is made"
                _refuse(rule, reason, _closest(item.value, matched | results), *position)
            _check_use(rule, item.value, results, interior, position)
            present = item.optional or item.value in results or item.value not in optional
            if not present and rule.operand(item.value).default is None:
                hint = f"write {item.value}?, or give it a `default` in `given`"
                _refuse(rule, f"{item.value} may be absent", hint, *position)
            if node.fold and item.value not in constants and item.value not in results:
                hint = f"declare {item.value} `const`, or move the line to `rewrite`"
                _refuse(rule, f"`fold` needs {item.value} to be constant", hint, *position)
        for output in node.outputs:
            if output.value in results:
                _refuse(rule, f"{output.value} is made twice", "rename one of them", *position)
            results.add(output.value)
    for alias in rule.aliases:
        position = (alias.line, alias.column)
        if alias.output not in rule.outputs or alias.output in results:
            hint = "the left name must be an output of the match, bound once"
            _refuse(rule, f"{alias.output} can't stand for another value", hint, *position)
        if alias.source.star != (alias.output in bindings(rule).lists):
            hint = "write `*B = *A` for lists, `Y = X` for values"
            _refuse(rule, f"{alias.output} is a list or it is none", hint, *position)
        if (source := alias.source.value) is not None:
            if source not in matched | results:
                _refuse(
                    rule, f"{source} is unknown", _closest(source, matched | results), *position
                )
            _check_use(rule, source, results, interior, position)
        results.add(alias.output)


def _check_numbers(rule: Rule) -> None:
    """Nodes with a number stand by themselves, in one list after the other of one length."""
    numbered = {(node.index, node.count) for node in rule.rewrite if node.count is not None}
    if not numbered:
        return
    if len(numbered) > 1 or any(
        node.each and node.count is None for node in (*rule.match, *rule.rewrite)
    ):
        hint = "give all of them one index and one bound, or write two rules"
        _refuse(rule, "it repeats nodes in several ways", hint)
    ((index, _),) = numbered
    if index in bindings(rule).variables():
        _refuse(rule, f"{index} stands for a number and for something else", "rename one of them")
    if any(node.fold for node in rule.rewrite if node.each):
        _refuse(rule, "nodes with a number are no constants", "move them to `rewrite`")


def _check_partial(rule: Rule) -> None:
    """A partial equivalence has one output; its correction makes that output anew."""
    if rule.equal == "partial" and len(rule.outputs) != 1:
        _refuse(rule, "a partial equivalence has one output", "write a rule for each output")
    if rule.region is not None:
        known = bindings(rule).variables()
        for name in sorted(names_in(rule.region) - known):
            if not (name.startswith("i") and name[1:].isdigit()):
                hint = "the indices of the output are i0, i1, …; sizes are those of `given`"
                _refuse(rule, f"nothing gives {name} a value", hint)
    if not rule.correct:
        return
    if rule.equal != "partial":
        _refuse(rule, "`correct` without a region", "write `equal partial except ...`")
    known = {value for node in (*rule.match, *rule.rewrite) for value in _values(node)}
    interior = {o.value for n in rule.match for o in n.outputs} - set(rule.outputs)
    for node in rule.correct:
        for item in node.inputs:
            position = (node.line, node.column)
            if item.value is not None and item.value not in known:
                _refuse(rule, f"{item.value} is unknown", _closest(item.value, known), *position)
            if item.value is not None and item.value not in rule.outputs:
                results = {o.value for n in (*rule.rewrite, *rule.correct) for o in n.outputs}
                _check_use(rule, item.value, results, interior, position)
        known |= {o.value for o in node.outputs}
    if rule.outputs[0] not in {o.value for node in rule.correct for o in node.outputs}:
        hint = f"write `{rule.outputs[0]} = ...` in it"
        _refuse(rule, "`correct` doesn't make the output", hint)


def _check_use(
    rule: Rule, value: str, results: set[str], interior: set[str], position: tuple[int, int]
) -> None:
    """An interior value dies with the match unless `given` says that it is shared."""
    if value in results:
        return
    if value in interior and not rule.operand(value).shared:
        hint = f"declare it in `given`: {value} shared"
        _refuse(rule, f"the rewrite uses {value}, which the match removes", hint, *position)
    if value in rule.outputs:
        hint = "an output of the match is what the rewrite must make anew"
        _refuse(rule, f"the rewrite uses {value} before it binds it", hint, *position)


def _expressions(rule: Rule) -> Iterator[tuple[Expression, int, int]]:
    for operand in rule.operands:
        for size in operand.shape or ():
            yield size, operand.line, operand.column
    for i, expression in enumerate(rule.given):
        yield expression, *rule.place(i)
    for node in chain(rule.match, rule.rewrite, rule.correct):
        for expression in expressions_of_node(node):
            yield expression, node.line, node.column


def _check_expressions(rule: Rule) -> None:
    matched = {value for node in rule.match for value in _values(node)}
    variables = bindings(rule).variables()
    for expression, line, column in _expressions(rule):
        for call in walk(expression):
            if not isinstance(call, Call):
                continue
            if call.function not in FUNCTIONS:
                hint = _closest(call.function, FUNCTIONS)
                _refuse(rule, f"there is no function {call.function}", hint, line, column)
            low, high = FUNCTIONS[call.function].arity
            if not low <= len(call.arguments) <= high:
                hint = f"write {FUNCTIONS[call.function].signature}"
                _refuse(rule, f"wrong number of arguments of {call.function}", hint, line, column)
        for name in sorted(operands_in(expression) - matched):
            _refuse(rule, f"{name} is not in the match", _closest(name, matched), line, column)
        for name in sorted(names_in(expression) - variables):
            hint = "bind it in a shape or as an attribute of the match"
            if name in matched:
                hint = f"declare {name} `scalar` to compute with its number"
            _refuse(rule, f"nothing gives {name} a value", hint, line, column)
    for node in rule.rewrite:
        if node.rest is not None and node.rest not in bindings(rule).rests:
            hint = "bind it in the match: Op<*a>(...)"
            _refuse(rule, f"*{node.rest} is unknown", hint, node.line, node.column)
