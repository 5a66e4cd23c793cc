/* Products of float32 numbers on the processor's matrix tiles, which multiply bfloat16 numbers and add up
   in float32, sixteen times as many at a time as vectors do. A float32 number is the sum of three such
   numbers, of eight bits each: x = x1 + x2 + x3 exactly, as each is what is left, cut off. Of the nine
   products of parts six count,

     x w = x1 w1 + x1 w2 + x1 w3 + x2 w1 + x2 w2 + x3 w1,

   what is left out is less than 2^-21 |x w|, and 2^-23 of it on average: as much as rounding does (Henry, Tang
   and Heinecke, Leveraging the bfloat16 artificial intelligence datatype for higher-precision computations,
   2019). Parts below the smallest normal number count as zero. A block of rows, or a piece of it, is taken
   apart once for all panels of a unit; each piece of a panel once for all rows of a block. Where a number
   isn't finite, its rows, or the panel, are multiplied out as they are.

   Tiles 0 to 5 hold the sums of 32 rows and a panel, tile 6 rows, tile 7 columns. */
#undef TILES_HERE
#if defined(LEVEL_AVX512) && defined(__linux__)
#define TILES_HERE 1
#endif
#ifndef TILE_BYTES
#define TILE_BYTES 1024
/* rows for which it is worth taking a panel apart */
#define TILES_LEAST 16
/* What a task works in: a piece of a block of rows, [tiles of 16 rows][tiles of 32 numbers][parts]; a piece
   of a panel, [tiles of 32 rows][parts][tiles of 16 columns]; the results, panel after panel; which 32
   rows aren't finite. `base` and `from` say which rows and which depth are held. */
typedef struct { char *rows, *panel; float *results; uint8_t *apart; i64 base, from; } tiles;
#endif

static tiles tiles_of(i64 block, char *scratch, i64 piece) {
  tiles t;
  t.rows = scratch;
  t.panel = t.rows + 6 * block * piece;
  t.results = (float *)(t.panel + 6 * PRODUCT_PANEL * piece);
  t.apart = (uint8_t *)(t.results + TILES_PANELS * block * PRODUCT_PANEL);
  t.base = t.from = -1;
  return t;
}

#if TILES_HERE
#define TILE_LOAD(tile, from, step) \
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile : : "r"(from), "r"((i64)(step)) : "memory")
#define TILE_STORE(tile, to, step) \
  __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" : : "r"(to), "r"((i64)(step)) : "memory")
#define TILE_PRODUCT(sum) __asm__ volatile("tdpbf16ps %%tmm7, %%tmm6, %%tmm" #sum : :)

/* all tiles of 16 rows of 64 bytes */
static void tiles_begin(void) {
  uint8_t shape[64] __attribute__((aligned(64))) = {1};
  for (int tile = 0; tile < 8; tile++) {
    shape[16 + 2 * tile] = 64;
    shape[48 + tile] = 16;
  }
  __asm__ volatile("ldtilecfg %0" : : "m"(shape));
}
static void tiles_end(void) { __asm__ volatile("tilerelease" : : : "memory"); }

/* The three parts of two vectors, their upper halves put together as `order` says; `largest` is the
   largest magnitude so far, as bits. */
static INLINED void tiles_parts(__m512 x, __m512 y, __m512i order, char *to, i64 apart, __m512i *largest) {
  const __m512i upper = _mm512_set1_epi32((int)0xffff0000u), magnitude = _mm512_set1_epi32(0x7fffffff);
  const __m512i a = _mm512_and_si512(_mm512_castps_si512(x), magnitude);
  const __m512i b = _mm512_and_si512(_mm512_castps_si512(y), magnitude);
  *largest = _mm512_max_epu32(*largest, _mm512_max_epu32(a, b));
  _Pragma("GCC unroll 3")
  for (int part = 0; part < 3; part++, to += apart) {
    const __m512i p = _mm512_castps_si512(x), q = _mm512_castps_si512(y);
    _mm512_store_si512(to, _mm512_permutex2var_epi16(p, order, q));
    x = _mm512_sub_ps(x, _mm512_castsi512_ps(_mm512_and_si512(p, upper)));
    y = _mm512_sub_ps(y, _mm512_castsi512_ps(_mm512_and_si512(q, upper)));
  }
}
static INLINED __m512i tiles_in_turn(void) {
  uint16_t upper[32];
  for (int i = 0; i < 32; i++) upper[i] = (uint16_t)(2 * i + 1);
  return _mm512_loadu_si512(upper);
}
static inline int tiles_finite(__m512i largest) { return _mm512_reduce_max_epu32(largest) < 0x7f800000u; }

