"""A program over rows in blocks as rounds: what each block computes, what follows from all blocks.

A round's block program computes the parts of its aggregates, and the values in blocks that are
wanted at the end or that a later round reads. Of those only what would cost more to compute again
than to write and read is kept; the rest is computed again from what is there. Between rounds the
values that are here are computed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..planning.machine_rates import Machine
from ..program.dag import Node, Program
from .block_places import Placed, Places, combined
from .partitioned import cut_shape

# Weights of elementwise operators in elements a second are all taken alike here: what is decided
# is whether a value in blocks is kept between rounds, where products of matrices matter.
_ELEMENTWISE_FLOPS = 8.0


@dataclass(frozen=True)
class Aggregate:
    """A value made of all blocks' parts by a ufunc, then divided by `count` where it is a mean."""

    node: int
    ufunc: str
    count: int | None = None


@dataclass(frozen=True)
class Round:
    """One pass over the blocks, and what is computed here before it.

    `before` are the nodes that are here and ready. The pass computes `nodes` from `operands` in
    blocks, `split`, operands that are here and are cut along an axis each, and `whole`, operands
    that all blocks read; it gives the parts of `aggregates`, then the values of `kept`.
    """

    before: tuple[int, ...]
    nodes: tuple[int, ...] = ()
    operands: tuple[int, ...] = ()
    split: tuple[tuple[int, int], ...] = ()
    whole: tuple[int, ...] = ()
    aggregates: tuple[Aggregate, ...] = ()
    kept: tuple[int, ...] = ()


def rounds(program: Program, placement: Places, machine: Machine) -> tuple[Round, ...]:
    """Return the rounds of a program whose values have these places; the last may have no pass."""
    ends = set(program.outputs) | set(placement.gathered)
    there = {node.id for node in program.nodes if node.op == "Input"}
    result = []
    for number in range(max(place.round for place in placement.read) + 1):
        placed = list(zip(program.nodes, placement.computed, strict=True))
        before = [
            node.id
            for node, place in placed
            if place.place == "here" and place.round == number and not node.is_leaf
        ]
        aggregates = [
            node.id
            for node, place in placed
            if place.place == "aggregate" and place.round == number + 1
        ]
        kept = [
            node.id
            for node, place in placed
            if place.place == "blocks"
            and place.round == number
            and node.id not in there
            and (node.id in ends or _worth_keeping(program, placement, node.id, machine))
        ]
        result.append(_round(program, placement, before, aggregates, kept, there))
        there |= set(kept)
    return tuple(result)


def _round(
    program: Program,
    placement: Places,
    before: Sequence[int],
    aggregates: Sequence[int],
    kept: Sequence[int],
    there: set[int],
) -> Round:
    nodes = _needed(program, placement, [*aggregates, *kept], there)
    operands: dict[int, None] = {}
    split: dict[tuple[int, int], None] = {}
    whole: dict[int, None] = {}
    for number in nodes:
        cut = dict(placement.computed[number].split)
        for operand in program.nodes[number].inputs:
            if placement.read[operand].place == "blocks":
                if operand not in nodes:
                    operands[operand] = None
            elif operand in cut:
                split[operand, cut[operand]] = None
            elif program.nodes[operand].op != "Constant":
                whole[operand] = None
    combined_aggregates = []
    for node_id in aggregates:
        node = program.nodes[node_id]
        count = None
        if node.op == "ReduceMean":
            count = program.nodes[node.inputs[0]].size // max(1, node.size)
        combined_aggregates.append(Aggregate(node_id, str(combined(node)), count))
    return Round(
        tuple(before),
        tuple(nodes),
        tuple(operands),
        tuple(split),
        tuple(whole),
        tuple(combined_aggregates),
        tuple(kept),
    )


def _needed(
    program: Program, placement: Places, goals: Sequence[int], there: set[int]
) -> list[int]:
    """Return the nodes that a pass computes for its goals, in order."""
    needed: set[int] = set()
    waiting = list(goals)
    while waiting:
        number = waiting.pop()
        if number in needed:
            continue
        needed.add(number)
        waiting += [
            operand
            for operand in program.nodes[number].inputs
            if placement.read[operand].place == "blocks" and operand not in there
        ]
    return sorted(needed)


