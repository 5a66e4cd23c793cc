/* Products of 8-bit integers with filters, or with a constant matrix, which is a filter of one place; and what
   makes integers of 8 bits of their sums again, while these lie in the cache.

   Filters lie in panels of QUANTIZED_PANEL outputs, and in these, for each four steps of the depth, the four numbers
   of an output side by side. Images are unsigned, with channels last: of int8 the upper bit is turned over, which
   adds 128 to all; that, and the zero point, is in what sums begin with. So sums are exact, modulo 2^32 as those of
   the runtime. The depth is some segments, which lie side by side in the image each: a line of a filter, or a
   place of one that is dilated.

   Nothing saturates on the way: `vpdpbusd` adds four products of 8 bits to 32, and where there is none, numbers are
   made 16 bits long, of which `vpmaddwd` adds two products to 32. */

#ifndef QUANTIZED_ROWS
/* places that are multiplied at a time: their sums stay in registers */
#define QUANTIZED_ROWS 6
/* what may be read behind an image, as segments are filled up to four numbers */
#define QUANTIZED_SLACK 64
typedef struct {
  i64 height, width, channels;         /* of an image */
  i64 high, wide, down_apart, right_apart; /* of a filter */
  i64 down, right, above, before;      /* steps and padding */
  i64 lines, places, outputs;          /* of the result; lines 0: rows of a matrix */
  i64 groups;                          /* of channels, each with outputs of its own, which begin a panel */
  int copies;                          /* whether lines are copied before they are multiplied */
  uint8_t flip, fill;                  /* what unsigned numbers are made with, and the padding as such */
} window;
/* How a sum, which begins with `start`, becomes an integer of 8 bits, as the runtime computes it: times `scale`,
   between `low` and `high`, rounded, and moved by `zero`, so that it is one of `least` to `most`. Where there is
   `other`, it is added to an integer of that, of the same type: both times their ratios, and `fixed`, added up
   from the last operand to the first, are rounded together; signed ones are made unsigned before, as by the runtime. Of all 256 integers, from the least on, a `table` says
   what comes instead.
   Where there is a `step`, the scale of an image that is quantized while the model runs, as is its zero point, sums
   become float32 instead: times `step * scale`, and `bias` is added, each rounded as the runtime does. `start` are
   the sums of filters then.
   Filters that 8 bits don't hold without their zero points are stored less another number: `rest` is what is left
   over for each output, and is multiplied by the sums of the image's own places. `behind` computes what follows, of n columns from `column` on of some rows, and writes it
   out; otherwise they are the result. */
typedef void following(const call *c, const float *S, i64 first, i64 count, i64 column, i64 n);
typedef struct {
  const int32_t *start;
  const float *scale;
  float low, high;
  int32_t zero, least, most;
  const uint8_t *other;
  float ratio, other_ratio, fixed;
  int own_first;
  const uint8_t *table;
  const float *step, *bias;
  const int32_t *rest;
  following *behind;
} ending;
/* S = start + x w for n outputs, those from `column` on, of some places, at each of which the channels of the panel's
   first group begin at p; `order` is what is prepared for a panel. */
typedef void multiply_groups(
    void *order, const window *g, i64 column, int rows, i64 n, const uint8_t *const *p, const i64 *segment, i64 taps,
    const int8_t *w, const int32_t *start, int32_t *S);
#endif

