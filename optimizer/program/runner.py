"""Regions computed: prepared once for each structure, kept, and run by NumPy or by kernels."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..blocks.partitioned import Partitioned
from .dag import Program
from .expression import Expression, Region, region
from .prepare import SOONER, Options, Prepared, prepare

if TYPE_CHECKING:
    from ..blocks.plan import BlockPlan

# A number of more characters was computed: it will be another one in the next call.
_LITERAL = 8
# Structures kept for one function.
_KEPT = 256


@dataclass
class Computed:
    """One region of a call: why it was computed when it was, and how."""

    why: str
    prepared: Prepared | BlockPlan
    cached: bool


@dataclass
class Runner:
    """Computes the regions of one call."""

    engine: Engine
    regions: list[Computed] = field(default_factory=list)
    notes: dict[str, int] = field(default_factory=dict)

    @property
    def needless(self) -> bool:
        """Whether tracing gained nothing: NumPy alone would have been done sooner."""
        return all(
            isinstance(one.prepared, Prepared) and one.prepared.refusal == SOONER
            for one in self.regions
        )

    def note(self, text: str) -> None:
        """Remember something that explain should say."""
        self.notes[text] = self.notes.get(text, 0) + 1

    def run(self, wanted: Sequence[Expression], why: str) -> tuple[list[Any], list[Any]]:
        """Return the values of expressions, and what they may be or share memory with."""
        found = region(wanted)
        prepared, inputs, cached = self.engine.prepared(found)
        if len(self.regions) < _KEPT:
            self.regions.append(Computed(why, prepared, cached))
        taken = list(found.leaves.values())
        taken += [one.source for one in taken if isinstance(one, Partitioned)]
        return prepared.run(inputs), taken


@dataclass
class _Structure:
    """Regions that differ in numbers only: those of the first one, and which of them vary."""

    first: Mapping[int, str]
    varying: frozenset[int]
    prepared: dict[frozenset[int], Prepared | BlockPlan] = field(default_factory=dict)


class Engine:
    """The prepared structures of one function; safe under threads."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.most_bytes = math.inf if options.memory is None else options.memory
        self._lock = threading.Lock()
        self._structures: OrderedDict[Hashable, _Structure] = OrderedDict()

    def prepared(self, found: Region) -> tuple[Prepared | BlockPlan, list[Any], bool]:
        """Return what computes a region, its inputs, and whether it was known already.

        A number that differs from the first call's, such as a step size, becomes an input, and
        so does one that looks computed.
        """
        told = {at: repr(value) for at, value in found.constants.items()}
        with self._lock:
            structure = self._structures.get(found.key)
            if structure is None:
                structure = self._structures[found.key] = _Structure(told, frozenset())
                while len(self._structures) > _KEPT:
                    self._structures.popitem(last=False)
            else:
                self._structures.move_to_end(found.key)
            if told:
                first = structure.first
                structure.varying |= {
                    at for at, text in told.items() if first[at] != text or len(text) > _LITERAL
                }
            varying = structure.varying
            known = structure.prepared.get(varying)
        inputs = found.inputs(varying)
        if known is not None:
            return known, inputs, True
        made = self._made(found.program(varying), inputs)
        with self._lock:
            made = structure.prepared.setdefault(varying, made)
        return made, inputs, False

    def _made(self, program: Program, inputs: Sequence[Any]) -> Prepared | BlockPlan:
        if not any(isinstance(one, Partitioned) for one in inputs):
            return prepare(program, self.options)
        from ..blocks.plan import prepare_blocks

        return prepare_blocks(program, inputs, self.options)

    def known(self) -> Sequence[Prepared | BlockPlan]:
        """Return the prepared structures, the least recently used first."""
        with self._lock:
            kept = list(self._structures.values())
            return [prepared for one in kept for prepared in one.prepared.values()]
