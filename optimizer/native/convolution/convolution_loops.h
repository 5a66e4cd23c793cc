/* One convolution: winograd_text.py puts its numbers, its transforms and its name in front. */
static void NAME(i64 *given) {
  enum { NUMBERS };
  const task *own = (const task *)given;
  const call *c = own->whole;
  const i64 SIZES;
  const i64 ACROSS = (WIDTH_OUT + COLUMNS - 1) / COLUMNS, TILES = (HEIGHT_OUT + ROWS - 1) / ROWS * ACROSS;
  const i64 PLACES = (TILES + MOST_TOGETHER - 1) / MOST_TOGETHER;
  const i64 TOGETHER = PLACES ? (TILES + PLACES - 1) / PLACES : 0;
  const float *filters = (const float *)c->in[1];
  const i64 number = (own->scratch - c->scratch) / c->share;
  float *V = (float *)own->scratch, *S = V + PRODUCTS * V_APART, *piece = S + PRODUCTS * S_APART;
  i64 held = -1, unit;
  while ((unit = unit_claim(c, number, c->extent[0] * PLACES, PANELS)) >= 0) {
    const i64 place = unit / PANELS, panel = unit % PANELS, n = place / PLACES;
    const i64 first = place % PLACES * TOGETHER, count = LEAST(TOGETHER, TILES - first);
    const float *x = (const float *)c->in[0] + n * DEPTH * HEIGHT_IN * WIDTH_IN;
    OUTER
      INNER {
        const i64 top = (first + tile) / ACROSS * ROWS - TOP, left = (first + tile) % ACROSS * COLUMNS - LEFT;
        float border[PRODUCTS * BLOCK];
        i64 row = WIDTH_IN * BLOCK;
        const float *window = window_of(x + b * HEIGHT_IN * row, border, &row, top, left,
                                        PRODUCTS / PRODUCTS_ACROSS, PRODUCTS_ACROSS, HEIGHT_IN, WIDTH_IN, BLOCK);
        NAME_image(window, row, BLOCK, V + (b * TOGETHER + tile) * BLOCK, V_APART);
      }
    held = place;
    /* of one group of channels alone */
    const i64 base = panel / (PANELS / SPLIT) * (DEPTH / SPLIT), column = panel % (PANELS / SPLIT) * MINIMAL_PANEL;
    const i64 from = panel / (PANELS / SPLIT) * (WIDTH / SPLIT) + column;
    const i64 n_columns = LEAST(MINIMAL_PANEL, WIDTH / SPLIT - column);
    for (i64 d = 0; d < DEPTH / SPLIT; d += PIECE) {
      const i64 depth = LEAST(PIECE, DEPTH / SPLIT - d);
      const float *U = PREPARED ? (const float *)c->in[2] + panel * PRODUCTS * U_APART : piece;
      for (i64 j = 0; !PREPARED && j < n_columns; j += BLOCK)
        for (i64 k = 0; k < depth; k++) {
          const float *taps = filters + (from + j) * (DEPTH / SPLIT) * TAPS
                              + (d + k) / BLOCK * TAPS * BLOCK * BLOCK + (d + k) % BLOCK * BLOCK;
          const i64 ahead = d + PIECE < DEPTH / SPLIT ? PIECE * BLOCK : MINIMAL_PANEL * (DEPTH / SPLIT) - d * BLOCK;
          const float *next = taps + ahead * TAPS;
          for (i64 tap = 0; tap < TAPS; tap++) __builtin_prefetch(next + tap * BLOCK * BLOCK, 0, 2);
          NAME_filters(taps, TAPS_ACROSS * BLOCK * BLOCK, BLOCK * BLOCK,
                       piece + k * MINIMAL_PANEL + j, U_APART);
        }
      for (i64 l = 0; l < PRODUCTS; l++) {
        const int follows = FETCHED && (panel + 1 < PANELS || l + 1 < PRODUCTS);
        minimal_product(BLOCK, V + l * V_APART + (base + d) * TOGETHER, TOGETHER * BLOCK, count, U + l * U_APART,
                        S + l * S_APART, depth / BLOCK, n_columns, d > 0,
                        follows ? (const char *)(U + (l + 1) * U_APART) : NULL);
      }
    }
    /* once more where something isn't finite, to find out where */
    for (int again = 0; again < 2; again++) {
      VEC_32 all = SET_32(0.0f);
      for (i64 tile = 0; tile < count; tile++) {
        const i64 top = (first + tile) / ACROSS * ROWS, left = (first + tile) % ACROSS * COLUMNS;
        const i64 rows = LEAST(ROWS, HEIGHT_OUT - top), columns = LEAST(COLUMNS, WIDTH_OUT - left);
        for (i64 m = from; m < from + n_columns; m += BLOCK) {
          float o[ROWS * COLUMNS * BLOCK];
          VEC_32 sound = SET_32(0.0f);
          NAME_back(S + tile * MINIMAL_PANEL + m - from, PRODUCTS_ACROSS * S_APART, S_APART, o, BLOCK, &sound);
          all += sound;
          if (again && !is_sound(sound)) {
            const float *image = x + base * HEIGHT_IN * WIDTH_IN, *own_filters = filters + m * (DEPTH / SPLIT) * TAPS;
            if (OWN_READ < DEPTH / SPLIT)
              multiplied_apart(image, own_filters, o, ROWS, COLUMNS, TAPS / TAPS_ACROSS, TAPS_ACROSS, top - TOP,
                               left - LEFT, HEIGHT_IN, WIDTH_IN, OWN_READ, OWN_MADE, m % (WIDTH / SPLIT), FILLED - m,
                               BLOCK);
            else
              multiplied_out(image, own_filters, o, ROWS, COLUMNS, TAPS / TAPS_ACROSS, TAPS_ACROSS, top - TOP,
                             left - LEFT, HEIGHT_IN, WIDTH_IN, DEPTH / SPLIT, BLOCK);
          }
          for (i64 i = 0; i < rows; i++) {
            const float *made = o + i * COLUMNS * BLOCK;
            const i64 to = (n * WIDTH + m) * HEIGHT_OUT * WIDTH_OUT + ((top + i) * WIDTH_OUT + left) * BLOCK;
            const float *bias = BIAS < 0 ? NULL : (const float *)c->in[BIAS < 0 ? 0 : BIAS] + m;
            const float *sum = SUM < 0 ? NULL : (const float *)c->in[SUM < 0 ? 0 : SUM] + to;
            float *out = (float *)c->out[0] + to;
            MORE
            for (i64 k = 0; k < columns * BLOCK; k += BLOCK) {
              #pragma omp simd
              for (i64 lane = 0; lane < BLOCK; lane++) {
                const i64 at = k + lane;
                float t = made[at];
                if (bias) t += bias[lane];
                if (sum) t += sum[at];
                ACTIVATE
                out[at] = t;
              }
            }
          }
        }
      }
      if (is_sound(all)) break;
    }
  }
}