#undef QUANTIZED_STEP
#if defined(LEVEL_AVX512)
#define QUANTIZED_STEP(s, x, w) __asm__("vpdpbusd %2, %1, %0" : "+v"(s) : "v"(x), "v"(w))
/* S = start + x w for some rows, each beginning at p, and some vectors of a panel */
static INLINED void quantized_tile_vnni(
    const int rows, const int vectors, const uint8_t *const *p, const i64 *segment, i64 segments, i64 length,
    const int8_t *w, const int32_t *start, int32_t *S) {
  __m512i s[QUANTIZED_ROWS][4];
  _Pragma("GCC unroll 6")
  for (int r = 0; r < rows; r++)
    _Pragma("GCC unroll 4")
    for (int v = 0; v < vectors; v++) s[r][v] = _mm512_loadu_si512(start + 16 * v);
  for (i64 at = 0; at < segments; at++) {
    const i64 from = segment[at];
    for (i64 k = from; k < from + length; k += 4, w += 4 * QUANTIZED_PANEL) {
      __m512i m[4];
      _Pragma("GCC unroll 4")
      for (int v = 0; v < vectors; v++) m[v] = _mm512_loadu_si512(w + 64 * v);
      _Pragma("GCC unroll 6")
      for (int r = 0; r < rows; r++) {
        int32_t four;
        memcpy(&four, p[r] + k, 4);
        const __m512i x = _mm512_set1_epi32(four);
        _Pragma("GCC unroll 4")
        for (int v = 0; v < vectors; v++) QUANTIZED_STEP(s[r][v], x, m[v]);
      }
    }
  }
  _Pragma("GCC unroll 6")
  for (int r = 0; r < rows; r++)
    _Pragma("GCC unroll 4")
    for (int v = 0; v < vectors; v++) _mm512_storeu_si512(S + r * QUANTIZED_PANEL + 16 * v, s[r][v]);
}
/* CASE of as many rows and vectors as there are, which are known in it when it is compiled */
#define CASES_OF_ROWS_AND_VECTORS \
  if (vectors == 1) switch (rows) { CASE(1, 1) CASE(2, 1) CASE(3, 1) CASE(4, 1) CASE(5, 1) CASE(6, 1) } \
  else if (vectors == 2) switch (rows) { CASE(1, 2) CASE(2, 2) CASE(3, 2) CASE(4, 2) CASE(5, 2) CASE(6, 2) } \
  else switch (rows) { CASE(1, 4) CASE(2, 4) CASE(3, 4) CASE(4, 4) CASE(5, 4) CASE(6, 4) }
static APART void quantized_rows_vnni(
    int rows, int vectors, const uint8_t *const *p, const i64 *segment, i64 segments, i64 length, const int8_t *w,
    const int32_t *start, int32_t *S) {
#define CASE(r, v) case r: quantized_tile_vnni(r, v, p, segment, segments, length, w, start, S); break;
  CASES_OF_ROWS_AND_VECTORS
#undef CASE
}
#endif
#if defined(LEVEL_AVX2) || defined(LEVEL_AVX512)
/* The same for 16 columns from `w` on, of up to three rows, by products of 16 bits: sums of the first two and of the
   last two of four numbers stand apart until the end. */
