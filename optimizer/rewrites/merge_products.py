"""Products of several operands with one constant matrix, made one product of all their rows.

What a recurrence does to its inputs at each step, or a model to several inputs alike, multiplies
few rows at a time by a matrix that is read again each time; with so few rows, reading it is what
takes the time. Merging two by two may not pay where all together do, so this is a plan of its own.
The rules that gather any number of products are in rules/matmul.rules, of the tag `pass`; here is
where they pay, and which products may come together: none of them waits for another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from math import prod

from ...rules import Match, Rule, check_conditions, promise
from ...rules.compiler.match_rows import match_of_all
from ...rules.language.repetition import gathers
from ..graph.graph import Graph, TensorType
from ..graph.simplify import share_subexpressions
from ..match.matcher import Matcher
from ..match.rewrite import RewriteError, Step, apply_match

# The rule that makes a matrix of an operand of any rank, for the others to gather.
AS_MATRIX = "ConvertMatMulToMatrix"
# What the names of rules begin with that gather products with one matrix.
MERGING = ("MergeMatMulsOf", "MergeGemmsOf", "MergeGemmsWithBiasOf")
# With more rows, reading the matrix is no longer what takes the time; above so many merges, each of
# which sorts the graph anew, the others are left.
MOST_ROWS, MOST_MERGES = 16, 100


def merge_products(
    graph: Graph, types: Mapping[int, TensorType], rules: Sequence[Rule]
) -> list[Step]:
    """Merge products of few rows with the same constant matrix, in place, by some of the rules.

    `types` are those under the sizes that costs are asked for: they say how many rows are few.
    """
    used = Counter(
        node.inputs[1] for node in graph.nodes.values() if node.operator in ("MatMul", "Gemm")
    )
    if not any(count > 1 and matrix in graph.constants for matrix, count in used.items()):
        return []
    merging = Matcher([rule for rule in rules if gathers(rule) and rule.name.startswith(MERGING)])
    _convert(graph, types, Matcher([rule for rule in rules if rule.name == AS_MATRIX]))
    steps: list[Step] = []
    refused: set[tuple[int, ...]] = set()
    while True:
        round_steps = _round(graph, types, merging, refused, MOST_MERGES - len(steps))
        if not round_steps:
            break
        steps += round_steps
    share_subexpressions(graph)  # what several matrices multiply is joined once
    return steps


def _convert(graph: Graph, types: Mapping[int, TensorType], rows_of: Matcher) -> None:
    """Make matrices of operands of any rank where there is another product for theirs to join."""
    matches = [match for match in rows_of.find(graph) if _is_few(graph, match, types)]
    converted = {_product(match): match for match in matches}
    alike: dict[tuple[object, ...], list[int]] = {}
    for number, node in graph.nodes.items():
        if node.operator == "MatMul" and node.inputs[1] in graph.constants:
            alike.setdefault((node.inputs[1], graph.dtype(node.inputs[0])), []).append(number)
    for numbers in alike.values():
        levels = [level for level in _independent(graph, numbers) if len(level) > 1]
        for number in (number for level in levels for number in level):
            shape = graph.shape(graph.nodes[number].inputs[0]) or ()
            if number in converted and len(shape) > 2:
                _apply(graph, converted[number])


def _round(
    graph: Graph,
    types: Mapping[int, TensorType],
    merging: Matcher,
    refused: set[tuple[int, ...]],
    most: int,
) -> list[Step]:
    """Merge what can be merged at once: no product that reads what another merge has replaced."""
    steps: list[Step] = []
    touched: set[int] = set()
    for rule, group in merging.groups(graph):
        few = {_product(match): match for match in group if _is_few(graph, match, types)}
        few = {number: match for number, match in few.items() if number in graph.nodes}
        for level in _independent(graph, few):
            match = match_of_all(rule, [few[number] for number in level])
            key = tuple(sorted(level))
            if len(level) < 2 or key in refused or touched & set(match.values.values()):
                continue
            if len(steps) == most or check_conditions(match, graph) is not None:
                continue
            names = tuple(graph.node_name(number) for number in level)
            matrix = graph.names[match.values["W"]]
            moves = _apply(graph, match)
            if moves is None:
                refused.add(key)
                continue
            added, moved = moves
            touched |= set(moved)
            reason = f"{len(level)} products with {matrix}"
            kept, said = promise(match.rule), match.rule.summary
            steps.append(Step(rule.name, names, len(level), added, True, reason, kept, said))
    return steps


def _apply(graph: Graph, match: Match) -> tuple[int, Mapping[int, int]] | None:
    """Apply a match: how many nodes were added, and which values replaced; None where refused."""
    try:
        added, moved = apply_match(graph, match)
    except RewriteError:
        return None
    return len(added), moved


def _product(match: Match) -> int:
    """The node of a match at a single product."""
    (number,) = match.nodes.values()
    return number


def _is_few(graph: Graph, match: Match, types: Mapping[int, TensorType]) -> bool:
    """Whether a product has few rows, under the sizes that costs are asked for."""
    rows = match.values["X"]
    bound = types.get(rows) or graph.types.get(rows)  # of what is a matrix now all sizes are known
    if bound is None or bound.shape is None:
        return False
    sizes = bound.shape[:-1]
    return all(isinstance(size, int) for size in sizes) and 0 < prod(map(int, sizes)) <= MOST_ROWS


def _independent(graph: Graph, products: Collection[int]) -> list[list[int]]:
    """Sort products by how many of them come one after the other before each."""
    before: dict[int, int] = {}
    levels: dict[int, list[int]] = {}
    for number in graph.order() if len(products) > 1 else ():
        node = graph.nodes[number]
        depth = max((before.get(value, 0) for value in node.reads), default=0)
        if number in products:
            levels.setdefault(depth, []).append(number)
            depth += 1
        before.update(dict.fromkeys(node.outputs, depth))
    return [levels[depth] for depth in sorted(levels)]
