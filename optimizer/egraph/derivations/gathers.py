"""Elements gathered by indices that are the same all along a slice: the slices gathered.

PyTorch's `gather` takes an index for each element; to choose rows, programs expand one column of
indices over all others. Each row is then moved element by element, eight times as long as at once.
"""

from __future__ import annotations

from ...graph.graph import Shape
from .derivation import Derivation, Giver

RULE = "ConvertGatherElementsToGather"
SUMMARY = "moves whole slices where elements were gathered by one index a slice"


def gather_slices(derivation: Derivation) -> None:
    """State what gathers elements by expanded indices as gathering slices."""
    for class_, gather in list(derivation.every("GatherElements")):
        for expand in list(derivation.givers(gather.operands[1], "Expand")):
            _gather(derivation, class_, gather, expand)
    derivation.unite_pairs()


def _gather(derivation: Derivation, class_: int, gather: Giver, expand: Giver) -> None:
    data, index, column = (
        _shape(derivation, value)
        for value in (gather.operands[0], gather.operands[1], expand.operands[0])
    )
    if data is None or index is None or column is None or len(column) != len(index):
        return
    axis = int(gather.attributes.get("axis", 0)) % len(data)
    others = [at for at in range(len(data)) if at != axis]
    # The same index all along the slice, and all of the slice.
    if any(column[at] != 1 or index[at] != data[at] for at in others):
        return
    flat = derivation.make("Reshape", [expand.operands[0], derivation.integers([-1])], {})
    if flat is None:
        return
    operands = [gather.operands[0], derivation.output(flat)]
    made = derivation.make("Gather", operands, {"axis": axis})
    if made is not None:
        derivation.state(RULE, SUMMARY, (gather.node, expand.node), [flat, made], class_)


def _shape(derivation: Derivation, class_: int) -> Shape | None:
    """The shape of a class of any type."""
    type_ = derivation.egraph.type(class_)
    return None if type_ is None else type_.shape
