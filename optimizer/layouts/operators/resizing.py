"""Resize by whole numbers, in the modes that the runtime's blocked kernel has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...egraph.congruence import NONE
from ...egraph.egraph import EGraph
from ...graph.graph import Shape

# How coordinates are transformed, by mode, as ConvertResizeToBlocks has it (rules/blocked.rules).
TRANSFORMS = {
    "nearest": ("asymmetric",),
    "linear": ("asymmetric", "half_pixel", "align_corners"),
}


def upsampling(
    egraph: EGraph,
    operands: Sequence[int],
    attributes: Mapping[str, object],
    before: Shape,
    after: Shape,
) -> dict[str, object] | None:
    """The attributes of the blocked kernel for a Resize; None where it does something else.

    The factors must be whole as they are given: a factor of 2.1 can double a size too, and reads
    other pixels.
    """
    mode = str(attributes.get("mode", "nearest"))
    transform = str(attributes.get("coordinate_transformation_mode", "half_pixel"))
    if transform not in TRANSFORMS.get(mode, ()):
        return None
    if mode == "nearest" and attributes.get("nearest_mode") != "floor":
        return None
    if any(attributes.get(name) for name in ("antialias", "axes", "exclude_outside")):
        return None
    if attributes.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        return None
    scales = operands[2] if len(operands) > 2 else NONE
    sizes = operands[3] if len(operands) > 3 else NONE
    if scales != NONE:
        constant = egraph.constant(scales)
        factors = [] if constant is None else constant.array().tolist()
        if len(factors) != len(before) or factors[0] != 1:
            return None
        factors = factors[1:]
    else:
        are_sizes_known = all(
            isinstance(size, int) and size > 0 for size in (*before[1:], *after[1:])
        )
        if sizes == NONE or before[0] != after[0] or not are_sizes_known:
            return None
        factors = [int(b) / int(a) for a, b in zip(before[1:], after[1:], strict=True)]
    if any(not float(f).is_integer() or f < 1 for f in factors) or factors[0] != 1:
        return None
    return {
        "mode": mode,
        "coordinate_transformation_mode": transform,
        "scales": [1, 1, int(factors[1]), int(factors[2])],
    }
