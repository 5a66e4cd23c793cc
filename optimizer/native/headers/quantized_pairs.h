/* Sums and products of two tensors of 8-bit integers element by element, rounded once, as ONNX Runtime computes them:
   a sum by two multiplications and additions in one rounding each, a product of what is less its zero point. Signed
   integers are made unsigned ones, as there. */
#define PAIRS_BLOCK 8192
#ifndef PAIRS_KNOWN
#define PAIRS_KNOWN
typedef struct {
  float first, second, fixed; /* of a sum: ratios, and what is added; of a product: zero points, and its scale */
  float zero;                 /* what is added to a product */
} pairs;
#endif
/* `step` is 0 where an operand stays along a row, 1 where it runs */
static INLINED void pairs_row(
    const int adds, const uint8_t flip, const i64 first_step, const i64 second_step, const pairs *g,
    const uint8_t *a, const uint8_t *b, uint8_t *out, i64 n) {
  const float first = g->first, second = g->second, fixed = g->fixed, zero = g->zero;
  #pragma omp simd
  for (i64 j = 0; j < n; j++) {
    const float x = (float)(a[first_step * j] ^ flip), y = (float)(b[second_step * j] ^ flip);
    float t = adds ? __builtin_fmaf(x, first, __builtin_fmaf(y, second, fixed))
                   : (x - first) * (y - second) * fixed + zero;
    t = t > 0.0f ? t : 0.0f;
    t = t < 255.0f ? t : 255.0f;
    out[j] = (uint8_t)(int32_t)__builtin_rintf(t) ^ flip;
  }
}
static INLINED void pairs_task(
    const task *own, const int adds, const uint8_t flip, const i64 first_step, const i64 second_step,
    const pairs *g, const uint8_t *a, const uint8_t *b, uint8_t *out) {
  const call *c = own->whole;
  for (i64 unit = own->first; unit < own->end; unit++) {
    const i64 base = unit % c->blocks * PAIRS_BLOCK, n = LEAST(PAIRS_BLOCK, c->inner - base);
    const uint8_t *p = a + c->offset[0] + first_step * base, *q = b + c->offset[1] + second_step * base;
    uint8_t *to = out + base;
    i64 rest = unit / c->blocks;
    for (int l = c->loops - 2; l >= 0; l--) {
      const i64 i = rest % c->extent[l];
      rest /= c->extent[l];
      p += i * c->stride[0][l];
      q += i * c->stride[1][l];
      to += i * c->place[0][l];
    }
    pairs_row(adds, flip, first_step, second_step, g, p, q, to, n);
  }
}
