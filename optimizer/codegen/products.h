/* Small products of a block of rows, over element type T, for functions that end in E.
   Rows of A are `sa` apart; B lies transposed, its columns contiguous. */

/* c[r] = A[r] . b, four rows at a time */
static APART void E(dots)(const T *A, i64 sa, const T *restrict b, T *restrict c, i64 sc, i64 R, i64 K) {
  SUMS_OF_PRODUCTS
  i64 r = 0;
  for (; r + 4 <= R; r += 4) {
    const T *a0 = A + r * sa, *a1 = a0 + sa, *a2 = a1 + sa, *a3 = a2 + sa;
    T t0 = 0, t1 = 0, t2 = 0, t3 = 0;
    for (i64 from = 0; from < K; from += TILE) {
      i64 to = LEAST(from + TILE, K);
      T s0 = 0, s1 = 0, s2 = 0, s3 = 0;
      _Pragma("omp simd reduction(+:s0,s1,s2,s3)")
      for (i64 k = from; k < to; k++) {
        E(ADD_PRODUCT)(s0, a0[k], b[k]); E(ADD_PRODUCT)(s1, a1[k], b[k]); E(ADD_PRODUCT)(s2, a2[k], b[k]); E(ADD_PRODUCT)(s3, a3[k], b[k]);
      }
      t0 += s0; t1 += s1; t2 += s2; t3 += s3;
    }
    c[r * sc] = t0; c[(r + 1) * sc] = t1; c[(r + 2) * sc] = t2; c[(r + 3) * sc] = t3;
  }
  for (; r < R; r++) {
    const T *a = A + r * sa;
    T t = 0;
    for (i64 from = 0; from < K; from += TILE) {
      i64 to = LEAST(from + TILE, K);
      T s = 0;
      _Pragma("omp simd reduction(+:s)")
      for (i64 k = from; k < to; k++) E(ADD_PRODUCT)(s, a[k], b[k]);
      t += s;
    }
    c[r * sc] = t;
  }
}

/* C = A B with a narrow B of K x N given by columns: a block of 2 x 4 at a time */
static APART void E(times)(const T *A, i64 sa, const T *B, T *C, i64 R, i64 K, i64 N) {
  SUMS_OF_PRODUCTS
  i64 n = 0;
  for (; n + 4 <= N; n += 4) {
    const T *restrict b0 = B + n * K, *restrict b1 = b0 + K, *restrict b2 = b1 + K, *restrict b3 = b2 + K;
    i64 r = 0;
    for (; r + 2 <= R; r += 2) {
      const T *restrict a = A + r * sa, *restrict d = a + sa;
      T s0 = 0, s1 = 0, s2 = 0, s3 = 0, t0 = 0, t1 = 0, t2 = 0, t3 = 0;
      _Pragma("omp simd reduction(+:s0,s1,s2,s3,t0,t1,t2,t3)")
      for (i64 k = 0; k < K; k++) {
        E(ADD_PRODUCT)(s0, a[k], b0[k]); E(ADD_PRODUCT)(s1, a[k], b1[k]); E(ADD_PRODUCT)(s2, a[k], b2[k]); E(ADD_PRODUCT)(s3, a[k], b3[k]);
        E(ADD_PRODUCT)(t0, d[k], b0[k]); E(ADD_PRODUCT)(t1, d[k], b1[k]); E(ADD_PRODUCT)(t2, d[k], b2[k]); E(ADD_PRODUCT)(t3, d[k], b3[k]);
      }
      T *c = C + r * N + n, *e = c + N;
      c[0] = s0; c[1] = s1; c[2] = s2; c[3] = s3;
      e[0] = t0; e[1] = t1; e[2] = t2; e[3] = t3;
    }
    for (; r < R; r++) {
      const T *restrict a = A + r * sa;
      T s0 = 0, s1 = 0, s2 = 0, s3 = 0;
      _Pragma("omp simd reduction(+:s0,s1,s2,s3)")
      for (i64 k = 0; k < K; k++) {
        E(ADD_PRODUCT)(s0, a[k], b0[k]); E(ADD_PRODUCT)(s1, a[k], b1[k]); E(ADD_PRODUCT)(s2, a[k], b2[k]); E(ADD_PRODUCT)(s3, a[k], b3[k]);
      }
      T *c = C + r * N + n;
      c[0] = s0; c[1] = s1; c[2] = s2; c[3] = s3;
    }
  }
  for (; n < N; n++) E(dots)(A, sa, B + n * K, C + n, N, R, K);
}

/* C += the sum over r of b[r] A[r], for each of the N columns b of B (R x N, sb apart):
   C is N x M, so that its rows are as long as A's */
