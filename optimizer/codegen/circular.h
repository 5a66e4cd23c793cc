/* Circular functions and their inverses, as those of elementary.h: vectors, errors in ulp for every
   argument.

   Where x is FAR from 0, x less a multiple of pi takes many digits of pi: the C library's function
   knows them. A loop with such a call in it is no loop over vectors. So a loop leaves these functions
   to each_sin_64 and so on, for many elements at a time (vector_loops.py), which look back only if there
   was such an element. */

#undef FAR_64
#ifdef FUSED
#define FAR_64 0x1p30
#else
#define FAR_64 0x1p20
#endif
#define FAR_32 0x1p18f
#define INVERSE_PI_64 0x1.45f306dc9c883p-2
#define INVERSE_PI_32 0x1.45f306p-2f

/* a - n pi to all digits but the last, for a < FAR and a multiple n of 1/2. The first product is exact, and
   what is left after it: then digits of pi make up for those that go. */
static inline double less_pi_64(double a, double n) {
#ifdef FUSED
  double r = FMA_64(n, -0x1.1a62633145c07p-53, FMA_64(n, -0x1.921fb54442d18p+1, a));
  return FMA_64(n, 0x1.f1976b7ed8fbcp-109, r);
#else
  double r = ((a - n * 0x1.921fb54p+1) - n * 0x1.10b46118p-29) - n * 0x1.313198ap-60;
  return r - n * 0x1.701b839a25205p-91;
#endif
}
static inline float less_pi_32(float a, float n) {
#ifdef FUSED
  float r = FMA_32(n, 0x1.777a5cp-24f, FMA_32(n, -0x1.921fb6p+1f, a));
  return FMA_32(n, 0x1.ee59dap-49f, r);
#else
  double m = n, r = (double)a - m * 0x1.921fb54p+1;
  return (float)(r - m * 0x1.10b4611a62633p-29);
#endif
}

/* sin(r + q pi / 2) for |r| <= pi / 4 */
static inline double sin_part_64(double r, uint64_t q) {
  double z = r * r, s = FMA_64(r * z, SIN_64(z), r), c = FMA_64(z, FMA_64(z, COS_64(z), -0.5), 1.0);
  return float_64(bits_64(q & 1 ? c : s) ^ (q & 2) << 62);
}
static inline float sin_part_32(float r, uint32_t q) {
  float z = r * r, s = FMA_32(r * z, SIN_32(z), r), c = FMA_32(z, FMA_32(z, COS_32(z), -0.5f), 1.0f);
  return float_32(bits_32(q & 1 ? c : s) ^ (q & 2) << 30);
}

/* for |x| <= FAR: 2.5 ulp; the quarter of a turn is left in the low bits of t */
static inline double near_sin_64(double x) {
  double a = __builtin_fabs(x), t = FMA_64(a, 2.0 * INVERSE_PI_64, ROUND_64);
  double y = sin_part_64(less_pi_64(a, 0.5 * (t - ROUND_64)), bits_64(t));
  return float_64(bits_64(y) ^ (bits_64(x) & (uint64_t)1 << 63));
}
static inline float near_sin_32(float x) {
  float a = __builtin_fabsf(x), t = FMA_32(a, 2.0f * INVERSE_PI_32, ROUND_32);
  float y = sin_part_32(less_pi_32(a, 0.5f * (t - ROUND_32)), bits_32(t));
  return float_32(bits_32(y) ^ (bits_32(x) & (uint32_t)1 << 31));
}

/* 2.5 ulp: sin(|x| + pi / 2) */
static inline double near_cos_64(double x) {
  double a = __builtin_fabs(x), t = FMA_64(a, 2.0 * INVERSE_PI_64, ROUND_64);
  return sin_part_64(less_pi_64(a, 0.5 * (t - ROUND_64)), bits_64(t) + 1);
}
static inline float near_cos_32(float x) {
  float a = __builtin_fabsf(x), t = FMA_32(a, 2.0f * INVERSE_PI_32, ROUND_32);
  return sin_part_32(less_pi_32(a, 0.5f * (t - ROUND_32)), bits_32(t) + 1);
}

/* 4 ulp; a quarter of a turn on it is -1 / tan(r) */
static inline double near_tan_64(double x) {
  double a = __builtin_fabs(x), t = FMA_64(a, 2.0 * INVERSE_PI_64, ROUND_64);
  double r = less_pi_64(a, 0.5 * (t - ROUND_64)), z = r * r, under = TAN_UNDER_64(z);
  double over = FMA_64(r * z, TAN_OVER_64(z), r * under);
  int odd = (bits_64(t) & 1) != 0;
  double y = (odd ? -under : over) / (odd ? over : under);
  return float_64(bits_64(y) ^ (bits_64(x) & (uint64_t)1 << 63));
}
static inline float near_tan_32(float x) {
  float a = __builtin_fabsf(x), t = FMA_32(a, 2.0f * INVERSE_PI_32, ROUND_32);
  float r = less_pi_32(a, 0.5f * (t - ROUND_32)), z = r * r, under = TAN_UNDER_32(z);
  float over = FMA_32(r * z, TAN_OVER_32(z), r * under);
  int odd = (bits_32(t) & 1) != 0;
  float y = (odd ? -under : over) / (odd ? over : under);
  return float_32(bits_32(y) ^ (bits_32(x) & (uint32_t)1 << 31));
}

/* y = f(x) for n elements; x and y have room up to a multiple of 8, so that vectors are whole.
   `far` is as wide as the elements, so that both fill as many lanes. */
