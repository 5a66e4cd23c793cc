/* The largest of the integers of 8 bits of each window of an image with channels last; `flip` makes signed numbers
   unsigned ones of the same order. A unit is a line of the result. */
#ifndef QUANTIZED_SOME
/* channels that are compared at a time: they stay in a register */
#define QUANTIZED_SOME 32
/* the places of a window that lie in an image: from the first on, so many lines of so many, `line` and `place` apart */
typedef struct { const uint8_t *first; i64 high, wide, line, place; } inner_window;
#endif
static INLINED void quantized_largest(const inner_window *w, i64 from, const i64 n, const uint8_t flip, uint8_t *to) {
  uint8_t most[QUANTIZED_SOME];
  for (i64 k = 0; k < n; k++) most[k] = 0;
  for (i64 i = 0; i < w->high; i++)
    for (i64 j = 0; j < w->wide; j++) {
      const uint8_t *x = w->first + i * w->line + j * w->place + from;
      for (i64 k = 0; k < n; k++) {
        const uint8_t one = x[k] ^ flip;
        most[k] = one > most[k] ? one : most[k];
      }
    }
  for (i64 k = 0; k < n; k++) to[from + k] = most[k] ^ flip;
}
/* the first and the number of `count` taps, `apart`, from `start` on, that lie within `size` */
static inline i64 quantized_inside(i64 start, i64 count, i64 apart, i64 size, i64 *first) {
  *first = start < 0 ? (apart - 1 - start) / apart : 0;
  const i64 end = (size - start + apart - 1) / apart;
  return (end < count ? end : count) - *first;
}
static APART void quantized_pool(const task *own, const window *g, const uint8_t *x, uint8_t *out) {
  const i64 n = g->channels, line = g->width * n;
  inner_window w = {NULL, 0, 0, g->down_apart * line, g->right_apart * n};
  for (i64 unit = own->first; unit < own->end; unit++) {
    const i64 top = unit % g->lines * g->down - g->above;
    const uint8_t *of = x + unit / g->lines * g->height * line;
    uint8_t *to = out + unit * g->places * n;
    i64 above, before;
    w.high = quantized_inside(top, g->high, g->down_apart, g->height, &above);
    for (i64 p = 0; p < g->places; p++, to += n) {
      const i64 left = p * g->right - g->before;
      w.wide = quantized_inside(left, g->wide, g->right_apart, g->width, &before);
      w.first = of + (top + above * g->down_apart) * line + (left + before * g->right_apart) * n;
      i64 k = 0;
      for (; k + QUANTIZED_SOME <= n; k += QUANTIZED_SOME)
        if (g->flip) quantized_largest(&w, k, QUANTIZED_SOME, 128, to);
        else quantized_largest(&w, k, QUANTIZED_SOME, 0, to);
      if (k < n) quantized_largest(&w, k, n - k, g->flip, to);
    }
  }
}