/* Take D elements of each of `count` rows apart, with zeros up to whole tiles and to two of these. */
static APART void tiles_rows(const float *x, i64 depth, i64 count, i64 D, char *to, uint8_t *apart) {
  const __m512i order = tiles_in_turn();
  const i64 whole = (D + 31) / 32;
  __m512i largest = _mm512_setzero_si512();
  for (i64 r = 0; r < (count + 31) / 32 * 32; r++) {
    char *row = to + r / 16 * whole * 3 * TILE_BYTES + r % 16 * 64;
    for (i64 k = 0; k < D; k += 32, row += 3 * TILE_BYTES) {
      const i64 left = r < count ? LEAST(32, D - k) : 0;
      const __mmask32 some = (__mmask32)((1ull << left) - 1);
      tiles_parts(_mm512_maskz_loadu_ps((__mmask16)some, x + r * depth + k),
                  _mm512_maskz_loadu_ps((__mmask16)(some >> 16), x + r * depth + k + 16), order, row, TILE_BYTES,
                  &largest);
    }
    if (r % 32 < 31) continue;
    apart[r / 32] = !tiles_finite(largest);
    largest = _mm512_setzero_si512();
  }
}
/* Take D rows of a panel apart, two rows side by side; tell whether all are finite. */
static APART int tiles_panel(const float *w, i64 D, char *to) {
  uint16_t in_pairs[32];
  for (int i = 0; i < 32; i++) in_pairs[i] = (uint16_t)((i & ~1) + 1 + 32 * (i & 1));
  const __m512i order = _mm512_loadu_si512(in_pairs);
  __m512i largest = _mm512_setzero_si512();
  for (i64 k = 0; k < (D + 31) / 32 * 32; k += 2, w += 2 * PRODUCT_PANEL) {
    char *pair = to + k / 32 * 9 * TILE_BYTES + k % 32 * 32;
    const __mmask16 one = k < D ? 0xffff : 0, other = k + 1 < D ? 0xffff : 0;
    _Pragma("GCC unroll 3")
    for (int v = 0; v < 3; v++)
      tiles_parts(_mm512_maskz_loadu_ps(one, w + 16 * v), _mm512_maskz_loadu_ps(other, w + PRODUCT_PANEL + 16 * v),
                  order, pair + v * TILE_BYTES, 3 * TILE_BYTES, &largest);
  }
  return tiles_finite(largest);
}

/* one part of 16 rows times one part of a panel */
#define TILES_3(w, a, b, c) \
  do { \
    TILE_LOAD(7, w, 64); TILE_PRODUCT(a); \
    if (columns > 1) { TILE_LOAD(7, (w) + TILE_BYTES, 64); TILE_PRODUCT(b); } \
    if (columns > 2) { TILE_LOAD(7, (w) + 2 * TILE_BYTES, 64); TILE_PRODUCT(c); } \
  } while (0)
/* all of it, the first part of the rows times all parts of the panel */
#define TILES_18(x, w, a, b, c) \
  do { \
    TILE_LOAD(6, x, 64); \
    TILES_3(w, a, b, c); TILES_3((w) + 3 * TILE_BYTES, a, b, c); TILES_3((w) + 6 * TILE_BYTES, a, b, c); \
    TILE_LOAD(6, (x) + TILE_BYTES, 64); \
    TILES_3(w, a, b, c); TILES_3((w) + 3 * TILE_BYTES, a, b, c); \
    TILE_LOAD(6, (x) + 2 * TILE_BYTES, 64); \
    TILES_3(w, a, b, c); \
  } while (0)
#define TILES_SUMS(each, S, a, b, c) \
  do { \
    each(a, S, 4 * PRODUCT_PANEL); \
    if (columns > 1) each(b, (S) + 16, 4 * PRODUCT_PANEL); \
    if (columns > 2) each(c, (S) + 32, 4 * PRODUCT_PANEL); \
  } while (0)

/* S += x w for 32 rows, or 16 of them, `columns` tiles of a panel, and `whole` tiles of the depth; `bytes`
   from `next` on are on their way at each. */