static APART void E(gather)(const T *A, i64 sa, const T *B, i64 sb, T *C, i64 R, i64 M, i64 N) {
  SUMS_OF_PRODUCTS
  i64 r = 0;
  for (; r + 4 <= R; r += 4) {
    const T *restrict a0 = A + r * sa, *restrict a1 = a0 + sa, *restrict a2 = a1 + sa, *restrict a3 = a2 + sa;
    const T *b = B + r * sb;
    for (i64 n = 0; n < N; n++) {
      T *restrict c = C + n * M;
      const T w0 = b[n], w1 = b[sb + n], w2 = b[2 * sb + n], w3 = b[3 * sb + n];
      for (i64 m = 0; m < M; m++) {
        T t = c[m], u = a2[m] * w2;
        E(ADD_PRODUCT)(t, a0[m], w0); E(ADD_PRODUCT)(u, a3[m], w3); E(ADD_PRODUCT)(t, a1[m], w1);
        c[m] = t + u;
      }
    }
  }
  for (; r < R; r++) {
    const T *restrict a = A + r * sa;
    for (i64 n = 0; n < N; n++) {
      T *restrict c = C + n * M;
      const T w = B[r * sb + n];
      for (i64 m = 0; m < M; m++) E(ADD_PRODUCT)(c[m], a[m], w);
    }
  }
}

/* C = A B for a wide B of K x N given by rows, with K small: a row of C at a time */
static APART void E(spread)(const T *A, i64 sa, const T *B, T *C, i64 R, i64 K, i64 N) {
  memset(C, 0, (size_t)(R * N) * sizeof(T));
  for (i64 r = 0; r < R; r++) E(gather)(B, N, A + r * sa, 1, C + r * N, K, N, 1);
}

/* C = A B for R sparse rows of A from number `at` on; B is K x N by rows */
static APART void E(times_csr)(const view *v, i64 at, const T *restrict B, T *restrict C, i64 R, i64 N) {
  SUMS_OF_PRODUCTS
  const T *values = (const T *)v->data;
  const i64 *begin = (const i64 *)v->row + at;
  const int32_t *columns = (const int32_t *)v->column;
  for (i64 r = 0; r < R; r++) {
    T *restrict c = C + r * N;
    if (N == 1) {
      T s = 0, t = 0;
      i64 k = begin[r];
      for (; k + 2 <= begin[r + 1]; k += 2) {
        E(ADD_PRODUCT)(s, values[k], B[columns[k]]);
        E(ADD_PRODUCT)(t, values[k + 1], B[columns[k + 1]]);
      }
      if (k < begin[r + 1]) E(ADD_PRODUCT)(s, values[k], B[columns[k]]);
      c[0] = s + t;
      continue;
    }
    for (i64 n = 0; n < N; n++) c[n] = 0;
    for (i64 k = begin[r]; k < begin[r + 1]; k++) {
      const T *restrict b = B + (i64)columns[k] * N;
      const T w = values[k];
      for (i64 n = 0; n < N; n++) E(ADD_PRODUCT)(c[n], w, b[n]);
    }
  }
}

/* C += the transpose of those rows times the R x N matrix B, sb apart; C is K x N by rows */
static APART void E(gather_csr)(const view *v, i64 at, const T *restrict B, i64 sb, T *restrict C, i64 R, i64 N) {
  SUMS_OF_PRODUCTS
  const T *values = (const T *)v->data;
  const i64 *begin = (const i64 *)v->row + at;
  const int32_t *columns = (const int32_t *)v->column;
  for (i64 r = 0; r < R; r++) {
    const T *restrict b = B + r * sb;
    if (N == 1) {
      const T w = b[0];
      for (i64 k = begin[r]; k < begin[r + 1]; k++) E(ADD_PRODUCT)(C[columns[k]], values[k], w);
      continue;
    }
    for (i64 k = begin[r]; k < begin[r + 1]; k++) {
      T *restrict c = C + (i64)columns[k] * N;
      for (i64 n = 0; n < N; n++) E(ADD_PRODUCT)(c[n], values[k], b[n]);
    }
  }
}

/* a . b */
static inline T E(dot)(const T *restrict a, const T *restrict b, i64 n) {
  SUMS_OF_PRODUCTS
  T s = 0;
  _Pragma("omp simd reduction(+:s)")
  for (i64 k = 0; k < n; k++) E(ADD_PRODUCT)(s, a[k], b[k]);
  return s;
}

/* c += w a */
static inline void E(add_row)(T *restrict c, const T *restrict a, T w, i64 n) {
  SUMS_OF_PRODUCTS
  for (i64 k = 0; k < n; k++) E(ADD_PRODUCT)(c[k], a[k], w);
}
