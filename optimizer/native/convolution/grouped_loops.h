/* One convolution in groups: grouped.py puts its numbers, its tiles and its name in front. */
static void NAME(i64 *given) {
  enum { NUMBERS };
  const task *own = (const task *)given;
  call *c = (call *)own->whole;
  i64 unit;
  while ((unit = __atomic_fetch_add(&c->fresh, 1, __ATOMIC_RELAXED)) < c->units) {
    const i64 n = unit / (BLOCKS * PARTS), block = unit / PARTS % BLOCKS, part = unit % PARTS, m = block * BLOCK;
    const i64 end = LEAST((part + 1) * PART_ROWS, HEIGHT_OUT);
    /* what the block's channels read: from the first channel of their group, or of the block, on */
    const i64 first = BROADCASTS ? m / OWN_MADE * OWN_READ : m;
    const float *image = (const float *)c->in[0] + n * DEPTH * HEIGHT_IN * WIDTH_IN;
    const float *filters = (const float *)c->in[1] + m * OWN_READ * TAPS_DOWN * TAPS_ACROSS;
    const float *bias = BIAS < 0 ? NULL : (const float *)c->in[BIAS < 0 ? 0 : BIAS] + m;
    for (i64 row = part * PART_ROWS; row < end; row++) {
      /* rows of the filter that meet the image */
      const i64 top = row * STEP_DOWN - TOP, skipped = top < 0 ? (DOWN_APART - 1 - top) / DOWN_APART : 0;
      const i64 reached = LEAST(TAPS_DOWN, top < HEIGHT_IN ? (HEIGHT_IN - 1 - top) / DOWN_APART + 1 : 0);
      const i64 rows = reached - skipped, place = (n * WIDTH + m) * HEIGHT_OUT * WIDTH_OUT + row * WIDTH_OUT * BLOCK;
      const float *x = image + (top + skipped * DOWN_APART) * WIDTH_IN * BLOCK;
      const float *w = filters + skipped * TAPS_ACROSS * FILTER_TAP;
      const float *sum = SUM < 0 ? NULL : (const float *)c->in[SUM < 0 ? 0 : SUM] + place;
      float *out = (float *)c->out[0] + place;
      TILES
      AFTER
    }
  }
}
