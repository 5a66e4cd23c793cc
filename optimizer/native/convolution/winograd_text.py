"""C text of a convolution by minimal filtering: its three transforms, and the loops around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np

from ...codegen.expressions import literal
from ...codegen.unit import fixed_c
from ..loops.affine import Extent
from ..loops.c_function import enumerators, filled, operand
from .winograd import Filtering, Matrix


@dataclass(frozen=True)
class Plan:
    """The numbers of a convolution's text.

    Channels are in `groups` that have nothing to do with each other; where several share a block,
    these count as one, `group_channels` has the channels that each of them reads and makes, and
    `filled` says how many are made by any, as the last block may have others. `rows` and `columns`
    filter along an axis each. `block` is how many channels a block has; `depth`, `width` are the
    channels read and made, both whole blocks. Sizes of `image` and `result` that are known when the
    model runs are names; the result is as large as the image there. `together` is how many tiles
    are multiplied at once at most, `piece` how many channels' filters are transformed at a time, 0
    where that was done in advance. `fetch_next` and `loop_order` are those of a configuration.
    """

    rows: Filtering
    columns: Filtering
    block: int
    depth: int
    width: int
    groups: int
    group_channels: tuple[int, int]
    filled: int
    image: tuple[Extent, Extent]
    result: tuple[Extent, Extent]
    pads: tuple[int, int]
    together: int
    piece: int
    fetch_next: bool = True
    loop_order: int = 0

    @property
    def products(self) -> int:
        """The products of a tile."""
        return self.rows.products * self.columns.products

    @property
    def free(self) -> tuple[str, ...]:
        """The sizes that are known when the model runs: a loop each, behind that of the images."""
        return tuple(dict.fromkeys(size for size in self.image if isinstance(size, str)))

    @property
    def panels(self) -> int:
        """The panels of channels that are made, each of one group."""
        return ceil(self.width // self.groups / PANEL) * self.groups

    @property
    def room(self) -> int:
        """The bytes that a task works in."""
        return 4 * self.products * sum(self.strides)

    @property
    def strides(self) -> tuple[int, int, int]:
        """Elements from a product to the next: of tiles, of what comes of them, of filters."""
        sizes = (self.together * self.depth, self.together * PANEL, self.piece * PANEL)
        return tuple(size and (ceil(size / LINE) | 1) * LINE for size in sizes)  # type: ignore[return-value]


# Channels that are made at a time, as convolution.h has them.
PANEL = 32
# The loops in which an image is transformed: over blocks of channels, and over tiles.
OVER_BLOCKS = "for (i64 b = 0; place != held && b < DEPTH / BLOCK; b++)"
OVER_TILES = "for (i64 tile = 0; tile < count; tile++)"
TILES_FIRST = (
    "for (i64 tile = 0; place != held && tile < count; tile++)",
    "for (i64 b = 0; b < DEPTH / BLOCK; b++)",
)
# Elements of a line of the cache. As powers of two lines apart fall on the same places of the first
# cache, odd numbers of them are.
LINE = 16


def minimal_text(
    plan: Plan, bias: int, summand: int, end: Sequence[str], more: Sequence[int]
) -> str:
    """Return the functions; inputs are the image, the filters as they are, those laid out in front.

    `bias` and `summand` are inputs' numbers, -1 for none; `end` are statements that change t, by
    elements of the inputs of the numbers `more`.
    """
    numbers = {
        "BLOCK": plan.block,
        "DEPTH": plan.depth,
        "WIDTH": plan.width,
        "SPLIT": plan.groups,
        "OWN_READ": plan.group_channels[0],
        "OWN_MADE": plan.group_channels[1],
        "FILLED": plan.filled,
        "TOP": plan.pads[0],
        "LEFT": plan.pads[1],
        "ROWS": plan.rows.outputs,
        "COLUMNS": plan.columns.outputs,
        "TAPS": plan.rows.taps * plan.columns.taps,
        "TAPS_ACROSS": plan.columns.taps,
        "PRODUCTS": plan.products,
        "PRODUCTS_ACROSS": plan.columns.products,
        "PANELS": plan.panels,
        "PREPARED": int(not plan.piece),
        "V_APART": plan.strides[0],
        "S_APART": plan.strides[1],
        "U_APART": plan.strides[2] or plan.depth // plan.groups * PANEL,
        "PIECE": plan.piece or plan.depth // plan.groups,
        "MOST_TOGETHER": plan.together,
        "BIAS": bias,
        "SUM": summand,
    }
    outer, inner = TILES_FIRST if plan.loop_order else (OVER_BLOCKS, OVER_TILES)
    loops = filled(
        fixed_c(str(__package__), "convolution_loops.h"),
        {
            "NUMBERS": enumerators(numbers),
            "ACTIVATE": " ".join(end),
            "OUTER": outer,
            "INNER": inner,
            "FETCHED": "PREPARED" if plan.fetch_next else "0",
            "MORE": told_more(more, "to"),
            "SIZES": ", ".join(_sizes(plan)),
        },
    )
    return "\n".join([*(_transform(name, plan) for name in ("filters", "image", "back")), loops])


def told_more(more: Sequence[int], place: str) -> str:
    """Declare where the elements lie that an end reads: of inputs by their numbers, at a place."""
    return " ".join(
        f"const float *more{position} = {operand(number)} + {place};"
        for position, number in enumerate(more)
    )


def _sizes(plan: Plan) -> list[str]:
    """Return what tells the sizes of images: numbers, or extents of loops."""
    definitions = []
    for size, name in (
        *zip(plan.image, ("HEIGHT_IN", "WIDTH_IN"), strict=True),
        *zip(plan.result, ("HEIGHT_OUT", "WIDTH_OUT"), strict=True),
    ):
        size_text = (
            f"c->extent[{1 + plan.free.index(size)}]" if isinstance(size, str) else str(size)
        )
        definitions.append(f"{name} = {size_text}")
    return definitions


# ---------------------------------------------------------------------------------- transforms


def _transform(which: str, p: Plan) -> str:
    """Return a function that transforms a tile: by the rows' matrix, then by the columns'.

    It reads a row every `row` elements and a column every `column`, and writes what it makes
    every `apart` elements, a block of channels each. On the way back 0 times the sum of a row is
    added to `sound`, which is 0 as long as all is finite.
    """
    pick: dict[str, Callable[[Filtering], Matrix]] = {
        "filters": lambda filtering: filtering.filters,
        "image": lambda filtering: filtering.image,
        "back": lambda filtering: filtering.back,
    }
    left, right = pick[which](p.rows), pick[which](p.columns)
    down, across = len(left[0]), len(right[0])
    high, wide = len(left), len(right)
    back = which == "back"
    first = [f"const VEC_32 x{i} = BLOCK_OF(x + {i} * row + j * column);" for i in range(down)]
    first += _combined(left, "x", lambda i, text: f"t[{i}][j] = {text};")
    second = [f"const VEC_32 y{j} = t[i][{j}];" for j in range(across)]
    second += _combined(right, "y", lambda j, text: f"const VEC_32 z{j} = {text};")
    second += [f"PUT_BLOCK_OF(v + (i * {wide} + {j}) * apart, z{j});" for j in range(wide)]
    if back:
        total = " + ".join(f"z{j}" for j in range(wide))
        second.append(f"*sound = FMA_VEC_32(SET_32(0.0f), {total}, *sound);")
    return "\n".join(
        [
            f"static INLINED void NAME_{which}(",
            "    const float *x, i64 row, i64 column, float *v, i64 apart"
            f"{', VEC_32 *sound' if back else ''}) {{",
            f"  enum {{ BLOCK = {p.block} }};",
            "  for (int lane = 0; lane < BLOCK; lane += LANES_32, x += LANES_32, v += LANES_32) {",
            f"    VEC_32 t[{high}][{across}];",
            "    OPAQUE(x);",
            "    OPAQUE(v);",
            '    _Pragma("GCC unroll 16")',
            f"    for (int j = 0; j < {across}; j++) {{",
            *(f"      {line}" for line in first),
            "    }",
            '    _Pragma("GCC unroll 16")',
            f"    for (int i = 0; i < {high}; i++) {{",
            *(f"      {line}" for line in second),
            "    }",
            "  }",
            "}",
        ]
    )


def _combined(matrix: Matrix, name: str, put: Callable[[int, str], str]) -> list[str]:
    """Return statements that multiply by a matrix; opposite rows or columns share their halves."""
    lines: list[str] = []
    columns = [tuple(row[number] for row in matrix) for number in range(len(matrix[0]))]
    named: list[tuple[str, tuple[Fraction, ...]]] = []
    untaken = list(range(len(columns)))
    while untaken:
        first = untaken.pop(0)
        other = next((b for b in untaken if _are_opposite(columns[first], columns[b])), None)
        if other is None:
            named.append((f"{name}{first}", columns[first]))
            continue
        untaken.remove(other)
        for plus, word in ((True, "s"), (False, "d")):
            terms = tuple(
                a if (a == b) == plus else Fraction(0)
                for a, b in zip(columns[first], columns[other], strict=True)
            )
            lines.append(
                f"const VEC_32 {name}{word}{first} = {name}{first} {'-+'[plus]} {name}{other};"
            )
            named.append((f"{name}{word}{first}", terms))
    rows = [[(text, column[i]) for text, column in named] for i in range(len(matrix))]
    done: set[int] = set()
    for i, row in enumerate(rows):
        if i in done:
            continue
        pair = next(
            (
                other
                for other in range(i + 1, len(rows))
                if other not in done
                and _are_opposite([c for _, c in row], [c for _, c in rows[other]])
            ),
            None,
        )
        if pair is None:
            lines.append(put(i, _sum(row)))
            continue
        done.add(pair)
        both = list(zip(row, rows[pair], strict=True))
        even = _sum([a for a, b in both if a[1] == b[1]])
        opposite = [a for a, b in both if a[1] != b[1]]
        factor = _common([number for _, number in opposite])
        odd = _sum([(text, number / factor) for text, number in opposite])
        lines += [f"const VEC_32 even{i} = {even}, odd{i} = {odd};"]
        for first, sign in ((i, 1), (pair, -1)):
            lines.append(put(first, _sum([(f"even{i}", Fraction(1)), (f"odd{i}", sign * factor)])))
    return lines


def _are_opposite(a: Sequence[Fraction], b: Sequence[Fraction]) -> bool:
    """Tell whether numbers agree up to signs, and both signs come."""
    if any(abs(x) != abs(y) for x, y in zip(a, b, strict=True)):
        return False
    same = [x == y for x, y in zip(a, b, strict=True) if x]
    return any(same) and not all(same)


def _common(numbers: Sequence[Fraction]) -> Fraction:
    """Return one of the numbers by which all can be divided exactly, 1 where there is none."""
    exact = [
        factor
        for factor in numbers
        if factor
        and all(Fraction(float(np.float32(float(n / factor)))) == n / factor for n in numbers)
    ]
    return next((factor for factor in exact if abs(factor) == 1), (*exact, Fraction(1))[0])


def _sum(terms: Sequence[tuple[str, Fraction]]) -> str:
    """Return the text of a sum of vectors times numbers."""
    kept = sorted(((text, c) for text, c in terms if c), key=lambda term: abs(term[1]) != 1)
    kept.sort(key=lambda term: (abs(term[1]) != 1, term[1] < 0))
    assert kept
    text, factor = kept[0]
    sum_text = text if factor == 1 else f"SET_32({literal(float(factor))}) * {text}"
    for text, factor in kept[1:]:
        if abs(factor) == 1:
            sum_text = f"{sum_text} {'+' if factor > 0 else '-'} {text}"
        else:
            sum_text = f"FMA_VEC_32(SET_32({literal(float(factor))}), {text}, {sum_text})"
    return sum_text
