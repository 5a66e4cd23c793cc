/* Products of a block of queries, for attention: tiles of ATTENTION_ROWS rows, 14 at most, and two
   vectors, as many as the registers hold (configurations/attention_configuration.py). */

#define PANEL (2 * LANES_32)

/* C = A B for K x PANEL of B by rows; A's elements are `sa` apart along rows and `sk` along K */
static INLINED void attention_tile(
    const int rows, const float *A, i64 sa, i64 sk, const float *B, float *C, i64 sc, i64 K) {
  VEC_32 x[ATTENTION_ROWS], y[ATTENTION_ROWS];
  _Pragma("GCC unroll 14")
  for (int r = 0; r < rows; r++) x[r] = y[r] = SET_32(0);
  for (i64 k = 0; k < K; k++) {
    VEC_32 low = FULL_32(B + k * PANEL), high = FULL_32(B + k * PANEL + LANES_32);
    HOLD(low); HOLD(high);
    _Pragma("GCC unroll 14")
    for (int r = 0; r < rows; r++) {
      VEC_32 a = SET_32(A[r * sa + k * sk]);
      HOLD(a);
      x[r] = FMA_VEC_32(a, low, x[r]);
      y[r] = FMA_VEC_32(a, high, y[r]);
    }
  }
  _Pragma("GCC unroll 14")
  for (int r = 0; r < rows; r++) { PUT_32(C + r * sc, x[r]); PUT_32(C + r * sc + LANES_32, y[r]); }
}
static APART void attention_product(
    const float *A, i64 sa, i64 sk, const float *B, float *C, i64 sc, i64 rows, i64 K) {
  i64 r = 0;
  for (; r + ATTENTION_ROWS <= rows; r += ATTENTION_ROWS)
    attention_tile(ATTENTION_ROWS, A + r * sa, sa, sk, B, C + r * sc, sc, K);
#if ATTENTION_ROWS > 6
  for (; r + 6 <= rows; r += 6) attention_tile(6, A + r * sa, sa, sk, B, C + r * sc, sc, K);
#endif
  A += r * sa; C += r * sc;
  switch (rows - r) {
    case 5: attention_tile(5, A, sa, sk, B, C, sc, K); break;
    case 4: attention_tile(4, A, sa, sk, B, C, sc, K); break;
    case 3: attention_tile(3, A, sa, sk, B, C, sc, K); break;
    case 2: attention_tile(2, A, sa, sk, B, C, sc, K); break;
    case 1: attention_tile(1, A, sa, sk, B, C, sc, K); break;
  }
}

/* A square of elements with its rows made columns: rows of `apart` elements, then of a panel. */
#define TURNED 4
static INLINED void attention_turn(const float *from, i64 apart, float *to, float scale) {
#if defined(__x86_64__)
  const __m128 s = _mm_set1_ps(scale);
  const __m128 a = _mm_mul_ps(_mm_loadu_ps(from), s), b = _mm_mul_ps(_mm_loadu_ps(from + apart), s);
  const __m128 c = _mm_mul_ps(_mm_loadu_ps(from + 2 * apart), s);
  const __m128 d = _mm_mul_ps(_mm_loadu_ps(from + 3 * apart), s);
  const __m128 e = _mm_unpacklo_ps(a, b), f = _mm_unpackhi_ps(a, b);
  const __m128 g = _mm_unpacklo_ps(c, d), h = _mm_unpackhi_ps(c, d);
  _mm_storeu_ps(to, _mm_movelh_ps(e, g));
  _mm_storeu_ps(to + PANEL, _mm_movehl_ps(g, e));
  _mm_storeu_ps(to + 2 * PANEL, _mm_movelh_ps(f, h));
  _mm_storeu_ps(to + 3 * PANEL, _mm_movehl_ps(h, f));
#else
  for (i64 l = 0; l < TURNED; l++)
    for (i64 m = 0; m < TURNED; m++) to[m * PANEL + l] = from[l * apart + m] * scale;
#endif
}

/* Panels of M x N elements, PANEL of the N in each, zeros beyond: element (m, n) lies at
   (n / PANEL) * M * PANEL + m * PANEL + n % PANEL. Elements are `sm` and `sn` apart; they are multiplied
   by `scale`. */
static APART void attention_pack(const float *from, i64 sm, i64 sn, float *restrict to, i64 M, i64 N, float scale) {
  for (i64 n0 = 0; n0 < N; n0 += PANEL, to += M * PANEL) {
    const i64 n = LEAST(PANEL, N - n0);
    const float *p = from + n0 * sn;
    if (sn == 1) {
      for (i64 m = 0; m < M; m++) {
        for (i64 l = 0; l < n; l++) to[m * PANEL + l] = p[m * sm + l] * scale;
        for (i64 l = n; l < PANEL; l++) to[m * PANEL + l] = 0;
      }
    } else {
      const i64 turned = sm == 1 ? n / TURNED * TURNED : 0, most = M / TURNED * TURNED;
      for (i64 m = 0; m < most; m += TURNED)
        for (i64 l = 0; l < turned; l += TURNED)
          attention_turn(p + l * sn + m, sn, to + m * PANEL + l, scale);
      for (i64 l = 0; l < n; l++)
        for (i64 m = l < turned ? most : 0; m < M; m++) to[m * PANEL + l] = p[l * sn + m * sm] * scale;
      for (i64 l = n; l < PANEL; l++)
        for (i64 m = 0; m < M; m++) to[m * PANEL + l] = 0;
    }
  }
}

/* the largest squared length of a panel's columns; of one without a length, NaN or infinite */
static APART float attention_longest(const float *panels, i64 M, i64 N) {
  float longest = 0;
  for (i64 n0 = 0; n0 < N; n0 += PANEL, panels += M * PANEL) {
    VEC_32 x = SET_32(0), y = x;
    for (i64 m = 0; m < M; m++) {
      const VEC_32 a = FULL_32(panels + m * PANEL), b = FULL_32(panels + m * PANEL + LANES_32);
      x = FMA_VEC_32(a, a, x); y = FMA_VEC_32(b, b, y);
    }
    float sums[PANEL];
    PUT_32(sums, x); PUT_32(sums + LANES_32, y);
    for (i64 l = 0; l < PANEL; l++) longest = max_32(longest, sums[l]);
  }
  return longest;
}
static APART float attention_square(const float *row, i64 step, i64 n) {
  float s = 0;
  if (step == 1) {
    _Pragma("omp simd reduction(+:s)")
    for (i64 k = 0; k < n; k++) s += row[k] * row[k];
  } else {
    for (i64 k = 0; k < n; k++) s += row[k * step] * row[k * step];
  }
  return s;
}
static APART int attention_finite(const float *x, i64 n) {
  float s = 0;
  _Pragma("omp simd reduction(+:s)")
  for (i64 k = 0; k < n; k++) s += x[k] * 0.0f;
  return s == 0;
}