def _worth_keeping(program: Program, placement: Places, number: int, machine: Machine) -> bool:
    """Whether a later round reads a value that is dearer to compute again than to keep."""
    own_round = placement.computed[number].round
    if not any(
        placement.computed[reader].round > own_round + 1
        for reader in _readers(program, placement, number)
    ):
        return False
    node = program.nodes[number]
    flops = 0.0
    seen: set[int] = set()
    waiting = [number]
    while waiting:
        reached = program.nodes[waiting.pop()]
        if (
            reached.id in seen
            or placement.read[reached.id].place != "blocks"
            or reached.op == "Input"
        ):
            continue
        seen.add(reached.id)
        inner = program.nodes[reached.inputs[0]].shape[-1] if reached.op == "MatMul" else 0
        flops += reached.size * (2.0 * inner if inner else _ELEMENTWISE_FLOPS)
        waiting += reached.inputs
    size = node.size * 8.0
    return flops / machine.flops > size / machine.write + size / machine.read


def _readers(program: Program, placement: Places, number: int) -> list[int]:
    """Return the nodes in blocks, and aggregates, that come to read a value."""
    readers, waiting, seen = [], [number], {number}
    while waiting:
        for reader in program.consumers[waiting.pop()]:
            if reader not in seen and placement.computed[reader].place != "here":
                seen.add(reader)
                readers.append(reader)
                if placement.read[reader].place == "blocks":
                    waiting.append(reader)
    return readers


def sized(program: Program, placement: Places, round_: Round, rows: int, total: int) -> Program:
    """Return a round's pass for blocks of so many rows, of `total` rows in all."""
    nodes: list[Node] = []
    place: dict[tuple[int, int | None], int] = {}

    def add(node: Node, key: tuple[int, int | None]) -> int:
        place[key] = len(nodes)
        nodes.append(replace(node, id=len(nodes)))
        return place[key]

    def add_input(number: int, axis: int | None) -> None:
        node = program.nodes[number]
        shape = node.shape if axis is None else cut_shape(node.shape, axis, rows)
        share = _share(node, rows, total)
        add(Node(0, "Input", (), {}, shape, node.dtype, share, node.layout), (number, axis))

    for number in round_.operands:
        add_input(number, placement.read[number].axis)
    for node_id, axis in round_.split:
        add_input(node_id, axis)
    for node_id in round_.whole:
        add_input(node_id, None)
    inputs = tuple(range(len(nodes)))
    for node_id in round_.nodes:
        node, placed = program.nodes[node_id], placement.computed[node_id]
        cut = dict(placed.split)
        reads = []
        for operand in node.inputs:
            read = placement.read[operand]
            key = (operand, read.axis if read.place == "blocks" else cut.get(operand))
            if key not in place:
                add(program.nodes[operand], key)  # a number
            reads.append(place[key])
        add(_part(node, tuple(reads), placed, rows, total), (node_id, placed.axis))
    goals = [*(aggregate.node for aggregate in round_.aggregates), *round_.kept]
    outputs = tuple(place[number, placement.computed[number].axis] for number in goals)
    return Program(tuple(nodes), inputs, outputs)


def _part(node: Node, reads: tuple[int, ...], placed: Placed, rows: int, total: int) -> Node:
    """Return a node as a block computes it."""
    attributes: dict[str, Any] = dict(node.attributes)
    shape, op = node.shape, node.op
    if placed.place == "blocks":
        shape = cut_shape(shape, placed.axis, rows)
        if op in ("Reshape", "Expand"):
            attributes["shape"] = shape
    elif op == "ReduceMean":
        op = "ReduceSum"
    share = _share(node, rows, total)
    return Node(0, op, reads, attributes, shape, node.dtype, share, node.layout)


def _share(node: Node, rows: int, total: int) -> int | None:
    return None if node.nnz is None else max(1, node.nnz * rows // max(1, total))
