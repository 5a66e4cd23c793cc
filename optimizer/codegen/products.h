/* Small products of a block of rows, over element type T, for functions that end in E.
   Rows of A are `sa` apart; B lies transposed, its columns contiguous. */

#define V E(VEC)
#define L E(LANES)

/* c[r] = A[r] . b, four rows at a time; long sums in tiles */
static APART void E(dots)(const T *A, i64 sa, const T *restrict b, T *restrict c, i64 sc, i64 R, i64 K) {
  i64 r = 0;
  for (; r + 4 <= R; r += 4) {
    const T *a0 = A + r * sa, *a1 = a0 + sa, *a2 = a1 + sa, *a3 = a2 + sa;
    T t[4] = {0, 0, 0, 0}, s[4];
    T *const whole = sc == 1 && K <= TILE ? c + r : s;
    for (i64 from = 0; from < K; from += TILE) {
      const i64 to = LEAST(from + TILE, K);
      i64 k = from;
      V s0 = E(SET)(0), s1 = s0, s2 = s0, s3 = s0;
      for (; k + L <= to; k += L) {
        const V x = E(FULL)(b + k);
        s0 = E(FMA_VEC)(E(FULL)(a0 + k), x, s0); s1 = E(FMA_VEC)(E(FULL)(a1 + k), x, s1);
        s2 = E(FMA_VEC)(E(FULL)(a2 + k), x, s2); s3 = E(FMA_VEC)(E(FULL)(a3 + k), x, s3);
      }
      if (k < to) {
        const i64 n = to - k;
        const V x = E(PART)(b + k, n);
        s0 = E(FMA_VEC)(E(PART)(a0 + k, n), x, s0); s1 = E(FMA_VEC)(E(PART)(a1 + k, n), x, s1);
        s2 = E(FMA_VEC)(E(PART)(a2 + k, n), x, s2); s3 = E(FMA_VEC)(E(PART)(a3 + k, n), x, s3);
      }
      E(sum_four)(s0, s1, s2, s3, whole);
      if (whole == s) for (int i = 0; i < 4; i++) t[i] += s[i];
    }
    if (whole == s) for (int i = 0; i < 4; i++) c[(r + i) * sc] = t[i];
  }
  for (; r < R; r++) {
    const T *a = A + r * sa;
    T t = 0;
    for (i64 from = 0; from < K; from += TILE) {
      const i64 to = LEAST(from + TILE, K);
      i64 k = from;
      V s0 = E(SET)(0), s1 = s0;
      for (; k + 2 * L <= to; k += 2 * L) {
        s0 = E(FMA_VEC)(E(FULL)(a + k), E(FULL)(b + k), s0);
        s1 = E(FMA_VEC)(E(FULL)(a + k + L), E(FULL)(b + k + L), s1);
      }
      for (; k + L <= to; k += L) s0 = E(FMA_VEC)(E(FULL)(a + k), E(FULL)(b + k), s0);
      if (k < to) s1 = E(FMA_VEC)(E(PART)(a + k, to - k), E(PART)(b + k, to - k), s1);
      t += E(sum_lanes)(s0) + E(sum_lanes)(s1);
    }
    c[r * sc] = t;
  }
}

#if defined(LEVEL_AVX2)
/* Whether rows of C are made of rows of B: few sums each, of few elements, would rather be added up than made */
#define BY_ROWS(K, N) ((K) < 32 && (N) <= 3 * L)

