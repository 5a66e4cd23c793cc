/* Rows that indices name. */
/* the row of an index, counted from the end where it is negative; negative where there is none */
static inline i64 indexed_row(i64 index, i64 count) {
  index += index < 0 ? count : 0;
  return index < count && index >= 0 ? index : -1;
}
/* tells that an index names no row; several tasks may */
static inline void indexed_outside(const call *c) {
  __atomic_store_n((i64 *)&c->outside, 1, __ATOMIC_RELAXED);
}
