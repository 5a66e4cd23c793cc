"""Moves that leave rows whole, rolled windows say, as one Gather of these rows.

An exporter writes a roll as two slices that are joined, and windows as axes that are split and
transposed. What all of it does to a tensor is told by where each of its rows goes:

    Reshape(Gather(Reshape(X, [rows, n]), places), shape)   =   any chain of moves of X

where each n elements side by side stay so. One that joins parts isn't a linear function of a
kernel's loops, and one that splits axes, turns some and joins others gives a kernel more loops than
rows need; rows that are picked by constant places are read where they lie, as any row is
(loops/cells.py). Other moves, as of heads, are left as they are: kernels read through these.
tests/optimizer/native/test_moved_rows.py compares both sides on random chains.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ...graph.convert import node_proto
from ...graph.graph import Graph, Node
from ...graph.maker import Maker
from ...match.rewrite import Step
from ..regions.region_facts import MOVES
from ..runtime_answers import answer

NAME = "GatherMovedRows"
SUMMARY = "moves rows at once that several operators move as a whole"
# Moves of one chain, elements of a row, and elements of a tensor.
MOST_MOVES, LEAST_ROW, MOST_ELEMENTS = 64, 16, 1 << 24


def gather_moved_rows(graph: Graph) -> list[Step]:
    """Put a Gather in the place of each chain of moves that leaves rows whole, in place."""
    steps = []
    for number in reversed(graph.order()):
        if number in graph.nodes and _ends_chain(graph, number):
            for nodes, source in _chains(graph, number):
                places = _places(graph, nodes, source, graph.nodes[number].outputs[0])
                if places is not None:
                    steps.append(_gathered(graph, nodes, source, number, places))
                    break
    return steps[::-1]


def _ends_chain(graph: Graph, number: int) -> bool:
    """Tell whether a node is a move of whose result something else is made than another move."""
    node = graph.nodes[number]
    if node.operator not in MOVES or len(node.outputs) != 1:
        return False
    (value,) = node.outputs
    users = [graph.nodes[user] for user in graph.users.get(value, ())]
    is_last = graph.is_pinned(value) or any(user.operator not in MOVES for user in users)
    return is_last or len(users) > 1


def _chains(graph: Graph, last: int) -> Iterator[tuple[list[int], int]]:
    """Yield chains of moves that end in a node, the longest first, each with what it moves.

    Nothing within is read elsewhere, and no kernel would read through them as well.
    """
    above = _moves_before(graph, last)
    sources = [value for number in above for value in _moved(graph, number)]
    for source in dict.fromkeys(sources):
        nodes: dict[int, None] = {}
        waiting, leaves = [last], set()
        while waiting:
            number = waiting.pop()
            nodes[number] = None
            for value in _moved(graph, number):
                maker = graph.producer.get(value)
                if value == source or maker not in above:
                    leaves.add(value)
                elif maker not in nodes and maker not in waiting:
                    waiting.append(maker)
        chain = [number for number in above if number in nodes]
        if leaves == {source} and _mixes(graph, chain) and not _is_read_within(graph, chain):
            yield chain, source


def _moves_before(graph: Graph, last: int) -> list[int]:
    """List the moves that lead to one, itself included, in their order."""
    moves: dict[int, None] = {}
    waiting = [last]
    while waiting and len(moves) < MOST_MOVES:
        number = waiting.pop(0)
        moves[number] = None
        for value in _moved(graph, number):
            maker = graph.producer.get(value)
            if maker is not None and maker not in moves and _is_known_move(graph, maker):
                waiting.append(maker)
    return [number for number in graph.order() if number in moves]


def _moved(graph: Graph, number: int) -> tuple[int, ...]:
    """Return the operands of a move of which elements are moved."""
    node = graph.nodes[number]
    return node.inputs if node.op_type == "Concat" else node.inputs[:1]


def _is_known_move(graph: Graph, number: int) -> bool:
    node = graph.nodes[number]
    parameters = node.inputs[len(_moved(graph, number)) :]
    return node.operator in MOVES and all(value in graph.constants for value in parameters)


def _mixes(graph: Graph, chain: list[int]) -> bool:
    """Tell whether moves join parts of a tensor, or turn axes that they split and join again."""
    operators = [graph.nodes[number].op_type for number in chain]
    turns = "Transpose" in operators and operators[0] == operators[-1] == "Reshape"
    return turns or "Concat" in operators


def _is_read_within(graph: Graph, chain: list[int]) -> bool:
    """Tell whether another result than that of the last move is read elsewhere."""
    inner = (value for number in chain[:-1] for value in graph.nodes[number].outputs)
    return any(graph.is_pinned(v) or graph.users.get(v, set()).difference(chain) for v in inner)


def _places(graph: Graph, nodes: list[int], source: int, result: int) -> np.ndarray | None:
    """Return which row each row of a result is; None where rows don't stay whole."""
    shape, after = _known_sizes(graph, source), _known_sizes(graph, result)
    if not shape or not after or shape[-1] != after[-1]:
        return None
    length = shape[-1]
    if length < LEAST_ROW or not 0 < math.prod(shape) <= MOST_ELEMENTS:
        return None
    constants = {v for number in nodes for v in graph.nodes[number].inputs if v in graph.constants}
    moved = answer(
        [node_proto(graph, graph.nodes[number]) for number in nodes],
        {graph.names[source]: np.arange(math.prod(shape), dtype=np.int32).reshape(shape)},
        {graph.names[v]: graph.constants[v].array() for v in constants},
        (graph.names[result], "int32"),
        graph,
    )
    rows = moved.reshape(-1, length)
    first = rows[:, :1]
    if (first % length).any() or (rows != first + np.arange(length, dtype=np.int32)).any():
        return None
    return (first[:, 0] // length).astype(np.int64)


def _known_sizes(graph: Graph, value: int) -> list[int]:
    """Return the sizes of a value's axes; none where one isn't known."""
    sizes = [size for size in graph.shape(value) or () if isinstance(size, int)]
    return sizes if len(sizes) == len(graph.shape(value) or ()) else []


def _gathered(graph: Graph, nodes: list[int], source: int, last: int, places: np.ndarray) -> Step:
    """Replace a chain by a Gather of rows between two views."""
    names = tuple(graph.node_name(number) for number in nodes)
    (result,) = graph.nodes[last].outputs
    after = graph.shape(result) or ()
    for number in nodes:
        graph.remove_node(number)
    maker = Maker(graph, NAME)
    flat = maker.node("Reshape", (source, maker.constant(np.array([-1, int(after[-1])]))))
    rows = maker.node("Gather", (flat, maker.constant(places)), axis=0)
    shape = maker.constant(np.array(after, np.int64))
    maker.give(Node("Reshape", "", (rows, shape), (), {}), (result,))
    reason = f"rows of {after[-1]} elements, of which {len(places)} are picked"
    return Step(NAME, names, len(nodes), maker.count, True, reason, "exact", SUMMARY)
