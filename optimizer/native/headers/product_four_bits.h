/* Products with a constant matrix of 4-bit integers that have a scale, and perhaps a zero point, by block of the depth.
   Eight of them, one below the other, are a word of a panel, the first in its lowest bits; they are less by 8 than
   those of the model, and so lie around 0. One or two rows read them as fast as memory gives them: so for few rows
   they become float32 in registers, for more a piece of a panel does in a cache. */

#undef FOUR_BITS_WORDS
#undef FOUR_BITS_32
#undef SCALES_32
#undef ZEROS_32
#undef FOUR_BITS_ROWS
#undef FOUR_BITS_FEW
#if defined(LEVEL_AVX512)
/* rows whose sums stay in registers, and rows for which that is done several times */
#define FOUR_BITS_ROWS 8
#define FOUR_BITS_FEW 16
typedef int32_t words_avx512 __attribute__((vector_size(64), aligned(4)));
#define FOUR_BITS_WORDS words_avx512
/* the table is by what the four bits are, of which the lowest of each lane count */
#define FOUR_BITS_TABLE \
  const __m512 table = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1)
#define FOUR_BITS_32(words, t) _mm512_permutexvar_ps((__m512i)((words) >> (4 * (t))), table)
#define ZEROS_32(p) _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(p))))
#elif defined(LEVEL_AVX2)
typedef int32_t words_avx2 __attribute__((vector_size(32), aligned(4)));
#define FOUR_BITS_ROWS 2
#define FOUR_BITS_FEW 2
#define FOUR_BITS_WORDS words_avx2
#define FOUR_BITS_TABLE (void)0
#define FOUR_BITS_32(words, t) _mm256_cvtepi32_ps((__m256i)(((words) << (28 - 4 * (t))) >> 28))
#define ZEROS_32(p) _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(p))))
#else
typedef int32_t words_plain __attribute__((vector_size(16), aligned(4)));
#define FOUR_BITS_ROWS 2
#define FOUR_BITS_FEW 2
#define FOUR_BITS_WORDS words_plain
#define FOUR_BITS_TABLE (void)0
#define FOUR_BITS_32(words, t) __builtin_convertvector(((words) << (28 - 4 * (t))) >> 28, VEC_32)
#define ZEROS_32(p) ((VEC_32){(p)[0], (p)[1], (p)[2], (p)[3]})
#endif

/* S += x w for a block of the depth of `groups` words, and three vectors of columns of some rows, `apart` elements
   apart; `zero` is NULL where nothing is `shifted`. Sums of a row begin in `chains` registers, so that they need not
   wait for each other. */
