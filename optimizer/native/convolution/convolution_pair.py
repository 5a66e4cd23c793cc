"""Pairs of convolutions over blocks of channels as one kernel: of points, then of each channel.

A network of few operations expands an image by points (1x1), and slides a filter of its own over
each channel of that (Sandler and others, MobileNetV2, CVPR 2018). What lies between is several
times as large as the image, and each of the two waits for memory. Here it stays in the cache: for a
panel of channels, some lines at a time. Each sum is formed as the runtime forms it, of finite
numbers and others, but for the order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from ....rules import ABSENT
from ...codegen.expressions import LoweringError, literal
from ...codegen.unit import fixed_c
from ..configurations.chosen import no_others
from ..configurations.pair_configuration import ChosenPair, PairConfiguration, PairSizes
from ..kernel import Kernel, RegionKernel, flushes, region_kernel, shapes_of
from ..loops.affine import Affine, Extent, loop
from ..loops.c_function import enumerators, filled
from ..loops.kernel_region import Meanings
from ..regions.region_candidates import candidates
from .blocked import activation_text, block_of, numbers_of, pads_of
from .epilogue import End, bounds_of, end_of
from .grouped import NARROW, WIDE, Sliding, lines_text, places_at_once
from .winograd_text import told_more

# Which part of an image a unit is, and which panel of channels.
ORDERS = (
    "part = unit / PANELS % PARTS, panel = unit % PANELS",
    "part = unit % PARTS, panel = unit / PARTS % PANELS",
)
# What changes the points of some pixels, where that is more than bounds, in the cache.
FIRST = """for (i64 b = 0; b < channels / BLOCK; b++) {
            float *own = to + b * SHEET;
            #pragma omp simd
            for (i64 at = 0; at < count * BLOCK; at++) {
              float t = own[at];
              END
              own[at] = t;
            }
          }"""


@dataclass(frozen=True)
class Pair:
    """Two convolutions in blocks, by their numbers: of points, and of each channel by itself.

    `ends` are what follows them element by element. `taps`, `steps` and `pads` are the latter's,
    rows first; `image`, `result` the shapes of image and result, `width` the channels between.
    """

    first: int
    second: int
    ends: tuple[End, End]
    image: tuple[Extent, ...]
    result: tuple[Extent, ...]
    taps: tuple[int, int]
    steps: tuple[int, int]
    pads: tuple[int, int]
    block: int

    @property
    def width(self) -> int:
        """The channels between."""
        return int(self.result[1])

    @property
    def span(self) -> int:
        """Places of a line between, with what lies beside the image."""
        wide, across = _sides(self.image)[1], _sides(self.result)[1]
        return max(self.pads[1] + wide, (across - 1) * self.steps[1] + self.taps[1])

    def sizes(self, kernel: int = 0) -> PairSizes:
        """Return the sizes that configurations depend on, of a kernel of that digest."""
        images = self.image[0] if isinstance(self.image[0], int) else 1
        panels = ceil(self.width / (2 * self.block))
        numbers, lines = 2 * self.block * self.span, int(self.result[2])
        taps, step = self.taps[0], self.steps[0]
        return PairSizes(kernel, images, int(self.image[1]), panels, lines, numbers, taps, step)


# The configurations that a pair is tried in besides the default.
Choose = Callable[[PairSizes], Sequence[PairConfiguration]]


def pairs(
    meanings: Meanings, allowed: Collection[int], choose: Choose = no_others
) -> list[RegionKernel]:
    """Find the pairs of convolutions that one kernel can compute.

    No two have a common node, but for the configurations of a pair that `choose` names: they are
    alternatives.
    """
    kernels: list[RegionKernel] = []
    points = {first for first, _ in candidates(meanings).pairs}
    for number in meanings.order:
        if number in allowed and number in points:
            try:
                pair = _pair(meanings, number, allowed)
                default = _lowered(meanings, pair)
            except LoweringError:
                continue
            by_name = {default.kernel.name: default}
            sizes = pair.sizes(default.kernel.digest)
            for configuration in choose(sizes):
                other = _lowered(meanings, pair, ChosenPair(configuration, sizes))
                by_name.setdefault(other.kernel.name, other)
            kernels += by_name.values()
    return kernels


# ------------------------------------------------------------------------------------ matching


def _pair(meanings: Meanings, first: int, allowed: Collection[int]) -> Pair:
    """Return the convolution of points, and that of each channel which its result alone is for.

    Which two these may be is derived by blocked_convolutions.dl.
    """
    graph = meanings.graph
    ends = [end_of(meanings, first, allowed, most_reads=0)]
    between = ends[0].output
    second = candidates(meanings).pairs.get((first, graph.producer[between]))
    if second is None or second not in allowed:
        raise LoweringError("no convolution whose result is read by another one alone")
    ends.append(end_of(meanings, second, allowed))
    image, hidden, result, filters = (
        meanings.shape(value)
        for value in (
            graph.nodes[first].inputs[0],
            between,
            graph.nodes[second].outputs[0],
            graph.nodes[second].inputs[1],
        )
    )
    attributes = graph.attributes(second)
    high, wide = map(int, filters[2:])
    steps = numbers_of(attributes, "strides")
    pads = pads_of(attributes, hidden, result, (high, wide), steps)
    block = block_of(int(result[1]), int(image[1]))
    return Pair(first, second, (ends[0], ends[1]), image, result, (high, wide), steps, pads, block)


# ------------------------------------------------------------------------------------ lowering


def _lowered(meanings: Meanings, pair: Pair, chosen: ChosenPair | None = None) -> RegionKernel:
    graph = meanings.graph
    how = PairConfiguration() if chosen is None else chosen.configuration
    nodes = [graph.nodes[number] for number in (pair.first, pair.second)]
    inputs = [*nodes[0].inputs[:2], nodes[1].inputs[1]]
    output = pair.ends[1].output
    biases = []
    for node in nodes:
        bias = node.inputs[2] if len(node.inputs) > 2 else ABSENT
        biases.append(-1 if bias == ABSENT else len(inputs))
        inputs += [] if bias == ABSENT else [bias]
    if any(graph.dtype(value) != "float32" for value in (*inputs, output)):
        raise LoweringError("convolutions of another type")
    numbers = _numbers(pair, biases, how)
    more = range(len(inputs), len(inputs) + len(pair.ends[1].reads))
    inputs += pair.ends[1].reads
    numbered = zip((pair.first, pair.second), pair.ends, strict=True)
    ends = [(*activation_text(graph.attributes(n)), *end.text) for n, end in numbered]
    bounds = bounds_of(graph.attributes(pair.first), pair.ends[0])
    behind = [number for end in pair.ends for number in end.nodes]
    units = ceil(pair.width / (2 * pair.block)) * numbers["PARTS"]
    written = (loop(0), Affine(), Affine(), Affine())
    shapes = shapes_of(meanings, inputs, (pair.image[0], units), [(pair.result, written)])
    down, across = pair.taps
    kernel = Kernel(
        f"ConvPointsThen{down}x{across}",
        pair_text(numbers, _sliding(pair, numbers), ends, bounds, more, ORDERS[how.loop_order]),
        shapes,
        tuple(inputs),
        (output,),
        block=1,
        grain=1,
        room=4 * 2 * numbers["LINES"] * numbers["SPAN"] * pair.block,
        arrange="arrange_convolution",
        support="convolution_blocks.h convolution_pair.h",
        flushes=flushes(meanings, behind),
        form=f"points and {down}x{across} of each channel in one pass",
        configuration=chosen,
    )
    every = (pair.first, *pair.ends[0].nodes, pair.second, *pair.ends[1].nodes)
    return region_kernel(meanings, every, kernel, "convolution", space=pair.result)


def _numbers(pair: Pair, biases: Sequence[int], how: PairConfiguration) -> dict[str, int]:
    (high, wide), (down, across) = map(_sides, (pair.image, pair.result))
    sizes = pair.sizes()
    band, rows = sizes.divided(how)
    return {
        "BLOCK": pair.block,
        "DEPTH": int(pair.image[1]),
        "WIDTH": pair.width,
        "HEIGHT_IN": high,
        "WIDTH_IN": wide,
        "HEIGHT_OUT": down,
        "WIDTH_OUT": across,
        "TOP": pair.pads[0],
        "LEFT": pair.pads[1],
        "TAPS_DOWN": pair.taps[0],
        "TAPS_ACROSS": pair.taps[1],
        "STEP_DOWN": pair.steps[0],
        "STEP_ACROSS": pair.steps[1],
        "PANELS": sizes.panels,
        "PARTS": ceil(down / rows),
        "PART_ROWS": rows,
        "BAND": band,
        "LINES": (band - 1) * pair.steps[0] + pair.taps[0],
        "SPAN": pair.span,
        "OUTS_WIDE": places_at_once(across, pair.taps[1], WIDE),
        "OUTS_NARROW": places_at_once(across, pair.taps[1], NARROW),
        "SLIDING": 2,
        "POINTS_BIAS": biases[0],
        "SLIDING_BIAS": biases[1],
    }


def _sides(shape: Sequence[Extent]) -> tuple[int, int]:
    return int(shape[2]), int(shape[3])


def _sliding(pair: Pair, numbers: dict[str, int]) -> Sliding:
    """Return the second convolution, of lines with all that lies beside the image."""
    lines, result = (numbers["LINES"], numbers["SPAN"]), _sides(pair.result)
    width = pair.width
    return Sliding(
        pair.block,
        (1, 1),
        width,
        width,
        lines,
        result,
        pair.taps,
        pair.steps,
        (1, 1),
        (0, 0),
        False,
    )


def pair_text(
    numbers: dict[str, int],
    plan: Sliding,
    ends: Sequence[Sequence[str]],
    bounds: tuple[float, float] | None,
    more: Sequence[int],
    order: str,
) -> str:
    """Return the functions of a pair, the second by `plan`.

    `ends` are statements that change t behind each of the two. Where the first does no more than
    put bounds on numbers, these are `bounds`. The latter may read elements of the inputs of the
    numbers `more`. Inputs are the image, the filters of points, those of each channel, and biases
    by their numbers. `order` says which part of the work a unit is.
    """
    slid = [numbers[name] for name in ("OUTS_WIDE", "OUTS_NARROW")]
    loops = fixed_c(str(__package__), "pair_loops.h")
    low, high = map(literal, bounds or (-np.inf, np.inf))
    return filled(
        "\n".join([lines_text(plan, *slid), loops]),
        {
            "NUMBERS": enumerators(numbers),
            "ORDER": order,
            "PRODUCT(": f"pair_product_{numbers['BLOCK']}(",
            "MORE": told_more(more, "place"),
            "LOW": low,
            "HIGH": high,
            "FIRST": "" if bounds else FIRST.replace("END", " ".join(ends[0])),
            "ACTIVATE_SECOND": " ".join(ends[1]),
        },
    )
