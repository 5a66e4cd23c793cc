"""C text of an attention: blocks of queries, panels of keys, a softmax between two products."""

from __future__ import annotations

from ...codegen.expressions import C_TYPES, Reduction, declared, literal
from ...codegen.vector_loops import Fold, simd_loop
from ..loops.affine import Extent, loops_of
from ..loops.c_function import access_base, function_text, steps_along, unravelled
from ..loops.cells import Access
from ..loops.elementwise_chain import ElementwiseChain
from .mask import mask_of

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
    between: ElementwiseChain,
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
    rows, body, element = between.texts(names, steps)
    mask = mask_of(between, names, steps)
    largest = Fold(Reduction(0, "max", element, "float32"))
    total = Fold(Reduction(1, "sum", "weight", "float32"))
    weight = declared("weight", "float32", "brief_fall_32(s[j] - top)")

    def outer(number: int) -> str:
        loops = loops_of(accesses[number].map)
        return steps_along(number, (loop for loop in range(batch) if loop in loops))

    def pointer(number: int, indent: str) -> str:
        access = accesses[number]
        row = f" + (first + r) * c->stride[{number}][{i}]" if i in loops_of(access.map) else ""
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
        text, factor = mask.text, literal(mask.factor)
        largest_mask = Fold(Reduction(2, "max", text, "float32"))
        lines += [
            "    if (sound) {",
            "      from = keys; to = 0;",
            "      for (i64 r = 0; r < count && (from > 0 || to < keys); r++) {",
            *(pointer(3 + i, "        ") for i in range(len(between.loads))),
            "        const float square = attention_square(q + (first + r) * qi, qd, depth);",
            f"        const float bound = {factor} * __builtin_sqrtf(longest * square);",
            f"        {largest_mask.declare()}",
            *simd_loop("j", "0", "keys", [], [largest_mask], "        "),
            f"        const float least = {largest_mask.result()} - 2.02f * bound - 110.0f;",
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
        f"      {largest.declare()} {total.declare()}",
        *simd_loop("j", "from", "to", [*body, f"s[j] = {element};"], [largest], "      "),
        f"      const float top = {largest.result()};",
        *simd_loop("j", "from", "to", [weight, "s[j] = weight;"], [total], "      "),
        f"      float mass = {total.result()};",
        *(NOTHING if without_nan else ()),
        "      inverse[r] = 1.0f / mass;",
        "    }",
        "    for (i64 at = 0; at < width; at += PANEL)",
        "      attention_product(S + from, padded, 1, V + at * keys + from * PANEL, O + at, wide,",
        "                        count, to - from);",
        f"    float *out = (float *)c->out[0]{steps_along(0, range(batch), 'place')};",
        f"    const i64 oi = c->place[0][{i}], oe = c->place[0][{e}];",
        "    for (i64 r = 0; r < count; r++)",
        "      for (i64 n = 0; n < width; n++)",
        "        out[(first + r) * oi + n * oe] = O[r * wide + n] * inverse[r];",
        "  }",
    ]
    return function_text(lines)
