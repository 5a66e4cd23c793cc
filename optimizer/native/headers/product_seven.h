/* Seven products for eight (Strassen, Gaussian elimination is not optimal, 1969), over two halves of a
   block of rows, two halves of a piece of the depth, and two panels of the matrix:

     (A11 + A22)(B11 + B22)  to  C11, C22        A22 (B21 - B11)         to  C11, C21
     (A21 + A22) B11         to  C21, -C22       (A11 + A12) B22         to  C12, -C11
     A11 (B12 - B22)         to  C12, C22        (A21 - A11)(B11 + B12)  to  C22
                                                 (A12 - A22)(B21 + B22)  to  C11

   The sums of rows are made once for all panels; those of the matrix by the first tile of rows that
   they are multiplied with, on the way. A product is added to where it belongs while it lies in
   registers. Its error is relative to the larger of two rows: where one is SEVEN_APART times as large
   as the other, or isn't finite, both are multiplied out. */
#ifndef SEVEN_APART
#define SEVEN_APART 8.0f
/* sums of products of two such numbers are finite */
#define SEVEN_LARGEST 1e15f
/* rows for which it is worth it */
#define SEVEN_LEAST 128
/* what a task works in: sums of rows, each `half` rows for each piece; which tiles of them are not
   used; the sum of two panels; the results of two panels, rows by rows. `most` is half of a piece. */
typedef struct { float *sums, *panel, *results; uint8_t *apart; i64 half, most; } seven;
#endif

static seven seven_of(char *scratch, i64 rows, i64 depth) {
  const i64 pieces = SEVEN_PIECES(depth);
  seven s;
  s.half = 0;
  s.most = (depth / 2 + pieces - 1) / pieces;
  s.sums = (float *)scratch;
  s.panel = s.sums + 5 * (rows / 2) * (depth / 2 + pieces * SEVEN_GAP);
  s.results = s.panel + SEVEN_DEPTH * PRODUCT_PANEL;
  s.apart = (uint8_t *)(s.results + 2 * rows * PRODUCT_PANEL);
  return s;
}

static inline int32_t seven_magnitude(float x) {
  int32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits & 0x7fffffff;
}
/* tell whether rows of such largest magnitudes, as bits of floats, are too different, or too large */
static inline int seven_differ(int32_t one, int32_t other) {
  const int32_t bits[2] = {one > other ? one : other, one > other ? other : one};
  float most[2];
  memcpy(most, bits, sizeof most);
  return !(most[0] <= SEVEN_APART * most[1] && most[0] <= SEVEN_LARGEST);
}

/* Five sums of rows for a piece: `half` rows of D elements of each, and which tiles aren't used. */
static APART void seven_sums(const float *x, i64 depth, i64 half, i64 D, float *sums, uint8_t *apart) {
  const i64 row = D + SEVEN_GAP, one = half * row;
  memset(apart, 0, (size_t)(half / PRODUCT_ROWS));
  for (i64 r = 0; r < half; r++, x += depth, sums += row) {
    const float *a = x, *b = x + D, *c = x + half * depth, *d = c + D;
    float *restrict t = sums;
    int32_t upper = 0, lower = 0;
    _Pragma("omp simd reduction(max:upper, lower)")
    for (i64 k = 0; k < D; k++) {
      const int32_t ma = seven_magnitude(a[k]), mb = seven_magnitude(b[k]);
      const int32_t mc = seven_magnitude(c[k]), md = seven_magnitude(d[k]);
      const int32_t up = ma > mb ? ma : mb, low = mc > md ? mc : md;
      upper = upper > up ? upper : up;
      lower = lower > low ? lower : low;
      t[k] = a[k] + d[k];
      t[one + k] = c[k] + d[k];
      t[2 * one + k] = a[k] + b[k];
      t[3 * one + k] = c[k] - a[k];
      t[4 * one + k] = b[k] - d[k];
    }
    apart[r / PRODUCT_ROWS] |= seven_differ(upper, lower);
  }
}
/* All sums of a block of rows. */
static APART void seven_prepare(const float *x, i64 depth, i64 count, seven *s) {
  float *sums = s->sums;
  uint8_t *apart = s->apart;
  s->half = count < SEVEN_LEAST ? 0 : count / (2 * PRODUCT_ROWS) * PRODUCT_ROWS;
  for (i64 k = 0; s->half && k < depth; k += 2 * s->most) {
    const i64 D = LEAST(s->most, (depth - k) / 2);
    seven_sums(x + k, depth, s->half, D, sums, apart);
    sums += 5 * s->half * (D + SEVEN_GAP);
    apart += s->half / PRODUCT_ROWS;
  }
}

