"""C text of an attention: blocks of queries, panels of keys, a softmax between two products."""

from __future__ import annotations

from ...codegen.expressions import LoweringError, literal
from ..loops.affine import Affine, Extent, Map, Ranges
from ..loops.c_function import access_base, function_text, unravelled
from ..loops.cells import Access, Cells
from ..loops.elements import C_TYPES
from ..loops.kernel_region import Meanings, Region
from ..loops.loops import Groups
from ..loops.row_text import Writer
from .mask import Masks


def own_place(shape: tuple[Extent, ...]) -> Map:
    """Say by its own axes that have more than one element where a tensor's elements are."""
    axes = [axis for axis, size in enumerate(shape) if size != 1]
    return tuple(
        Affine() if size == 1 else Affine(((axes.index(axis), 1),))
        for axis, size in enumerate(shape)
    )


def renamed(place: Map, shape: tuple[Extent, ...], loops: tuple[int, ...]) -> Map:
    """Say by the attention's loops what is said by those of a tensor's own axes."""
    axes = [axis for axis, size in enumerate(shape) if size != 1]
    return tuple(
        Affine(tuple(sorted((loops[axes[n]], c) for n, c in index.terms)), index.offset)
        for index in place
    )


def moves(
    meanings: Meanings, nodes: tuple[int, ...], output: int, shape: tuple[Extent, ...]
) -> Cells:
    """Return the cells of nodes that give one output, by the loops of that output's axes."""
    axes = tuple(axis for axis, size in enumerate(shape) if size != 1)
    region = Region(nodes, (), (output,), shape)
    return Cells(meanings, region, axes, Ranges(tuple(shape[axis] for axis in axes)))


class Between:
    """What is computed of a row of scores, or of another product, and the mask in it."""

    def __init__(
        self,
        meanings: Meanings,
        chain: tuple[int, ...],
        scores: int,
        result: int,
        shape: tuple[Extent, ...],
        score_shape: tuple[Extent, ...] | None = None,
    ) -> None:
        """`shape` is that of the result, `score_shape` that of the scores where they differ."""
        self.cells = moves(meanings, chain, result, shape)
        self.axes = self.cells.axes
        if not self.axes or self.axes[-1] != len(shape) - 1:
            raise LoweringError("attention to one key")
        loops = tuple(range(len(shape)))
        self.scores = next(
            (i for i, access in enumerate(self.cells.accesses) if access.value == scores), -1
        )
        if self.scores < 0 or self.cells.accesses[self.scores].map != own_place(
            shape if score_shape is None else score_shape
        ):
            raise LoweringError("scores that are moved before the softmax")
        others = [access for access in self.cells.accesses if access.value != scores]
        if len(others) != len(self.cells.accesses) - 1:
            raise LoweringError("scores that are read in several places")
        self.loads = [Access(o.value, renamed(o.map, shape, loops), o.dtype) for o in others]
        self._meanings = meanings
        self._last = len(shape) - 1
        self._others = others

    @property
    def is_masked(self) -> bool:
        """Tell whether scores are added to a mask, or chosen by one, in the end."""
        steps = self.steps()
        return self.mask(["s", *map(str, range(len(steps)))], steps) is not None

    def steps(self) -> list[int]:
        """Return how far elements are apart along a row of each load."""
        inner_steps = []
        for load in self.loads:
            sizes = self._meanings.shape(load.value)
            using = [axis for axis, index in enumerate(load.map) if self._last in index.loops]
            if using and (len(using) > 1 or any(s != 1 for s in sizes[using[0] + 1 :])):
                raise LoweringError("a mask whose rows don't lie side by side")
            inner_steps.append(load.map[using[0]].coefficient(self._last) if using else 0)
        return inner_steps

    def body(self, names: list[str], steps: list[int]) -> tuple[list[str], list[str], str]:
        """Return statements of a row, statements of an element, and the element's text.

        `names` are pointers to a row's first element: of the scores, then of each load.
        """
        accesses = list(self.cells.accesses)
        order = [
            names[0] if i == self.scores else names[1 + self._others.index(access)]
            for i, access in enumerate(accesses)
        ]
        skips = [
            1 if i == self.scores else steps[self._others.index(access)]
            for i, access in enumerate(accesses)
        ]
        extents = self.cells.ranges.extents
        writer = Writer(
            [self.cells],
            [(0, None)],
            accesses,
            [],
            skips,
            Groups(tuple(range(len(extents)))),
            extents,
            pointers=order,
        )
        rows, lines, (text,) = writer.cell_texts(self.cells)
        return rows, lines, text

    def mask(self, names: list[str], steps: list[int]) -> tuple[str, str] | None:
        """Return the text of an element's mask, and of the factor of its score.

        None where no mask is told by loads alone (mask.py), or it is one for a whole row.
        """
        changing = False

        def element(access: int) -> str:
            nonlocal changing
            load = self._others.index(self.cells.accesses[access])
            changing |= steps[load] != 0
            index = "j" if steps[load] == 1 else f"{steps[load]} * j"
            return f"{names[1 + load]}[{index}]"

        mask = Masks(self.cells, self.scores, element).of_output()
        return (mask.text, literal(mask.factor)) if mask is not None and changing else None


