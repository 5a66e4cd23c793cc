/* Reading arrays in tiles and rows, and sums that don't lose. */

#define CONVERTED(from) \
  for (i64 i = 0; i < n; i++) { from x; memcpy(&x, p + i * stride, sizeof x); y[i] = x; } break
#define CONVERT(name, to) \
  static APART void name(i64 type, const char *p, i64 stride, i64 n, to *restrict y) { \
    switch (type) { \
      case 1: CONVERTED(float); \
      case 2: CONVERTED(double); \
      case 3: CONVERTED(uint8_t); \
      case 4: CONVERTED(int8_t); \
      case 5: CONVERTED(uint16_t); \
      case 6: CONVERTED(int16_t); \
      case 7: CONVERTED(uint32_t); \
      case 8: CONVERTED(int32_t); \
      case 9: CONVERTED(uint64_t); \
      case 10: CONVERTED(int64_t); \
    } \
  }
CONVERT(convert_64, double)
CONVERT(convert_32, float)
CONVERT(convert_8, uint8_t)

/* A row that is the same for all rows, and short: over and over, a tile and a row of it. */
#define ROW_OVER(name, convert, type_) \
  static inline void name(const view *v, i64 width, type_ *restrict y) { \
    if (v->type == 0 || v->row != 0 || width > NARROW) return; \
    convert(v->type, v->data, v->column, width, y); \
    for (i64 made = width; made < TILE + width; made *= 2) \
      memcpy(y + made, y, (size_t)LEAST(made, TILE + width - made) * sizeof(type_)); \
  }
ROW_OVER(row_over_64, convert_64, double)
ROW_OVER(row_over_32, convert_32, float)
ROW_OVER(row_over_8, convert_8, uint8_t)

/* A number for each row, as often as a row has columns: by eights, of which the last ones may lie behind
   the n cells or where the next row's will. */
#define REPEATED(name, convert, type_) \
  static APART void name(const view *v, i64 width, i64 at, i64 n, type_ *restrict y) { \
    i64 row = at / width, column = at % width; \
    for (i64 done = 0; done < n; row++, column = 0) { \
      const i64 k = LEAST(width - column, n - done); \
      type_ x; \
      if (v->type == OWN(type_)) memcpy(&x, v->data + row * v->row, sizeof x); \
      else convert(v->type, v->data + row * v->row, 0, 1, &x); \
      for (i64 j = 0; j < k; j += 8) \
        for (i64 i = 0; i < 8; i++) y[done + j + i] = x; \
      done += k; \
    } \
  }
#define OWN(type_) (sizeof(type_) == 8 ? 2 : sizeof(type_) == 4 ? 1 : 3)
REPEATED(repeated_64, convert_64, double)
REPEATED(repeated_32, convert_32, float)
REPEATED(repeated_8, convert_8, uint8_t)

/* n cells from number `at` on, rows of `width` after each other: the array itself, or a copy in a buffer
   of TILE + NARROW cells, in which ROW_OVER was */
#define CELLS(name, convert, repeated, type_) \
  static inline const type_ *name(const view *v, i64 width, i64 at, i64 n, type_ *buffer) { \
    if (v->type == 0) return (const type_ *)v->data + at; \
    if (v->row == 0 && width <= NARROW) return buffer + at % width; \
    if (v->column == 0) { repeated(v, width, at, n, buffer); return buffer; } \
    i64 row = at / width, column = at % width; \
    for (i64 done = 0; done < n; row++, column = 0) { \
      i64 k = LEAST(width - column, n - done); \
      convert(v->type, v->data + row * v->row + column * v->column, v->column, k, buffer + done); \
      done += k; \
    } \
    return buffer; \
  }
CELLS(cells_64, convert_64, repeated_64, double)
CELLS(cells_32, convert_32, repeated_32, float)
CELLS(cells_8, convert_8, repeated_8, uint8_t)

/* Bytes of what follows in memory, brought closer while other rows are computed with: blocks of rows
   are read several times, and in between a processor's own prefetching rests. */
#define AHEAD 8192
static inline void fetch_ahead(const char *p, i64 bytes, i64 left) {
  const i64 end = LEAST(AHEAD + bytes, left);
  for (i64 at = AHEAD; at < end; at += 64) __builtin_prefetch(p + at);
}

/* `count` rows from number `at` on, each contiguous; *step is how far they lie apart. `left` rows,
   these among them, are read soon. */
#define ROWS(name, convert, type_) \
  static inline const type_ *name(const view *v, i64 width, i64 at, i64 count, i64 left, type_ *buffer, i64 *step) { \
    if (v->type == 0) { \
      const char *const first = v->data + at * v->row; \
      *step = v->row / (i64)sizeof(type_); \
      if (*step > 0 && *step < 2 * width) fetch_ahead(first, count * v->row, left * v->row); \
      return (const type_ *)first; \
    } \
    *step = width; \
    for (i64 row = 0; row < count; row++) \
      convert(v->type, v->data + (at + row) * v->row, v->column, width, buffer + row * width); \
    return buffer; \
  }
