/* Softmax of rows of 8-bit integers as ONNX Runtime computes it: exponentials of all 256 distances from the largest
   integer of a row are looked up, added up in float32 one after another, and what becomes of each is rounded. A sum
   has to wait for itself at each step, so several rows go through at once. */
#ifndef SOFTMAX_ROWS
#define SOFTMAX_ROWS 8
typedef struct {
  const float *table; /* exponentials, from the most distant to 0; beyond one, of no integer */
  float scale;        /* what a probability of 1 is */
  int32_t zero;       /* of unsigned numbers */
  uint8_t flip;       /* what these are made with */
} softmax;
#endif

/* the looked up numbers of a row, and what is added up of them side by side with other rows */
static INLINED void softmax_rows(
    const int rows, const softmax *g, const uint8_t *x, i64 n, float *held, uint8_t *out) {
  const float *table[SOFTMAX_ROWS];
  float sum[SOFTMAX_ROWS];
  _Pragma("GCC unroll 8")
  for (int r = 0; r < rows; r++) {
    const uint8_t *own = x + r * n;
    uint8_t most = 0;
    #pragma omp simd reduction(max:most)
    for (i64 j = 0; j < n; j++) { const uint8_t one = own[j] ^ g->flip; most = one > most ? one : most; }
    table[r] = g->table + 255 - most;
    sum[r] = 0;
  }
  for (i64 j = 0; j < n; j++)
    _Pragma("GCC unroll 8")
    for (int r = 0; r < rows; r++) {
      const float one = table[r][x[r * n + j] ^ g->flip];
      held[r * n + j] = one;
      sum[r] += one;
    }
  for (int r = 0; r < rows; r++) {
    const float all = sum[r], scale = g->scale;
    const float *own = held + r * n;
    uint8_t *to = out + r * n;
    const int32_t zero = g->zero;
    #pragma omp simd
    for (i64 j = 0; j < n; j++) {
      const int32_t q = (int32_t)__builtin_rintf(own[j] * scale / all) + zero;
      to[j] = (uint8_t)(q > 255 ? 255 : q) ^ g->flip;
    }
  }
}
/* A unit is a block of rows, of at most as many as go through at once. */
static APART void softmax_task(const task *own, const softmax *g, i64 n, const uint8_t *x, uint8_t *out) {
  const call *c = own->whole;
  float *held = (float *)own->scratch;
  for (i64 unit = own->first; unit < own->end; unit++) {
    const i64 first = unit * c->block, rows = LEAST(c->block, c->rows - first);
    if (rows == SOFTMAX_ROWS) softmax_rows(SOFTMAX_ROWS, g, x + first * n, n, held, out + first * n);
    else
      for (i64 r = first; r < first + rows; r++) softmax_rows(1, g, x + r * n, n, held, out + r * n);
  }
}
