"""Regions computed: prepared once for each structure, kept, and run by NumPy or by kernels."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .expression import Expression, Region, region
from .prepare import Options, Prepared, prepare

# A number of more characters was computed: it will be another one in the next call.
_LITERAL = 8
# Structures kept for one function.
_KEPT = 256


@dataclass
class Computed:
    """One region of a call: why it was computed when it was, and how."""

    why: str
    prepared: Prepared
    cached: bool


@dataclass
class Runner:
    """Computes the regions of one call."""

    engine: Engine
    regions: list[Computed] = field(default_factory=list)
    notes: dict[str, int] = field(default_factory=dict)

    def note(self, text: str) -> None:
        """Remember something that explain should say."""
        self.notes[text] = self.notes.get(text, 0) + 1

    def run(self, wanted: Sequence[Expression], why: str) -> list[Any]:
        """Return the values of expressions."""
        prepared, inputs, cached = self.engine.prepared(region(wanted))
        if len(self.regions) < _KEPT:
            self.regions.append(Computed(why, prepared, cached))
        return prepared.run(inputs)


class Engine:
    """The prepared structures of one function; safe under threads."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._lock = threading.Lock()
        self._constants: dict[Hashable, tuple[dict[int, str], frozenset[int]]] = {}
        self._prepared: OrderedDict[Hashable, Prepared] = OrderedDict()

    def prepared(self, found: Region) -> tuple[Prepared, list[Any], bool]:
        """Return what computes a region, its inputs, and whether it was known already.

        A number that differs from the first call's, such as a step size, becomes an input, and
        so does one that looks computed.
        """
        told = {at: repr(value) for at, value in found.constants}
        with self._lock:
            first, varying = self._constants.get(found.key, (told, frozenset()))
            varying |= {
                at for at, value in told.items() if first[at] != value or len(value) > _LITERAL
            }
            self._constants[found.key] = (first, varying)
            key = (found.key, varying)
            known = self._prepared.get(key)
            if known is not None:
                self._prepared.move_to_end(key)
        program, inputs = found.program(varying)
        if known is not None:
            return known, inputs, True
        made = prepare(program, self.options)
        with self._lock:
            made = self._prepared.setdefault(key, made)
            while len(self._prepared) > _KEPT:
                self._prepared.popitem(last=False)
            if len(self._constants) > 4 * _KEPT:
                self._constants.clear()
        return made, inputs, False

    def known(self) -> Mapping[Hashable, Prepared]:
        """Return the prepared structures, the least recently used first."""
        with self._lock:
            return dict(self._prepared)
