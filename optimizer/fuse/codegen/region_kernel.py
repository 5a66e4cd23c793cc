"""A region as a kernel: what its text says of its arguments, and how it is called with them.

Kernels over blocks of rows (row_kernel.py) and over stored entries (entry_kernel.py) have this in
common: they take operands in several forms, and give parts of what is summed over all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from ...codegen.expressions import C_TYPES, Reduction
from ...native.configurations.fused_configuration import FusedConfiguration
from ..program.dag import Node, Program
from ..program.evaluate import extend
from .launch import Array, Finish, Function
from .statements import BITS, kernel_dtype


@dataclass(frozen=True)
class Operand:
    """What a view of the arguments is: `form` says how the caller must prepare it."""

    node: int
    form: str


@dataclass(frozen=True)
class Part:
    """An aggregate in a chunk's partial results: `size` doubles from `offset` on."""

    node: int
    kind: str
    offset: int
    size: int
    shape: tuple[int, ...]  # as it lies there
    turned: bool  # whether the result is its transpose
    reduction: Reduction | None = None
    used: int | None = None  # so many columns of it; None: all


@dataclass
class KernelText:
    """Builds a text; then `operands`, `sizes` and `parts` say how the kernel is called."""

    program: Program
    operands: list[Operand] = field(default_factory=list, init=False)
    sizes: list[int] = field(default_factory=list, init=False)
    parts: list[Part] = field(default_factory=list, init=False)
    partial: int = field(default=0, init=False)  # doubles of all parts
    # Sizes up to this are written into the text, so that short loops are unrolled.
    literal: ClassVar[int] = 64
    # The first sizes, which are none of an array.
    reserved: ClassVar[int] = 0

    def node(self, node_id: int) -> Node:
        """Return a node of the program."""
        return self.program.nodes[node_id]

    def c_type(self, node_id: int) -> str:
        """Return the type of a node's elements."""
        return C_TYPES[kernel_dtype(self.node(node_id))]

    def bits(self, node_id: int) -> str:
        """Return the ending of functions over a node's type."""
        return BITS[kernel_dtype(self.node(node_id))]

    def size(self, value: int) -> str:
        """Return a size in C: a number, or the name of an argument."""
        if value <= self.literal:
            return str(value)
        if value not in self.sizes[self.reserved :]:
            self.sizes.append(value)
        return f"n{self.sizes.index(value, self.reserved)}"

    def view(self, node_id: int, form: str) -> str:
        """Return the name of the view of an array in a form."""
        operand = Operand(node_id, form)
        if operand not in self.operands:
            self.operands.append(operand)
        return f"in{self.operands.index(operand)}"

    def part(
        self,
        node_id: int,
        kind: str,
        shape: tuple[int, ...],
        turned: bool = False,
        reduced: Reduction | None = None,
        used: int | None = None,
    ) -> int:
        """Set aside a chunk's partial result; return where it begins."""
        size = 1
        for extent in shape:
            size *= extent
        offset = self.partial
        self.parts.append(Part(node_id, kind, offset, size, shape, turned, reduced, used))
        self.partial += size
        return offset


@dataclass(frozen=True, kw_only=True)
class RegionKernel:
    """A region as a function of C: `text` defines the function `name`.

    operands, sizes, parts  what a call gives it beside the head of arguments (launch.py)
    before, after           what NumPy computes before it runs, and of what it gives
    configuration           how its work is divided where nothing else is chosen
    """

    name: str
    text: str
    program: Program
    operands: tuple[Operand, ...]
    sizes: tuple[int, ...]
    parts: tuple[Part, ...]
    finishes: Mapping[int, Finish]
    before: tuple[Node, ...]
    after: tuple[Node, ...]
    outputs: tuple[int, ...]
    configuration: FusedConfiguration

    @cached_property
    def total(self) -> int:
        """Doubles of a chunk's partial results."""
        return sum(part.size for part in self.parts)

    def run(
        self,
        function: Function,
        values: Mapping[int, Array],
        threads: int,
        how: FusedConfiguration | None = None,
    ) -> dict[int, Array]:
        """Return the outputs for the values of the inputs."""
        arrays = values
        if self.before:
            arrays = dict(values)
            extend(arrays, self.before)
        results = self.call(function, arrays, threads, how or self.configuration)
        if not self.before and not self.after:
            return results
        arrays = {**arrays, **results}
        if self.after:
            extend(arrays, self.after)
        return {node_id: arrays[node_id] for node_id in self.outputs}

    def call(
        self,
        function: Function,
        arrays: Mapping[int, Array],
        threads: int,
        how: FusedConfiguration,
    ) -> dict[int, Array]:
        """Return what the function computes, and what is reduced of it."""
        raise NotImplementedError

    def reduced(self, part: Part, partial: Array, count: int) -> Array:
        """Return an aggregate over `count` elements, from its parts of all chunks."""
        piece = partial[:, part.offset : part.offset + part.size]
        if part.reduction is not None:
            return self.finishes[part.node].apply(piece, count)
        node = self.program.nodes[part.node]
        whole = np.add.reduce(piece, axis=0) if len(piece) > 1 else piece[0].copy()
        if part.used is not None or len(part.shape) > 1:
            whole = whole.reshape(part.shape)[:, : part.used]
        if node.dtype != "float64":
            whole = whole.astype(node.dtype)
        return (whole.T if part.turned else whole).reshape(node.shape)