#define EACH(name, near, whole, absolute, most, type_, flag) \
  static APART void name(type_ *restrict x, type_ *restrict y, i64 n) { \
    flag far = 0; \
    const i64 all = (n + 7) & ~(i64)7; \
    for (i64 i = n; i < all; i++) x[i] = 0; \
    _Pragma("omp simd reduction(|:far)") \
    for (i64 i = 0; i < all; i++) { \
      const type_ e = x[i]; \
      far |= absolute(e) <= most ? 0 : 1; \
      y[i] = near(e); \
    } \
    if (far) \
      for (i64 i = 0; i < n; i++) \
        if (!(absolute(x[i]) <= most)) y[i] = whole(x[i]); \
  }
EACH(each_sin_64, near_sin_64, __builtin_sin, __builtin_fabs, FAR_64, double, i64)
EACH(each_cos_64, near_cos_64, __builtin_cos, __builtin_fabs, FAR_64, double, i64)
EACH(each_tan_64, near_tan_64, __builtin_tan, __builtin_fabs, FAR_64, double, i64)
EACH(each_sin_32, near_sin_32, __builtin_sinf, __builtin_fabsf, FAR_32, float, int32_t)
EACH(each_cos_32, near_cos_32, __builtin_cosf, __builtin_fabsf, FAR_32, float, int32_t)
EACH(each_tan_32, near_tan_32, __builtin_tanf, __builtin_fabsf, FAR_32, float, int32_t)

/* of one element */
static inline double sin_64(double x) { return __builtin_fabs(x) <= FAR_64 ? near_sin_64(x) : __builtin_sin(x); }
static inline double cos_64(double x) { return __builtin_fabs(x) <= FAR_64 ? near_cos_64(x) : __builtin_cos(x); }
static inline double tan_64(double x) { return __builtin_fabs(x) <= FAR_64 ? near_tan_64(x) : __builtin_tan(x); }
static inline float sin_32(float x) { return __builtin_fabsf(x) <= FAR_32 ? near_sin_32(x) : __builtin_sinf(x); }
static inline float cos_32(float x) { return __builtin_fabsf(x) <= FAR_32 ? near_cos_32(x) : __builtin_cosf(x); }
static inline float tan_32(float x) { return __builtin_fabsf(x) <= FAR_32 ? near_tan_32(x) : __builtin_tanf(x); }

#define HALF_PI_64 0x1.921fb54442d18p+0
#define HALF_PI_LOW_64 0x1.1a62633145c07p-54
#define HALF_PI_32 0x1.921fb6p+0f
#define HALF_PI_LOW_32 -0x1.777a5cp-25f

/* asin of s = sqrt(z), which is at most 1/2 */
static inline double asin_part_64(double s, double z) { return FMA_64(s * z, ASIN_64(z), s); }
static inline float asin_part_32(float s, float z) { return FMA_32(s * z, ASIN_32(z), s); }

/* 2.5 ulp; beyond 1/2 it is pi / 2 - 2 asin(sqrt((1 - x) / 2)) */
static inline double asin_64(double x) {
  double a = __builtin_fabs(x), z = a > 0.5 ? 0.5 - 0.5 * a : a * a;
  double y = asin_part_64(a > 0.5 ? __builtin_sqrt(z) : a, z);
  y = a > 0.5 ? HALF_PI_64 - (2.0 * y - HALF_PI_LOW_64) : y;
  return __builtin_copysign(y, x);
}
static inline float asin_32(float x) {
  float a = __builtin_fabsf(x), z = a > 0.5f ? 0.5f - 0.5f * a : a * a;
  float y = asin_part_32(a > 0.5f ? __builtin_sqrtf(z) : a, z);
  y = a > 0.5f ? HALF_PI_32 - (2.0f * y - HALF_PI_LOW_32) : y;
  return __builtin_copysignf(y, x);
}

/* 1.5 ulp */
static inline double acos_64(double x) {
  double a = __builtin_fabs(x), z = a > 0.5 ? 0.5 - 0.5 * a : a * a;
  double y = asin_part_64(a > 0.5 ? __builtin_sqrt(z) : a, z);
  double far = x > 0.0 ? 2.0 * y : 2.0 * HALF_PI_64 - 2.0 * (y - HALF_PI_LOW_64);
  return a > 0.5 ? far : HALF_PI_64 - (__builtin_copysign(y, x) - HALF_PI_LOW_64);
}
static inline float acos_32(float x) {
  float a = __builtin_fabsf(x), z = a > 0.5f ? 0.5f - 0.5f * a : a * a;
  float y = asin_part_32(a > 0.5f ? __builtin_sqrtf(z) : a, z);
  float far = x > 0.0f ? 2.0f * y : 2.0f * HALF_PI_32 - 2.0f * (y - HALF_PI_LOW_32);
  return a > 0.5f ? far : HALF_PI_32 - (__builtin_copysignf(y, x) - HALF_PI_LOW_32);
}

/* 2.5 ulp; beyond 1 it is pi / 2 - atan(1 / x) */
static inline double atan_64(double x) {
  double a = __builtin_fabs(x), s = a > 1.0 ? 1.0 / a : a, z = s * s;
  double y = FMA_64(s * z, ATAN_64(z), s);
  y = a > 1.0 ? HALF_PI_64 - (y - HALF_PI_LOW_64) : y;
  return __builtin_copysign(y, x);
}
static inline float atan_32(float x) {
  float a = __builtin_fabsf(x), s = a > 1.0f ? 1.0f / a : a, z = s * s;
  float y = FMA_32(s * z, ATAN_32(z), s);
  y = a > 1.0f ? HALF_PI_32 - (y - HALF_PI_LOW_32) : y;
  return __builtin_copysignf(y, x);
}
