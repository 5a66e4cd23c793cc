/* Elementary functions without branches, so that a compiler turns loops over them into vectors.

   Errors are stated in units in the last place of the result (ulp), and hold for every argument,
   with and without a fused multiply-add. NaN passes; infinities, signed zeros and subnormal
   numbers are as for the function of the reals. */

static inline uint64_t bits_64(double x) { uint64_t u; memcpy(&u, &x, 8); return u; }
static inline double float_64(uint64_t u) { double x; memcpy(&x, &u, 8); return x; }
static inline uint32_t bits_32(float x) { uint32_t u; memcpy(&u, &x, 4); return u; }
static inline float float_32(uint32_t u) { float x; memcpy(&x, &u, 4); return x; }

/* Adding it rounds to an integer and leaves that integer in the low bits. */
#define ROUND_64 0x1.8p52
#define ROUND_32 0x1.8p23f
/* ln 2 in two parts, of which the first times any exponent is exact */
#define LN2_HIGH_64 0x1.62e42feep-1
#define LN2_LOW_64 0x1.a39ef35793c76p-33
#define LN2_HIGH_32 0x1.62e3p-1f
#define LN2_LOW_32 0x1.2fefa2p-17f
#define INVERSE_LN2 0x1.71547652b82fep+0
#define LN2_64 0x1.62e42fefa39efp-1

static inline double power_of_two_64(double k) { return float_64(bits_64(k + (ROUND_64 + 1023.0)) << 52); }

/* p 2^k for any k at which the result may be a number: in two steps, as 2^k alone may be none */
static inline double scaled_64(double p, double k) {
  double half = (k * 0.5 + ROUND_64) - ROUND_64;
  return p * power_of_two_64(half) * power_of_two_64(k - half);
}

/* x = k ln 2 + r with |r| <= ln(2) / 2 */
static inline double exponent_64(double x) { return FMA_64(x, INVERSE_LN2, ROUND_64) - ROUND_64; }
static inline double rest_64(double x, double k) { return FMA_64(k, -LN2_LOW_64, FMA_64(k, -LN2_HIGH_64, x)); }
static inline float rest_32(float x, float k) { return FMA_32(k, -LN2_LOW_32, FMA_32(k, -LN2_HIGH_32, x)); }

/* x, or `low` if it is below that, which is negative; in one instruction that exists for integers,
   where it takes more for numbers of which some are none: then a NaN may become `low`, too */
static inline double not_below_64(double x, double low) {
#ifdef LEVEL_AVX512
  uint64_t u = bits_64(x), most = bits_64(low);
  return float_64(u < most ? u : most);
#else
  return x < low ? low : x;
#endif
}
static inline float not_below_32(float x, float low) {
#ifdef LEVEL_AVX512
  uint32_t u = bits_32(x), most = bits_32(low);
  return float_32(u < most ? u : most);
#else
  return x < low ? low : x;
#endif
}

/* 1.25 ulp. 2^k is added to the exponent of what is about 1, with 2^64 more where the result is
   subnormal, so that it is rounded once; at k = 1024 what is about 1 is below it. */
static inline double exp_64(double x) {
  double c = not_below_64(x, -746.0), t = FMA_64(c, INVERSE_LN2, ROUND_64), r = rest_64(c, t - ROUND_64);
  uint64_t more = c < -708.0 ? (uint64_t)64 << 52 : 0;
  double y = float_64(bits_64(1.0 + FMA_64(r * r, EXP_64(r), r)) + (bits_64(t) << 52) + more);
  y *= c < -708.0 ? 0x1p-64 : 1.0;
  return x <= 0x1.62e42fefa39efp+9 ? y : x + (double)INFINITY;
}
static inline float exp_32(float x) {
  float c = not_below_32(x, -104.0f), t = FMA_32(c, (float)INVERSE_LN2, ROUND_32), r = rest_32(c, t - ROUND_32);
  uint32_t more = c < -87.0f ? (uint32_t)32 << 23 : 0;
  float y = float_32(bits_32(1.0f + FMA_32(r * r, EXP_32(r), r)) + (bits_32(t) << 23) + more);
  y *= c < -87.0f ? 0x1p-32f : 1.0f;
  return x <= 0x1.62e42ep+6f ? y : x + INFINITY;
}