static INLINED void quantized_tile_16(
    const int rows, const uint8_t *const *p, const i64 *segment, i64 segments, i64 length, const int8_t *w,
    const int32_t *start, int32_t *S) {
  __m256i s[3][4];
  const __m256i none = _mm256_setzero_si256();
  _Pragma("GCC unroll 3")
  for (int r = 0; r < rows; r++)
    _Pragma("GCC unroll 4")
    for (int v = 0; v < 4; v++) s[r][v] = none;
  for (i64 at = 0; at < segments; at++) {
    const i64 from = segment[at];
    for (i64 k = from; k < from + length; k += 4, w += 4 * QUANTIZED_PANEL) {
      __m256i x[3];
      _Pragma("GCC unroll 3")
      for (int r = 0; r < rows; r++) {
        int32_t four;
        memcpy(&four, p[r] + k, 4);
        x[r] = _mm256_unpacklo_epi8(_mm256_set1_epi32(four), none);
      }
      _Pragma("GCC unroll 4")
      for (int v = 0; v < 4; v++) {
        const __m256i m = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(w + 16 * v)));
        _Pragma("GCC unroll 3")
        for (int r = 0; r < rows; r++) s[r][v] = _mm256_add_epi32(s[r][v], _mm256_madd_epi16(x[r], m));
      }
    }
  }
  _Pragma("GCC unroll 3")
  for (int r = 0; r < rows; r++)
    _Pragma("GCC unroll 2")
    for (int v = 0; v < 4; v += 2) {
      /* pairs are added up within halves: columns 0 1 4 5, 2 3 6 7 */
      const __m256i sums = _mm256_hadd_epi32(s[r][v], s[r][v + 1]);
      const __m256i first = _mm256_loadu_si256((const __m256i *)(start + 4 * v));
      _mm256_storeu_si256(
          (__m256i *)(S + r * QUANTIZED_PANEL + 4 * v),
          _mm256_add_epi32(first, _mm256_permute4x64_epi64(sums, 0xd8)));
    }
}
static APART void quantized_rows_16(
    int rows, int vectors, const uint8_t *const *p, const i64 *segment, i64 segments, i64 length, const int8_t *w,
    const int32_t *start, int32_t *S) {
  for (int r = 0; r < rows; r += 3, p += 3, S += 3 * QUANTIZED_PANEL)
    for (int v = 0; v < vectors; v++) {
      const int8_t *own = w + 64 * v;
      if (rows - r >= 3) quantized_tile_16(3, p, segment, segments, length, own, start + 16 * v, S + 16 * v);
      else if (rows - r == 2) quantized_tile_16(2, p, segment, segments, length, own, start + 16 * v, S + 16 * v);
      else quantized_tile_16(1, p, segment, segments, length, own, start + 16 * v, S + 16 * v);
    }
}
#else
static APART void quantized_rows_each(
    int rows, int vectors, const uint8_t *const *p, const i64 *segment, i64 segments, i64 length, const int8_t *w,
    const int32_t *start, int32_t *S) {
  for (int r = 0; r < rows; r++, S += QUANTIZED_PANEL) {
    const int8_t *m = w;
    memcpy(S, start, sizeof(int32_t) * QUANTIZED_PANEL);
    for (i64 at = 0; at < segments; at++) {
      const uint8_t *from = p[r] + segment[at];
      for (i64 k = 0; k < length; k += 4, m += 4 * QUANTIZED_PANEL)
        for (int j = 0; j < 16 * vectors; j++) {
          int32_t sum = 0;
          for (int d = 0; d < 4; d++) sum += (int32_t)from[k + d] * m[4 * j + d];
          S[j] = (int32_t)((uint32_t)S[j] + (uint32_t)sum);
        }
    }
  }
}
#endif
/* The sums of up to QUANTIZED_ROWS rows and some vectors of 16 columns. */
static inline void quantized_rows(
    int rows, int vectors, const uint8_t *const *p, const i64 *segment, i64 segments, i64 length, const int8_t *w,
    const int32_t *start, int32_t *S) {
#if defined(LEVEL_AVX512)
  if (has_vnni()) { quantized_rows_vnni(rows, vectors, p, segment, segments, length, w, start, S); return; }
#endif
#if defined(LEVEL_AVX2) || defined(LEVEL_AVX512)
  quantized_rows_16(rows, vectors, p, segment, segments, length, w, start, S);
#else
  quantized_rows_each(rows, vectors, p, segment, segments, length, w, start, S);
#endif
}

/* n integers of 8 bits of the sums of each of some rows, whose results lie `apart`, as do the rows of what is
   added, `other`; `scale` is that of the first column. */
