/* Convolutions over blocks of channels by minimal filtering (winograd.py): what all of them share.
   Tiles of the image are transformed, a product of matrices is formed for each of a tile's points,
   and what comes of it is transformed back. */

#undef MINIMAL_ROWS
#if defined(LEVEL_AVX512)
#define MINIMAL_ROWS 14
#else
#define MINIMAL_ROWS 6
#endif
#undef MINIMAL_PANEL
#define MINIMAL_PANEL 32

/* Places are told from here, not each by itself: compilers would hold them all. */
#undef OPAQUE
#define OPAQUE(p) __asm__("" : "+r"(p))

/* Claim a unit of work, or -1 where none is left. A unit is a panel of a place, by their numbers. A
   task goes on with the place whose tiles it has transformed, then takes a place that nobody has,
   and helps another task where there is none. */
static i64 unit_claim(const call *whole, i64 number, i64 places, i64 panels) {
  call *c = (call *)whole;
  const i64 many = panels + 1;
  for (i64 other = -1; other < MOST_TASKS; other++) {
    i64 *next = &c->next[other < 0 ? number : other], at = __atomic_load_n(next, __ATOMIC_RELAXED);
    while (at >= 0 && at % many < panels)
      if (__atomic_compare_exchange_n(next, &at, at + 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return at / many * panels + at % many;
    if (other >= 0) continue;
    const i64 place = __atomic_fetch_add(&c->fresh, 1, __ATOMIC_RELAXED);
    if (place >= places) continue;
    __atomic_store_n(next, place * many + 1, __ATOMIC_RELAXED);
    return place * panels;
  }
  return -1;
}

/* channels whose products are summed up by themselves: errors grow with what is summed up in turn */
#undef MINIMAL_SUM
#define MINIMAL_SUM 32

/* S = x w, or S += x w, for a tile of rows of x and of up to two vectors of columns. Rows of x are
   `block` elements long and lie side by side, the next elements of all of them lie `apart` further.
   For each step `ahead` bytes from `next` on are on their way. */
static INLINED void minimal_tile(
    const int block, const int rows, const int vectors, const float *x, i64 apart, const float *w,
    float *S, i64 blocks, int more, const char *next, i64 ahead) {
  for (; blocks > 0; blocks -= MINIMAL_SUM / block, more = 1) {
    VEC_32 s[MINIMAL_ROWS][2];
    _Pragma("GCC unroll 14")
    for (int r = 0; r < rows; r++)
      for (int v = 0; v < vectors; v++) s[r][v] = SET_32(0.0f);
    for (i64 b = LEAST(blocks, MINIMAL_SUM / block); b; b--, x += apart)
      for (i64 k = 0; k < block; k++, w += MINIMAL_PANEL) {
        VEC_32 a = FULL_32(w), b = a;
        HOLD(a);
        if (vectors > 1) { b = FULL_32(w + LANES_32); HOLD(b); }
        __builtin_prefetch(next, 0, 2);
        next += ahead;
        _Pragma("GCC unroll 14")
        for (int r = 0; r < rows; r++) {
          VEC_32 one = SET_32(x[r * block + k]);
          HOLD(one);
          s[r][0] = FMA_VEC_32(one, a, s[r][0]);
          if (vectors > 1) s[r][1] = FMA_VEC_32(one, b, s[r][1]);
        }
      }
    _Pragma("GCC unroll 14")
    for (int r = 0; r < rows; r++)
      for (int v = 0; v < vectors; v++) {
        float *to = S + r * MINIMAL_PANEL + v * LANES_32;
        if (more) s[r][v] += FULL_32(to);
        PUT_32(to, s[r][v]);
      }
  }
}
static INLINED void minimal_rows(
    const int block, const int vectors, i64 rows, const float *x, i64 apart, const float *w, float *S,
    i64 blocks, int more, const char *next, i64 ahead) {
#define CASE(n) case n: minimal_tile(block, n, vectors, x, apart, w, S, blocks, more, next, ahead); break;
  switch (rows) {
    CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6)
#if MINIMAL_ROWS == 14
    CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12) CASE(13) CASE(14)
#endif
  }
#undef CASE
}
/* The same for any number of rows, in tiles of much the same height, and for n columns of a panel;
   meanwhile as many bytes from `next` on are fetched as the panel has, if there are any. */