static INLINED void tiles_sums(
    const int rows, const int columns, const char *x, const char *w, float *S, i64 whole, const char *next,
    i64 bytes) {
  const char *below = x + 3 * TILE_BYTES * whole;
  TILES_SUMS(TILE_LOAD, S, 0, 1, 2);
  if (rows > 16) TILES_SUMS(TILE_LOAD, S + 16 * PRODUCT_PANEL, 3, 4, 5);
  for (i64 k = 0; k < whole; k++, x += 3 * TILE_BYTES, below += 3 * TILE_BYTES, w += 9 * TILE_BYTES) {
    for (i64 at = 0; at < bytes; at += 64) __builtin_prefetch(next + at, 0, 2);
    next += bytes;
    TILES_18(x, w, 0, 1, 2);
    if (rows > 16) TILES_18(below, w, 3, 4, 5);
  }
  TILES_SUMS(TILE_STORE, S, 0, 1, 2);
  if (rows > 16) TILES_SUMS(TILE_STORE, S + 16 * PRODUCT_PANEL, 3, 4, 5);
}
static APART void tiles_sums_of(
    i64 rows, i64 columns, const char *x, const char *w, float *S, i64 whole, const char *next, i64 bytes) {
#define CASE(r, n) case n: tiles_sums(r, n, x, w, S, whole, next, bytes); break;
  if (rows > 16) switch (columns) { CASE(32, 1) CASE(32, 2) CASE(32, 3) }
  else switch (columns) { CASE(16, 1) CASE(16, 2) CASE(16, 3) }
#undef CASE
}

/* S += x w for all rows of a block, but those that aren't finite, and D rows of a panel of n columns; what
   lies at `next` is fetched. Nothing is done, and 0 returned, where the panel isn't finite. */
static APART int tiles_piece(const tiles *t, i64 count, const float *w, i64 n, float *S, i64 D, const float *next) {
  if (!tiles_panel(w, D, t->panel)) return 0;
  const i64 whole = (D + 31) / 32, steps = whole * ((count + 31) / 32);
  const i64 bytes = next ? ((i64)sizeof(float) * PRODUCT_PANEL * D / steps + 63) / 64 * 64 : 0;
  const char *ahead = (const char *)next;
  for (i64 r = 0; r < count; r += 32, ahead += bytes * whole)
    if (!t->apart[r / 32])
      tiles_sums_of(count - r, (n + 15) / 16, t->rows + r / 16 * whole * 3 * TILE_BYTES, t->panel,
                    S + r * PRODUCT_PANEL, whole, ahead, bytes);
  return 1;
}
#endif

/* Results, panel after panel, of a block of rows, which begins at row `base`, and the columns of some
   panels; `start` is what is added to each row, or NULL. */
static APART void tiles_block(
    tiles *t, i64 base, const float *x, i64 depth, i64 count, const float *w, const float *start, i64 width,
    i64 block) {
  const i64 panels = (width + PRODUCT_PANEL - 1) / PRODUCT_PANEL, size = depth * PRODUCT_PANEL;
#if TILES_HERE
  if (count >= TILES_LEAST && has_tiles()) {
    const i64 piece = TILES_PIECE(depth);
    for (i64 panel = 0; panel < panels; panel++)
      product_start(t->results + panel * block * PRODUCT_PANEL, count, start ? start + panel * PRODUCT_PANEL : NULL,
                    LEAST(PRODUCT_PANEL, width - panel * PRODUCT_PANEL));
    tiles_begin();
    for (i64 k = 0; k < depth; k += piece) {
      const i64 D = LEAST(piece, depth - k);
      if (base != t->base || k != t->from) tiles_rows(x + k, depth, count, D, t->rows, t->apart);
      t->base = base;
      t->from = k;
      for (i64 panel = 0; panel < panels; panel++) {
        const float *own = w + panel * size + k * PRODUCT_PANEL;
        float *S = t->results + panel * block * PRODUCT_PANEL;
        const int finite = tiles_piece(t, count, own, LEAST(PRODUCT_PANEL, width - panel * PRODUCT_PANEL), S, D,
                                       panel + 1 < panels ? own + size : NULL);
        for (i64 r = 0; r < count; r += PRODUCT_ROWS)
          if (!finite || t->apart[r / 32])
            for (i64 at = 0; at < PRODUCT_PANEL; at += PRODUCT_STRIP)
              product_rows((int)LEAST(PRODUCT_ROWS, count - r), x + r * depth + k, depth, own + at,
                           S + r * PRODUCT_PANEL + at, D, (const char *)own, 0);
      }
    }
    tiles_end();
    return;
  }
#endif
  (void)base;
  for (i64 panel = 0; panel < panels; panel++)
    product_block(x, depth, count, w + panel * size, start ? start + panel * PRODUCT_PANEL : NULL,
                  LEAST(PRODUCT_PANEL, width - panel * PRODUCT_PANEL),
                  t->results + panel * block * PRODUCT_PANEL, depth, panel + 1 < panels);
}