#if defined(LEVEL_AVX512)
static INLINED __m512 quantized_wide(__m128i few, int is_signed) {
  return _mm512_cvtepi32_ps(is_signed ? _mm512_cvtepi8_epi32(few) : _mm512_cvtepu8_epi32(few));
}
/* what a table of 256 has for each of 64 integers; the low seven bits of an index choose from each half */
static INLINED __m512i quantized_looked_up(__m512i q, int is_signed, const __m512i *few) {
  const __m512i at = is_signed ? _mm512_xor_si512(q, _mm512_set1_epi8((char)128)) : q;
  __m512i low = at, high = at;
  __asm__("vpermi2b %2, %1, %0" : "+v"(low) : "v"(few[0]), "v"(few[1]));
  __asm__("vpermi2b %2, %1, %0" : "+v"(high) : "v"(few[2]), "v"(few[3]));
  return _mm512_mask_mov_epi8(low, _mm512_movepi8_mask(at), high);
}
static INLINED void quantized_end_of(
    const int adds, const int vectors, const ending *e, const int32_t *S, const float *scale, i64 rows, i64 n,
    const uint8_t *other, uint8_t *out, i64 apart) {
  const int turn = e->least < 0 ? 128 : 0;
  const __m512 low = _mm512_set1_ps(e->low), high = _mm512_set1_ps(e->high);
  const __m512 move = _mm512_set1_ps((float)(e->zero + turn)), turned = _mm512_set1_ps((float)turn);
  const __m512 own = _mm512_set1_ps(e->ratio), its = _mm512_set1_ps(e->other_ratio), fixed = _mm512_set1_ps(e->fixed);
  const __m512i zero = _mm512_set1_epi16((int16_t)(adds ? -turn : e->zero));
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __mmask64 some = n == QUANTIZED_PANEL ? ~(__mmask64)0 : ((__mmask64)1 << n) - 1;
  const int own_first = e->own_first, is_signed = e->least < 0, looks = e->table && has_vbmi();
  __m512i few[4];
  for (int v = 0; v < 4; v++) few[v] = looks ? _mm512_loadu_si512(e->table + 64 * v) : _mm512_setzero_si512();
  __m512 by[4];
  __m512i q[4];
  _Pragma("GCC unroll 4")
  for (int v = 0; v < 4; v++) {
    by[v] = v < vectors ? _mm512_loadu_ps(scale + 16 * v) : _mm512_setzero_ps();
    q[v] = _mm512_setzero_si512();
  }
  for (i64 r = 0; r < rows; r++, S += QUANTIZED_PANEL, out += apart) {
    _Pragma("GCC unroll 4")
    for (int v = 0; v < vectors; v++) {
      __m512 t = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_loadu_si512(S + 16 * v)), by[v]);
      t = _mm512_min_ps(t, high);
      if (adds) {
        t = _mm512_roundscale_ps(_mm512_max_ps(t, low), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        t = _mm512_add_ps(t, move);
        const __m512 u = _mm512_add_ps(
            quantized_wide(_mm_maskz_loadu_epi8((__mmask16)(some >> (16 * v)), other + 16 * v), is_signed), turned);
        t = own_first ? _mm512_fmadd_ps(t, own, _mm512_fmadd_ps(u, its, fixed))
                      : _mm512_fmadd_ps(u, its, _mm512_fmadd_ps(t, own, fixed));
      }
      q[v] = _mm512_cvtps_epi32(t);
    }
    const __m512i a = _mm512_adds_epi16(_mm512_packs_epi32(q[0], q[1]), zero);
    const __m512i b = _mm512_adds_epi16(_mm512_packs_epi32(q[2], q[3]), zero);
    const __m512i all = is_signed ? _mm512_packs_epi16(a, b) : _mm512_packus_epi16(a, b);
    __m512i in_turn = _mm512_permutexvar_epi32(order, all);
    if (looks) in_turn = quantized_looked_up(in_turn, is_signed, few);
    if (n == QUANTIZED_PANEL) _mm512_storeu_si512(out, in_turn);
    else _mm512_mask_storeu_epi8(out, some, in_turn);
    if (adds) other += apart;
  }
}
static APART void quantized_end(
    const ending *e, const int32_t *S, const float *scale, i64 rows, i64 n, const uint8_t *other, uint8_t *out,
    i64 apart) {
  if (other && n > 32) quantized_end_of(1, 4, e, S, scale, rows, n, other, out, apart);
  else if (other) quantized_end_of(1, 2, e, S, scale, rows, n, other, out, apart);
  else if (n > 32) quantized_end_of(0, 4, e, S, scale, rows, n, other, out, apart);
  else quantized_end_of(0, 2, e, S, scale, rows, n, other, out, apart);
  if (e->table && !has_vbmi())
    for (i64 r = 0; r < rows; r++)
      for (i64 j = 0; j < n; j++) out[r * apart + j] = e->table[out[r * apart + j] ^ (e->least < 0 ? 128 : 0)];
}
#else
static inline int32_t nearest(float x) { return (int32_t)__builtin_rintf(x); }
static APART void quantized_end(
    const ending *e, const int32_t *S, const float *scale, i64 rows, i64 n, const uint8_t *other, uint8_t *out,
    i64 apart) {
  int32_t q[QUANTIZED_PANEL];
  for (i64 r = 0; r < rows; r++, S += QUANTIZED_PANEL, out += apart) {
    #pragma omp simd
    for (i64 j = 0; j < n; j++) {
      float t = (float)S[j] * scale[j];
      t = t > e->low ? t : e->low;
      t = t < e->high ? t : e->high;
      q[j] = nearest(t) + e->zero;
    }
    for (i64 j = 0; other && j < n; j++) {
      const int turn = e->least < 0 ? 128 : 0;
      const float a = (float)(q[j] + turn), b = (float)(other[j] ^ turn);
      float t = e->own_first ? __builtin_fmaf(a, e->ratio, __builtin_fmaf(b, e->other_ratio, e->fixed))
                             : __builtin_fmaf(b, e->other_ratio, __builtin_fmaf(a, e->ratio, e->fixed));
      t = t > 0.0f ? t : 0.0f;
      q[j] = nearest(t < 255.0f ? t : 255.0f) - turn;
    }
    if (e->table) for (i64 j = 0; j < n; j++) out[j] = e->table[q[j] - e->least];
    else for (i64 j = 0; j < n; j++) out[j] = (uint8_t)q[j];
    if (other) other += apart;
  }
}
#endif

