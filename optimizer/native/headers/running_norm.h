/* Normalizations of rows as ONNX Runtime computes them where it adds two tensors in the same operator: mean and squared
   deviations are updated by one element after another, in float32, each step rounded (Welford 1962). A row has to wait
   for itself at each step, so several rows go through at once. `simplified`: the sum of squares alone. */
#ifndef RUNNING_LANES
#define RUNNING_LANES 32
#define RUNNING_COLUMNS 16
typedef struct {
  const float *a, *b, *bias, *gain, *shift; /* bias and shift may be NULL, as `sum` */
  float epsilon;
  float *sum, *out;
} running;
#endif

static INLINED void running_rows(
    const int simplified, const int lanes, const running *g, i64 first, i64 rows, i64 n) {
  float mean[RUNNING_LANES] = {0}, square[RUNNING_LANES] = {0};
  float turned[RUNNING_COLUMNS][RUNNING_LANES] = {{0}};
  float *sums = (g->sum ? g->sum : g->out) + first * n;
  for (i64 at = 0; at < n; at += RUNNING_COLUMNS) {
    const i64 wide = LEAST(RUNNING_COLUMNS, n - at);
    for (i64 r = 0; r < rows; r++) {
      const float *a = g->a + (first + r) * n + at, *b = g->b + (first + r) * n + at;
      float *to = sums + r * n + at;
      for (i64 k = 0; k < wide; k++) {
        float one = a[k] + b[k];
        if (g->bias) one += g->bias[at + k];
        to[k] = one;
        turned[k][r] = one;
      }
    }
    for (i64 k = 0; k < wide; k++) {
      const float count = (float)(at + k + 1);
      #pragma omp simd
      for (int r = 0; r < lanes; r++) {
        const float one = turned[k][r];
        if (simplified) {
          square[r] += one * one;
        } else {
          const float before = one - mean[r];
          mean[r] += before / count;
          square[r] += before * (one - mean[r]);
        }
      }
    }
  }
  for (i64 r = 0; r < rows; r++) {
    const float deviation = __builtin_sqrtf(square[r] / (float)n + g->epsilon), middle = mean[r];
    const float *s = sums + r * n;
    float *to = g->out + (first + r) * n;
    if (g->shift) {
      #pragma omp simd
      for (i64 k = 0; k < n; k++) to[k] = (s[k] - middle) / deviation * g->gain[k] + g->shift[k];
    } else {
      #pragma omp simd
      for (i64 k = 0; k < n; k++) to[k] = (s[k] - middle) / deviation * g->gain[k];
    }
  }
}
/* A unit is a block of rows, half as many as there are lanes at most, or all. */
static APART void running_task(const task *own, const running *g, int simplified, i64 n) {
  const call *c = own->whole;
  for (i64 unit = own->first; unit < own->end; unit++) {
    const i64 first = unit * c->block, rows = LEAST(c->block, c->rows - first);
    if (simplified) running_rows(1, RUNNING_LANES, g, first, rows, n);
    else if (rows > RUNNING_LANES / 2) running_rows(0, RUNNING_LANES, g, first, rows, n);
    else running_rows(0, RUNNING_LANES / 2, g, first, rows, n);
  }
}
