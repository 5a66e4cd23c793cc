"""Reshapes that leave their first axes as they are: of the others alone, for each place of those.

[batch, tokens, 768] as [batch, tokens, 12, 64] splits an axis whose size is known; that the first
ones are free dimensions changes nothing of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ....catalog.operators import Specification
from ....catalog.operators.expand import Definition, Expansion
from ....catalog.terms.index_notation import (
    Apply,
    Read,
    Select,
    Symbol,
    Term,
    Variable,
    map_children,
)
from .affine import Extent


def expanded_reshape(
    spec: Specification,
    shape: Sequence[Extent],
    target: Sequence[int],
    attributes: Mapping[str, object],
) -> Expansion | None:
    """Expand a Reshape to a known target; None where free dimensions aren't among the kept axes."""
    kept = _kept(shape, target, bool(attributes.get("allowzero")))
    rest = shape[kept:]
    if kept == 0 or any(isinstance(size, str) for size in rest):
        return None
    values: dict[int, object] = {1: list(target[kept:])}
    expansion = spec.expand([rest, (len(target) - kept,)], attributes, values=values, outputs=1)
    (definition,) = expansion.outputs
    free = tuple(Variable("kept", i) for i in range(kept))
    sizes = tuple(Symbol(size) if isinstance(size, str) else size for size in shape[:kept])
    inputs = tuple(
        None if input_ is None else replace(input_, shape=(*sizes, *input_.shape))
        for input_ in expansion.inputs
    )
    changed = Definition(
        definition.name,
        (*sizes, *definition.shape),
        (*free, *definition.indices),
        _behind(definition.value, free),
        definition.type,
        definition.like,
    )
    return replace(expansion, inputs=inputs, outputs=(changed,))


def _kept(shape: Sequence[Extent], target: Sequence[int], takes_zero: bool) -> int:
    """Count the first axes that stay; one of each at least is left."""
    count = 0
    for size, target_size in zip(shape[:-1], target[:-1], strict=False):
        if target_size != size and (target_size != 0 or takes_zero):
            break
        count += 1
    return count


def _behind(term: Term, free: tuple[Variable, ...]) -> Term:
    """Let reads of the input have further indices in front."""
    match term:
        case Read(tensor, indices):
            return Read(tensor, (*free, *indices))
        case Apply() | Select():
            return map_children(lambda part: _behind(part, free), term)
        case _:
            return term