/* exp(x) - 1 for -40 <= x <= 710, but for signs of zeros; half of 2^k is taken so that k may be 1024 */
static inline double expm1_within_64(double x) {
  double t = FMA_64(x, INVERSE_LN2, ROUND_64), r = rest_64(x, t - ROUND_64);
  double half = float_64(bits_64(0.5) + (bits_64(t) << 52)), p = FMA_64(r * r, EXP_64(r), r);
  return 2.0 * FMA_64(half, p, half - 0.5);
}
static inline float expm1_within_32(float x) {
  float t = FMA_32(x, (float)INVERSE_LN2, ROUND_32), r = rest_32(x, t - ROUND_32);
  float half = float_32(bits_32(0.5f) + (bits_32(t) << 23)), p = FMA_32(r * r, EXP_32(r), r);
  return 2.0f * FMA_32(half, p, half - 0.5f);
}

/* exp(x) - 1, 2 ulp */
static inline double expm1_64(double x) {
  double y = expm1_within_64(not_below_64(x, -40.0));
  y = x <= 710.0 ? y : x + (double)INFINITY;
  return __builtin_fabs(x) < 0x1p-54 ? x : y;
}
static inline float expm1_32(float x) {
  float y = expm1_within_32(not_below_32(x, -20.0f));
  y = x <= 89.0f ? y : x + INFINITY;
  return __builtin_fabsf(x) < 0x1p-25f ? x : y;
}

