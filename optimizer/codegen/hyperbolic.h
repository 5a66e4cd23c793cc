/* Hyperbolic functions and their inverses by exp and log1p, as those of elementary.h. */

/* 2.5 ulp; e is (exp(x) - 1) / 4, a number wherever sinh(x) is one. */
static inline double sinh_64(double x) {
  double a = __builtin_fabs(x), c = a > 710.5 ? 710.5 : a;
  double t = FMA_64(c, INVERSE_LN2, ROUND_64), r = rest_64(c, t - ROUND_64);
  double quarter = float_64(bits_64(0.25) + (bits_64(t) << 52));
  double e = FMA_64(quarter, FMA_64(r * r, EXP_64(r), r), quarter - 0.25);
  double y = 2.0 * (e + e / FMA_64(4.0, e, 1.0));
  return __builtin_copysign(a < 0x1p-26 ? a : y, x);
}
static inline float sinh_32(float x) {
  float a = __builtin_fabsf(x), c = a > 89.5f ? 89.5f : a;
  float t = FMA_32(c, (float)INVERSE_LN2, ROUND_32), r = rest_32(c, t - ROUND_32);
  float quarter = float_32(bits_32(0.25f) + (bits_32(t) << 23));
  float e = FMA_32(quarter, FMA_32(r * r, EXP_32(r), r), quarter - 0.25f);
  float y = 2.0f * (e + e / FMA_32(4.0f, e, 1.0f));
  return __builtin_copysignf(a < 0x1p-12f ? a : y, x);
}

/* 1.5 ulp; e is exp(x) / 4 */
static inline double cosh_64(double x) {
  double a = __builtin_fabs(x), c = a > 710.5 ? 710.5 : a;
  double t = FMA_64(c, INVERSE_LN2, ROUND_64), r = rest_64(c, t - ROUND_64);
  double e = float_64(bits_64(0.25) + (bits_64(t) << 52)) * (1.0 + FMA_64(r * r, EXP_64(r), r));
  return 2.0 * (e + 0.0625 / e);
}
static inline float cosh_32(float x) {
  float a = __builtin_fabsf(x), c = a > 89.5f ? 89.5f : a;
  float t = FMA_32(c, (float)INVERSE_LN2, ROUND_32), r = rest_32(c, t - ROUND_32);
  float e = float_32(bits_32(0.25f) + (bits_32(t) << 23)) * (1.0f + FMA_32(r * r, EXP_32(r), r));
  return 2.0f * (e + 0.0625f / e);
}

/* 2 ulp: log(x + sqrt(x^2 + 1)), which is log(2 x) far from 0 */
static inline double asinh_64(double x) {
  double a = __builtin_fabs(x), z = a * a;
  double y = log1p_64(a > 0x1p28 ? a - 1.0 : a + z / (1.0 + __builtin_sqrt(z + 1.0)));
  return __builtin_copysign(a > 0x1p28 ? y + LN2_64 : y, x);
}
static inline float asinh_32(float x) {
  float a = __builtin_fabsf(x), z = a * a;
  float y = log1p_32(a > 0x1p13f ? a - 1.0f : a + z / (1.0f + __builtin_sqrtf(z + 1.0f)));
  return __builtin_copysignf(a > 0x1p13f ? y + (float)LN2_64 : y, x);
}

/* 2 ulp */
static inline double acosh_64(double x) {
  double t = x - 1.0, y = log1p_64(x > 0x1p28 ? t : t + __builtin_sqrt(t * t + 2.0 * t));
  y = x > 0x1p28 ? y + LN2_64 : y;
  return x < 1.0 ? (double)NAN : y;
}
static inline float acosh_32(float x) {
  float t = x - 1.0f, y = log1p_32(x > 0x1p13f ? t : t + __builtin_sqrtf(t * t + 2.0f * t));
  y = x > 0x1p13f ? y + (float)LN2_64 : y;
  return x < 1.0f ? NAN : y;
}

/* 2.5 ulp */
static inline double atanh_64(double x) {
  double a = __builtin_fabs(x);
  return __builtin_copysign(0.5 * log1p_64(2.0 * a / (1.0 - a)), x);
}
static inline float atanh_32(float x) {
  float a = __builtin_fabsf(x);
  return __builtin_copysignf(0.5f * log1p_32(2.0f * a / (1.0f - a)), x);
}
