/* Products with a constant matrix that was laid out in advance: panels of PRODUCT_PANEL columns, in
   each of them the rows one after another, zeros beyond the last column. A panel is cut along the
   depth, so that a piece of it stays in the second cache while all rows of a block pass (Goto and
   van de Geijn 2008); meanwhile the next piece is fetched, which lies right behind. */

/* The constants in front come from the kernel's configuration (product_configuration.py). A tile's sums stay in
   registers: PRODUCT_ROWS rows of PRODUCT_VECTORS vectors, at most 14 of 3. */
#undef PRODUCT_EACH_ROW
#if PRODUCT_ROWS > 8
#define PRODUCT_EACH_ROW _Pragma("GCC unroll 14")
#else
#define PRODUCT_EACH_ROW _Pragma("GCC unroll 8")
#endif
#undef PRODUCT_EACH_STEP
#if PRODUCT_UNROLL == 4
#define PRODUCT_EACH_STEP _Pragma("GCC unroll 4")
#elif PRODUCT_UNROLL == 2
#define PRODUCT_EACH_STEP _Pragma("GCC unroll 2")
#else
#define PRODUCT_EACH_STEP
#endif
#undef PRODUCT_STRIP
#define PRODUCT_STRIP (PRODUCT_VECTORS * LANES_32)

/* S += x w for a tile of some rows and up to three vectors: S has rows of PRODUCT_PANEL elements, x of
   `apart`. For each of the K steps `step` bytes from `next` on are on their way. The sums of a piece of
   the depth begin at 0, as the runtime's do, and are added to S at its end: carried on from S they would
   round off, at each step, in units of all that is in it already. */
static INLINED void product_tile(
    const int rows, const int vectors, const float *x, i64 apart, const float *w, float *S, i64 K,
    const char *next, i64 step) {
  VEC_32 s[PRODUCT_ROWS][3];
  const float *p[PRODUCT_ROWS];
  PRODUCT_EACH_ROW
  for (int r = 0; r < rows; r++) {
    p[r] = x + r * apart;
    for (int v = 0; v < vectors; v++) s[r][v] = SET_32(0.0f);
  }
  PRODUCT_EACH_STEP
  for (i64 k = 0; k < K; k++) {
    VEC_32 a = FULL_32(w), b = a, c = a;
    HOLD(a);
    if (vectors > 1) { b = FULL_32(w + LANES_32); HOLD(b); }
    if (vectors > 2) { c = FULL_32(w + 2 * LANES_32); HOLD(c); }
#if PRODUCT_DISTANCE > 0
    for (int v = 0; v < vectors; v++) __builtin_prefetch(w + PRODUCT_DISTANCE * PRODUCT_PANEL + v * LANES_32, 0, 3);
#endif
    w += PRODUCT_PANEL;
#if PRODUCT_FETCH_NEXT
    __builtin_prefetch(next, 0, 2);
    next += step;
#endif
    PRODUCT_EACH_ROW
    for (int r = 0; r < rows; r++) {
      VEC_32 one = SET_32(p[r][k]);
      HOLD(one);
      s[r][0] = FMA_VEC_32(one, a, s[r][0]);
      if (vectors > 1) s[r][1] = FMA_VEC_32(one, b, s[r][1]);
      if (vectors > 2) s[r][2] = FMA_VEC_32(one, c, s[r][2]);
    }
  }
  PRODUCT_EACH_ROW
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < vectors; v++) {
      float *to = S + r * PRODUCT_PANEL + v * LANES_32;
      PUT_32(to, FULL_32(to) + s[r][v]);
    }
}
static APART void product_rows(
    int rows, const float *x, i64 apart, const float *w, float *S, i64 K, const char *next, i64 step) {
  switch (rows) {
#define CASE(n) case n: product_tile(n, PRODUCT_VECTORS, x, apart, w, S, K, next, step); break;
#if PRODUCT_ROWS > 12
    CASE(14) CASE(13)
#endif
#if PRODUCT_ROWS > 10
    CASE(12) CASE(11)
#endif
#if PRODUCT_ROWS > 8
    CASE(10) CASE(9)
#endif
#if PRODUCT_ROWS > 6
    CASE(8) CASE(7)
#endif
#if PRODUCT_ROWS > 4
    CASE(6) CASE(5)
#endif
    CASE(4) CASE(3) CASE(2) CASE(1)
#undef CASE
  }
}
/* the same for one or two vectors, where a panel has no more columns */
static APART void product_narrow(
    int rows, int vectors, const float *x, i64 apart, const float *w, float *S, i64 K) {
  int r = 0;
  for (; r + PRODUCT_ROWS <= rows; r += PRODUCT_ROWS, x += PRODUCT_ROWS * apart, S += PRODUCT_ROWS * PRODUCT_PANEL)
    if (vectors == 1) product_tile(PRODUCT_ROWS, 1, x, apart, w, S, K, (const char *)w, 0);
    else product_tile(PRODUCT_ROWS, 2, x, apart, w, S, K, (const char *)w, 0);
  for (; r < rows; r++, x += apart, S += PRODUCT_PANEL)
    if (vectors == 1) product_tile(1, 1, x, apart, w, S, K, (const char *)w, 0);
    else product_tile(1, 2, x, apart, w, S, K, (const char *)w, 0);
}

