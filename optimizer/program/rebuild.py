"""A program built anew, node by node: equal nodes become one, numbers are computed beforehand."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .dag import Node, Program
from .evaluate import evaluate

_COMMUTATIVE = frozenset(["Add", "Mul", "Max", "Min", "Equal", "And", "Or", "Xor"])


class Builder:
    """Nodes in topological order, each of them once."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._known: dict[Hashable, int] = {}

    def add(
        self,
        op: str,
        inputs: Sequence[int],
        shape: tuple[int, ...],
        dtype: str,
        attributes: Mapping[str, Any] | None = None,
        layout: str = "dense",
        nnz: int | None = None,
    ) -> int:
        """Return the node that computes this: an equal one, a number, or a new one."""
        operands = tuple(sorted(inputs)) if op in _COMMUTATIVE else tuple(inputs)
        node = Node(
            len(self.nodes), op, operands, dict(attributes or {}), shape, dtype, nnz, layout
        )
        number = self._number(node)
        if number is not None:
            return self.constant(number, dtype)
        return self._put(node)

    def constant(self, value: Any, dtype: str) -> int:
        """Return the node of a number."""
        return self._put(Node(len(self.nodes), "Constant", (), {"value": value}, (), dtype))

    def copy(self, node: Node, inputs: Sequence[int]) -> int:
        """Return a node of another program over inputs of this one."""
        return self.add(
            node.op, inputs, node.shape, node.dtype, node.attributes, node.layout, node.nnz
        )

    def keep(self, node: Node) -> int:
        """Return an Input node of another program, which is like no other."""
        self.nodes.append(replace(node, id=len(self.nodes)))
        return len(self.nodes) - 1

    def number(self, at: int) -> Any:
        """Return the value of a Constant; None of another node."""
        node = self.nodes[at]
        return node.attributes["value"] if node.op == "Constant" else None

    def _put(self, node: Node) -> int:
        told = tuple((name, repr(value)) for name, value in sorted(node.attributes.items()))
        key = (node.op, node.inputs, told, node.shape, node.dtype, node.layout)
        found = self._known.setdefault(key, node.id)
        if found == node.id:
            self.nodes.append(node)
        return found

    def _number(self, node: Node) -> Any:
        """Return the value of a node over numbers only, as NumPy computes it."""
        if node.shape or not node.inputs or node.op == "Call":
            return None
        operands = [self.nodes[at] for at in node.inputs]
        if any(one.op != "Constant" for one in operands):
            return None
        with np.errstate(all="ignore"):
            return evaluate(node, [evaluate(one, []) for one in operands]).item()

    def program(self, inputs: Sequence[int], outputs: Sequence[int]) -> Program:
        """Return the nodes that the outputs need, and all inputs."""
        needed = set(inputs)
        waiting = list(outputs)
        while waiting:
            at = waiting.pop()
            if at not in needed or self.nodes[at].op == "Input":
                needed.add(at)
                waiting += self.nodes[at].inputs
        place = {at: number for number, at in enumerate(sorted(needed))}
        nodes = [
            replace(
                self.nodes[at],
                id=place[at],
                inputs=tuple(place[operand] for operand in self.nodes[at].inputs),
            )
            for at in sorted(needed)
        ]
        return Program(
            tuple(nodes), tuple(place[at] for at in inputs), tuple(place[at] for at in outputs)
        )