static INLINED void minimal_any(
    const int block, const float *x, i64 apart, i64 rows, const float *w, float *S, i64 blocks, i64 n,
    int more, const char *next) {
  const i64 tiles = (rows + MINIMAL_ROWS - 1) / MINIMAL_ROWS, all = tiles * ((n + 2 * LANES_32 - 1) / (2 * LANES_32));
  const i64 ahead = next ? (sizeof(float) * MINIMAL_PANEL + all - 1) / all : 0;
  if (!next) next = (const char *)w;
  for (i64 at = 0; at < n; at += 2 * LANES_32)
    for (i64 tile = 0; tile < tiles; tile++, next += ahead * blocks * block) {
      const i64 r = rows * tile / tiles, count = rows * (tile + 1) / tiles - r;
      const float *from = x + r * block, *columns = w + at;
      float *to = S + r * MINIMAL_PANEL + at;
      if (n - at > LANES_32) minimal_rows(block, 2, count, from, apart, columns, to, blocks, more, next, ahead);
      else minimal_rows(block, 1, count, from, apart, columns, to, blocks, more, next, ahead);
    }
}
static APART void minimal_product_16(
    const float *x, i64 apart, i64 rows, const float *w, float *S, i64 blocks, i64 n, int more,
    const char *next) {
  minimal_any(16, x, apart, rows, w, S, blocks, n, more, next);
}
static APART void minimal_product_8(
    const float *x, i64 apart, i64 rows, const float *w, float *S, i64 blocks, i64 n, int more,
    const char *next) {
  minimal_any(8, x, apart, rows, w, S, blocks, n, more, next);
}
static INLINED void minimal_product(
    const int block, const float *x, i64 apart, i64 rows, const float *w, float *S, i64 blocks, i64 n,
    int more, const char *next) {
  if (block == 16) minimal_product_16(x, apart, rows, w, S, blocks, n, more, next);
  else minimal_product_8(x, apart, rows, w, S, blocks, n, more, next);
}

/* The window of an image [height, width, block] that begins at `top` and `left`: where it lies, or a
   copy in `room` with zeros around; `row` becomes how far its rows are apart. */
static INLINED const float *window_of(
    const float *x, float *room, i64 *row, i64 top, i64 left, const int rows, const int columns, i64 height,
    i64 width, const int BLOCK) {
  if (top >= 0 && left >= 0 && top + rows <= height && left + columns <= width)
    return x + top * *row + left * BLOCK;
  float *at = room;
  for (i64 i = top; i < top + rows; i++)
    for (i64 j = left; j < left + columns; j++, at += BLOCK) {
      const int inside = i >= 0 && i < height && j >= 0 && j < width;
      for (int lane = 0; lane < BLOCK; lane += LANES_32) {
        VEC_32 one = SET_32(0.0f);
        if (inside) one = BLOCK_OF(x + i * *row + j * BLOCK + lane);
        PUT_BLOCK_OF(at + lane, one);
      }
    }
  *row = columns * BLOCK;
  return room;
}

/* whether 0 was added to each lane, and never NaN */
static INLINED int is_sound(VEC_32 sound) { return sum_lanes_32(sound) == 0.0f; }

/* A tile of outputs for a block of channels, multiplied out: minimal filtering mixes neighbours, so
   that one of them that is no number, or too large, spoils them all. The filters are those of ONNX
   Runtime, [block of c, tap, c of the block, m of the block]. */
static APART void multiplied_out(
    const float *x, const float *w, float *o, i64 rows, i64 columns, i64 high, i64 wide, i64 top, i64 left,
    i64 height, i64 width, i64 depth, i64 BLOCK) {
  for (i64 i = 0; i < rows; i++)
    for (i64 j = 0; j < columns; j++, o += BLOCK)
      for (i64 lane = 0; lane < BLOCK; lane += LANES_32) {
        VEC_32 s = SET_32(0.0f);
        for (i64 b = 0; b < depth / BLOCK; b++)
          for (i64 tap = 0; tap < high * wide; tap++) {
            const i64 y = top + i + tap / wide, z = left + j + tap % wide;
            if (y < 0 || y >= height || z < 0 || z >= width) continue;
            const float *from = x + ((b * height + y) * width + z) * BLOCK;
            const float *filter = w + (b * high * wide + tap) * BLOCK * BLOCK + lane;
            for (i64 c = 0; c < BLOCK; c++) s = FMA_VEC_32(SET_32(from[c]), BLOCK_OF(filter + c * BLOCK), s);
          }
        PUT_BLOCK_OF(o + lane, s);
      }
}
/* The same where several groups share a block: a channel, the first of them being `m`, is made of the
   `read` channels of its own group alone, whatever the zeros of others' filters would meet. Beyond
   `filled` channels there are none: they are 0. */
static APART void multiplied_apart(
    const float *x, const float *w, float *o, i64 rows, i64 columns, i64 high, i64 wide, i64 top, i64 left,
    i64 height, i64 width, i64 read, i64 made, i64 m, i64 filled, i64 BLOCK) {
  for (i64 i = 0; i < rows; i++)
    for (i64 j = 0; j < columns; j++)
      for (i64 lane = 0; lane < BLOCK; lane++, o++) {
        const i64 first = (m + lane) / made * read;
        float s = 0.0f;
        for (i64 c = first; lane < filled && c < first + read; c++)
          for (i64 tap = 0; tap < high * wide; tap++) {
            const i64 y = top + i + tap / wide, z = left + j + tap % wide;
            if (y < 0 || y >= height || z < 0 || z >= width) continue;
            const float from = x[((c / BLOCK * height + y) * width + z) * BLOCK + c % BLOCK];
            s = FMA_32(from, w[((c / BLOCK * high * wide + tap) * BLOCK + c % BLOCK) * BLOCK + lane], s);
          }
        *o = s;
      }
}
