"""The ways to cut an operator into parts: derived from its specification by cuts.dl.

A cut divides the range of one index. Each part is the same operator on slices of the inputs, and
the output is the parts side by side, or their sum.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from importlib import resources
from typing import Any, Literal

from ...catalog.datalog import derive, parse
from ...catalog.errors import TensologError
from ...catalog.operators import Specification, specification
from ...catalog.operators.expand import Expansion
from ...profiles.kernel import Kernel, TensorSpec
from .index_facts import index_facts

Kind = Literal["sample", "attribute", "parameter", "reduction"]

# Inputs that hold the shape of the output: a part has one of its own.
TARGETS = {"Reshape": 1, "Expand": 1}


@dataclass(frozen=True)
class Slicing:
    """What of an input's axis a part needs that computes indices [a, b) of a cut.

    It is [(a * stride - before) / divisor, ((b - 1) * stride - before + reach) / divisor), as far
    as the axis goes.
    """

    axis: int
    stride: int = 1
    before: int = 0
    reach: int = 1
    divisor: int = 1

    def bounds(self, first: int, last: int) -> tuple[int, int]:
        """Return what [first, last) needs, which may lie outside of the axis."""
        low = first * self.stride - self.before
        high = (last - 1) * self.stride - self.before + self.reach
        return low // self.divisor, high // self.divisor


@dataclass(frozen=True)
class Cut:
    """One index of an operator that its parts divide among themselves.

    `combine` says how the parts make the output: concat, along `axes` (by output), or sum, max,
    min, prod of all. `slices` says by input what a part needs; None: all of it. Inputs in `once`
    are given to the first part only. Parts begin and end at multiples of `granule`, and `extent` is
    the range of the index.
    """

    kind: Kind
    combine: str
    axes: tuple[int, ...]
    slices: tuple[Slicing | None, ...]
    once: frozenset[int]
    granule: int
    extent: int

    def __hash__(self) -> int:
        """Hash it once: searches look cuts up all the time."""
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.combine, self.axes, self.slices, self.granule, self.extent))

    @property
    def most_parts(self) -> int:
        """How many parts there can be at most."""
        return -(-self.extent // self.granule)

    def ranges(self, parts: int) -> tuple[tuple[int, int], ...]:
        """Divide the index into parts whose sizes differ by a granule at most."""
        units = self.most_parts
        ends = [min(units * part // parts * self.granule, self.extent) for part in range(parts + 1)]
        return tuple(itertools.pairwise(ends))


@lru_cache(maxsize=65536)
def cuts_of(kernel: Kernel) -> tuple[Cut, ...]:
    """Return the cuts of an operator at known sizes, as its specification suggests them.

    None for an operator without specification, or where an input that it depends on isn't known.
    They are admitted once they are proved (cut_rules.py).
    """
    expansion = expanded(kernel)
    if expansion is None:
        return ()
    by_output = [_of_output(kernel, expansion, number) for number in range(len(expansion.outputs))]
    if not by_output:
        return ()
    cuts = []
    for cut, axis in by_output[0]:
        axes = [axis]
        for others in by_output[1:]:
            fitting = [
                other_axis
                for other, other_axis in others
                if other.slices == cut.slices and other.extent == cut.extent and other_axis >= 0
            ]
            axes += fitting[:1]
        if len(axes) == len(by_output) and (len(axes) == 1 or axis >= 0):
            cut = replace(cut, axes=tuple(axes) if axis >= 0 else ())
            if _is_adjustable(kernel, cut):
                cuts.append(cut)
    return tuple(sorted(cuts, key=lambda cut: (cut.combine != "concat", cut.axes)))


def output_shapes(kernel: Kernel) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of the outputs of an operator with cuts."""
    expansion = expanded(kernel)
    assert expansion is not None
    return tuple(tuple(int(size) for size in output.shape) for output in expansion.outputs)  # type: ignore[arg-type]


def known_inputs(kernel: Kernel) -> frozenset[int]:
    """Return the positions of inputs whose contents the operator's meaning depends on."""
    about = _specification(kernel)
    return about.known_inputs if about is not None else frozenset()


Axis = tuple[int, int]


def axes_alike(kernel: Kernel) -> tuple[Mapping[Axis, set[Axis]], frozenset[Axis]]:
    """Return which axes of inputs one index runs along, and which are offsets into a window.

    An axis is the input's position and its number there.
    """
    expansion = expanded(kernel)
    assert expansion is not None
    names = {name: position for position, name in enumerate(expansion.names)}
    alike: dict[Axis, set[Axis]] = {}
    offsets: set[Axis] = set()
    for number in range(len(expansion.outputs)):
        rows = _relations(kernel, number)
        for t, x, u, y in rows.get("alike", ()):
            if t in names and u in names:
                alike.setdefault((names[t], x), set()).add((names[u], y))
        offsets |= {(names[t], x) for t, x in rows.get("offset", ()) if t in names}
    return alike, frozenset(offsets)


@lru_cache(maxsize=16384)
def expanded(kernel: Kernel) -> Expansion | None:
    """Return what an operator means at its sizes; None where nothing is said of it."""
    about = _specification(kernel)
    if about is None:
        return None
    values: dict[int, object] = {}
    for position in about.known_inputs:
        if position < len(kernel.inputs) and (spec := kernel.inputs[position]) is not None:
            if spec.value is None:
                return None
            values[position] = list(spec.value) if spec.shape else spec.value[0]
    shapes = [None if spec is None else spec.shape for spec in kernel.inputs]
    try:
        return about.expand(
            shapes, dict(kernel.attributes), values=values, outputs=kernel.outputs
        ).with_values({})
    except TensologError:
        return None


def _specification(kernel: Kernel) -> Specification | None:
    about = specification(kernel.domain, kernel.op_type, kernel.opset)
    return None if about is None or about.opaque is not None else about


