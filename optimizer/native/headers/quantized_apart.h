/* Convolutions of 8-bit integers of each channel by itself: places of an image, with channels last, for a panel of
   channels. Four taps of a channel are multiplied at a time, as the four numbers of an output are otherwise: what lies
   in four places of the image is put side by side for 16 channels in each quarter of four vectors, and filters lie in
   that order: [panels, taps / 4, 4 vectors, 4 quarters, 4 channels, 4 taps]. */
#if defined(LEVEL_AVX512)
static APART void quantized_apart_vnni(
    i64 rows, const uint8_t *const *p, const i64 *segment, i64 taps, const int8_t *w, i64 n, const int32_t *start,
    int32_t *S) {
  const __mmask64 some = n == QUANTIZED_PANEL ? ~(__mmask64)0 : ((__mmask64)1 << n) - 1;
  __m512i first[4];
  for (int v = 0; v < 4; v++) { /* quarter L of vector v begins with channel 16 L + 4 v */
    const int32_t *s = start + 4 * v;
    __m512i t = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)s));
    t = _mm512_inserti32x4(t, _mm_loadu_si128((const __m128i *)(s + 16)), 1);
    t = _mm512_inserti32x4(t, _mm_loadu_si128((const __m128i *)(s + 32)), 2);
    first[v] = _mm512_inserti32x4(t, _mm_loadu_si128((const __m128i *)(s + 48)), 3);
  }
  for (i64 r = 0; r < rows; r++, S += QUANTIZED_PANEL) {
    __m512i s[4] = {first[0], first[1], first[2], first[3]};
    const int8_t *m = w;
    for (i64 t = 0; t < taps; t += 4, m += 4 * QUANTIZED_PANEL) {
      __m512i x[4];
      for (i64 k = 0; k < 4; k++) x[k] = _mm512_maskz_loadu_epi8(some, p[r] + segment[t + k]);
      const __m512i a = _mm512_unpacklo_epi8(x[0], x[1]), b = _mm512_unpackhi_epi8(x[0], x[1]);
      const __m512i c = _mm512_unpacklo_epi8(x[2], x[3]), d = _mm512_unpackhi_epi8(x[2], x[3]);
      QUANTIZED_STEP(s[0], _mm512_unpacklo_epi16(a, c), _mm512_loadu_si512(m));
      QUANTIZED_STEP(s[1], _mm512_unpackhi_epi16(a, c), _mm512_loadu_si512(m + 64));
      QUANTIZED_STEP(s[2], _mm512_unpacklo_epi16(b, d), _mm512_loadu_si512(m + 128));
      QUANTIZED_STEP(s[3], _mm512_unpackhi_epi16(b, d), _mm512_loadu_si512(m + 192));
    }
    /* quarters of four vectors become vectors of four quarters */
    const __m512i a = _mm512_shuffle_i32x4(s[0], s[1], 0x44), b = _mm512_shuffle_i32x4(s[2], s[3], 0x44);
    const __m512i c = _mm512_shuffle_i32x4(s[0], s[1], 0xee), d = _mm512_shuffle_i32x4(s[2], s[3], 0xee);
    _mm512_storeu_si512(S, _mm512_shuffle_i32x4(a, b, 0x88));
    _mm512_storeu_si512(S + 16, _mm512_shuffle_i32x4(a, b, 0xdd));
    _mm512_storeu_si512(S + 32, _mm512_shuffle_i32x4(c, d, 0x88));
    _mm512_storeu_si512(S + 48, _mm512_shuffle_i32x4(c, d, 0xdd));
  }
}
#endif
static APART void quantized_apart_each(
    i64 rows, const uint8_t *const *p, const i64 *segment, i64 taps, const int8_t *w, i64 n, const int32_t *start,
    int32_t *S) {
  for (i64 r = 0; r < rows; r++, S += QUANTIZED_PANEL)
    for (i64 j = 0; j < n; j++) {
      const int8_t *m = w + (j / 4 % 4 * 4 + j / 16) * 16 + j % 4 * 4;
      uint32_t sum = (uint32_t)start[j];
      for (i64 t = 0; t < taps; t++)
        sum += (uint32_t)((int32_t)p[r][segment[t] + j] * m[t / 4 * 4 * QUANTIZED_PANEL + t % 4]);
      S[j] = (int32_t)sum;
    }
}
static APART void quantized_apart_task(
    const task *own, window given, const ending *e, const uint8_t *x, const int8_t *w, uint8_t *out) {
  const call *c = own->whole;
  const window *g = &given;
  const i64 wide = g->copies ? (g->places - 1) * g->right + (g->wide - 1) * g->right_apart + 1 : g->width;
  const i64 tall = (c->block - 1) * g->down + (g->high - 1) * g->down_apart + 1;
  const i64 taps = g->high * g->wide, whole = (taps + 3) / 4 * 4;
  const i64 parts = (g->lines + c->block - 1) / c->block, pitch = wide * g->channels;
  i64 *segment = (i64 *)own->scratch;
  uint8_t *copied = (uint8_t *)(segment + whole);
  int32_t S[QUANTIZED_ROWS * QUANTIZED_PANEL] __attribute__((aligned(64)));
  int32_t begin[QUANTIZED_PANEL] __attribute__((aligned(64)));
  float by[QUANTIZED_PANEL] __attribute__((aligned(64)));
  i64 last = -1;
  for (i64 k = 0; k < whole; k++) { /* of those that fill up four, filters are 0 */
    const i64 tap = LEAST(k, taps - 1);
    segment[k] = tap / g->wide * g->down_apart * pitch + tap % g->wide * g->right_apart * g->channels;
  }
  const uint8_t *from = x;
  for (i64 unit = own->first; unit < own->end; unit++) {
    const i64 piece = unit / c->blocks, panel = unit % c->blocks, image = piece / parts;
    const i64 line = piece % parts * c->block, lines = LEAST(c->block, g->lines - line);
    const i64 column = panel * QUANTIZED_PANEL, n = LEAST(QUANTIZED_PANEL, g->outputs - column);
    const int8_t *m = w + column * whole;
    const int32_t *start = e->start + column;
    const float *scale = e->scale + column;
    if (piece != last) {
      const uint8_t *of = x + image * g->height * g->width * g->channels;
      from = g->copies ? copied : of + line * g->down * pitch;
      if (g->copies) quantized_copy(g, of, line * g->down - g->above, tall, wide, copied);
      last = piece;
    }
    if (e->step) {
      quantized_begin(e, column, g->fill, begin, by);
      start = begin;
      scale = by;
    }
    for (i64 l = 0; l < lines; l++)
      for (i64 k = 0, rows; k < g->places; k += rows) {
        const uint8_t *p[QUANTIZED_ROWS];
        rows = LEAST(QUANTIZED_ROWS, g->places - k);
        for (i64 t = 0; t < rows; t++)
          p[t] = from + l * g->down * pitch + (k + t) * g->right * g->channels + column;
#if defined(LEVEL_AVX512)
        if (has_vnni()) quantized_apart_vnni(rows, p, segment, taps, m, n, start, S);
        else
#endif
          quantized_apart_each(rows, p, segment, taps, m, n, start, S);
        const i64 first = (image * g->lines + line + l) * g->places + k, to = first * g->outputs + column;
        if (e->step) quantized_real(c, e, S, scale, column, first, rows, column, n, (float *)out + to, g->outputs);
        else quantized_end(e, S, scale, rows, n, e->other ? e->other + to : NULL, out + to, g->outputs);
      }
  }
}