/* What sums of a panel, from output `slot` of all panels on, begin with, and what they are multiplied by, where an
   image was quantized with `zero`. */
static inline void quantized_begin(const ending *e, i64 slot, int32_t zero, int32_t *start, float *scale) {
  for (int j = 0; j < QUANTIZED_PANEL; j++) {
    start[j] = (int32_t)(0u - (uint32_t)zero * (uint32_t)e->start[slot + j]);
    scale[j] = *e->step * e->scale[slot + j];
  }
}
/* float32 numbers of the sums of some rows, the first of all of them `first`, whose results are `apart`; in the sums'
   own place where something follows. */
static INLINED void quantized_floats(
    const int32_t *S, const float *scale, const float *bias, i64 rows, const i64 n, float *out, i64 apart) {
  for (i64 r = 0; r < rows; r++, S += QUANTIZED_PANEL, out += apart) {
    if (bias) {
      #pragma omp simd
      for (i64 j = 0; j < n; j++) out[j] = (float)S[j] * scale[j] + bias[j];
    } else {
      #pragma omp simd
      for (i64 j = 0; j < n; j++) out[j] = (float)S[j] * scale[j];
    }
  }
}
static APART void quantized_real(
    const call *c, const ending *e, int32_t *S, const float *scale, i64 slot, i64 first, i64 rows, i64 column, i64 n,
    float *out, i64 apart) {
  const float *bias = e->bias ? e->bias + slot : NULL;
  float *to = e->behind ? (float *)S : out;
  if (e->behind) apart = QUANTIZED_PANEL;
  if (n == QUANTIZED_PANEL) quantized_floats(S, scale, bias, rows, QUANTIZED_PANEL, to, apart);
  else quantized_floats(S, scale, bias, rows, n, to, apart);
  if (e->behind) e->behind(c, to, first, rows, column, n);
}

/* The sums of so many numbers of some segments of an image for each of some places. */
static APART void quantized_places(
    const uint8_t *x, const i64 *place, i64 count, const i64 *segment, i64 segments, i64 length, int32_t *sums) {
  for (i64 r = 0; r < count; r++) {
    uint32_t sum = 0;
    for (i64 at = 0; at < segments; at++) {
      const uint8_t *from = x + place[r] + segment[at];
      for (i64 k = 0; k < length; k++) sum += from[k];
    }
    sums[r] = (int32_t)sum;
  }
}
static APART void quantized_rest(const int32_t *sums, const int32_t *rest, i64 rows, int32_t *S) {
  for (i64 r = 0; r < rows; r++, S += QUANTIZED_PANEL)
    for (int j = 0; j < QUANTIZED_PANEL; j++)
      S[j] = (int32_t)((uint32_t)S[j] + (uint32_t)sums[r] * (uint32_t)rest[j]);
}

/* Lines of an image as they are multiplied: from line `first` on, `count` of them, of `wide` places, with
   the padding around them. */
