"""Kernels of regions that read one array along the rows and along the columns.

A symmetric factorization reads U along both axes of S, U @ U.T; np.less.outer(a, a) reads a so.
What runs along an axis is told by the arrays that have it, so that each reading of an array is
taken to be an array of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ..fusion.plan import FusedOperator
from ..program.dag import Node, Program
from .arrays import Array
from .entries import EntryKernel
from .pool import Function
from .rows import RowKernel


@dataclass(frozen=True)
class ApartKernel:
    """A kernel of a program in which arrays stand as often as they are read.

    `nodes` are the numbers there of what is given and computed, with those in the whole program.
    """

    kernel: EntryKernel | RowKernel
    nodes: Mapping[int, int]

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.kernel.name

    @property
    def text(self) -> str:
        """Its definition."""
        return self.kernel.text

    def run(
        self, function: Function, values: Mapping[int, Array], threads: int
    ) -> dict[int, Array]:
        """Return the outputs for the values of the inputs."""
        given = {at: values[old] for at, old in self.nodes.items() if old in values}
        found = self.kernel.run(function, given, threads)
        return {self.nodes[at]: value for at, value in found.items()}


def lower_apart(
    lower: Callable[[Program, FusedOperator, str], EntryKernel | RowKernel],
    program: Program,
    operator: FusedOperator,
    name: str,
) -> ApartKernel:
    """Return the kernel that `lower` makes of a region whose readings are apart; LoweringError."""
    made: list[Node] = []
    old: dict[int, int] = {}
    place: dict[int, int] = {}

    def put(node: Node, inputs: tuple[int, ...]) -> int:
        made.append(replace(node, id=len(made), inputs=inputs))
        old[made[-1].id] = node.id
        return made[-1].id

    def read(at: int) -> int:
        node = program.nodes[at]
        if at not in place and node.op != "Constant":
            taken = put(replace(node, op="Input", attributes={}), ())
            if at == operator.driver:
                place[at] = taken
            return taken
        return place[at] if at in place else put(node, ())

    for at in operator.nodes:
        node = program.nodes[at]
        place[at] = put(node, tuple(map(read, node.inputs)))
    outputs = tuple(place[at] for at in operator.outputs)
    inputs = tuple(node.id for node in made if node.is_leaf)
    given = tuple(node.id for node in made if node.op == "Input")
    region = replace(
        operator,
        nodes=tuple(place[at] for at in operator.nodes),
        inputs=inputs,
        outputs=outputs,
        driver=None if operator.driver is None else place.get(operator.driver),
    )
    return ApartKernel(lower(Program(tuple(made), given, outputs), region, name), old)