#undef PRODUCT_WIDE
#define PRODUCT_WIDE (PRODUCT_PANEL / LANES_32)
#if PRODUCT_FEW
/* The same for one or two rows and a whole panel: it is read once, one line after another, and what
   comes next is fetched by the processor itself. */
static INLINED void product_wide(const int rows, const float *x, i64 apart, const float *w, float *S, i64 K) {
  VEC_32 s[2][PRODUCT_WIDE];
  _Pragma("GCC unroll 2")
  for (int r = 0; r < rows; r++)
    _Pragma("GCC unroll 6")
    for (int v = 0; v < PRODUCT_WIDE; v++) s[r][v] = SET_32(0.0f);
  for (i64 k = 0; k < K; k++, w += PRODUCT_PANEL) {
    VEC_32 one[2];
    _Pragma("GCC unroll 2")
    for (int r = 0; r < rows; r++) { one[r] = SET_32(x[r * apart + k]); HOLD(one[r]); }
    _Pragma("GCC unroll 6")
    for (int v = 0; v < PRODUCT_WIDE; v++) {
      VEC_32 m = FULL_32(w + v * LANES_32);
      HOLD(m);
      _Pragma("GCC unroll 2")
      for (int r = 0; r < rows; r++) s[r][v] = FMA_VEC_32(one[r], m, s[r][v]);
    }
  }
  _Pragma("GCC unroll 2")
  for (int r = 0; r < rows; r++)
    _Pragma("GCC unroll 6")
    for (int v = 0; v < PRODUCT_WIDE; v++) {
      float *to = S + r * PRODUCT_PANEL + v * LANES_32;
      PUT_32(to, FULL_32(to) + s[r][v]);
    }
}
static APART void product_few(i64 rows, const float *x, i64 apart, const float *w, float *S, i64 K) {
  for (i64 k = 0; k < K; k += PRODUCT_DEPTH, x += PRODUCT_DEPTH, w += PRODUCT_DEPTH * PRODUCT_PANEL) {
    const i64 depth = LEAST(PRODUCT_DEPTH, K - k);
    if (rows == 2) product_wide(2, x, apart, w, S, depth);
    else product_wide(1, x, apart, w, S, depth);
  }
}
#endif
#if PRODUCT_PART > 0
/* so many rows of a block at a time that they stay in the second cache while several panels pass;
   where fewer than 48 would, each panel is worth more than its rows */