static INLINED void four_bits_strip(
    const int rows, const int chains, const int shifted, const float *x, i64 apart, const int32_t *w, i64 groups,
    const float *scale, const int8_t *zero, float *S) {
  FOUR_BITS_TABLE;
  VEC_32 s[FOUR_BITS_ROWS][4][3], zeros[3];
  _Pragma("GCC unroll 3")
  for (int v = 0; v < 3; v++) zeros[v] = zero ? ZEROS_32(zero + v * LANES_32) : SET_32(0.0f);
  _Pragma("GCC unroll 8")
  for (int r = 0; r < rows; r++)
    _Pragma("GCC unroll 4")
    for (int c = 0; c < chains; c++)
      _Pragma("GCC unroll 3")
      for (int v = 0; v < 3; v++) s[r][c][v] = SET_32(0.0f);
  for (i64 g = 0; g < groups; g++, w += PRODUCT_PANEL) {
    FOUR_BITS_WORDS words[3];
    __builtin_prefetch(w + 16 * PRODUCT_PANEL, 0, 3);
    __builtin_prefetch(w + 16 * PRODUCT_PANEL + LANES_32, 0, 3);
    __builtin_prefetch(w + 16 * PRODUCT_PANEL + 2 * LANES_32, 0, 3);
    _Pragma("GCC unroll 3")
    for (int v = 0; v < 3; v++) words[v] = *(const FOUR_BITS_WORDS *)(w + v * LANES_32);
    _Pragma("GCC unroll 8")
    for (int t = 0; t < 8; t++) {
      VEC_32 one[FOUR_BITS_ROWS];
      _Pragma("GCC unroll 8")
      for (int r = 0; r < rows; r++) one[r] = SET_32(x[r * apart + 8 * g + t]);
      _Pragma("GCC unroll 3")
      for (int v = 0; v < 3; v++) {
        VEC_32 number = FOUR_BITS_32(words[v], t);
        if (shifted) number -= zeros[v];
        _Pragma("GCC unroll 8")
        for (int r = 0; r < rows; r++)
          s[r][t % chains][v] = FMA_VEC_32(one[r], number, s[r][t % chains][v]);
      }
    }
  }
  _Pragma("GCC unroll 8")
  for (int r = 0; r < rows; r++)
    _Pragma("GCC unroll 3")
    for (int v = 0; v < 3; v++) {
      float *to = S + r * PRODUCT_PANEL + v * LANES_32;
      VEC_32 sum = s[r][0][v];
      if (chains > 1) sum += s[r][1][v];
      if (chains > 2) sum += s[r][2][v] + s[r][3][v];
      PUT_32(to, FMA_VEC_32(FULL_32(scale + v * LANES_32), sum, FULL_32(to)));
    }
}
/* the same for a whole panel */
static INLINED void four_bits_panel(
    const int rows, const int shifted, const float *x, i64 apart, const int32_t *w, i64 groups, const float *scale,
    const int8_t *zero, float *S) {
  const int chains = rows > 2 ? 1 : rows > 1 || LANES_32 < 16 ? 2 : 4;
  for (i64 at = 0; at < PRODUCT_PANEL; at += 3 * LANES_32)
    four_bits_strip(
        rows, chains, shifted, x, apart, w + at, groups, scale + at, zero ? zero + at : NULL, S + at);
}
static INLINED void four_bits_depth(
    const int rows, const int shifted, const float *x, i64 apart, const int32_t *w, i64 size, const float *scale,
    const int8_t *zero, float *S, i64 K) {
  for (i64 k = 0; k < K; k += size, scale += PRODUCT_PANEL) {
    const i64 depth = LEAST(size, K - k), groups = depth / 8, rest = depth % 8;
    const i64 end = k + 8 * groups;
    four_bits_panel(rows, shifted, x + k, apart, w + k / 8 * PRODUCT_PANEL, groups, scale, zero, S);
    if (rest) { /* beyond the depth numbers are 0, but rows end */
      float last[FOUR_BITS_ROWS * 8] = {0};
      for (int r = 0; r < rows; r++) memcpy(last + 8 * r, x + r * apart + end, sizeof(float) * (size_t)rest);
      four_bits_panel(rows, shifted, last, 8, w + end / 8 * PRODUCT_PANEL, 1, scale, zero, S);
    }
    if (zero) zero += PRODUCT_PANEL;
  }
}
/* S += x w for up to FOUR_BITS_FEW rows and a panel; one or two of them don't wait for zero points that are none */
static APART void four_bits_few(
    i64 rows, const float *x, i64 apart, const int32_t *w, i64 size, const float *scale, const int8_t *zero, float *S,
    i64 K) {
  for (i64 count; rows > 0; rows -= count, x += count * apart, S += count * PRODUCT_PANEL) {
#define CASE(n, shifted) count = n, four_bits_depth(n, shifted, x, apart, w, size, scale, zero, S, K)
#if FOUR_BITS_ROWS > 2
    if (rows >= 8) { CASE(8, 1); continue; }
    if (rows >= 4) { CASE(4, 1); continue; }
#endif
    if (rows >= 2 && zero) CASE(2, 1);
    else if (rows >= 2) CASE(2, 0);
    else if (zero) CASE(1, 1);
    else CASE(1, 0);
#undef CASE
  }
}

/* rows `first` to `first + depth` of a panel as float32; `first` is a multiple of 8 */
static APART void four_bits_wide(
    const int32_t *w, i64 size, const float *scale, const int8_t *zero, float *wide, i64 first, i64 depth) {
  FOUR_BITS_TABLE;
  for (i64 k = 0; k < depth; k += 8) {
    const i64 of = (first + k) / size * PRODUCT_PANEL;
    for (i64 at = 0; at < PRODUCT_PANEL; at += LANES_32) {
      const FOUR_BITS_WORDS words = *(const FOUR_BITS_WORDS *)(w + (first + k) / 8 * PRODUCT_PANEL + at);
      const VEC_32 factor = FULL_32(scale + of + at), shift = zero ? ZEROS_32(zero + of + at) : SET_32(0.0f);
      _Pragma("GCC unroll 8")
      for (int t = 0; t < 8; t++)
        PUT_32(wide + (k + t) * PRODUCT_PANEL + at, (FOUR_BITS_32(words, t) - shift) * factor);
    }
  }
}

/* product_block for such a panel; `wide` has HALVES_DEPTH rows of one, and `size` is that of a block of the depth. */
static APART void product_block_four_bits(
    const float *x, i64 apart, i64 rows, const int32_t *w, i64 size, const float *scale, const int8_t *zero,
    const float *start, i64 n, float *S, i64 K, float *wide, int more) {
  (void)more;
  product_start(S, rows, start, n);
  if (rows <= FOUR_BITS_FEW) { four_bits_few(rows, x, apart, w, size, scale, zero, S, K); return; }
  for (i64 k = 0; k < K; k += HALVES_DEPTH) {
    const i64 depth = LEAST(HALVES_DEPTH, K - k);
    four_bits_wide(w, size, scale, zero, wide, k, depth);
    product_piece(x + k, apart, rows, wide, n, S, depth, (const char *)wide, 0);
  }
}
