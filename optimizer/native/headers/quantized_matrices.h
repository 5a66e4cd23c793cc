/* Products of two matrices of 8-bit integers that are both known when the model runs alone. The second one is laid out
   as quantized.h has constant ones, once for each of a batch: its columns in panels, four steps of the depth side by
   side. Both may lie in any order, as transpositions before them have left it. */
#ifndef MATRICES_KNOWN
#define MATRICES_KNOWN
typedef struct {
  uint8_t flip, fill;       /* what unsigned rows are made with, and their zero point as such */
  uint8_t turn;             /* what signed columns are made with */
  int32_t zero;             /* their zero point as such */
  float scale;
} matrices;
#endif

/* Four numbers of each of n columns, `wn` apart, from four steps of the depth, or fewer, `wk` apart. */
static INLINED void matrices_four(
    const uint8_t *from, i64 wk, i64 steps, i64 n, uint8_t turn, uint32_t *restrict to) {
  const uint8_t *a = from, *b = from + wk, *d = from + 2 * wk, *e = from + 3 * wk;
  const uint32_t all = turn * 0x01010101u;
  if (steps == 4) {
    #pragma omp simd
    for (i64 j = 0; j < n; j++)
      to[j] = ((uint32_t)a[j] | (uint32_t)b[j] << 8 | (uint32_t)d[j] << 16 | (uint32_t)e[j] << 24) ^ all;
  } else {
    for (i64 j = 0; j < n; j++) {
      uint32_t four = 0;
      for (i64 k = 0; k < steps; k++) four |= (uint32_t)(from[k * wk + j] ^ turn) << 8 * k;
      to[j] = four;
    }
  }
}
#if defined(__x86_64__)
/* four columns of 16 steps of the depth each, which lie side by side there */
static INLINED void matrices_turn(const uint8_t *from, i64 wn, uint32_t all, uint32_t *to) {
  const __m128i t = _mm_set1_epi32((int)all);
  const __m128i a = _mm_xor_si128(_mm_loadu_si128((const __m128i *)from), t);
  const __m128i b = _mm_xor_si128(_mm_loadu_si128((const __m128i *)(from + wn)), t);
  const __m128i d = _mm_xor_si128(_mm_loadu_si128((const __m128i *)(from + 2 * wn)), t);
  const __m128i e = _mm_xor_si128(_mm_loadu_si128((const __m128i *)(from + 3 * wn)), t);
  const __m128i low = _mm_unpacklo_epi32(a, b), high = _mm_unpackhi_epi32(a, b);
  const __m128i under = _mm_unpacklo_epi32(d, e), over = _mm_unpackhi_epi32(d, e);
  _mm_storeu_si128((__m128i *)to, _mm_unpacklo_epi64(low, under));
  _mm_storeu_si128((__m128i *)(to + QUANTIZED_PANEL), _mm_unpackhi_epi64(low, under));
  _mm_storeu_si128((__m128i *)(to + 2 * QUANTIZED_PANEL), _mm_unpacklo_epi64(high, over));
  _mm_storeu_si128((__m128i *)(to + 3 * QUANTIZED_PANEL), _mm_unpackhi_epi64(high, over));
}
#endif
/* A panel of n columns: [depth / 4, QUANTIZED_PANEL, 4], zeros beyond. */
static APART void matrices_panel(
    const uint8_t *from, i64 wk, i64 wn, i64 depth, i64 n, uint8_t turn, uint32_t *restrict to) {
  const i64 steps = (depth + 3) / 4;
  if (n < QUANTIZED_PANEL) memset(to, 0, sizeof(uint32_t) * (size_t)(steps * QUANTIZED_PANEL));
  if (wn == 1) {
    for (i64 k = 0; k < steps; k++)
      matrices_four(from + 4 * k * wk, wk, LEAST(4, depth - 4 * k), n, turn, to + k * QUANTIZED_PANEL);
    return;
  }
  i64 whole = 0, columns = 0;
#if defined(__x86_64__)
  if (wk == 1) {
    whole = depth / 16 * 4;
    columns = n / 4 * 4;
    for (i64 j = 0; j < columns; j += 4)
      for (i64 k = 0; k < whole; k += 4)
        matrices_turn(from + j * wn + 4 * k, wn, turn * 0x01010101u, to + k * QUANTIZED_PANEL + j);
  }
#endif
  for (i64 j = 0; j < n; j++)
    for (i64 k = j < columns ? whole : 0; k < steps; k++) {
      uint32_t four = 0;
      for (i64 d = 0; d < LEAST(4, depth - 4 * k); d++)
        four |= (uint32_t)(from[j * wn + (4 * k + d) * wk] ^ turn) << 8 * d;
      to[k * QUANTIZED_PANEL + j] = four;
    }
}

/* A unit is a block of rows of one of the batch; a task has the panels of that, and copied rows where these don't lie
   side by side as they are multiplied. The loops are the batch's, rows, columns and the depth. */
