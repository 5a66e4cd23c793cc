"""C text of a product with a constant matrix, and of what is elementwise behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...codegen.expressions import C_TYPES
from ...codegen.vector_loops import simd_loop
from ..loops.affine import Extent, loops_of
from ..loops.c_function import access_pointers, function_text, operand, steps_along, unravelled
from ..loops.cells import Access
from ..loops.elementwise_chain import ElementwiseChain

# The panel of a matrix of float32 or float16 numbers, and room for a piece of one in float32.
MATRIX = "w + column * depth"
WIDE = "  float *wide = (float *)own->scratch + c->block * PRODUCT_PANEL;"
# How products are computed.
EACH, SEVEN = "product by product", "seven products for eight"
TILES = "three parts of each number, on matrix tiles"
HALVES = "the matrix in 16 bits"
FOUR_BITS = "weights of 4 bits"


@dataclass(frozen=True)
class FourBits:
    """Weights of 4 bits: the size of a block, and whether zero points are read of each."""

    size: int
    has_zeros: bool


def product_text(
    extents: tuple[Extent, ...],
    accesses: Sequence[Access],
    inputs: Sequence[int],
    bias: int | None,
    after: ElementwiseChain | None,
    form: str,
    four_bits: FourBits | None = None,
) -> str:
    """Return the function; `extents` are those of the rows' loops, of the columns and the depth.

    The first two inputs are the rows and the matrix; `bias` is the input that is added to each row,
    if there is one. `accesses` are what is read behind the product, where there is something. Where
    seven products stand for eight, the third input says of which panels; where the matrix has 4
    bits, as `four_bits` says, that are its scales, and the fourth its zero points.
    """
    outer = len(extents) - 2
    kind = {HALVES: "uint16_t", FOUR_BITS: "int32_t"}.get(form, "float")
    start = "NULL" if bias is None else f"{operand(bias)} + column"
    lines = [
        f"  const i64 width = c->extent[{outer}], depth = c->extent[{outer + 1}];",
        f"  const float *x = {operand(0)};",
        f"  const {kind} *w = {operand(1, kind)};",
        "  float *out = (float *)c->out[0];",
        *access_pointers(accesses, inputs),
    ]
    ending = ending_text(extents, accesses, after)
    if four_bits is not None:
        return function_text([*lines, *_four_bits(start, ending, four_bits)])
    write = {EACH: _row_blocks, HALVES: _halves, SEVEN: _seven, TILES: _tiles}[form]
    return function_text([*lines, *write(start, ending)])


def _row_blocks(start: str, ending: Sequence[str]) -> list[str]:
    """Return the loops of a task: blocks of rows, parts of these, panels."""
    return _blocks("product_block", MATRIX, "S, depth", start, ending)


def _halves(start: str, ending: Sequence[str]) -> list[str]:
    """Return the same with a piece of a panel in float32 behind the sums."""
    return [WIDE, *_blocks("product_block_halves", MATRIX, "S, depth, wide", start, ending)]


def _four_bits(start: str, ending: Sequence[str], four_bits: FourBits) -> list[str]:
    """Return the same of weights of 4 bits, whose scales and zero points lie by block."""
    size = four_bits.size
    lines = [
        WIDE,
        f"  const i64 words = (depth + 7) / 8, blocks = (depth + {size - 1}) / {size};",
        f"  const float *scale = {operand(2)};",
    ]
    zero = "NULL"
    if four_bits.has_zeros:
        lines.append(f"  const int8_t *zero = {operand(3, 'int8_t')};")
        zero = "zero + column * blocks"
    matrix = f"w + column * words, {size}, scale + column * blocks, {zero}"
    return [
        *lines,
        *_blocks("product_block_four_bits", matrix, "S, depth, wide", start, ending),
    ]


def _blocks(function: str, matrix: str, room: str, start: str, ending: Sequence[str]) -> list[str]:
    return [
        "  float *S = (float *)own->scratch;",
        "  for (i64 unit = own->first, run; unit < own->end; unit += run) {",
        "    const i64 base = unit / c->blocks * c->block, left = unit % c->blocks;",
        "    const i64 below = LEAST(base + c->block, c->rows);",
        "    const i64 part = product_part(below - base, depth);",
        "    run = LEAST(own->end - unit, c->blocks - left);",
        "    for (i64 first = base; first < below; first += part)",
        "    for (i64 panel = left; panel < left + run; panel++) {",
        "      const i64 count = LEAST(part, below - first);",
        "      const i64 column = panel * PRODUCT_PANEL;",
        "      const i64 n = LEAST(PRODUCT_PANEL, width - column);",
        "      const int more = panel + 1 < left + run;",
        f"      const float *start = {start};",
        f"      {function}(",
        f"          x + first * depth, depth, count, {matrix}, start, n, {room},",
        "          more);",
        *(f"  {line}" for line in ending),
        "    }",
        "  }",
    ]


def _seven(start: str, ending: Sequence[str]) -> list[str]:
    """Return the loop of a task over the units that it claims, of two panels each."""
    return [
        f"  const float *alike = {operand(2)};",
        "  seven all = seven_of(own->scratch, c->block, depth);",
        "  i64 held = -1, unit = 0, end = 0;",
        "  while (product_claim(c, &unit, &end, SEVEN_RUN)) {",
        "    const i64 first = unit / c->blocks * c->block, pair = unit % c->blocks;",
        "    const i64 count = LEAST(c->block, c->rows - first);",
        "    i64 column = 2 * pair * PRODUCT_PANEL;",
        f"    const float *start = {start};",
        "    if (first != held) seven_prepare(x + first * depth, depth, count, &all);",
        "    held = first;",
        "    seven_block(",
        "        x + first * depth, depth, count, w + column * depth, start, width - column, &all,",
        "        alike[pair] != 0, pair + 1 < c->blocks);",
        "    const i64 last = LEAST(width, column + 2 * PRODUCT_PANEL), apart = count;",
        "    const float *S = all.results;",
        *_panels(ending),
        "  }",
    ]


def _tiles(start: str, ending: Sequence[str]) -> list[str]:
    """Return the loop of a task over the units that it claims, of several panels each."""
    return [
        "  const i64 panels = (width + PRODUCT_PANEL - 1) / PRODUCT_PANEL, apart = c->block;",
        "  const i64 wide = (panels + c->blocks - 1) / c->blocks * PRODUCT_PANEL;",
        "  tiles all = tiles_of(apart, own->scratch, TILES_PIECE(depth));",
        "  i64 unit = 0, end = 0;",
        "  while (product_claim(c, &unit, &end, 1)) {",
        "    const i64 first = unit / c->blocks * apart, count = LEAST(apart, c->rows - first);",
        "    i64 column = unit % c->blocks * wide;",
        "    const i64 last = LEAST(width, column + wide);",
        f"    const float *start = {start};",
        "    tiles_block(",
        "        &all, first, x + first * depth, depth, count, w + column * depth, start,",
        "        last - column, apart);",
        "    const float *S = all.results;",
        *_panels(ending),
        "  }",
    ]


def _panels(ending: Sequence[str]) -> list[str]:
    """Return the loop over panels whose results lie one after another, `apart` rows of each."""
    return [
        "    for (; column < last; column += PRODUCT_PANEL, S += apart * PRODUCT_PANEL) {",
        "      const i64 n = LEAST(PRODUCT_PANEL, width - column);",
        *(f"  {line}" for line in ending),
        "    }",
    ]


def ending_text(
    extents: tuple[Extent, ...],
    accesses: Sequence[Access],
    after: ElementwiseChain | None,
    panel: str = "PRODUCT_PANEL",
) -> list[str]:
    """Return the loop over the rows of a panel, which ends them and writes them out.

    It reads rows `first` to `first + count` of sums, `S`, which are a `panel` apart, of n columns
    from `column` on, of which `out` has `width`.
    """
    lines = [
        "    for (i64 r = 0; r < count; r++) {",
        f"      const float *s = S + r * {panel};",
        "      float *o = out + (first + r) * width + column;",
    ]
    if after is None:
        return [*lines, "      memcpy(o, s, sizeof(float) * (size_t)n);", "    }"]
    steps = after.steps()
    names = ["s", *(f"p{number}" for number in range(len(accesses)))]
    rows, body, element = after.texts(names, steps)
    loop = [*body, f"o[j] = {element};"]
    return [
        *lines,
        *_rows(extents, accesses, steps),
        *(f"  {line}" for line in rows),
        f"      if (n == {panel}) {{",
        *simd_loop("j", "0", panel, loop, [], "        "),
        "      } else {",
        *simd_loop("j", "0", "n", loop, [], "        "),
        "      }",
        "    }",
    ]


def _rows(
    extents: tuple[Extent, ...], accesses: Sequence[Access], steps: Sequence[int]
) -> list[str]:
    """Return the pointers to what a row of a panel reads."""
    outer = len(extents) - 2
    real = [loop for loop in range(outer) if extents[loop] != 1]
    lines = []
    if any(not loops_of(access.map).isdisjoint(real) for access in accesses):
        lines += unravelled("first + r", real, "c->extent[{}]".format, "      ")
    for number, access in enumerate(accesses):
        along = steps_along(number, (loop for loop in real if loop in loops_of(access.map)))
        column = f" + {steps[number]} * column" if steps[number] else ""
        lines.append(f"      const {C_TYPES[access.dtype]} *p{number} = a{number}{along}{column};")
    return lines
