/* Convolutions in groups, multiplied out, over blocks of channels: what all of them share. */

/* Vectors of which several groups have `own` lanes each: their elements of one number within a group,
   as often as the group has lanes. So no channel meets those of another group. */
#undef SPREAD_32
#if defined(LEVEL_AVX512)
#define SPREAD_32(v, own, number) _mm512_permutexvar_ps(apart_lanes(own, number), v)
static INLINED __m512i apart_lanes(int own, i64 number) {
  const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return _mm512_add_epi32(_mm512_and_si512(lanes, _mm512_set1_epi32(-own)), _mm512_set1_epi32((int)number));
}
#elif defined(LEVEL_AVX2)
/* lanes of one half, since a group of more than four has a vector of its own */
#define SPREAD_32(v, own, number) _mm256_permutevar_ps(v, apart_lanes(own, number))
static INLINED __m256i apart_lanes(int own, i64 number) {
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 0, 1, 2, 3);
  return _mm256_add_epi32(_mm256_and_si256(lanes, _mm256_set1_epi32(-own)), _mm256_set1_epi32((int)number));
}
#else
#define SPREAD_32(v, own, number) apart_spread(v, own, number)
static INLINED four_of_32 apart_spread(four_of_32 v, int own, i64 number) {
  four_of_32 found;
  for (int lane = 0; lane < 4; lane++) found[lane] = v[(lane & -own) + number];
  return found;
}
#endif
