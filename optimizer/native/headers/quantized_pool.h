/* The largest of the integers of 8 bits of each window of an image with channels last; `flip` makes signed numbers
   unsigned ones of the same order. A unit is a line of the result. */
static INLINED void quantized_largest(uint8_t *restrict to, const uint8_t *restrict x, i64 n, const uint8_t flip) {
  for (i64 j = 0; j < n; j++) {
    const uint8_t a = to[j] ^ flip, b = x[j] ^ flip;
    to[j] = (a > b ? a : b) ^ flip;
  }
}
static APART void quantized_pool(const task *own, const window *g, const uint8_t *x, uint8_t *out) {
  const i64 n = g->channels, line = g->width * n;
  for (i64 unit = own->first; unit < own->end; unit++) {
    const i64 top = unit % g->lines * g->down - g->above;
    const uint8_t *of = x + unit / g->lines * g->height * line;
    uint8_t *to = out + unit * g->places * n;
    for (i64 k = 0; k < g->places; k++, to += n) {
      const i64 left = k * g->right - g->before;
      int first = 1;
      for (i64 i = 0; i < g->high; i++) {
        const i64 y = top + i * g->down_apart;
        if (y < 0 || y >= g->height) continue;
        for (i64 j = 0; j < g->wide; j++) {
          const i64 z = left + j * g->right_apart;
          if (z < 0 || z >= g->width) continue;
          const uint8_t *from = of + y * line + z * n;
          if (first) memcpy(to, from, (size_t)n);
          else if (g->flip) quantized_largest(to, from, n, 128);
          else quantized_largest(to, from, n, 0);
          first = 0;
        }
      }
    }
  }
}
