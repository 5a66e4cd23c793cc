/* Vectors for the loops that compilers don't make well by themselves: several sums at once, with ends
   that fill no vector. For each element type, by the ending 64 or 32:

   VEC, LANES            a vector, and how many elements it has (LANES on each processor)
   FULL(p), PART(p, n)   LANES elements, or the first n < LANES of them and zeros beside them
   PUT, PUT_PART         the same, stored
   SET(x)                x in each lane
   FMA_VEC(a, b, c)      a b + c
   HOLD(v)               v is used several times: it is loaded into a register once
   sum_lanes, sum_four   the sum over a vector's lanes, and over those of four vectors
   entries_times         the sum of n stored entries times the elements of B in their columns

   Nothing beyond the n elements is read or written. */

#if defined(LEVEL_AVX512)
#define VEC_64 __m512d
#define LANES_64 8
#define FULL_64(p) _mm512_loadu_pd(p)
#define PART_64(p, n) _mm512_maskz_loadu_pd((__mmask8)((1u << (n)) - 1), p)
#define PUT_64(p, v) _mm512_storeu_pd(p, v)
#define PUT_PART_64(p, n, v) _mm512_mask_storeu_pd(p, (__mmask8)((1u << (n)) - 1), v)
#define SET_64(x) _mm512_set1_pd(x)
#define FMA_VEC_64(a, b, c) _mm512_fmadd_pd(a, b, c)
#define HOLD(v) __asm__("" : "+v"(v))
#define HALVED_64(v) _mm256_add_pd(_mm512_castpd512_pd256(v), _mm512_extractf64x4_pd(v, 1))
#define VEC_32 __m512
#define LANES_32 16
#define FULL_32(p) _mm512_loadu_ps(p)
#define PART_32(p, n) _mm512_maskz_loadu_ps((__mmask16)((1u << (n)) - 1), p)
#define PUT_32(p, v) _mm512_storeu_ps(p, v)
#define PUT_PART_32(p, n, v) _mm512_mask_storeu_ps(p, (__mmask16)((1u << (n)) - 1), v)
#define SET_32(x) _mm512_set1_ps(x)
#define FMA_VEC_32(a, b, c) _mm512_fmadd_ps(a, b, c)
#define HALVED_32(v) _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1))
#elif defined(LEVEL_AVX2)
static inline __m256i first_64(i64 n) { return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3)); }
static inline __m256i first_32(i64 n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32((int32_t)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
#define VEC_64 __m256d
#define LANES_64 4
#define FULL_64(p) _mm256_loadu_pd(p)
#define PART_64(p, n) _mm256_maskload_pd(p, first_64(n))
#define PUT_64(p, v) _mm256_storeu_pd(p, v)
#define PUT_PART_64(p, n, v) _mm256_maskstore_pd(p, first_64(n), v)
#define SET_64(x) _mm256_set1_pd(x)
#define FMA_VEC_64(a, b, c) _mm256_fmadd_pd(a, b, c)
#define HOLD(v) __asm__("" : "+x"(v))
#define HALVED_64(v) (v)
#define VEC_32 __m256
#define LANES_32 8
#define FULL_32(p) _mm256_loadu_ps(p)
#define PART_32(p, n) _mm256_maskload_ps(p, first_32(n))
#define PUT_32(p, v) _mm256_storeu_ps(p, v)
#define PUT_PART_32(p, n, v) _mm256_maskstore_ps(p, first_32(n), v)
#define SET_32(x) _mm256_set1_ps(x)
#define FMA_VEC_32(a, b, c) _mm256_fmadd_ps(a, b, c)
#define HALVED_32(v) (v)
#else
#define LANES_64 2
#define LANES_32 4
#endif

#if defined(LEVEL_AVX512) || defined(LEVEL_AVX2)
static inline void sum_four_64(VEC_64 a, VEC_64 b, VEC_64 c, VEC_64 d, double *s) {
  __m256d x = _mm256_hadd_pd(HALVED_64(a), HALVED_64(b)), y = _mm256_hadd_pd(HALVED_64(c), HALVED_64(d));
  __m256d mixed = _mm256_permute2f128_pd(x, y, 0x21), rest = _mm256_blend_pd(x, y, 0xc);
  _mm256_storeu_pd(s, _mm256_add_pd(mixed, rest));
}
static inline void sum_four_32(VEC_32 a, VEC_32 b, VEC_32 c, VEC_32 d, float *s) {
  __m256 x = _mm256_hadd_ps(HALVED_32(a), HALVED_32(b)), y = _mm256_hadd_ps(HALVED_32(c), HALVED_32(d));
  __m256 all = _mm256_hadd_ps(x, y);
  _mm_storeu_ps(s, _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1)));
}
static inline double sum_lanes_64(VEC_64 v) {
  __m256d h = HALVED_64(v);
  __m128d q = _mm_add_pd(_mm256_castpd256_pd128(h), _mm256_extractf128_pd(h, 1));
  return _mm_cvtsd_f64(_mm_add_sd(q, _mm_unpackhi_pd(q, q)));
}
static inline float sum_lanes_32(VEC_32 v) {
  __m256 h = HALVED_32(v);
  __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  q = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}