@cache
def _program() -> Any:
    text = (resources.files(__package__) / "cuts.dl").read_text(encoding="utf-8")
    return parse(text, "cuts.dl")


@lru_cache(maxsize=4096)
def _relations(kernel: Kernel, number: int) -> Mapping[str, list[tuple[Any, ...]]]:
    expansion = expanded(kernel)
    assert expansion is not None
    try:
        facts = index_facts(expansion, expansion.outputs[number])
    except TypeError:  # a size that depends on data
        return {}
    return derive(_program(), facts)


def _of_output(kernel: Kernel, expansion: Expansion, number: int) -> list[tuple[Cut, int]]:
    rows = _relations(kernel, number)
    output = expansion.outputs[number]
    extents = {str(v): size for v, size in zip(output.indices, output.shape, strict=True)}
    names = {name: position for position, name in enumerate(expansion.names)}
    cuts = []
    for index, combine, axis in rows.get("cut", ()):
        slices: list[Slicing | None] = [None] * len(kernel.inputs)
        for i, tensor, *slicing in rows["slice"]:
            if i == index and tensor in names:
                slices[names[tensor]] = Slicing(*slicing)
        granule = math.lcm(1, *(size for i, size in rows["granule"] if i == index))
        once = frozenset(names[t] for i, t in rows["once"] if i == index and t in names)
        extent = extents.get(index)
        if extent is None:
            # A sum runs over the whole axis of what is sliced.
            position, plain = next((p, s) for p, s in enumerate(slices) if s is not None)
            spec = kernel.inputs[position]
            assert spec is not None
            extent = spec.shape[plain.axis]
        if not isinstance(extent, int) or extent < 2 * granule:
            continue
        cut = Cut("attribute", combine, (axis,), tuple(slices), once, granule, extent)
        cuts.append((replace(cut, kind=_kind(kernel, cut, axis)), int(axis)))
    return cuts


def _kind(kernel: Kernel, cut: Cut, axis: int) -> Kind:
    if axis < 0:
        return "reduction"
    weights = [spec is not None and spec.constant for spec in kernel.inputs]
    sliced = [slice_ is not None for slice_ in cut.slices]
    whole = any(
        spec is not None and not weight and not part
        for spec, weight, part in zip(kernel.inputs, weights, sliced, strict=True)
    )
    if whole and any(weight and part for weight, part in zip(weights, sliced, strict=True)):
        return "parameter"
    return "sample" if axis == 0 else "attribute"


def _is_adjustable(kernel: Kernel, cut: Cut) -> bool:
    """Whether the parts' attributes and shapes can be said."""
    for position in cut.once:
        if any(spec is not None for spec in kernel.inputs[position + 1 :]):
            return False
    windows = [
        (spec, slice_)
        for spec, slice_ in zip(kernel.inputs, cut.slices, strict=True)
        if slice_ is not None and spec is not None and is_window(spec, slice_, cut)
    ]
    if not windows:
        return True
    about = _specification(kernel)
    has_pads = about is not None and any(
        attribute.name == "pads" for block in about.blocks for attribute in block.attributes
    )
    explicit = kernel.attribute("auto_pad", "NOTSET") in ("NOTSET", "VALID")
    rounds_down = not kernel.attribute("ceil_mode", 0)
    (_, slicing), *others = windows
    return has_pads and explicit and rounds_down and not others and slicing.axis >= 2


def is_window(spec: TensorSpec, slicing: Slicing, cut: Cut) -> bool:
    """Whether neighbouring parts need the same elements of an input, or leave some out."""
    return (
        slicing.before != 0
        or slicing.reach != slicing.stride
        or spec.shape[slicing.axis] * slicing.divisor != cut.extent * slicing.stride
    )


def part_of(kernel: Kernel, cut: Cut, first: int, last: int) -> Kernel:
    """Return the operator that computes indices [first, last) of a cut."""
    inputs: list[TensorSpec | None] = []
    attributes = dict(kernel.attributes)
    for position, (spec, slicing) in enumerate(zip(kernel.inputs, cut.slices, strict=True)):
        if spec is None or (position in cut.once and first > 0):
            inputs.append(None)
            continue
        if slicing is None:
            inputs.append(spec)
            continue
        size = spec.shape[slicing.axis]
        low, high = slicing.bounds(first, last)
        if is_window(spec, slicing, cut):
            attributes["pads"] = _pads(kernel, slicing, low, high, size)
        shape = list(spec.shape)
        shape[slicing.axis] = min(high, size) - max(low, 0)
        inputs.append(replace(spec, shape=tuple(shape), value=None))
    if "group" in attributes and cut.slices[0] is not None and cut.slices[0].axis == 1:
        attributes["group"] = attributes["group"] * (last - first) // cut.extent  # type: ignore[operator]
    target = TARGETS.get(kernel.op_type)
    if target is not None and cut.axes and (target_input := inputs[target]) is not None:
        shape = list(output_shapes(kernel)[0])
        shape[cut.axes[0]] = last - first
        inputs[target] = replace(target_input, value=tuple(shape))
    return Kernel(
        kernel.domain, kernel.op_type, kernel.opset, tuple(attributes.items()), tuple(inputs),
        kernel.outputs,
    )  # fmt: skip


def _pads(kernel: Kernel, slicing: Slicing, low: int, high: int, size: int) -> tuple[int, ...]:
    rank = len(kernel.inputs[0].shape) - 2 if kernel.inputs[0] is not None else 0
    pads = list(kernel.attribute("pads", (0,) * (2 * rank)))
    pads[slicing.axis - 2] = max(-low, 0)
    pads[slicing.axis - 2 + rank] = max(high - size, 0)
    return tuple(pads)
