/* Convolutions of 8-bit integers of groups of few outputs: a vector has the outputs of several groups, each multiplied
   with channels of its own. These lie within 64 bytes of a place of the image, channels last, and are put in order by a
   permutation of bytes. Filters lie as [panels, taps, depth / 4, outputs of a panel, 4]. */
#ifndef NARROW_STEPS
/* steps of four numbers of a group's depth at most: one group has 64 channels, or vectors have more */
#define NARROW_STEPS 16
/* Where the panel of outputs from `column` on reads each place: what its vectors begin with, how many bytes these
   have, and the bytes of each step. */
typedef struct {
  i64 column, first[4], bytes[4], steps;
  uint8_t order[NARROW_STEPS][4][64] __attribute__((aligned(64)));
} narrow;
#endif

static APART void narrow_begin(narrow *b, i64 column, i64 outputs, i64 depth, i64 width) {
  b->column = column;
  b->steps = (depth + 3) / 4;
  for (int v = 0; v < 4; v++) {
    const i64 from = column + 16 * v, last = LEAST(from + 16, outputs) - 1;
    const i64 group = from / width;
    b->first[v] = (group - column / width) * depth;
    b->bytes[v] = from < outputs ? (last / width - group + 1) * depth : 0;
    for (i64 k = 0; k < b->steps; k++)
      for (int j = 0; j < 64; j++) { /* what fills up four has filters of 0 */
        const i64 at = ((from + j / 4) / width - group) * depth + LEAST(4 * k + j % 4, depth - 1);
        b->order[k][v][j] = (uint8_t)(at < b->bytes[v] ? at : 0);
      }
  }
}
#if defined(LEVEL_AVX512)
/* vpermb, as an instruction of its own: whole files are compiled for processors that may lack it */
static INLINED __m512i narrow_put(__m512i order, __m512i x) {
  __m512i made;
  __asm__("vpermb %2, %1, %0" : "=v"(made) : "v"(order), "v"(x));
  return made;
}
static INLINED void narrow_tile(
    const int rows, const int vectors, const narrow *b, const uint8_t *const *p, const i64 *segment, i64 taps,
    const int8_t *w, const int32_t *start, int32_t *S) {
  __m512i s[QUANTIZED_ROWS][4];
  __mmask64 some[4];
  _Pragma("GCC unroll 4")
  for (int v = 0; v < vectors; v++)
    some[v] = b->bytes[v] == 64 ? ~(__mmask64)0 : ((__mmask64)1 << b->bytes[v]) - 1;
  _Pragma("GCC unroll 6")
  for (int r = 0; r < rows; r++)
    _Pragma("GCC unroll 4")
    for (int v = 0; v < vectors; v++) s[r][v] = _mm512_loadu_si512(start + 16 * v);
  for (i64 t = 0; t < taps; t++)
    for (i64 k = 0; k < b->steps; k++, w += 4 * QUANTIZED_PANEL) {
      _Pragma("GCC unroll 4")
      for (int v = 0; v < vectors; v++) {
        const __m512i m = _mm512_loadu_si512(w + 64 * v), order = _mm512_load_si512(b->order[k][v]);
        const i64 at = segment[t] + b->first[v];
        _Pragma("GCC unroll 6")
        for (int r = 0; r < rows; r++) {
          const __m512i x = narrow_put(order, _mm512_maskz_loadu_epi8(some[v], p[r] + at));
          QUANTIZED_STEP(s[r][v], x, m);
        }
      }
    }
  _Pragma("GCC unroll 6")
  for (int r = 0; r < rows; r++)
    _Pragma("GCC unroll 4")
    for (int v = 0; v < vectors; v++) _mm512_storeu_si512(S + r * QUANTIZED_PANEL + 16 * v, s[r][v]);
}
static APART void narrow_rows_vbmi(
    int rows, int vectors, const narrow *b, const uint8_t *const *p, const i64 *segment, i64 taps, const int8_t *w,
    const int32_t *start, int32_t *S) {
#define CASE(r, v) case r: narrow_tile(r, v, b, p, segment, taps, w, start, S); break;
  CASES_OF_ROWS_AND_VECTORS
#undef CASE
}
#endif
static APART void narrow_rows_each(
    int rows, i64 n, const narrow *b, const uint8_t *const *p, const i64 *segment, i64 taps, const int8_t *w,
    const int32_t *start, int32_t *S) {
  for (int r = 0; r < rows; r++, S += QUANTIZED_PANEL) {
    const int8_t *m = w;
    memcpy(S, start, sizeof(int32_t) * QUANTIZED_PANEL);
    for (i64 t = 0; t < taps; t++)
      for (i64 k = 0; k < b->steps; k++, m += 4 * QUANTIZED_PANEL)
        for (i64 j = 0; j < n; j++) {
          const uint8_t *x = p[r] + segment[t] + b->first[j / 16], *order = b->order[k][j / 16] + j % 16 * 4;
          int32_t sum = 0;
          for (int d = 0; d < 4; d++) sum += (int32_t)x[order[d]] * m[4 * j + d];
          S[j] = (int32_t)((uint32_t)S[j] + (uint32_t)sum);
        }
  }
}
static INLINED void narrow_rows(
    void *order, const window *g, i64 column, int rows, i64 n, const uint8_t *const *p, const i64 *segment, i64 taps,
    const int8_t *w, const int32_t *start, int32_t *S) {
  narrow *b = (narrow *)order;
  if (column != b->column) narrow_begin(b, column, g->outputs, g->channels / g->groups, g->outputs / g->groups);
#if defined(LEVEL_AVX512)
  const int vectors = n > 32 ? 4 : (int)(n + 15) / 16;
  if (has_vnni() && has_vbmi()) narrow_rows_vbmi(rows, vectors, b, p, segment, taps, w, start, S);
  else
#endif
    narrow_rows_each(rows, n, b, p, segment, taps, w, start, S);
}
static APART void quantized_narrow_task(
    const task *own, window g, const ending *e, const uint8_t *x, const int8_t *w, uint8_t *out) {
  const i64 taps = g.high * g.wide, size = (g.channels / g.groups + 3) / 4 * 4 * taps;
  narrow b = {.column = -1};
  quantized_grouped_task(own, &g, e, x, w, out, taps, size, narrow_rows, &b);
}
