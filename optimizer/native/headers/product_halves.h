/* Products with a constant matrix that float16 holds without loss: it lies in memory as that, half as
   large, and a piece of a panel becomes float32 in a cache before the rows of a block pass. */

#undef HALVES_32
#if defined(LEVEL_AVX512)
#define HALVES_32(p) _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(p)))
#elif defined(LEVEL_AVX2)
#define HALVES_32(p) _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p)))
#endif

#if defined(HALVES_32)
/* S += x w for one or two rows and a whole panel: reading it is what takes the time, so it becomes float32 in
   registers. */
#undef HALVES_VECTORS
#define HALVES_VECTORS (PRODUCT_PANEL / LANES_32)
static INLINED void halves_wide(const int rows, const float *x, i64 apart, const uint16_t *w, float *S, i64 K) {
  VEC_32 s[2][HALVES_VECTORS];
  _Pragma("GCC unroll 2")
  for (int r = 0; r < rows; r++)
    _Pragma("GCC unroll 6")
    for (int v = 0; v < HALVES_VECTORS; v++) s[r][v] = SET_32(0.0f);
  for (i64 k = 0; k < K; k++, w += PRODUCT_PANEL) {
    VEC_32 one[2];
    __builtin_prefetch(w + 24 * PRODUCT_PANEL, 0, 3);
    __builtin_prefetch(w + 24 * PRODUCT_PANEL + 32, 0, 3);
    _Pragma("GCC unroll 2")
    for (int r = 0; r < rows; r++) { one[r] = SET_32(x[r * apart + k]); HOLD(one[r]); }
    _Pragma("GCC unroll 6")
    for (int v = 0; v < HALVES_VECTORS; v++) {
      const VEC_32 m = HALVES_32(w + v * LANES_32);
      _Pragma("GCC unroll 2")
      for (int r = 0; r < rows; r++) s[r][v] = FMA_VEC_32(one[r], m, s[r][v]);
    }
  }
  _Pragma("GCC unroll 2")
  for (int r = 0; r < rows; r++)
    _Pragma("GCC unroll 6")
    for (int v = 0; v < HALVES_VECTORS; v++) {
      float *to = S + r * PRODUCT_PANEL + v * LANES_32;
      PUT_32(to, FULL_32(to) + s[r][v]);
    }
}
#endif

/* product_block for such a panel; `wide` has HALVES_DEPTH rows of one. */
static APART void product_block_halves(
    const float *x, i64 apart, i64 rows, const uint16_t *w, const float *start, i64 n, float *S, i64 K, float *wide,
    int more) {
  const i64 tiles = product_tiles(rows);
  product_start(S, rows, start, n);
  for (i64 k = 0; k < K; k += HALVES_DEPTH) {
    const i64 depth = LEAST(HALVES_DEPTH, K - k);
    const uint16_t *piece = w + k * PRODUCT_PANEL;
#if defined(HALVES_32)
    if (rows == 1) { halves_wide(1, x + k, apart, piece, S, depth); continue; }
    if (rows == 2) { halves_wide(2, x + k, apart, piece, S, depth); continue; }
#endif
    widen_float16(piece, 1, wide, depth * PRODUCT_PANEL);
    const int follows = more || k + depth < K;
    const char *next = (const char *)(follows ? piece + depth * PRODUCT_PANEL : piece);
    product_piece(
        x + k, apart, rows, wide, n, S, depth, next, follows ? (2 * PRODUCT_PANEL + tiles - 1) / tiles : 0);
  }
}
