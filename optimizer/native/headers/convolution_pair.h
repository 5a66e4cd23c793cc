/* A convolution of points in front of one of each channel by itself, over blocks of channels: what
   all pairs share. */

/* pixels whose sums stay in registers, for two vectors of channels */
#undef PAIR_ROWS
#if defined(LEVEL_AVX512)
#define PAIR_ROWS 14
#else
#define PAIR_ROWS 6
#endif

/* S = start + x w within bounds, for some pixels and one or two vectors of channels. Pixels are BLOCK elements long
   and lie side by side, their next channels `apart` further; the filters of a vector's channels lie
   BLOCK elements apart, those of the second one `second` elements further. */
static INLINED void pair_tile(
    const int BLOCK, const int rows, const int vectors, const float *x, i64 apart, const float *w,
    i64 second, const float *start, i64 start_second, float *S, i64 S_second, i64 blocks, float low,
    float high) {
  VEC_32 s[PAIR_ROWS][2], least = SET_32(low), most = SET_32(high);
  for (int v = 0; v < vectors; v++) {
    const VEC_32 begun = start ? BLOCK_OF(start + v * start_second) : SET_32(0.0f);
    _Pragma("GCC unroll 14")
    for (int r = 0; r < rows; r++) s[r][v] = begun;
  }
  for (; blocks > 0; blocks--, x += apart)
    for (i64 k = 0; k < BLOCK; k++, w += BLOCK) {
      VEC_32 a = BLOCK_OF(w), b = a;
      HOLD(a);
      if (vectors > 1) { b = BLOCK_OF(w + second); HOLD(b); }
      _Pragma("GCC unroll 14")
      for (int r = 0; r < rows; r++) {
        VEC_32 one = SET_32(x[r * BLOCK + k]);
        HOLD(one);
        s[r][0] = FMA_VEC_32(one, a, s[r][0]);
        if (vectors > 1) s[r][1] = FMA_VEC_32(one, b, s[r][1]);
      }
    }
  _Pragma("GCC unroll 14")
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < vectors; v++) PUT_BLOCK_OF(S + v * S_second + r * BLOCK, BOUND_32(s[r][v], least, most));
}
static INLINED void pair_rows(
    const int BLOCK, const int vectors, i64 rows, const float *x, i64 apart, const float *w, i64 second,
    const float *start, i64 start_second, float *S, i64 S_second, i64 blocks, float low, float high) {
#define CASE(n) \
  case n: \
    pair_tile(BLOCK, n, vectors, x, apart, w, second, start, start_second, S, S_second, blocks, low, high); break;
  switch (rows) {
    CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6)
#if PAIR_ROWS == 14
    CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12) CASE(13) CASE(14)
#endif
  }
#undef CASE
}
static INLINED void pair_any(
    const int BLOCK, i64 rows, i64 channels, const float *x, i64 apart, const float *w, i64 depth,
    const float *start, float *S, i64 sheet, float low, float high) {
  /* vectors of a block, one after another, then the next block of channels */
  const i64 lanes = LEAST(BLOCK, LANES_32), own = BLOCK / lanes, all = channels / lanes;
  for (i64 v = 0; v < all; v += 2) {
    const i64 block = v / own, lane = v % own * lanes, follows = own > 1 ? lanes : depth * BLOCK;
    const float *filters = w + block * depth * BLOCK + lane;
    const float *begun = start ? start + v * lanes : NULL;
    float *to = S + block * sheet + lane;
    if (all - v > 1)
      pair_rows(BLOCK, 2, rows, x, apart, filters, follows, begun, lanes, to, own > 1 ? lanes : sheet,
                depth / BLOCK, low, high);
    else pair_rows(BLOCK, 1, rows, x, apart, filters, 0, begun, 0, to, 0, depth / BLOCK, low, high);
  }
}
/* The same for any number of channels up to two blocks, of `rows` <= PAIR_ROWS pixels; what comes of
   a block is laid pixel by pixel, that of the next one `sheet` elements further. */
static APART void pair_product_16(
    i64 rows, i64 channels, const float *x, i64 apart, const float *w, i64 depth, const float *start, float *S,
    i64 sheet, float low, float high) {
  pair_any(16, rows, channels, x, apart, w, depth, start, S, sheet, low, high);
}
static APART void pair_product_8(
    i64 rows, i64 channels, const float *x, i64 apart, const float *w, i64 depth, const float *start, float *S,
    i64 sheet, float low, float high) {
  pair_any(8, rows, channels, x, apart, w, depth, start, S, sheet, low, high);
}