static APART void matrices_task(
    const task *own, const matrices *g, ending *e, const uint8_t *x, const uint8_t *w, uint8_t *out) {
  const call *c = own->whole;
  const int batch = c->loops - 3;
  const i64 rows = c->extent[batch], columns = c->extent[batch + 1], depth = c->extent[batch + 2];
  const i64 xm = c->stride[0][batch], xk = c->stride[0][batch + 2], om = c->place[0][batch];
  const i64 wn = c->stride[1][batch + 1], wk = c->stride[1][batch + 2];
  const i64 length = (depth + 3) / 4 * 4, panels = (columns + QUANTIZED_PANEL - 1) / QUANTIZED_PANEL;
  const int copies = g->flip || xk != 1 || length != depth;
  int8_t *W = (int8_t *)own->scratch;
  int32_t *begin = (int32_t *)(W + panels * QUANTIZED_PANEL * length), *sums = begin + panels * QUANTIZED_PANEL;
  uint8_t *copied = (uint8_t *)(sums + c->block);
  int32_t S[QUANTIZED_ROWS * QUANTIZED_PANEL] __attribute__((aligned(64)));
  float by[QUANTIZED_PANEL] __attribute__((aligned(64)));
  const i64 none = 0;
  i64 packed = -1;
  for (int j = 0; j < QUANTIZED_PANEL; j++) by[j] = g->scale;
  for (i64 unit = own->first; unit < own->end; unit++) {
    const i64 at = unit / c->blocks, first = unit % c->blocks * c->block, count = LEAST(c->block, rows - first);
    const uint8_t *from = x + c->offset[0], *its = w + c->offset[1];
    uint8_t *to = out;
    i64 rest = at;
    for (int l = batch - 1; l >= 0; l--) {
      const i64 i = rest % c->extent[l];
      rest /= c->extent[l];
      from += i * c->stride[0][l];
      its += i * c->stride[1][l];
      to += i * c->place[0][l];
    }
    if (packed != at) {
      packed = at;
      /* sums of columns are products with ones, which the rows' scratch has room for */
      memset(copied, 1, (size_t)length);
      for (i64 p = 0; p < panels; p++) {
        const i64 n = LEAST(QUANTIZED_PANEL, columns - p * QUANTIZED_PANEL);
        int8_t *panel = W + p * QUANTIZED_PANEL * length;
        int32_t *start = begin + p * QUANTIZED_PANEL;
        const uint8_t *ones = copied;
        matrices_panel(its + p * QUANTIZED_PANEL * wn, wk, wn, depth, n, g->turn, (uint32_t *)panel);
        memset(S, 0, sizeof(int32_t) * QUANTIZED_PANEL);
        quantized_rows(1, 4, &ones, &none, 1, length, panel, S, start);
        for (int j = 0; j < QUANTIZED_PANEL; j++)
          start[j] = (int32_t)((uint32_t)g->fill * ((uint32_t)depth * (uint32_t)g->zero - (uint32_t)start[j]));
      }
    }
    from += first * xm;
    i64 apart = xm;
    if (copies) {
      for (i64 r = 0; r < count; r++) {
        uint8_t *row = copied + r * length;
        const uint8_t *source = from + r * xm;
        if (xk == 1) for (i64 k = 0; k < depth; k++) row[k] = source[k] ^ g->flip;
        else for (i64 k = 0; k < depth; k++) row[k] = source[k * xk] ^ g->flip;
        memset(row + depth, 0, (size_t)(length - depth));
      }
      from = copied;
      apart = length;
    }
    if (g->zero)
      for (i64 r = 0; r < count; r++) {
        uint32_t sum = 0;
        #pragma omp simd reduction(+:sum)
        for (i64 k = 0; k < depth; k++) sum += from[r * apart + k];
        sums[r] = (int32_t)(0u - sum * (uint32_t)g->zero);
      }
    to += first * om;
    for (i64 p = 0; p < panels; p++) {
      const i64 column = p * QUANTIZED_PANEL, n = LEAST(QUANTIZED_PANEL, columns - column);
      const int vectors = n > 32 ? 4 : (int)(n + 15) / 16;
      i64 tiles = (count + QUANTIZED_ROWS - 1) / QUANTIZED_ROWS;
      for (i64 r = 0, some; r < count; r += some) {
        const uint8_t *q[QUANTIZED_ROWS];
        some = (count - r + tiles - 1) / tiles;
        tiles--;
        for (i64 t = 0; t < some; t++) q[t] = from + (r + t) * apart;
        quantized_rows((int)some, vectors, q, &none, 1, length, W + column * length, begin + column, S);
        if (g->zero)
          for (i64 t = 0; t < some; t++)
            for (int j = 0; j < QUANTIZED_PANEL; j++)
              S[t * QUANTIZED_PANEL + j] = (int32_t)((uint32_t)S[t * QUANTIZED_PANEL + j] + (uint32_t)sums[r + t]);
        quantized_end(e, S, by, some, n, NULL, to + r * om + column, om);
      }
    }
  }
}