/* log(m 2^k) with m in [sqrt(1/2), sqrt(2)), `more` added to the result before it is rounded */
static inline double log_parts_64(double m, double k, double more) {
  double f = m - 1.0, s = f / (2.0 + f), z = s * s, h = 0.5 * f * f;
  double tail = FMA_64(s, FMA_64(z, LOG_64(z), h), FMA_64(k, LN2_LOW_64, more));
  return FMA_64(k, LN2_HIGH_64, f - (h - tail));
}
static inline float log_parts_32(float m, float k, float more) {
  float f = m - 1.0f, z = f * f;
  float tail = FMA_32(f * z, LOG_32(f), FMA_32(k, LN2_LOW_32, more));
  return FMA_32(k, LN2_HIGH_32, f + FMA_32(-0.5f, z, tail));
}
#define SPLIT_64(x, k, m) \
  uint64_t u_ = bits_64(x) + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu); \
  double k = float_64(0x4330000000000000u | (u_ >> 52)) - (0x1p52 + 1023.0); \
  double m = float_64((u_ & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu)
#define SPLIT_32(x, k, m) \
  uint32_t u_ = bits_32(x) + (0x3f800000u - 0x3f3504f3u); \
  float k = float_32(0x4b000000u | (u_ >> 23)) - (0x1p23f + 127.0f); \
  float m = float_32((u_ & 0x007fffffu) + 0x3f3504f3u)

/* 1 ulp */
static inline double log_64(double x) {
  double small = x < 0x1p-1022 ? 1.0 : 0.0;
  double y = x < 0x1p-1022 ? x * 0x1p54 : x;
  SPLIT_64(y, k, m);
  double r = log_parts_64(m, k - 54.0 * small, 0.0);
  r = x < (double)INFINITY ? r : x;
  r = x < 0.0 ? (double)NAN : r;
  return x == 0.0 ? -(double)INFINITY : r;
}
static inline float log_32(float x) {
  float small = x < 0x1p-126f ? 1.0f : 0.0f;
  float y = x < 0x1p-126f ? x * 0x1p25f : x;
  SPLIT_32(y, k, m);
  float r = log_parts_32(m, k - 25.0f * small, 0.0f);
  r = x < (float)INFINITY ? r : x;
  r = x < 0.0f ? (float)NAN : r;
  return x == 0.0f ? -(float)INFINITY : r;
}

/* log(1 + x), 1 ulp; what 1 + x loses is given back */
static inline double log1p_64(double x) {
  double u = 1.0 + x, b = u - 1.0, lost = (1.0 - (u - b)) + (x - b);
  SPLIT_64(u, k, m);
  double r = log_parts_64(m, k, lost / u);
  r = x < (double)INFINITY ? r : x;
  r = x < -1.0 ? (double)NAN : r;
  r = x == -1.0 ? -(double)INFINITY : r;
  return __builtin_fabs(x) < 0x1p-54 ? x : r;
}
static inline float log1p_32(float x) {
  float u = 1.0f + x, b = u - 1.0f, lost = (1.0f - (u - b)) + (x - b);
  SPLIT_32(u, k, m);
  float r = log_parts_32(m, k, lost / u);
  r = x < (float)INFINITY ? r : x;
  r = x < -1.0f ? (float)NAN : r;
  r = x == -1.0f ? -(float)INFINITY : r;
  return __builtin_fabsf(x) < 0x1p-25f ? x : r;
}

/* 3 ulp */
static inline double tanh_64(double x) {
  double c = -2.0 * __builtin_fabs(x), e = expm1_within_64(c < -40.0 ? -40.0 : c);
  return __builtin_copysign(-e / (2.0 + e), x);
}
static inline float tanh_32(float x) {
  float c = -2.0f * __builtin_fabsf(x), e = expm1_within_32(c < -20.0f ? -20.0f : c);
  return __builtin_copysignf(-e / (2.0f + e), x);
}

/* 1 / (1 + exp(-x)), 2.5 ulp */
static inline double sigmoid_64(double x) {
  double e = exp_64(-__builtin_fabs(x));
  return (x < 0.0 ? e : 1.0) / (1.0 + e);
}
static inline float sigmoid_32(float x) {
  float e = exp_32(-__builtin_fabsf(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

/* log(1 + exp(x)), 2 ulp */
static inline double softplus_64(double x) {
  return (x > 0.0 ? x : 0.0) + log1p_64(exp_64(-__builtin_fabs(x)));
}
static inline float softplus_32(float x) {
  return (x > 0.0f ? x : 0.0f) + log1p_32(exp_32(-__builtin_fabsf(x)));
}

/* 1.5 ulp */
static inline double erf_64(double x) {
  double a = __builtin_fabs(x), b = a > 6.0 ? 6.0 : a;
  double near = FMA_64(x, ERF_NEAR_64(x * x), x);
  double far = FMA_64(-exp_64(-b * b), ERF_FAR_64((b - 2.0) / (b + 2.0)), 1.0);
  return a <= 1.0 ? near : __builtin_copysign(far, x);
}
static inline float erf_32(float x) {
  float a = __builtin_fabsf(x), b = a > 4.0f ? 4.0f : a;
  float near = FMA_32(x, ERF_NEAR_32(x * x), x);
  float far = FMA_32(-exp_32(-b * b), ERF_FAR_32((b - 2.0f) / (b + 2.0f)), 1.0f);
  return a <= 1.0f ? near : __builtin_copysignf(far, x);
}

/* the rounding error of p = a b */
static inline double product_error_64(double a, double b, double p) {
#ifdef FUSED
  return __builtin_fma(a, b, -p);
#else
  double a1 = float_64(bits_64(a) & 0xfffffffff8000000u), a2 = a - a1;
  double b1 = float_64(bits_64(b) & 0xfffffffff8000000u), b2 = b - b1;
  return ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2;
#endif
}

/* x^y, 1.25 ulp (0.51 in float32): log|x| in two numbers, by 2 atanh((m - 1) / (m + 1)), then exp */
static inline double pow_64(double x, double y) {
  double a = __builtin_fabs(x);
  double small = a < 0x1p-1022 ? 54.0 : 0.0;
  double b = a < 0x1p-1022 ? a * 0x1p54 : a;
  SPLIT_64(b, k0, m);
  double k = k0 - small;
  double n = m - 1.0, d = m + 1.0, d_low = m - (d - 1.0);
  double s = n / d, sd = s * d;
  double s_low = ((n - sd) - product_error_64(s, d, sd) - s * d_low) / d;
  double z = s * s, z_low = product_error_64(s, s, z) + 2.0 * s * s_low;
  /* 1/3 + z p(z) */
  double q = z * LOG_REST_64(z), t = 0x1.5555555555555p-2 + q;
  double t_low = (q - (t - 0x1.5555555555555p-2)) + 0x1.5555555555555p-56;
  double w = z * t, w_low = product_error_64(z, t, w) + (z * t_low + z_low * t);
  double v = s * w, v_low = product_error_64(s, w, v) + (s * w_low + s_low * w);
  double l = s + v, l_low = (v - (l - s)) + (v_low + s_low);
  double base = k * LN2_HIGH_64, high = base + 2.0 * l;
  double back = high - base;
  double low = ((base - (high - back)) + (2.0 * l - back)) + (2.0 * l_low + k * LN2_LOW_64);
  double h = high + low, h_low = low - (h - high);
  /* beyond these bounds the result is 0 or infinite, whatever x is */
  double c = y > 0x1p70 ? 0x1p70 : y;
  c = c < -0x1p70 ? -0x1p70 : c;
  double e = c * h, e_low = product_error_64(c, h, e) + c * h_low;
  double g = e > 800.0 ? 800.0 : e;
  g = g < -800.0 ? -800.0 : g;
  double g_low = g == e ? e_low : 0.0;
  double kk = exponent_64(g), r = rest_64(g, kk) + g_low;
  double up = scaled_64(1.0 + FMA_64(r * r, EXP_64(r), r), kk);
  /* an argument at a bound */
  int grows = (a > 1.0) == (y > 0.0);
  up = a == 0.0 || a == (double)INFINITY || __builtin_fabs(y) == (double)INFINITY
           ? (grows ? (double)INFINITY : 0.0) : up;
  double whole = __builtin_floor(y);
  int integer = whole == y, odd = integer && __builtin_floor(y * 0.5) * 2.0 != y;
  up = x < 0.0 && !integer && x != -(double)INFINITY ? (double)NAN : up;
  up = odd ? __builtin_copysign(up, x) : up;
  up = a == 1.0 && (x == 1.0 || integer) ? (odd && x < 0.0 ? -1.0 : 1.0) : up;
  up = x != x || y != y ? x + y : up;
  return x == 1.0 || y == 0.0 ? 1.0 : up;
}
static inline float pow_32(float x, float y) {
  double a = __builtin_fabs((double)x), e = (double)y * log_64(a);
  double up = exp_64(e);
  double w = y, whole = __builtin_floor(w);
  int integer = whole == w, odd = integer && __builtin_floor(w * 0.5) * 2.0 != w;
  up = x < 0.0f && !integer && x != -(float)INFINITY ? (double)NAN : up;
  up = odd ? __builtin_copysign(up, (double)x) : up;
  up = a == 1.0 && (x == 1.0f || integer) ? (odd && x < 0.0f ? -1.0 : 1.0) : up;
  return (float)(x == 1.0f || y == 0.0f ? 1.0 : up);
}

/* NaN passes, as in NumPy: the comparison gives b where there is one, a's is left to put back */
static inline double max_64(double a, double b) { double t = a > b ? a : b; return a != a ? a : t; }
static inline double min_64(double a, double b) { double t = a < b ? a : b; return a != a ? a : t; }
static inline float max_32(float a, float b) { float t = a > b ? a : b; return a != a ? a : t; }
static inline float min_32(float a, float b) { float t = a < b ? a : b; return a != a ? a : t; }
static inline double sign_64(double x) { return x != x ? x : (double)((x > 0.0) - (x < 0.0)); }
static inline float sign_32(float x) { return x != x ? x : (float)((x > 0.0f) - (x < 0.0f)); }

/* the remainder with the divisor's sign */
static inline double mod_64(double a, double b) {
  double r = __builtin_fmod(a, b);
  return r != 0.0 ? ((r < 0.0) != (b < 0.0) ? r + b : r) : (r == 0.0 ? __builtin_copysign(0.0, b) : r);
}
static inline float mod_32(float a, float b) {
  float r = __builtin_fmodf(a, b);
  return r != 0.0f ? ((r < 0.0f) != (b < 0.0f) ? r + b : r) : (r == 0.0f ? __builtin_copysignf(0.0f, b) : r);
}
