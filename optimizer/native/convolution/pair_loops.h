/* One pair of convolutions: convolution_pair.py puts its numbers and its name in front. */
static void NAME(i64 *given) {
  enum { NUMBERS };
  enum { OUTS = LANES_32 == 16 ? OUTS_WIDE : OUTS_NARROW, LINE = SPAN * BLOCK, SHEET = LINES * LINE };
  const task *own = (const task *)given;
  call *c = (call *)own->whole;
  float *held = (float *)own->scratch;
  i64 unit;
  int is_clean = 0;
  while ((unit = __atomic_fetch_add(&c->fresh, 1, __ATOMIC_RELAXED)) < c->units) {
    const i64 n = unit / (PARTS * PANELS), ORDER;
    const i64 first = part * PART_ROWS, end = LEAST(first + PART_ROWS, HEIGHT_OUT), m = 2 * panel * BLOCK;
    const i64 channels = LEAST(2 * BLOCK, WIDTH - m);
    const float *x = (const float *)c->in[0] + n * DEPTH * HEIGHT_IN * WIDTH_IN;
    const float *points = (const float *)c->in[1] + m * DEPTH;
    const float *taps = (const float *)c->in[SLIDING] + m * TAPS_DOWN * TAPS_ACROSS;
    const float *before = POINTS_BIAS < 0 ? NULL : (const float *)c->in[POINTS_BIAS < 0 ? 0 : POINTS_BIAS] + m;
    const float *after = SLIDING_BIAS < 0 ? NULL : (const float *)c->in[SLIDING_BIAS < 0 ? 0 : SLIDING_BIAS] + m;
    /* zeros beside the image: nothing is written there again */
    if (!is_clean) memset(held, 0, sizeof(float) * 2 * SHEET);
    is_clean = 1;
    i64 next = first * STEP_DOWN - TOP, was = next; /* the next line of the image, and the first one held */
    for (i64 row = first; row < end; row += BAND) {
      const i64 rows = LEAST(BAND, end - row), top = row * STEP_DOWN - TOP;
      const i64 bottom = top + (rows - 1) * STEP_DOWN + TAPS_DOWN;
      if (next > top && top > was)
        for (i64 b = 0; b < channels / BLOCK; b++)
          memmove(held + b * SHEET, held + b * SHEET + (top - was) * LINE, sizeof(float) * (size_t)((next - top) * LINE));
      if (next < top) next = top;
      was = top;
      for (; next < bottom && next < 0; next++)
        for (i64 b = 0; b < channels / BLOCK; b++)
          memset(held + b * SHEET + (next - top) * LINE, 0, sizeof(float) * LINE);
      for (; next < bottom && next < HEIGHT_IN; next++) {
        const i64 tiles = (WIDTH_IN + PAIR_ROWS - 1) / PAIR_ROWS;
        for (i64 tile = 0; tile < tiles; tile++) {
          const i64 column = WIDTH_IN * tile / tiles, count = WIDTH_IN * (tile + 1) / tiles - column;
          float *to = held + (next - top) * LINE + (LEFT + column) * BLOCK;
          PRODUCT(count, channels, x + (next * WIDTH_IN + column) * BLOCK, HEIGHT_IN * WIDTH_IN * BLOCK, points,
                  DEPTH, before, to, SHEET, LOW, HIGH);
          FIRST
        }
      }
      for (; next < bottom; next++)
        for (i64 b = 0; b < channels / BLOCK; b++)
          memset(held + b * SHEET + (next - top) * LINE, 0, sizeof(float) * LINE);
      for (i64 b = 0; b < channels / BLOCK; b++)
        for (i64 i = 0; i < rows; i++) {
          const i64 place = ((n * WIDTH + m + b * BLOCK) * HEIGHT_OUT + (row + i) * BLOCK) * WIDTH_OUT;
          float *out = (float *)c->out[0] + place;
          MORE
          for (i64 j = 0; j < WIDTH_OUT; j += OUTS) {
            const i64 column = LEAST(j, WIDTH_OUT - OUTS); /* the last ones may be made twice */
            float o[OUTS * BLOCK];
            NAME_slide(held + b * SHEET, 0, i * STEP_DOWN * LINE + column * STEP_ACROSS * BLOCK,
                       taps + b * TAPS_DOWN * TAPS_ACROSS * BLOCK, TAPS_DOWN, after ? after + b * BLOCK : NULL,
                       NULL, 0, o);
            #pragma omp simd
            for (i64 lane = 0; lane < OUTS * BLOCK; lane++) {
              const i64 at = column * BLOCK + lane;
              float t = o[lane];
              ACTIVATE_SECOND
              out[at] = t;
            }
          }
        }
    }
  }
}