#else
#define VEC_64 pair_of_64
#define LANES_64 2
#define FULL_64(p) (*(const pair_of_64 *)(p))
#define PART_64(p, n) part_64(p)
#define PUT_64(p, v) (*(pair_of_64 *)(p) = (v))
#define PUT_PART_64(p, n, v) (*(p) = (v)[0])
#define SET_64(x) ((pair_of_64){x, x})
#define FMA_VEC_64(a, b, c) ((a) * (b) + (c))
#define HOLD(v)
#define VEC_32 four_of_32
#define LANES_32 4
#define FULL_32(p) (*(const four_of_32 *)(p))
#define PART_32(p, n) part_32(p, n)
#define PUT_32(p, v) (*(four_of_32 *)(p) = (v))
#define PUT_PART_32(p, n, v) put_part_32(p, n, v)
#define SET_32(x) ((four_of_32){x, x, x, x})
#define FMA_VEC_32(a, b, c) ((a) * (b) + (c))
static inline pair_of_64 part_64(const double *p) { return (pair_of_64){p[0], 0}; }
static inline four_of_32 part_32(const float *p, i64 n) {
  return (four_of_32){p[0], n > 1 ? p[1] : 0, n > 2 ? p[2] : 0, 0};
}
static inline void put_part_32(float *p, i64 n, four_of_32 v) { for (i64 i = 0; i < n; i++) p[i] = v[i]; }
static inline double sum_lanes_64(pair_of_64 v) { return v[0] + v[1]; }
static inline float sum_lanes_32(four_of_32 v) { return (v[0] + v[2]) + (v[1] + v[3]); }
static inline void sum_four_64(pair_of_64 a, pair_of_64 b, pair_of_64 c, pair_of_64 d, double *s) {
  s[0] = sum_lanes_64(a); s[1] = sum_lanes_64(b); s[2] = sum_lanes_64(c); s[3] = sum_lanes_64(d);
}
static inline void sum_four_32(four_of_32 a, four_of_32 b, four_of_32 c, four_of_32 d, float *s) {
  s[0] = sum_lanes_32(a); s[1] = sum_lanes_32(b); s[2] = sum_lanes_32(c); s[3] = sum_lanes_32(d);
}
#endif

/* Four sums, as each waits for the one before. Processors' own instructions that gather are slower
   than loads one by one; of doubles those are made vectors, with two columns to a load. */
#define ENTRIES_TIMES(name, T, ADD) \
  static inline T name(const T *values, const int32_t *columns, i64 n, const T *B) { \
    SUMS_OF_PRODUCTS \
    T s = 0, t = 0, u = 0, w = 0; \
    i64 k = 0; \
    for (; k + 4 <= n; k += 4) { \
      ADD(s, values[k], B[columns[k]]); ADD(t, values[k + 1], B[columns[k + 1]]); \
      ADD(u, values[k + 2], B[columns[k + 2]]); ADD(w, values[k + 3], B[columns[k + 3]]); \
    } \
    for (; k < n; k++) ADD(s, values[k], B[columns[k]]); \
    return (s + t) + (u + w); \
  }
ENTRIES_TIMES(entries_times_32, float, ADD_PRODUCT_32)
#if defined(LEVEL_AVX512) || defined(LEVEL_AVX2)
static inline __m256d four_at(const double *B, const int32_t *columns) {
  uint64_t p, q;
  memcpy(&p, columns, 8);
  memcpy(&q, columns + 2, 8);
  __m128d low = _mm_loadh_pd(_mm_load_sd(B + (uint32_t)p), B + (p >> 32));
  __m128d high = _mm_loadh_pd(_mm_load_sd(B + (uint32_t)q), B + (q >> 32));
  return _mm256_insertf128_pd(_mm256_castpd128_pd256(low), high, 1);
}
static inline double entries_times_64(const double *values, const int32_t *columns, i64 n, const double *B) {
  __m256d s = _mm256_setzero_pd(), t = s;
  double rest = 0;
  i64 k = 0;
  for (; k + 8 <= n; k += 8) {
    s = _mm256_fmadd_pd(_mm256_loadu_pd(values + k), four_at(B, columns + k), s);
    t = _mm256_fmadd_pd(_mm256_loadu_pd(values + k + 4), four_at(B, columns + k + 4), t);
  }
  for (; k < n; k++) rest = FMA_64(values[k], B[columns[k]], rest);
  s = _mm256_add_pd(s, t);
  __m128d q = _mm_add_pd(_mm256_castpd256_pd128(s), _mm256_extractf128_pd(s, 1));
  return _mm_cvtsd_f64(_mm_add_sd(q, _mm_unpackhi_pd(q, q))) + rest;
}
#else
ENTRIES_TIMES(entries_times_64, double, ADD_PRODUCT_64)
#endif

/* The same for few entries, at most some more than four: by fours of which the last is masked, so that
   no branch depends on how many there are, which nothing can foresee. Reads columns, and what B has there,
   up to four places behind the last one. */
#if defined(LEVEL_AVX2)
static inline double few_entries_times_64(const double *values, const int32_t *columns, i64 n, const double *B) {
  __m256d s = _mm256_setzero_pd();
  i64 k = 0;
  do {
    const __m256i in = _mm256_cmpgt_epi64(_mm256_set1_epi64x(n - k), _mm256_set_epi64x(3, 2, 1, 0));
    const __m256d b = _mm256_and_pd(four_at(B, columns + k), _mm256_castsi256_pd(in));
    s = _mm256_fmadd_pd(_mm256_maskload_pd(values + k, in), b, s);
    k += 4;
  } while (k < n);
  return sum_lanes_64(s);
}
static inline float few_entries_times_32(const float *values, const int32_t *columns, i64 n, const float *B) {
  __m128 s = _mm_setzero_ps();
  i64 k = 0;
  do {
    const int32_t *const c = columns + k;
    const __m128i in = _mm_cmpgt_epi32(_mm_set1_epi32((int)(n - k)), _mm_set_epi32(3, 2, 1, 0));
    const __m128 b = _mm_and_ps(_mm_set_ps(B[c[3]], B[c[2]], B[c[1]], B[c[0]]), _mm_castsi128_ps(in));
    s = _mm_fmadd_ps(_mm_maskload_ps(values + k, in), b, s);
    k += 4;
  } while (k < n);
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
#endif