# A weight of a row is NaN where all of them are.
NOTHING = (
    "      if (mass != mass) {",
    "        for (i64 j = from; j < to; j++) s[j] = 0;",
    "        mass = 1;",
    "      }",
)


def attention_text(
    extents: tuple[Extent, ...],
    accesses: list[Access],
    inputs: tuple[int, ...],
    between: Between,
    scale: float,
    without_nan: bool,
) -> str:
    """Return the function; `accesses` are those of the three operands, then those between.

    Keys are multiplied by `scale`. `without_nan` a row whose weights are NaN has none.
    """
    batch = len(extents) - 4
    i, j, d, e = batch, batch + 1, batch + 2, batch + 3
    steps = between.steps()
    names = ["s", *(f"p{3 + i}" for i in range(len(between.loads)))]
    rows, body, element = between.body(names, steps)
    mask = between.mask(names, steps)

    def outer(number: int) -> str:
        return "".join(
            f" + i{loop} * c->stride[{number}][{loop}]"
            for loop in range(batch)
            if any(loop in index.loops for index in accesses[number].map)
        )

    def pointer(number: int, indent: str) -> str:
        access = accesses[number]
        along = any(i in index.loops for index in access.map)
        row = f" + (first + r) * c->stride[{number}][{i}]" if along else ""
        base = access_base(number, access, inputs)
        return f"{indent}const {C_TYPES[access.dtype]} *p{number} = {base}{outer(number)}{row};"

    lines = [
        f"  const i64 queries = c->extent[{i}], keys = c->extent[{j}];",
        f"  const i64 depth = c->extent[{d}], width = c->extent[{e}], most = c->block;",
        "  const i64 padded = (keys + 31) / 32 * 32, wide = (width + 31) / 32 * 32;",
        "  float *K = (float *)own->scratch, *V = K + padded * depth, *S = V + wide * keys;",
        "  float *O = S + most * padded, *inverse = O + most * wide;",
        "  i64 packed = -1;",
        "  float longest = 0;",
        "  int sound = 0;",
        "  for (i64 unit = own->first; unit < own->end; unit++) {",
        "    const i64 head = unit / c->blocks, first = unit % c->blocks * most;",
        "    const i64 count = LEAST(most, queries - first);",
        *unravelled("head", range(batch), "c->extent[{}]".format),
    ]
    for number, name in enumerate("qkv"):
        base = access_base(number, accesses[number], inputs)
        lines.append(f"    const float *{name} = {base}{outer(number)};")
    lines += [
        f"    const i64 qi = c->stride[0][{i}], qd = c->stride[0][{d}];",
        "    if (packed != head) {",
        f"      attention_pack(k, c->stride[1][{d}], c->stride[1][{j}], K, depth, keys, "
        f"{literal(scale)});",
        f"      attention_pack(v, c->stride[2][{j}], c->stride[2][{e}], V, keys, width, 1.0f);",
        "      packed = head;",
    ]
    if mask is not None:
        lines += [
            "      longest = attention_longest(K, depth, keys);",
            "      sound = attention_finite(V, wide / PANEL * keys * PANEL);",
        ]
    lines += ["    }", "    i64 from = 0, to = keys;"]
    if mask is not None:
        text, factor = mask
        lines += [
            "    if (sound) {",
            "      from = keys; to = 0;",
            "      for (i64 r = 0; r < count && (from > 0 || to < keys); r++) {",
            *(pointer(3 + i, "        ") for i in range(len(between.loads))),
            "        const float square = attention_square(q + (first + r) * qi, qd, depth);",
            f"        const float bound = {factor} * __builtin_sqrtf(longest * square);",
            "        float top = -INFINITY;",
            "        #pragma omp simd reduction(max:top)",
            f"        for (i64 j = 0; j < keys; j++) {{ const float t = {text}; "
            "top = top < t ? t : top; }",
            "        const float least = top - 2.02f * bound - 110.0f;",
            "        i64 start = 0, stop = keys;",
            "        for (; stop > to; stop = (stop - 1) / PANEL * PANEL) {",
            "          int dead = 1;",
            "          for (i64 j = (stop - 1) / PANEL * PANEL; j < stop; j++)",
            f"            dead &= {text} < least;",
            "          if (!dead) break;",
            "        }",
            "        for (; start < from && start < stop; start += PANEL) {",
            "          int dead = 1;",
            "          for (i64 j = start; j < LEAST(start + PANEL, keys); j++)",
            f"            dead &= {text} < least;",
            "          if (!dead) break;",
            "        }",
            "        from = LEAST(from, start);",
            "        to = stop > to ? stop : to;",
            "      }",
            "    }",
        ]
    lines += [
        "    for (i64 at = from; at < to; at += PANEL)",
        "      attention_product(q + first * qi, qi, qd, K + at * depth, S + at, padded,",
        "                        count, depth);",
        "    for (i64 r = 0; r < count; r++) {",
        "      float *s = S + r * padded;",
        *(pointer(3 + i, "      ") for i in range(len(between.loads))),
        *(f"  {line}" for line in rows),
        "      float top = -INFINITY, mass = 0;",
        "      int32_t none = 0;",
        "      #pragma omp simd reduction(max:top) reduction(|:none)",
        "      for (i64 j = from; j < to; j++) {",
        *(f"        {line}" for line in body),
        f"        const float t = {element};",
        "        s[j] = t; top = top < t ? t : top; none |= t != t;",
        "      }",
        "      if (none) top = NAN;",
        "      #pragma omp simd reduction(+:mass)",
        "      for (i64 j = from; j < to; j++) {",
        "        const float t = brief_fall_32(s[j] - top);",
        "        s[j] = t; mass += t;",
        "      }",
        *(NOTHING if without_nan else ()),
        "      inverse[r] = 1.0f / mass;",
        "    }",
        "    for (i64 at = 0; at < width; at += PANEL)",
        "      attention_product(S + from, padded, 1, V + at * keys + from * PANEL, O + at, wide,",
        "                        count, to - from);",
        "    float *out = (float *)c->out[0]"
        + "".join(f" + i{loop} * c->place[0][{loop}]" for loop in range(batch))
        + ";",
        f"    const i64 oi = c->place[0][{i}], oe = c->place[0][{e}];",
        "    for (i64 r = 0; r < count; r++)",
        "      for (i64 n = 0; n < width; n++)",
        "        out[(first + r) * oi + n * oe] = O[r * wide + n] * inverse[r];",
        "  }",
    ]
    return function_text(lines)