/* A tile of rows times w, or times w and `other` added (made > 0) or taken away (made < 0), which goes
   to `panel` as well; added to S, and `sign` times to T where there is one. K and what follows it are
   those of product_tile. */
static INLINED void seven_tile(
    const int made, const float *x, i64 apart, const float *w, const float *other, float *panel, float *S,
    float *T, float sign, i64 K, const char *next, i64 step) {
  VEC_32 s[PRODUCT_ROWS][PRODUCT_VECTORS];
  const float *p[PRODUCT_ROWS];
  _Pragma("GCC unroll 8")
  for (int r = 0; r < PRODUCT_ROWS; r++) {
    p[r] = x + r * apart;
    for (int v = 0; v < PRODUCT_VECTORS; v++) s[r][v] = SET_32(0.0f);
  }
  for (i64 k = 0; k < K; k++, w += PRODUCT_PANEL) {
    VEC_32 m[PRODUCT_VECTORS];
    _Pragma("GCC unroll 3")
    for (int v = 0; v < PRODUCT_VECTORS; v++) {
      m[v] = FULL_32(w + v * LANES_32);
      if (made > 0) m[v] += FULL_32(other + v * LANES_32);
      if (made < 0) m[v] -= FULL_32(other + v * LANES_32);
      HOLD(m[v]);
      if (made) PUT_32(panel + v * LANES_32, m[v]);
    }
    if (made) { other += PRODUCT_PANEL; panel += PRODUCT_PANEL; }
    __builtin_prefetch(next, 0, 2);
    next += step;
    _Pragma("GCC unroll 8")
    for (int r = 0; r < PRODUCT_ROWS; r++) {
      VEC_32 one = SET_32(p[r][k]);
      HOLD(one);
      for (int v = 0; v < PRODUCT_VECTORS; v++) s[r][v] = FMA_VEC_32(one, m[v], s[r][v]);
    }
  }
  _Pragma("GCC unroll 8")
  for (int r = 0; r < PRODUCT_ROWS; r++)
    for (int v = 0; v < PRODUCT_VECTORS; v++) {
      float *to = S + r * PRODUCT_PANEL + v * LANES_32;
      PUT_32(to, FULL_32(to) + s[r][v]);
    }
  if (!T) return;
  const VEC_32 factor = SET_32(sign);
  _Pragma("GCC unroll 8")
  for (int r = 0; r < PRODUCT_ROWS; r++)
    for (int v = 0; v < PRODUCT_VECTORS; v++) {
      float *to = T + r * PRODUCT_PANEL + v * LANES_32;
      PUT_32(to, FMA_VEC_32(factor, s[r][v], FULL_32(to)));
    }
}
static APART void seven_rows(
    int made, const float *x, i64 apart, const float *w, const float *other, float *panel, float *S,
    float *T, float sign, i64 K, const char *next, i64 step) {
  if (made > 0) seven_tile(1, x, apart, w, other, panel, S, T, sign, K, next, step);
  else if (made < 0) seven_tile(-1, x, apart, w, other, panel, S, T, sign, K, next, step);
  else seven_tile(0, x, apart, w, NULL, NULL, S, T, sign, K, next, step);
}

/* results += x w for a block of rows, two panels, and a piece of 2 D rows of each, which lie `size`
   elements apart; meanwhile so many rows of both from `next` on are fetched, if there are any. */