static APART void quantized_copy(const window *g, const uint8_t *x, i64 first, i64 count, i64 wide, uint8_t *to) {
  const i64 size = wide * g->channels, before = LEAST(g->before * g->channels, size);
  const i64 most = LEAST(g->width * g->channels, size - before);
  for (i64 t = 0; t < count; t++, to += size) {
    const i64 line = first + t;
    if (line < 0 || line >= g->height) { memset(to, g->fill, (size_t)size); continue; }
    const uint8_t *from = x + line * g->width * g->channels;
    memset(to, g->fill, (size_t)before);
    if (g->flip) for (i64 j = 0; j < most; j++) to[before + j] = from[j] ^ g->flip;
    else memcpy(to + before, from, (size_t)most);
    memset(to + before + most, g->fill, (size_t)(size - before - most));
  }
}

/* How far such lines lie apart. */
static INLINED i64 quantized_pitch(const window *g) {
  const i64 wide = g->copies ? (g->places - 1) * g->right + (g->wide - 1) * g->right_apart + 1 : g->width;
  return wide * g->channels;
}
/* The lines of an image that a block of the result's, from `line` on, is computed of: its own, or copies. */
static INLINED const uint8_t *quantized_lines(
    const call *c, const window *g, const uint8_t *x, i64 image, i64 line, uint8_t *copies) {
  const uint8_t *of = x + image * g->height * g->width * g->channels;
  if (!g->copies) return of + line * g->down * quantized_pitch(g);
  const i64 tall = (c->block - 1) * g->down + (g->high - 1) * g->down_apart + 1;
  quantized_copy(g, of, line * g->down - g->above, tall, quantized_pitch(g) / g->channels, copies);
  return copies;
}
/* What becomes of the sums of n outputs, from `column` on, of some places, the first of all of them `first`; `slot` is
   that of the first output among the panels'. */
static INLINED void quantized_finish(
    const call *c, const window *g, const ending *e, int32_t *S, const float *scale, i64 slot, i64 first, i64 rows,
    i64 column, i64 n, uint8_t *out) {
  const i64 to = first * g->outputs + column;
  if (e->step) quantized_real(c, e, S, scale, slot, first, rows, column, n, (float *)out + to, g->outputs);
  else quantized_end(e, S, scale, rows, n, e->other ? e->other + to : NULL, out + to, g->outputs);
}