static i64 product_part(i64 block, i64 depth) {
  const i64 most = PRODUCT_PART / depth;
  if (most < 48 || most >= block) return block;
  const i64 parts = (block + most - 1) / most;
  return (block + parts - 1) / parts;
}
#else
static i64 product_part(i64 block, i64 depth) { (void)depth; return block; }
#endif
/* rows of the next tile of those that are left: where PRODUCT_EVEN, about as many as of the others, as sums of
   fewer than four wait for themselves */
static inline i64 product_tall(i64 rows, i64 tiles) {
  return PRODUCT_EVEN ? (rows + tiles - 1) / tiles : LEAST(PRODUCT_ROWS, rows);
}

/* S = start for a block of rows and the n columns of a panel, zeros where it is NULL. */
static void product_start(float *S, i64 rows, const float *start, i64 n) {
  memset(S, 0, sizeof(float) * (size_t)(rows * PRODUCT_PANEL));
  for (i64 r = 0; start && r < rows; r++) memcpy(S + r * PRODUCT_PANEL, start, sizeof(float) * (size_t)n);
}
/* The next unit, of which a task claims `run` at a time: 0 where none is left. */
static int product_claim(const call *whole, i64 *unit, i64 *end, i64 run) {
  call *c = (call *)whole;
  if (++*unit < *end) return 1;
  *unit = __atomic_fetch_add(&c->fresh, run, __ATOMIC_RELAXED);
  *end = LEAST(*unit + run, c->units);
  return *unit < c->units;
}

/* S += x w for a block of rows and the n columns of a piece of a panel. `next` is fetched meanwhile, `step`
   bytes for each step of the depth of a tile. */
static APART void product_piece(
    const float *x, i64 apart, i64 rows, const float *w, i64 n, float *S, i64 depth, const char *next, i64 step) {
  const i64 tall = (rows + PRODUCT_ROWS - 1) / PRODUCT_ROWS;
  for (i64 at = 0; at < n; at += PRODUCT_STRIP) {
    const i64 vectors = LEAST(PRODUCT_VECTORS, (n - at + LANES_32 - 1) / LANES_32);
    if (vectors < PRODUCT_VECTORS) {
      product_narrow((int)rows, (int)vectors, x, apart, w + at, S + at, depth);
      continue;
    }
    i64 left = tall;
    for (i64 r = 0, count; r < rows; r += count) {
      count = product_tall(rows - r, left--);
      product_rows((int)count, x + r * apart, apart, w + at, S + r * PRODUCT_PANEL + at, depth, next, step);
      next += step * depth;
    }
  }
}
/* The tiles that pass a piece of a panel. */
static inline i64 product_tiles(i64 rows) {
  return (rows + PRODUCT_ROWS - 1) / PRODUCT_ROWS * (PRODUCT_PANEL / PRODUCT_STRIP);
}

/* S = start + x w for a block of rows and the n columns of a panel of K rows; `start` is n elements
   or NULL. What lies behind the panel is fetched where it is the next to be read (`more`). */
static APART void product_block(
    const float *x, i64 apart, i64 rows, const float *w, const float *start, i64 n, float *S, i64 K, int more) {
  const i64 pieces = (K + PRODUCT_DEPTH - 1) / PRODUCT_DEPTH, most = (K + pieces - 1) / pieces;
  const i64 tiles = product_tiles(rows);
  product_start(S, rows, start, n);
#if PRODUCT_FEW
  if (rows <= 2 && n > PRODUCT_PANEL / 2) { product_few(rows, x, apart, w, S, K); return; }
#endif
  for (i64 k = 0; k < K; k += most) {
    const i64 depth = LEAST(most, K - k);
    const float *piece = w + k * PRODUCT_PANEL;
    const int follows = more || k + depth < K;
    const char *next = (const char *)(follows ? piece + depth * PRODUCT_PANEL : piece);
    const i64 step = follows ? (4 * PRODUCT_PANEL + tiles - 1) / tiles : 0;
    product_piece(x + k, apart, rows, piece, n, S, depth, next, step);
  }
}