static void seven_piece(
    const float *x, i64 depth, i64 count, const float *w, i64 size, const seven *s, const float *sums,
    const uint8_t *apart, i64 D, const float *next, i64 rows) {
  const i64 H = s->half, row = D + SEVEN_GAP, one = H * row, tiles = H / PRODUCT_ROWS;
  const i64 strips = PRODUCT_PANEL / (PRODUCT_STRIP), all = 7 * tiles * strips;
  const float *A11 = x, *A22 = x + H * depth + D;
  const float *B11 = w, *B21 = w + D * PRODUCT_PANEL, *B12 = w + size, *B22 = B21 + size;
  float *C11 = s->results, *C12 = C11 + count * PRODUCT_PANEL;
  float *C21 = C11 + H * PRODUCT_PANEL, *C22 = C12 + H * PRODUCT_PANEL;
  const struct { const float *x; i64 apart; const float *w, *other; int made; float *S, *T, sign; } products[7] = {
    {sums, row, B11, B22, 1, C11, C22, 1},
    {sums + one, row, B11, NULL, 0, C21, C22, -1},
    {A11, depth, B12, B22, -1, C12, C22, 1},
    {A22, depth, B21, B11, -1, C11, C21, 1},
    {sums + 2 * one, row, B22, NULL, 0, C12, C11, -1},
    {sums + 3 * one, row, B11, B12, 1, C22, NULL, 0},
    {sums + 4 * one, row, B21, B22, 1, C11, NULL, 0},
  };
  /* half of the steps fetch of the first panel, half of the second */
  const i64 bytes = sizeof(float) * PRODUCT_PANEL * rows, step = (2 * bytes / D + all - 1) / all;
  i64 fetched = 0;
  for (int i = 0; i < 7; i++)
    for (i64 at = 0; at < PRODUCT_PANEL; at += PRODUCT_STRIP) {
      int made = products[i].made;
      for (i64 tile = 0; tile < tiles; tile++, fetched += step * D) {
        if (apart[tile]) continue;
        const i64 r = tile * PRODUCT_ROWS, to = r * PRODUCT_PANEL + at;
        const char *from = (const char *)next;
        if (rows) from += fetched < bytes ? fetched : fetched - bytes + (i64)sizeof(float) * size;
        seven_rows(made, products[i].x + r * products[i].apart, products[i].apart,
                   (products[i].made && !made ? s->panel : products[i].w) + at,
                   made ? products[i].other + at : NULL, s->panel + at, products[i].S + to,
                   products[i].T ? products[i].T + to : NULL, products[i].sign, D, from, rows ? step : 0);
        made = 0;
      }
    }
  for (i64 r = 0; r < count; r += PRODUCT_ROWS) {
    if (r < 2 * H && !apart[(r < H ? r : r - H) / PRODUCT_ROWS]) continue;
    for (i64 at = 0; at < PRODUCT_PANEL; at += PRODUCT_STRIP)
      for (int panel = 0; panel < 2; panel++)
        product_rows((int)LEAST(PRODUCT_ROWS, count - r), x + r * depth, depth, w + panel * size + at,
                     (panel ? C12 : C11) + r * PRODUCT_PANEL + at, 2 * D, (const char *)w, 0);
  }
}

/* results = start + x w for a block of rows and two panels, or the one that is left, of `width`
   columns or more; `alike` says whether the panels' columns may be added up. */
static APART void seven_block(
    const float *x, i64 depth, i64 count, const float *w, const float *start, i64 width, const seven *s,
    int alike, int more) {
  const i64 size = depth * PRODUCT_PANEL, panels = width > PRODUCT_PANEL ? 2 : 1;
  if (!s->half || !alike || panels < 2) {
    for (i64 panel = 0; panel < panels; panel++)
      product_block(x, depth, count, w + panel * size, start ? start + panel * PRODUCT_PANEL : NULL,
                    LEAST(PRODUCT_PANEL, width - panel * PRODUCT_PANEL),
                    s->results + panel * count * PRODUCT_PANEL, depth, more || panel + 1 < panels);
    return;
  }
  for (i64 panel = 0; panel < 2; panel++)
    product_start(s->results + panel * count * PRODUCT_PANEL, count, start ? start + panel * PRODUCT_PANEL : NULL,
                  LEAST(PRODUCT_PANEL, width - panel * PRODUCT_PANEL));
  const float *sums = s->sums;
  const uint8_t *apart = s->apart;
  for (i64 k = 0; k < depth; k += 2 * s->most) {
    const i64 D = LEAST(s->most, (depth - k) / 2), left = depth - k - 2 * D;
    const float *piece = w + k * PRODUCT_PANEL;
    const float *next = left ? piece + 2 * D * PRODUCT_PANEL : w + 2 * size;
    const i64 rows = left ? LEAST(2 * s->most, left) : more ? LEAST(2 * s->most, depth) : 0;
    seven_piece(x + k, depth, count, piece, size, s, sums, apart, D, rows ? next : piece, rows);
    sums += 5 * s->half * (D + SEVEN_GAP);
    apart += s->half / PRODUCT_ROWS;
  }
}
