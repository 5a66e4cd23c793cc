"""From a fused operator of a plan to the kernel that computes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from ..fusion.plan import FusedOperator
from ..program.dag import Program
from .apart import lower_apart
from .entries import lower_entries
from .flat import lower_flat
from .pool import Function
from .rows import lower_rows
from .scalar import LoweringError


class Kernel(Protocol):
    """The text of a function of C, and how it is called for arrays."""

    @property
    def name(self) -> str:
        """The name of the function."""

    @property
    def text(self) -> str:
        """Its definition."""

    def run(self, function: Function, values: Mapping[int, Any], threads: int) -> dict[int, Any]:
        """Return the outputs' values for those of the inputs, each by node."""


def lower(program: Program, operator: FusedOperator, name: str) -> Kernel:
    """Return the kernel of a fused operator, as a function called `name`.

    Raises LoweringError with why there is none: then the operator's nodes run one by one.
    """
    refusals: list[str] = []
    for generator in _generators(program, operator):
        try:
            return generator(program, operator, name)
        except LoweringError as error:
            refusals.append(str(error))
    raise LoweringError("; ".join(dict.fromkeys(refusals)))


def _generators(
    program: Program,
    operator: FusedOperator,
) -> list[Callable[[Program, FusedOperator, str], Kernel]]:
    apart_rows = partial(lower_apart, lower_rows)
    apart_entries = partial(lower_apart, lower_entries)
    if not operator.sparse:
        return [_flat, lower_rows, apart_rows]
    turned = {operator.driver}
    readers = []
    for node in (program.nodes[at] for at in operator.nodes):
        if node.op == "Transpose" and node.inputs[0] in turned:
            turned.add(node.id)
        elif not turned.isdisjoint(node.inputs):
            readers.append(node)
    if operator.template == "Row" and all(node.op == "MatMul" for node in readers):
        # sums of a row's entries stay in registers there
        return [lower_rows, lower_entries, apart_entries, apart_rows]
    return [lower_entries, lower_rows, apart_entries, apart_rows]


def _flat(program: Program, operator: FusedOperator, name: str) -> Kernel:
    return lower_flat(program, name, operator.nodes, operator.inputs, operator.outputs)
