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
static INLINED void quantized_apart_rows(
    void *order, const window *g, i64 column, int rows, i64 n, const uint8_t *const *p, const i64 *segment, i64 taps,
    const int8_t *w, const int32_t *start, int32_t *S) {
  (void)order, (void)g, (void)column;
#if defined(LEVEL_AVX512)
  if (has_vnni()) quantized_apart_vnni(rows, p, segment, taps, w, n, start, S);
  else
#endif
    quantized_apart_each(rows, p, segment, taps, w, n, start, S);
}
static APART void quantized_apart_task(
    const task *own, window g, const ending *e, const uint8_t *x, const int8_t *w, uint8_t *out) {
  const i64 taps = (g.high * g.wide + 3) / 4 * 4;
  quantized_grouped_task(own, &g, e, x, w, out, taps, taps, quantized_apart_rows, NULL);
}