/* `rows` rows of C = A B, whose `vectors` may reach into the next row; B has been packed by rows */
static WITHIN void E(few_rows)(const T *A, i64 sa, const T *B, T *C, i64 K, i64 N, const int rows, const int vectors) {
  V s[8][3];
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 3
    for (int v = 0; v < vectors; v++) s[r][v] = E(SET)(0);
  for (i64 k = 0; k < K; k++) {
    V b[3];
#pragma GCC unroll 3
    for (int v = 0; v < vectors; v++) b[v] = E(FULL)(B + (k * vectors + v) * L);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
      const V x = E(SET)(A[r * sa + k]);
#pragma GCC unroll 3
      for (int v = 0; v < vectors; v++) s[r][v] = E(FMA_VEC)(x, b[v], s[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 3
    for (int v = 0; v < vectors; v++) E(PUT)(C + r * N + v * L, s[r][v]);
}

/* All of them: the last ones, behind which nothing may be written, by way of a buffer */
static WITHIN void E(all_rows)(const T *A, i64 sa, const T *B, T *C, i64 R, i64 K, i64 N, const int rows, const int vectors) {
  i64 r = 0;
  for (; (r + rows - 1) * N + vectors * L <= R * N; r += rows) E(few_rows)(A + r * sa, sa, B, C + r * N, K, N, rows, vectors);
  for (; r < R; r++) {
    T last[3 * L];
    E(few_rows)(A + r * sa, sa, B, last, K, N, 1, vectors);
    for (i64 n = 0; n < N; n++) C[r * N + n] = last[n];
  }
}
static APART void E(times_by_rows)(const T *A, i64 sa, const T *B, T *C, i64 R, i64 K, i64 N) {
  if (N <= L) E(all_rows)(A, sa, B, C, R, K, N, 8, 1);
  else if (N <= 2 * L) E(all_rows)(A, sa, B, C, R, K, N, 4, 2);
  else E(all_rows)(A, sa, B, C, R, K, N, 4, 3);
}
#endif

/* N columns of K elements, `column` bytes apart and their elements `along` bytes, each copied to where
   vectors are aligned; or K rows, where rows are multiplied by those */
static void E(pack)(const char *B, i64 column, i64 along, T *restrict to, i64 K, i64 N) {
#if defined(LEVEL_AVX2)
  if (BY_ROWS(K, N)) {
    const i64 wide = (N + L - 1) / L * L;
    for (i64 k = 0; k < K; k++)
      for (i64 n = 0; n < wide; n++) to[k * wide + n] = n < N ? *(const T *)(B + n * column + k * along) : 0;
    return;
  }
#endif
  for (i64 n = 0; n < N; n++)
    for (i64 k = 0; k < K; k++) to[n * E(ALIGNED)(K) + k] = *(const T *)(B + n * column + k * along);
}

/* C = A B with a narrow B of K x N given by columns, packed: a block of 2 x 4 at a time. What lies
   `ahead` bytes behind A is brought closer on the way, evenly, so that the loads of A don't wait; of
   every other row `beside` bytes, which are 0 where somebody else does that. */
static APART void E(times)(const T *A, i64 sa, const T *B, T *C, i64 R, i64 K, i64 N, i64 ahead, i64 beside) {
#if defined(LEVEL_AVX2)
  if (BY_ROWS(K, N)) {
    E(times_by_rows)(A, sa, B, C, R, K, N);
    return;
  }
#endif
  const i64 sb = E(ALIGNED)(K);
  i64 n = 0;
  for (; n + 4 <= N; n += 4) {
    const T *const b0 = B + n * sb, *const b1 = b0 + sb, *const b2 = b1 + sb, *const b3 = b2 + sb;
    i64 r = 0;
    for (; r < R; r += 2) {
      /* of an odd number of rows the last one is computed twice */
      const T *const a = A + r * sa, *const d = r + 1 < R ? a + sa : a;
      V s0 = E(SET)(0), s1 = s0, s2 = s0, s3 = s0, t0 = s0, t1 = s0, t2 = s0, t3 = s0;
      i64 k = 0;
#define STEP(load) \
  const V x = load(a + k), y = load(d + k); \
  V z = load(b0 + k); HOLD(z); s0 = E(FMA_VEC)(x, z, s0); t0 = E(FMA_VEC)(y, z, t0); \
  z = load(b1 + k); HOLD(z); s1 = E(FMA_VEC)(x, z, s1); t1 = E(FMA_VEC)(y, z, t1); \
  z = load(b2 + k); HOLD(z); s2 = E(FMA_VEC)(x, z, s2); t2 = E(FMA_VEC)(y, z, t2); \
  z = load(b3 + k); HOLD(z); s3 = E(FMA_VEC)(x, z, s3); t3 = E(FMA_VEC)(y, z, t3)
#define REST(p) E(PART)(p, K - k)
      if (ahead && !n) {
#define SOON __builtin_prefetch((const char *)(a + k) + ahead), __builtin_prefetch((const char *)(d + k) + beside)
        for (; k + L <= K; k += L) { SOON; STEP(E(FULL)); }
        if (k < K) SOON;
#undef SOON
      }
      for (; k + L <= K; k += L) { STEP(E(FULL)); }
      if (k < K) { STEP(REST); }
#undef STEP
#undef REST
      E(sum_four)(s0, s1, s2, s3, C + r * N + n);
      if (r + 1 < R) E(sum_four)(t0, t1, t2, t3, C + (r + 1) * N + n);
    }
  }
  for (; n < N; n++) E(dots)(A, sa, B + n * sb, C + n, N, R, K);
}

/* c += w a */
static inline void E(add_row)(T *c, const T *a, T w, i64 n) {
  const V x = E(SET)(w);
  i64 k = 0;
  for (; k + L <= n; k += L) E(PUT)(c + k, E(FMA_VEC)(E(FULL)(a + k), x, E(FULL)(c + k)));
  if (k < n) E(PUT_PART)(c + k, n - k, E(FMA_VEC)(E(PART)(a + k, n - k), x, E(PART)(c + k, n - k)));
}

/* The same where each c is another one: a part of a vector is stored far more slowly than a small one */
static inline void E(add_few)(T *c, const T *a, T w, i64 n) {
  SUMS_OF_PRODUCTS
  enum { SMALL = sizeof(E(SMALL)) / sizeof(T) };
  const V x = E(SET)(w);
  i64 k = 0;
  for (; k + L <= n; k += L) E(PUT)(c + k, E(FMA_VEC)(E(FULL)(a + k), x, E(FULL)(c + k)));
  for (; k + SMALL <= n; k += SMALL) *(E(SMALL) *)(c + k) += *(const E(SMALL) *)(a + k) * w;
  for (; k < n; k++) E(ADD_PRODUCT)(c[k], a[k], w);
}

/* c += w0 a0 + w1 a1 + w2 a2 + w3 a3 for two rows c of C at once, or one; what lies `ahead` bytes behind
   every other row is brought closer */
static inline void E(add_four)(T *c, T *d, const T *const *a, const T *b, i64 sb, i64 M, i64 ahead) {
  const T *const a0 = a[0], *const a1 = a[1], *const a2 = a[2], *const a3 = a[3];
  const V w0 = E(SET)(b[0]), w1 = E(SET)(b[sb]), w2 = E(SET)(b[2 * sb]), w3 = E(SET)(b[3 * sb]);
  i64 m = 0;
#define SOON __builtin_prefetch((const char *)(a1 + m) + ahead), __builtin_prefetch((const char *)(a3 + m) + ahead)
  if (!d) {
#define STEP(load) E(FMA_VEC)(load(a3 + m), w3, E(FMA_VEC)(load(a2 + m), w2, E(FMA_VEC)(load(a1 + m), w1, E(FMA_VEC)(load(a0 + m), w0, load(c + m)))))
#define REST(p) E(PART)(p, M - m)
    for (; ahead && m + L <= M; m += L) { SOON; E(PUT)(c + m, STEP(E(FULL))); }
    for (; m + L <= M; m += L) E(PUT)(c + m, STEP(E(FULL)));
    if (m < M) E(PUT_PART)(c + m, M - m, STEP(REST));
#undef STEP
    return;
  }
  const V v0 = E(SET)(b[1]), v1 = E(SET)(b[sb + 1]), v2 = E(SET)(b[2 * sb + 1]), v3 = E(SET)(b[3 * sb + 1]);
#define STEP(load, put) \
  V x = load(a0 + m), s = load(c + m), t = load(d + m); \
  HOLD(x); s = E(FMA_VEC)(x, w0, s); t = E(FMA_VEC)(x, v0, t); \
  x = load(a1 + m); HOLD(x); s = E(FMA_VEC)(x, w1, s); t = E(FMA_VEC)(x, v1, t); \
  x = load(a2 + m); HOLD(x); s = E(FMA_VEC)(x, w2, s); t = E(FMA_VEC)(x, v2, t); \
  x = load(a3 + m); HOLD(x); s = E(FMA_VEC)(x, w3, s); t = E(FMA_VEC)(x, v3, t); \
  put(c + m, s); put(d + m, t)
#define PUT_REST(p, v) E(PUT_PART)(p, M - m, v)
  for (; ahead && m + L <= M; m += L) { SOON; STEP(E(FULL), E(PUT)); }
  for (; m + L <= M; m += L) { STEP(E(FULL), E(PUT)); }
  if (m < M) { STEP(REST, PUT_REST); }
#undef SOON
#undef STEP
#undef REST
#undef PUT_REST
}

/* c += the sum over r of b[r] A[r] for rows of a few vectors: sums stay in registers */
static inline void E(add_rows)(T *c, const T *A, i64 sa, const T *b, i64 sb, i64 R, i64 M) {
  const V one = E(SET)(1);
#define STEP(load, put) \
  V s0 = load(c + m), s1 = E(SET)(0), s2 = s1, s3 = s1; \
  i64 r = 0; \
  for (; r + 4 <= R; r += 4) { \
    const T *const a = A + r * sa + m, *const w = b + r * sb; \
    s0 = E(FMA_VEC)(load(a), E(SET)(w[0]), s0); s1 = E(FMA_VEC)(load(a + sa), E(SET)(w[sb]), s1); \
    s2 = E(FMA_VEC)(load(a + 2 * sa), E(SET)(w[2 * sb]), s2); s3 = E(FMA_VEC)(load(a + 3 * sa), E(SET)(w[3 * sb]), s3); \
  } \
  for (; r < R; r++) s1 = E(FMA_VEC)(load(A + r * sa + m), E(SET)(b[r * sb]), s1); \
  put(c + m, E(FMA_VEC)(E(FMA_VEC)(s0, one, s1), one, E(FMA_VEC)(s2, one, s3)))
#define REST(p) E(PART)(p, M - m)
#define PUT_REST(p, v) E(PUT_PART)(p, M - m, v)
  i64 m = 0;
  for (; m + L <= M; m += L) { STEP(E(FULL), E(PUT)); }
  if (m < M) { STEP(REST, PUT_REST); }
#undef STEP
#undef REST
#undef PUT_REST
}

#if defined(LEVEL_AVX2)
/* The same for `columns` columns of B at once and rows of as many `vectors`, the last `part` elements of
   one that isn't full; rows of C are as long as those vectors */
static WITHIN void E(add_few_rows)(T *c, i64 sc, const T *A, i64 sa, const T *b, i64 sb, i64 R, i64 part, const int columns, const int vectors) {
  V s[4][3];
#pragma GCC unroll 4
  for (int n = 0; n < columns; n++)
#pragma GCC unroll 3
    for (int v = 0; v < vectors; v++) s[n][v] = E(FULL)(c + n * sc + v * L);
  for (i64 r = 0; r < R; r++) {
    const T *const a = A + r * sa;
    V x[3];
#pragma GCC unroll 3
    for (int v = 0; v < vectors; v++) x[v] = v < vectors - 1 ? E(FULL)(a + v * L) : E(PART)(a + v * L, part);
#pragma GCC unroll 4
    for (int n = 0; n < columns; n++) {
      const V w = E(SET)(b[r * sb + n]);
#pragma GCC unroll 3
      for (int v = 0; v < vectors; v++) s[n][v] = E(FMA_VEC)(x[v], w, s[n][v]);
    }
  }
#pragma GCC unroll 4
  for (int n = 0; n < columns; n++)
#pragma GCC unroll 3
    for (int v = 0; v < vectors; v++) E(PUT)(c + n * sc + v * L, s[n][v]);
}
static WITHIN void E(add_all_rows)(T *c, i64 sc, const T *A, i64 sa, const T *b, i64 sb, i64 R, i64 M, i64 N, const int vectors) {
  const i64 part = M - (vectors - 1) * L;
  i64 n = 0;
  for (; n + 4 <= N; n += 4) E(add_few_rows)(c + n * sc, sc, A, sa, b + n, sb, R, part, 4, vectors);
  for (; n + 2 <= N; n += 2) E(add_few_rows)(c + n * sc, sc, A, sa, b + n, sb, R, part, 2, vectors);
  if (n < N) E(add_few_rows)(c + n * sc, sc, A, sa, b + n, sb, R, part, 1, vectors);
}
static APART void E(gather_few)(const T *A, i64 sa, const T *B, i64 sb, T *C, i64 sc, i64 R, i64 M, i64 N) {
  if (M <= L) E(add_all_rows)(C, sc, A, sa, B, sb, R, M, N, 1);
  else if (M <= 2 * L) E(add_all_rows)(C, sc, A, sa, B, sb, R, M, N, 2);
  else E(add_all_rows)(C, sc, A, sa, B, sb, R, M, N, 3);
}
#endif

/* C += the sum over r of b[r] A[r], for each of the N columns b of B (R x N, sb apart):
   C is N x M, so that its rows are as long as A's; they are sc apart. Of long rows, what lies `ahead`
   bytes behind every other one is brought closer meanwhile: memory would rest otherwise. */
static APART void E(gather)(const T *A, i64 sa, const T *B, i64 sb, T *C, i64 sc, i64 R, i64 M, i64 N, i64 ahead) {
#if defined(LEVEL_AVX2)
  if (N > 1 && M <= 3 * L && (M + L - 1) / L * L <= sc) {
    E(gather_few)(A, sa, B, sb, C, sc, R, M, N);
    return;
  }
#endif
  if (M <= 4 * L) {
    for (i64 n = 0; n < N; n++) E(add_rows)(C + n * sc, A, sa, B + n, sb, R, M);
    return;
  }
  i64 r = 0;
  for (; r + 4 <= R; r += 4) {
    const T *const first = A + r * sa, *const a[4] = {first, first + sa, first + 2 * sa, first + 3 * sa};
    const T *b = B + r * sb;
    i64 n = 0;
    for (; n + 2 <= N; n += 2) E(add_four)(C + n * sc, C + (n + 1) * sc, a, b + n, sb, M, n ? 0 : ahead);
    if (n < N) E(add_four)(C + n * sc, 0, a, b + n, sb, M, n ? 0 : ahead);
  }
  for (; r < R; r++)
    for (i64 n = 0; n < N; n++) E(add_row)(C + n * sc, A + r * sa, B[r * sb + n], M);
}

/* C = A B for a wide B of K x N given by rows, with K small: a row of C at a time */
static APART void E(spread)(const T *A, i64 sa, const T *B, T *C, i64 R, i64 K, i64 N) {
  memset(C, 0, (size_t)(R * N) * sizeof(T));
  for (i64 r = 0; r < R; r++) E(gather)(B, N, A + r * sa, 1, C + r * N, N, K, N, 1, 0);
}

/* c += the sum over n entries of values[k] B[columns[k]], rows of N elements: sums stay in registers */
static inline void E(add_entries_times)(const T *values, const int32_t *columns, i64 n, const T *B, T *c, i64 N) {
  const V one = E(SET)(1);
  i64 m = 0;
  for (; m + 4 * L <= N; m += 4 * L) {
    V s0 = E(FULL)(c + m), s1 = E(FULL)(c + m + L), s2 = E(FULL)(c + m + 2 * L), s3 = E(FULL)(c + m + 3 * L);
    for (i64 k = 0; k < n; k++) {
      const T *const b = B + columns[k] * N + m;
      const V w = E(SET)(values[k]);
      s0 = E(FMA_VEC)(E(FULL)(b), w, s0); s1 = E(FMA_VEC)(E(FULL)(b + L), w, s1);
      s2 = E(FMA_VEC)(E(FULL)(b + 2 * L), w, s2); s3 = E(FMA_VEC)(E(FULL)(b + 3 * L), w, s3);
    }
    E(PUT)(c + m, s0); E(PUT)(c + m + L, s1); E(PUT)(c + m + 2 * L, s2); E(PUT)(c + m + 3 * L, s3);
  }
#define STEP(load, put) \
  V s0 = load(c + m), s1 = E(SET)(0), s2 = s1, s3 = s1; \
  i64 k = 0; \
  for (; k + 4 <= n; k += 4) { \
    const T *const b0 = B + columns[k] * N + m, *const b1 = B + columns[k + 1] * N + m; \
    const T *const b2 = B + columns[k + 2] * N + m, *const b3 = B + columns[k + 3] * N + m; \
    s0 = E(FMA_VEC)(load(b0), E(SET)(values[k]), s0); s1 = E(FMA_VEC)(load(b1), E(SET)(values[k + 1]), s1); \
    s2 = E(FMA_VEC)(load(b2), E(SET)(values[k + 2]), s2); s3 = E(FMA_VEC)(load(b3), E(SET)(values[k + 3]), s3); \
  } \
  for (; k < n; k++) s0 = E(FMA_VEC)(load(B + columns[k] * N + m), E(SET)(values[k]), s0); \
  put(c + m, E(FMA_VEC)(E(FMA_VEC)(s0, one, s1), one, E(FMA_VEC)(s2, one, s3)))
#define REST(p) E(PART)(p, N - m)
#define PUT_REST(p, v) E(PUT_PART)(p, N - m, v)
  for (; m + L <= N; m += L) { STEP(E(FULL), E(PUT)); }
  if (m < N) { STEP(REST, PUT_REST); }
#undef STEP
#undef REST
#undef PUT_REST
}

/* C[rows[j]] += s[j] B[columns[j]] for n places, row by row */
static APART void E(add_to_rows)(const T *s, const int32_t *rows, const int32_t *columns, i64 n, const T *B, T *C, i64 N) {
  for (i64 j = 0, to; j < n; j = to) {
    for (to = j + 1; to < n && rows[to] == rows[j]; to++) {}
    E(add_entries_times)(s + j, columns + j, to - j, B, C + rows[j] * N, N);
  }
}

/* c[r] = A[r] . B for R sparse rows of A from number `at` on; entries before `last` are read soon */
static APART void E(dots_csr)(const view *v, i64 at, const T *restrict B, T *restrict C, i64 R, i64 last) {
  const T *values = (const T *)v->data;
  const int32_t *columns = (const int32_t *)v->column;
  const begins b = begins_of(v);
  i64 k = begin(b, at);
#define SOON(count) \
  fetch_ahead((const char *)(values + k), (count) * (i64)sizeof(T), (last - k) * (i64)sizeof(T)); \
  fetch_ahead((const char *)(columns + k), (count) * 4, (last - k) * 4)
  for (i64 r = 0; r < R; ) {
    const i64 to = LEAST(r + 16, R);
#if defined(LEVEL_AVX2)
    /* rows of which most are empty; rows of a few entries: of all at once it is looked ahead */
    const i64 all = begin(b, at + to) - k;
    if (all <= (to - r) / 4) {
      for (; r < to; r++) {
        T s = 0;
        for (const i64 end = begin(b, at + r + 1); k < end; k++) E(ADD_PRODUCT)(s, values[k], B[columns[k]]);
        C[r] = s;
      }
      continue;
    }
    if (all <= (to - r) * FEW && k + all + 4 <= last) {
      SOON(all);
      for (; r < to; r++) {
        const i64 here = begin(b, at + r + 1) - k;
        C[r] = E(few_entries_times)(values + k, columns + k, here, B);
        k += here;
      }
      continue;
    }
#endif
    for (; r < to; r++) {
      const i64 here = begin(b, at + r + 1) - k;
      SOON(here);
      C[r] = E(entries_times)(values + k, columns + k, here, B);
      k += here;
    }
  }
#undef SOON
}

/* C = A B for R sparse rows of A from number `at` on, of `left` that are read soon; B is K x N by rows */
static APART void E(times_csr)(const view *v, i64 at, const T *restrict B, T *restrict C, i64 R, i64 left, i64 N) {
  const T *values = (const T *)v->data;
  const begins b = begins_of(v);
  const int32_t *columns = (const int32_t *)v->column;
  const i64 last = begin(b, at + left);
  if (N == 1) {
    E(dots_csr)(v, at, B, C, R, last);
    return;
  }
  for (i64 r = 0; r < R; r++) {
    /* row by row: many at once would wait for each other */
    const i64 first = begin(b, at + r), here = begin(b, at + r + 1) - first, rest = last - first;
    fetch_ahead((const char *)(values + first), here * (i64)sizeof(T), rest * (i64)sizeof(T));
    fetch_ahead((const char *)(columns + first), here * 4, rest * 4);
    T *restrict c = C + r * N;
    for (i64 n = 0; n < N; n++) c[n] = 0;
    E(add_entries_times)(values + first, columns + first, here, B, c, N);
  }
}

/* C[columns[k]] += w values[k]: four at once where no column comes twice, so that none waits for the
   one before to be stored */
static inline void E(add_entries)(const T *values, const int32_t *columns, i64 n, T w, T *restrict C, int distinct) {
  SUMS_OF_PRODUCTS
  i64 k = 0;
  for (; distinct && k + 4 <= n; k += 4) {
    T *const p0 = C + columns[k], *const p1 = C + columns[k + 1], *const p2 = C + columns[k + 2], *const p3 = C + columns[k + 3];
    T s0 = *p0, s1 = *p1, s2 = *p2, s3 = *p3;
    E(ADD_PRODUCT)(s0, values[k], w); E(ADD_PRODUCT)(s1, values[k + 1], w);
    E(ADD_PRODUCT)(s2, values[k + 2], w); E(ADD_PRODUCT)(s3, values[k + 3], w);
    *p0 = s0; *p1 = s1; *p2 = s2; *p3 = s3;
  }
  for (; k < n; k++) E(ADD_PRODUCT)(C[columns[k]], values[k], w);
}

/* One of these rows alone: its product with a vector, and its sum to one. Where one follows upon the
   other row by row, processors do the next row's first beside this one's second. */
static inline void E(times_row)(const view *v, i64 row, const T *B, T *c, i64 left) {
  const T *values = (const T *)v->data;
  const begins b = begins_of(v);
  const int32_t *columns = (const int32_t *)v->column;
  const i64 first = begin(b, row), here = begin(b, row + 1) - first, rest = begin(b, row + left) - first;
  fetch_ahead((const char *)(values + first), here * (i64)sizeof(T), rest * (i64)sizeof(T));
  fetch_ahead((const char *)(columns + first), here * 4, rest * 4);
  *c = E(entries_times)(values + first, columns + first, here, B);
}
static inline void E(gather_row)(const view *v, i64 row, T w, T *restrict C) {
  const begins b = begins_of(v);
  const i64 first = begin(b, row), here = begin(b, row + 1) - first;
  E(add_entries)((const T *)v->data + first, (const int32_t *)v->column + first, here, w, C, v->type & DISTINCT);
}

/* C += the transpose of those rows times the R x N matrix B, sb apart; C is K x N by rows. Compiled where
   it is called, as N is known there: with an entry comes little more than the loops over N. */
static inline void E(gather_csr)(const view *v, i64 at, const T *restrict B, i64 sb, T *restrict C, i64 R, i64 N) {
  SUMS_OF_PRODUCTS
  const T *values = (const T *)v->data;
  const begins rows = begins_of(v);
  const int32_t *columns = (const int32_t *)v->column;
  i64 k = begin(rows, at);
  for (i64 r = 0; r < R; r++) {
    const T *restrict b = B + r * sb;
    const i64 end = begin(rows, at + r + 1);
    if (N == 1) {
      E(add_entries)(values + k, columns + k, end - k, b[0], C, v->type & DISTINCT);
      k = end;
      continue;
    }
    for (; k < end; k++) {
      E(add_few)(C + (i64)columns[k] * N, b, values[k], N);
    }
  }
}

/* to[j] = F[rows[j]] . G[columns[j]] for n places, four at a time; F and G have rows of K elements */
static APART void E(dots_at)(const T *F, const int32_t *rows, const T *G, const int32_t *columns, T *to, i64 n, i64 K) {
  i64 j = 0;
  for (; j + 4 <= n; j += 4) {
    const T *const f0 = F + rows[j] * K, *const f1 = F + rows[j + 1] * K, *const f2 = F + rows[j + 2] * K, *const f3 = F + rows[j + 3] * K;
    const T *const g0 = G + columns[j] * K, *const g1 = G + columns[j + 1] * K, *const g2 = G + columns[j + 2] * K, *const g3 = G + columns[j + 3] * K;
    V s0 = E(SET)(0), s1 = s0, s2 = s0, s3 = s0;
    i64 k = 0;
#define STEP(load) \
  s0 = E(FMA_VEC)(load(f0 + k), load(g0 + k), s0); s1 = E(FMA_VEC)(load(f1 + k), load(g1 + k), s1); \
  s2 = E(FMA_VEC)(load(f2 + k), load(g2 + k), s2); s3 = E(FMA_VEC)(load(f3 + k), load(g3 + k), s3)
#define REST(p) E(PART)(p, K - k)
    for (; k + L <= K; k += L) { STEP(E(FULL)); }
    if (k < K) { STEP(REST); }
#undef STEP
#undef REST
    E(sum_four)(s0, s1, s2, s3, to + j);
  }
  for (; j < n; j++) E(dots)(F + rows[j] * K, 0, G + columns[j] * K, to + j, 1, 1, K);
}
