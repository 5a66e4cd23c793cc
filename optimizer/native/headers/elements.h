/* Elements that memory has in 16 bits, as float32 numbers: rounded to the nearest, of two to the even
   one. NaN stays NaN, and becomes a quiet one; subnormal numbers of 16 bits are exact whether or not the
   processor counts those of 32 as zero. */

static inline float wide_float16(uint16_t h) {
  const uint32_t a = h & 0x7fffu;
  uint32_t n = (a << 13) + (112u << 23);
  n += a >= 0x7c00u ? 112u << 23 : 0;
  n |= a > 0x7c00u ? 1u << 22 : 0;
  n = a < 0x400u ? bits_32((float)(int32_t)a * 0x1p-24f) : n;
  return float_32(n | (h & 0x8000u) << 16);
}
/* Below 2^-14, adding 1/2 rounds to a multiple of 2^-24, which is then in the low bits. */
static inline uint16_t narrow_float16(float x) {
  const uint32_t u = bits_32(x), a = u & 0x7fffffffu;
  uint32_t n = (a - (112u << 23) + 0xfffu + (a >> 13 & 1)) >> 13;
  n = a < 0x38800000u ? bits_32(float_32(a) + 0.5f) - 0x3f000000u : n;
  n = a >= 0x47800000u ? 0x7c00u : n;
  n = a > 0x7f800000u ? 0x7e00u | (a >> 13 & 0x3ffu) : n;
  return (uint16_t)(n | (u >> 16 & 0x8000u));
}
static inline float wide_bfloat16(uint16_t h) {
  const uint32_t a = h & 0x7fffu;
  return float_32((uint32_t)h << 16 | (a > 0x7f80u ? 1u << 22 : 0));
}
static inline uint16_t narrow_bfloat16(float x) {
  const uint32_t u = bits_32(x), n = (u + 0x7fffu + (u >> 16 & 1)) >> 16;
  return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? u >> 16 | 0x40u : n);
}
static inline float rounded_float16_32(float x) { return wide_float16(narrow_float16(x)); }
static inline float rounded_bfloat16_32(float x) { return wide_bfloat16(narrow_bfloat16(x)); }

/* NaN becomes the lowest, as in the runtime */
static inline float saturated_32(float x, float low, float high) {
  const float y = x > low ? x : low;
  return y < high ? y : high;
}

/* n elements, `step` apart in memory, side by side; of n <= 0 nothing. Instructions for float16 do so
   many at a time; compilers make none of loops over single ones, which take three times as long. */
static APART void widen_float16(const uint16_t *restrict from, i64 step, float *restrict to, i64 n) {
  i64 j = 0;
#if defined(LEVEL_AVX512)
  if (step == 1)
    for (; j + 16 <= n; j += 16)
      _mm512_storeu_ps(to + j, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(from + j))));
#elif defined(LEVEL_AVX2)
  if (step == 1)
    for (; j + 8 <= n; j += 8)
      _mm256_storeu_ps(to + j, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from + j))));
#endif
  for (; j < n; j++) to[j] = wide_float16(from[j * step]);
}
static APART void narrow_to_float16(const float *restrict from, uint16_t *restrict to, i64 n) {
  i64 j = 0;
#if defined(LEVEL_AVX512)
  for (; j + 16 <= n; j += 16)
    _mm256_storeu_si256(
        (__m256i *)(to + j), _mm512_cvtps_ph(_mm512_loadu_ps(from + j), _MM_FROUND_TO_NEAREST_INT));
#elif defined(LEVEL_AVX2)
  for (; j + 8 <= n; j += 8)
    _mm_storeu_si128(
        (__m128i *)(to + j), _mm256_cvtps_ph(_mm256_loadu_ps(from + j), _MM_FROUND_TO_NEAREST_INT));
#endif
  for (; j < n; j++) to[j] = narrow_float16(from[j]);
}
static APART void widen_bfloat16(const uint16_t *restrict from, i64 step, float *restrict to, i64 n) {
  for (i64 j = 0; j < n; j++) to[j] = wide_bfloat16(from[j * step]);
}
static APART void narrow_to_bfloat16(const float *restrict from, uint16_t *restrict to, i64 n) {
  for (i64 j = 0; j < n; j++) to[j] = narrow_bfloat16(from[j]);
}
