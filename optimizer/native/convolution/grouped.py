"""Convolutions in groups over blocks of channels, multiplied out: each channel by itself, or a few.

A filter slides along a row of the image: vectors of a block's channels at several places at once,
whose sums stay in registers, so that what is read of the image serves all taps that meet it. A
group of blocks has one of its channels in all lanes; where several groups share a block, each
lane reads its own group's channel, so no infinity of one meets zeros of another. What lies beside
the image is left out when the text is written, for tiles at its ends by text of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from ...codegen.expressions import LoweringError, literal
from ...codegen.unit import fixed_c
from ..loops.c_function import enumerators, filled
from .winograd_text import told_more

# Registers for vectors that there are with vectors of 16 lanes, and else; places that a filter is
# slid to at once, at most; taps side by side that fit beside these.
WIDE, NARROW = 32, 16
MOST_PLACES, MOST_TAPS = 14, 7
# Units of work that there are at least, where an image has so many rows for each.
LEAST_UNITS, LEAST_ROWS = 6, 4


@dataclass(frozen=True)
class Sliding:
    """The numbers of a convolution in groups.

    `group_channels` are the channels that a group reads and makes, `depth` and `width` those of all
    groups, whole blocks of `block`. Sizes of image and result, taps, steps, dilations, zeros before
    the image: rows first. `is_dense` tells filters as ONNX Runtime has them in blocks of channels
    that are read, from those that aren't: (block of m, c, row, column, m of the block).
    """

    block: int
    group_channels: tuple[int, int]
    depth: int
    width: int
    image: tuple[int, int]
    result: tuple[int, int]
    taps: tuple[int, int]
    steps: tuple[int, int]
    dilations: tuple[int, int]
    pads: tuple[int, int]
    is_dense: bool

    @property
    def broadcasts(self) -> bool:
        """Tell whether all channels of a block are of one group."""
        return self.group_channels[1] % self.block == 0

    @property
    def parts(self) -> int:
        """The parts that an image's rows are divided into."""
        blocks = self.width // self.block
        return max(1, min(ceil(LEAST_UNITS / blocks), self.result[0] // LEAST_ROWS))

    @property
    def part_rows(self) -> int:
        """The rows of a part."""
        return ceil(self.result[0] / self.parts)

    @property
    def units(self) -> int:
        """The units of work of an image."""
        return self.width // self.block * ceil(self.result[0] / self.part_rows)


def check_sliding(p: Sliding) -> None:
    """Raise LoweringError where groups don't fill blocks, nor blocks have whole groups."""
    read, written = p.group_channels
    if not p.broadcasts and (read != written or p.block % written):
        raise LoweringError("groups that straddle blocks")
    if max(p.taps) > MOST_TAPS or p.taps == (1, 1):
        raise LoweringError("filters of another size")


def lines_text(p: Sliding, wide: int, narrow: int) -> str:
    """Return NAME_slide: results at so many places of a row, by the vectors' width.

    It reads lines in which what lies beside the image is 0.
    """
    numbers = {"BLOCK": p.block, "HEIGHT_IN": p.image[0], "WIDTH_IN": p.image[1], "DOWN_APART": 1}
    numbers |= {"OWN_READ": 1, "FILTER_CHANNEL": 0, "FILTER_TAP": p.block}
    constants = enumerators(numbers)
    span = range(p.image[1])
    texts = (_tile("NAME_slide", p, places, span, constants, None) for places in (wide, narrow))
    return _by_level(*texts)


def sliding_text(
    p: Sliding,
    bias: int,
    summand: int,
    bounds: tuple[float, float] | None,
    end: Sequence[str],
    more: Sequence[int] = (),
) -> str:
    """Return the functions; inputs are the image and the filters.

    `bias` and `summand` are inputs' numbers, -1 for none. The result ends in `bounds`; where these
    are None in statements that change t, by elements of the inputs of the numbers `more`.
    """
    read, written = p.group_channels
    taps = p.taps[0] * p.taps[1]
    dense = p.is_dense and p.broadcasts
    numbers = {
        "BLOCK": p.block,
        "DEPTH": p.depth,
        "WIDTH": p.width,
        "BLOCKS": p.width // p.block,
        "OWN_READ": read,
        "OWN_MADE": written,
        "BROADCASTS": int(p.broadcasts),
        "HEIGHT_IN": p.image[0],
        "WIDTH_IN": p.image[1],
        "HEIGHT_OUT": p.result[0],
        "WIDTH_OUT": p.result[1],
        "TOP": p.pads[0],
        "TAPS_DOWN": p.taps[0],
        "TAPS_ACROSS": p.taps[1],
        "STEP_DOWN": p.steps[0],
        "DOWN_APART": p.dilations[0],
        "PARTS": ceil(p.result[0] / p.part_rows),
        "PART_ROWS": p.part_rows,
        # how far apart the filters of neighbouring channels lie, of blocks of them, and of taps
        "FILTER_CHANNEL": p.block * (1 if dense else taps),
        "FILTER_BLOCK": p.block * p.block * taps,
        "FILTER_TAP": p.block * (p.block if dense else 1),
        "BIAS": bias,
        "SUM": summand,
    }
    constants = enumerators(numbers)
    functions, calls = [], []
    for registers in (WIDE, NARROW):
        places = places_at_once(p.result[1], p.taps[1], registers)
        texts, called = _tiles(p, places, constants, bounds)
        functions.append(texts)
        calls.append(called)
    loops = filled(
        fixed_c(str(__package__), "grouped_loops.h"),
        {
            "NUMBERS": constants,
            "TILES": _by_level(*calls),
            "AFTER": _after(bounds, end, more),
        },
    )
    return "\n".join([_by_level(*functions), loops])


# --------------------------------------------------------------------------------------- text


def _by_level(wide: str, narrow: str) -> str:
    return f"\n#if defined(LEVEL_AVX512)\n{wide}\n#else\n{narrow}\n#endif\n"


def _after(bounds: object, end: Sequence[str], more: Sequence[int]) -> str:
    """Return what changes a row of results where that is more than bounds."""
    if bounds is not None:
        return ""
    return "\n".join(
        [
            told_more(more, "place"),
            "#pragma omp simd",
            "for (i64 at = 0; at < WIDTH_OUT * BLOCK; at++) {",
            f"  float t = out[at]; {' '.join(end)} out[at] = t;",
            "}",
        ]
    )


def places_at_once(count: int, across: int, registers: int) -> int:
    """Return how many of so many places are taken at once, so that few are taken twice.

    Their sums, `across` taps and what is read have so many registers.
    """
    most = min(MOST_PLACES, registers - 2 - across)
    offered = range(max(1, min(count, most // 2)), min(count, most) + 1)
    return min(offered, key=lambda at_once: (ceil(count / at_once) * at_once, -at_once))


def _tiles(
    p: Sliding, places: int, constants: str, bounds: tuple[float, float] | None
) -> tuple[str, str]:
    """Return functions for the tiles of a row, and statements that call them."""
    count = p.result[1]
    starts = [min(start, count - places) for start in range(0, count, places)]
    span = (places - 1) * p.steps[1] + (p.taps[1] - 1) * p.dilations[1] + 1
    lefts = {start: start * p.steps[1] - p.pads[1] for start in starts}
    inner = [start for start, offset in lefts.items() if 0 <= offset <= p.image[1] - span]
    arguments = "image, first, x - image + ({left}) * BLOCK, w, rows, bias, sum, {start}, out"
    functions, calls = [], []
    for start, offset in lefts.items():
        if start not in inner:
            seen = range(-offset, p.image[1] - offset)
            functions.append(_tile(f"NAME_{start}", p, places, seen, constants, bounds))
            calls.append(f"NAME_{start}({arguments.format(left=offset, start=start)});")
    if inner:
        functions.append(_tile("NAME_inner", p, places, range(span), constants, bounds))
        first = f"starts[at] * {p.steps[1]} - {p.pads[1]}"
        calls += [
            f"static const int starts[] = {{{', '.join(map(str, inner))}}};",
            f"for (int at = 0; at < {len(inner)}; at++)",
            f"  NAME_inner({arguments.format(left=first, start='starts[at]')});",
        ]
    return "\n".join(functions), "\n".join(calls)


def _tile(
    name: str,
    p: Sliding,
    places: int,
    seen: range,
    constants: str,
    bounds: tuple[float, float] | None,
) -> str:
    """Return a function that makes results at some places of a row, `seen` of it being there.

    It reads the image from `at` elements behind its beginning on: the column of the first tap at
    the first place, which may lie before the row. `first` is the first channel that is read.
    """
    across, step, spacing = p.taps[1], p.steps[1], p.dilations[1]
    # the places and taps that meet each column
    met: dict[int, list[tuple[int, int]]] = {}
    for j in range(places):
        for k in range(across):
            if j * step + k * spacing in seen:
                met.setdefault(j * step + k * spacing, []).append((j, k))
    taps = sorted({k for pairs in met.values() for _, k in pairs})
    lines = [f"const float *filter = w + CHANNELS_FILTER + i * {across} * FILTER_TAP + lane;"]
    for k in taps:
        lines += [f"VEC_32 f{k} = BLOCK_OF(filter + {k} * FILTER_TAP);", f"HOLD(f{k});"]
    for column in sorted(met):
        lines.append(f"{{ VEC_32 one = {_read(p, column)}; HOLD(one);")
        lines += [f"  s{j} = FMA_VEC_32(one, f{k}, s{j});" for j, k in met[column]]
        lines.append("}")
    body = "\n".join(lines).replace(
        "CHANNELS_FILTER",
        "k / BLOCK * FILTER_BLOCK + k % BLOCK * FILTER_CHANNEL"
        if p.is_dense and p.broadcasts
        else "k * FILTER_CHANNEL",
    )
    channel = "(first + k) / BLOCK * (HEIGHT_IN * WIDTH_IN * BLOCK) + (first + k) % BLOCK"
    if not p.broadcasts:
        channel = "first * (HEIGHT_IN * WIDTH_IN) + lane"
    text = [
        f"static INLINED void {name}(",
        "    const float *image, i64 first, i64 at, const float *w, i64 rows, const float *bias,",
        "    const float *sum, i64 start, float *out) {",
        f"  enum {{ {constants} }};",
        "  sum = sum ? sum + start * BLOCK : NULL;",
        "  out += start * BLOCK;",
        "  for (int lane = 0; lane < BLOCK; lane += LANES_32) {",
        "    const VEC_32 begun = bias ? BLOCK_OF(bias + lane) : SET_32(0.0f);",
        f"    VEC_32 {', '.join(f's{j} = begun' for j in range(places))};",
        "    for (i64 i = 0; i < rows; i++)",
        "      for (i64 k = 0; k < OWN_READ; k++) {",
        "        const float *from = image + at + i * (DOWN_APART * WIDTH_IN * BLOCK)",
        f"                            + {channel};",
        body,
        "      }",
    ]
    for j in range(places):
        text.append(f"    if (sum) s{j} += BLOCK_OF(sum + {j} * BLOCK + lane);")
        result = f"s{j}"
        if bounds is not None and bounds != (-np.inf, np.inf):
            result = f"BOUND_32(s{j}, SET_32({literal(bounds[0])}), SET_32({literal(bounds[1])}))"
        text.append(f"    PUT_BLOCK_OF(out + {j} * BLOCK + lane, {result});")
    return "\n".join([*text, "  }", "}"])


def _read(p: Sliding, column: int) -> str:
    """Return the text of what the lanes of a vector read of a column."""
    place = f"from + ({column}) * BLOCK"
    if p.broadcasts:
        return f"SET_32(*({place}))"
    if p.group_channels[0] == 1:
        return f"BLOCK_OF({place})"
    group_width = p.group_channels[0]
    return (
        f"LANES_32 > {group_width} ? SPREAD_32(BLOCK_OF({place}), {group_width}, k)"
        f" : SET_32((({place}) - lane % {group_width})[k])"
    )