static APART void quantized_task(
    const task *own, window given, const ending *e, const uint8_t *x, const int8_t *w, uint8_t *out) {
  const call *c = own->whole;
  window *g = &given;
  if (!g->lines) g->lines = g->height = c->rows;
  const int whole = g->groups == 1 && (g->right_apart == 1 || g->wide == 1);
  const i64 segments = whole ? g->high : g->high * g->wide;
  const i64 depth = g->channels / g->groups, width = g->outputs / g->groups, panels = c->blocks / g->groups;
  const i64 full = (whole ? g->wide : 1) * depth, length = (full + 3) / 4 * 4;
  const i64 parts = (g->lines + c->block - 1) / c->block, pitch = quantized_pitch(g);
  i64 *place = (i64 *)own->scratch, *segment = place + c->block * g->places;
  int32_t *sums = (int32_t *)(segment + segments);
  uint8_t *copied = (uint8_t *)(sums + c->block * g->places);
  int32_t S[QUANTIZED_ROWS * QUANTIZED_PANEL] __attribute__((aligned(64)));
  int32_t begin[QUANTIZED_PANEL] __attribute__((aligned(64)));
  float by[QUANTIZED_PANEL] __attribute__((aligned(64)));
  i64 last = -1, summed = -1;
  for (i64 l = 0, r = 0; l < c->block; l++)
    for (i64 k = 0; k < g->places; k++) place[r++] = l * g->down * pitch + k * g->right * g->channels;
  for (i64 k = 0; k < segments; k++)
    segment[k] = whole ? k * g->down_apart * pitch
                       : k / g->wide * g->down_apart * pitch + k % g->wide * g->right_apart * g->channels;
  const uint8_t *from = x;
  for (i64 unit = own->first; unit < own->end; unit++) {
    const i64 piece = unit / c->blocks, panel = unit % c->blocks, image = piece / parts;
    const i64 line = piece % parts * c->block, lines = LEAST(c->block, g->lines - line);
    const i64 count = lines * g->places, slot = panel * QUANTIZED_PANEL;
    const i64 group = panel / panels, within = panel % panels * QUANTIZED_PANEL;
    const i64 column = group * width + within, n = LEAST(QUANTIZED_PANEL, width - within);
    const int vectors = n > 32 ? 4 : (int)(n + 15) / 16;
    const int8_t *m = w + slot * length * segments;
    if (piece != last) {
      from = quantized_lines(c, g, x, image, line, copied);
      last = piece;
      summed = -1;
    }
    const uint8_t *its = from + group * depth;
    if (e->rest && summed != group) quantized_places(its, place, count, segment, segments, full, sums);
    summed = group;
    const i64 before = (image * g->lines + line) * g->places;
    const int32_t *start = e->start + slot;
    const float *scale = e->scale + slot;
    if (e->step) {
      quantized_begin(e, slot, g->fill, begin, by);
      start = begin;
      scale = by;
    }
    i64 tiles = (count + QUANTIZED_ROWS - 1) / QUANTIZED_ROWS;
    for (i64 r = 0, rows; r < count; r += rows) {
      const uint8_t *p[QUANTIZED_ROWS];
      rows = (count - r + tiles - 1) / tiles;
      tiles--;
      for (i64 t = 0; t < rows; t++) p[t] = its + place[r + t];
      quantized_rows((int)rows, vectors, p, segment, segments, length, m, start, S);
      if (e->rest) quantized_rest(sums + r, e->rest + slot, rows, S);
      quantized_finish(c, g, e, S, scale, slot, before + r, rows, column, n, out);
    }
  }
}

/* Convolutions of groups whose outputs lie side by side in panels: `multiply` adds up the products of some places for
   a panel, for which filters have `size` numbers of each output, of so many `taps`, those that fill up among them. */
static INLINED void quantized_grouped_task(
    const task *own, const window *g, const ending *e, const uint8_t *x, const int8_t *w, uint8_t *out, i64 taps,
    i64 size, multiply_groups *multiply, void *order) {
  const call *c = own->whole;
  const i64 depth = g->channels / g->groups, width = g->outputs / g->groups;
  const i64 parts = (g->lines + c->block - 1) / c->block, pitch = quantized_pitch(g);
  i64 *segment = (i64 *)own->scratch;
  uint8_t *copied = (uint8_t *)(segment + taps);
  int32_t S[QUANTIZED_ROWS * QUANTIZED_PANEL] __attribute__((aligned(64)));
  int32_t begin[QUANTIZED_PANEL] __attribute__((aligned(64)));
  float by[QUANTIZED_PANEL] __attribute__((aligned(64)));
  i64 last = -1;
  for (i64 k = 0; k < taps; k++) { /* of those that fill up, filters are 0 */
    const i64 tap = LEAST(k, g->high * g->wide - 1);
    segment[k] = tap / g->wide * g->down_apart * pitch + tap % g->wide * g->right_apart * g->channels;
  }
  const uint8_t *from = x;
  for (i64 unit = own->first; unit < own->end; unit++) {
    const i64 piece = unit / c->blocks, panel = unit % c->blocks, image = piece / parts;
    const i64 line = piece % parts * c->block, lines = LEAST(c->block, g->lines - line);
    const i64 column = panel * QUANTIZED_PANEL, n = LEAST(QUANTIZED_PANEL, g->outputs - column);
    const int32_t *start = e->start + column;
    const float *scale = e->scale + column;
    if (piece != last) from = quantized_lines(c, g, x, image, line, copied);
    last = piece;
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
          p[t] = from + l * g->down * pitch + (k + t) * g->right * g->channels + column / width * depth;
        multiply(order, g, column, (int)rows, n, p, segment, taps, w + column * size, start, S);
        const i64 first = (image * g->lines + line + l) * g->places + k;
        quantized_finish(c, g, e, S, scale, column, first, rows, column, n, out);
      }
  }
}
