/* Powers and logarithms of other bases, and what NumPy has of several arguments, as those of elementary.h. */

/* 1.25 ulp; the powers of whole numbers are exact */
static inline double exp2_64(double x) {
  double c = not_below_64(x, -1080.0), t = c + ROUND_64, r = (c - (t - ROUND_64)) * LN2_64;
  uint64_t more = c < -1021.0 ? (uint64_t)64 << 52 : 0;
  double y = float_64(bits_64(1.0 + FMA_64(r * r, EXP_64(r), r)) + (bits_64(t) << 52) + more);
  y *= c < -1021.0 ? 0x1p-64 : 1.0;
  return x < 1024.0 ? y : x + (double)INFINITY;
}
static inline float exp2_32(float x) {
  float c = not_below_32(x, -155.0f), t = c + ROUND_32, r = (c - (t - ROUND_32)) * (float)LN2_64;
  uint32_t more = c < -125.0f ? (uint32_t)32 << 23 : 0;
  float y = float_32(bits_32(1.0f + FMA_32(r * r, EXP_32(r), r)) + (bits_32(t) << 23) + more);
  y *= c < -125.0f ? 0x1p-32f : 1.0f;
  return x < 128.0f ? y : x + INFINITY;
}

/* log 2 / log 10 in two parts, of which the first times any exponent is exact */
#define LOG10_2_HIGH_64 0x1.34413509f7p-2
#define LOG10_2_LOW_64 0x1.3fde623e2566bp-43
#define LOG10_2_HIGH_32 0x1.344p-2f
#define LOG10_2_LOW_32 0x1.3509f8p-18f
#define INVERSE_LN10 0x1.bcb7b1526e50ep-2

/* 2 ulp; the logarithms of 2^k are exact */
static inline double log2_64(double x) {
  double y = x < 0x1p-1022 ? x * 0x1p54 : x;
  SPLIT_64(y, k0, m);
  double k = k0 - (x < 0x1p-1022 ? 54.0 : 0.0);
  double r = FMA_64(log_parts_64(m, 0.0, 0.0), INVERSE_LN2, k);
  r = x < (double)INFINITY ? r : x;
  r = x < 0.0 ? (double)NAN : r;
  return x == 0.0 ? -(double)INFINITY : r;
}
static inline float log2_32(float x) {
  float y = x < 0x1p-126f ? x * 0x1p25f : x;
  SPLIT_32(y, k0, m);
  float k = k0 - (x < 0x1p-126f ? 25.0f : 0.0f);
  float r = FMA_32(log_parts_32(m, 0.0f, 0.0f), (float)INVERSE_LN2, k);
  r = x < (float)INFINITY ? r : x;
  r = x < 0.0f ? (float)NAN : r;
  return x == 0.0f ? -(float)INFINITY : r;
}

/* 2 ulp */
static inline double log10_64(double x) {
  double y = x < 0x1p-1022 ? x * 0x1p54 : x;
  SPLIT_64(y, k0, m);
  double k = k0 - (x < 0x1p-1022 ? 54.0 : 0.0);
  double r = FMA_64(k, LOG10_2_HIGH_64, FMA_64(log_parts_64(m, 0.0, 0.0), INVERSE_LN10, k * LOG10_2_LOW_64));
  r = x < (double)INFINITY ? r : x;
  r = x < 0.0 ? (double)NAN : r;
  return x == 0.0 ? -(double)INFINITY : r;
}
static inline float log10_32(float x) {
  float y = x < 0x1p-126f ? x * 0x1p25f : x;
  SPLIT_32(y, k0, m);
  float k = k0 - (x < 0x1p-126f ? 25.0f : 0.0f);
  float r = FMA_32(k, LOG10_2_HIGH_32, FMA_32(log_parts_32(m, 0.0f, 0.0f), (float)INVERSE_LN10, k * LOG10_2_LOW_32));
  r = x < (float)INFINITY ? r : x;
  r = x < 0.0f ? (float)NAN : r;
  return x == 0.0f ? -(float)INFINITY : r;
}

/* sqrt(x^2 + y^2), 1.5 ulp; what would be too large or too small squared is scaled by a power of 2 */
static inline double hypot_64(double x, double y) {
  double a = __builtin_fabs(x), b = __builtin_fabs(y), most = a > b ? a : b;
  double up = most > 0x1p500 ? 0x1p-600 : 1.0, down = most > 0x1p500 ? 0x1p600 : 1.0;
  up = most < 0x1p-500 ? 0x1p600 : up;
  down = most < 0x1p-500 ? 0x1p-600 : down;
  double u = a * up, v = b * up, r = __builtin_sqrt(FMA_64(u, u, v * v)) * down;
  r = a == (double)INFINITY ? a : r;
  return b == (double)INFINITY ? b : r;
}
static inline float hypot_32(float x, float y) {
  double u = x, v = y;
  float a = __builtin_fabsf(x), b = __builtin_fabsf(y), r = (float)__builtin_sqrt(u * u + v * v);
  r = a == INFINITY ? a : r;
  return b == INFINITY ? b : r;
}

/* log(exp(x) + exp(y)) as the larger one and log1p of the rest, 2 ulp of the operand farther from 0 or of the result */
static inline double logaddexp_64(double x, double y) {
  double r = (x > y ? x : y) + log1p_64(exp_64(-__builtin_fabs(x - y)));
  return x == y ? x + LN2_64 : r;
}
static inline float logaddexp_32(float x, float y) {
  float r = (x > y ? x : y) + log1p_32(exp_32(-__builtin_fabsf(x - y)));
  return x == y ? x + (float)LN2_64 : r;
}

/* the angle of (x, y), 2.5 ulp: atan of what is at most 1, from the nearest axis */
static inline double atan2_64(double y, double x) {
  double a = __builtin_fabs(y), b = __builtin_fabs(x), low = a > b ? b : a, high = a > b ? a : b;
  double s = low / (high == 0.0 ? 1.0 : high);
  s = low == (double)INFINITY ? 1.0 : s;
  double z = s * s, t = FMA_64(s * z, ATAN_64(z), s);
  t = a > b ? HALF_PI_64 - (t - HALF_PI_LOW_64) : t;
  t = bits_64(x) >> 63 ? 2.0 * HALF_PI_64 - (t - 2.0 * HALF_PI_LOW_64) : t;
  t = x != x ? x : t;
  return __builtin_copysign(t, y);
}
static inline float atan2_32(float y, float x) {
  float a = __builtin_fabsf(y), b = __builtin_fabsf(x), low = a > b ? b : a, high = a > b ? a : b;
  float s = low / (high == 0.0f ? 1.0f : high);
  s = low == INFINITY ? 1.0f : s;
  float z = s * s, t = FMA_32(s * z, ATAN_32(z), s);
  t = a > b ? HALF_PI_32 - (t - HALF_PI_LOW_32) : t;
  t = bits_32(x) >> 31 ? 2.0f * HALF_PI_32 - (t - 2.0f * HALF_PI_LOW_32) : t;
  t = x != x ? x : t;
  return __builtin_copysignf(t, y);
}
