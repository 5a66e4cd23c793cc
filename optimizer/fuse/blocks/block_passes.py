"""What a Dask worker runs: a pass over one block, and the combination of blocks' parts."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..program.dag import Program
from ..tracing.prepare import Options, Prepared, prepare

# Prepared passes that a worker keeps.
_KEPT = 256


@dataclass(frozen=True)
class Pass:
    """A program over one block; its first `parts` outputs are parts of aggregates. `key` names it.

    A worker plans and compiles it once: the same kernels as here, from the same cache on disk.
    """

    key: str
    program: Program
    options: Options
    parts: int


_prepared: OrderedDict[str, Prepared] = OrderedDict()
_lock = threading.Lock()


def prepared(pass_: Pass) -> Prepared:
    """Return a pass ready to run in this process."""
    with _lock:
        prepared_pass = _prepared.get(pass_.key)
        if prepared_pass is None:
            prepared_pass = _prepared[pass_.key] = prepare(pass_.program, pass_.options)
            while len(_prepared) > _KEPT:
                _prepared.popitem(last=False)
        return prepared_pass


def run_pass(pass_: Pass, *inputs: Any) -> tuple[list[Any], list[Any]]:
    """Return a block's parts of the aggregates, and its values that are kept."""
    values = [_owned(value, inputs) for value in prepared(pass_).run(inputs)]
    return values[: pass_.parts], values[pass_.parts :]


def _owned(value: Any, inputs: Sequence[Any]) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    arrays = (array for array in inputs if isinstance(array, np.ndarray))
    return value.copy() if any(np.may_share_memory(value, array) for array in arrays) else value


def combine(ufuncs: Sequence[str], results: Sequence[Any], first: bool) -> list[Any]:
    """Return, for each aggregate, its parts of some blocks as one, by its ufunc.

    `results` are what run_pass returned, where this is the `first` combination, or this function.
    """
    parts = [result[0] for result in results] if first else results
    combined = list(parts[0])
    with np.errstate(all="ignore"):
        for more in parts[1:]:
            combined = [
                np.asarray(getattr(np, name)(value, other))
                for name, value, other in zip(ufuncs, combined, more, strict=True)
            ]
    return combined