ROWS(rows_64, convert_64, double)
ROWS(rows_32, convert_32, float)
ROWS(rows_8, convert_8, uint8_t)

/* The elements of an array in n rows and columns. They lie anywhere, and a processor looks ahead only
   as far as it reorders: what is FURTHER on is brought closer, as far as rows are known. */
#define ENTRIES(name, type_) \
  static APART void name(const view *v, const int32_t *rows, const int32_t *columns, i64 n, i64 known, type_ *restrict y) { \
    const char *const p = v->data; \
    const i64 row = v->row, column = v->column, ahead = LEAST(n, known - FURTHER); \
    i64 j = 0; \
    for (; j < ahead; j++) { \
      y[j] = *(const type_ *)(p + rows[j] * row + columns[j] * column); \
      __builtin_prefetch(p + rows[j + FURTHER] * row + columns[j + FURTHER] * column); \
    } \
    for (; j < n; j++) y[j] = *(const type_ *)(p + rows[j] * row + columns[j] * column); \
  }
ENTRIES(entries_64, double)
ENTRIES(entries_32, float)
ENTRIES(entries_8, uint8_t)

static inline void add(total *t, double x) {
  double s = t->sum + x;
  t->lost += __builtin_fabs(t->sum) >= __builtin_fabs(x) ? (t->sum - s) + x : (x - s) + t->sum;
  t->sum = s;
}
static inline double value(total t) {
  return __builtin_fabs(t.sum) < INFINITY ? t.sum + t.lost : t.sum;
}

/* The same for n sums at once; what was added is reset. */
#define FLUSH(name, type) \
  static APART void name(type *restrict added, double *restrict sum, double *restrict lost, i64 n) { \
    for (i64 i = 0; i < n; i++) { \
      double x = added[i], s = sum[i] + x, t = sum[i]; \
      lost[i] += __builtin_fabs(t) >= __builtin_fabs(x) ? (t - s) + x : (x - s) + t; \
      sum[i] = s; \
      added[i] = 0; \
    } \
  }
FLUSH(flush_64, double)
FLUSH(flush_32, float)
static APART void settle(double *restrict sum, const double *restrict lost, i64 n) {
  for (i64 i = 0; i < n; i++) sum[i] = __builtin_fabs(sum[i]) < INFINITY ? sum[i] + lost[i] : sum[i];
}

/* A sparse matrix by rows: values, where each row begins, and columns (32 bit). */
static inline begins begins_of(const view *v) {
  return v->type & WIDE ? (begins){0, (const i64 *)v->row} : (begins){(const int32_t *)v->row, 0};
}
static inline i64 begin(begins b, i64 row) { return b.few ? b.few[row] : b.many[row]; }

/* The rows of the entries k + from to k + to - 1, of which none lies before `row`; returns the last one's. */
static APART i64 rows_of_entries(begins b, i64 row, i64 k, i64 from, i64 to, int32_t *rows) {
  for (i64 j = from; j < to; ) {
    while (begin(b, row + 1) <= k + j) row++;
    const i64 end = LEAST(begin(b, row + 1) - k, to);
    for (; j < end; j++) rows[j] = (int32_t)row;
  }
  return row;
}

/* to[row] += the sum of the n values s from entry k on that lie in it; `row` isn't behind the first of
   them. Returns the last one's. Four sums, as each waits for the one before. */
#define ADD_UP_ROWS(name, type_) \
  static APART i64 name(const type_ *restrict s, begins b, i64 row, i64 k, i64 n, type_ *restrict to) { \
    for (i64 j = 0; j < n; ) { \
      while (begin(b, row + 1) <= k + j) row++; \
      const i64 end = LEAST(begin(b, row + 1) - k, n); \
      type_ t = 0, u = 0, w = 0, x = 0; \
      for (; j + 4 <= end; j += 4) { t += s[j]; u += s[j + 1]; w += s[j + 2]; x += s[j + 3]; } \
      for (; j < end; j++) t += s[j]; \
      to[row] += (t + u) + (w + x); \
    } \
    return row; \
  }
ADD_UP_ROWS(add_up_rows_64, double)
ADD_UP_ROWS(add_up_rows_32, float)

#define ROWS_OF_CSR(name, type_) \
  static APART const type_ *name(const view *v, i64 width, i64 at, i64 count, type_ *buffer, i64 *step) { \
    const type_ *values = (const type_ *)v->data; \
    const begins b = begins_of(v); \
    const int32_t *columns = (const int32_t *)v->column; \
    *step = width; \
    memset(buffer, 0, (size_t)(count * width) * sizeof(type_)); \
    for (i64 row = 0; row < count; row++) \
      for (i64 k = begin(b, at + row); k < begin(b, at + row + 1); k++) buffer[row * width + columns[k]] += values[k]; \
    return buffer; \
  }
ROWS_OF_CSR(rows_of_csr_64, double)
ROWS_OF_CSR(rows_of_csr_32, float)
