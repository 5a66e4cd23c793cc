/* Vectors of a block of channels, for all kernels of convolutions. */

/* on other processors than those it was made for, vectors are longer or shorter than a block */
#undef BLOCK_OF
#define BLOCK_OF(p) (BLOCK < LANES_32 ? PART_32(p, BLOCK) : FULL_32(p))
#undef PUT_BLOCK_OF
#define PUT_BLOCK_OF(p, v) do { if (BLOCK < LANES_32) PUT_PART_32(p, BLOCK, v); else PUT_32(p, v); } while (0)

/* a vector within bounds; NaN passes */
#undef BOUND_32
#if defined(LEVEL_AVX512)
#define BOUND_32(v, low, high) _mm512_min_ps(high, _mm512_max_ps(low, v))
#elif defined(LEVEL_AVX2)
#define BOUND_32(v, low, high) _mm256_min_ps(high, _mm256_max_ps(low, v))
#else
#define BOUND_32(v, low, high) bounded_32(v, low, high)
static inline four_of_32 bounded_32(four_of_32 v, four_of_32 low, four_of_32 high) {
  for (int k = 0; k < 4; k++) {
    v[k] = low[k] > v[k] ? low[k] : v[k];
    v[k] = v[k] > high[k] ? high[k] : v[k];
  }
  return v;
}
#endif
