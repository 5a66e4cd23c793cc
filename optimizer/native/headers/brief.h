/* Elementary functions for kernels that count subnormal numbers as zero: shorter by the steps that
   would give them, as accurate elsewhere. NaN passes. */

/* 2^k in the exponent of a number near 1; k lies in the low bits of t = k + ROUND_32 */
static inline float brief_scaled_32(float p, float t) { return float_32(bits_32(p) + (bits_32(t) << 23)); }

/* exp(r) */
static inline float brief_near_32(float r) { return FMA_32(r, FMA_32(r, EXP_32(r), 1.0f), 1.0f); }

/* 1.25 ulp; 0 below the least normal number */
static inline float brief_exp_32(float x) {
  const float t = FMA_32(x, (float)INVERSE_LN2, ROUND_32), k = t - ROUND_32, r = rest_32(x, k);
  float y = brief_scaled_32(brief_near_32(r), t);
  y = x < -0x1.5d589ep+6f ? 0.0f : y;
  return x <= 0x1.62e42ep+6f ? y : x + INFINITY;
}
/* the same for x <= 0 */
static inline float brief_fall_32(float x) {
  const float t = FMA_32(x, (float)INVERSE_LN2, ROUND_32), k = t - ROUND_32, r = rest_32(x, k);
  const float y = brief_near_32(r) * brief_scaled_32(1.0f, t);
  return x < -0x1.5d589ep+6f ? 0.0f : y;
}
/* of what is less by the largest: a number that is not positive */
static inline float exp_below_32(float x) { return exp_32(x); }
static inline float brief_exp_below_32(float x) { return brief_fall_32(x); }
/* 2 ulp; beyond 1 by -log(erfc(x)) on [1, 4], fitted with erfc as weight (error 2^-29.8) */
static inline float brief_erf_32(float x) {
  const float a = __builtin_fabsf(x), b = a > 4.0f ? 4.0f : a;
  float p = -0x1.852dc4p-13f;
  p = FMA_32(p, b, 0x1.814d24p-9f);
  p = FMA_32(p, b, -0x1.654246p-6f);
  p = FMA_32(p, b, 0x1.a60a96p-4f);
  p = FMA_32(p, b, 0x1.46c582p-1f);
  p = FMA_32(p, b, 0x1.2085b2p+0f);
  p = FMA_32(p, b, 0x1.72e404p-12f);
  const float far = 1.0f - brief_fall_32(-p), near = FMA_32(x, ERF_NEAR_32(x * x), x);
  return a <= 1.0f ? near : __builtin_copysignf(far, x);
}
/* z >= 0, or `most` where that is less. Compared as integers: of a choice between numbers gcc makes two
   paths, one of them with all that follows computed from a constant. */
static inline float brief_least_32(float z, float most) {
  const int32_t u = (int32_t)bits_32(z), m = (int32_t)bits_32(most);
  return float_32((uint32_t)(u < m ? u : m));
}
/* over / under for under > 0, but no farther from 0 than 1 */
static inline float brief_part_32(float over, float under) {
  float t = over < -under ? -under : over;
  t = t > under ? under : t;
  return t / under;
}
/* A quotient of polynomials, as in Eigen and ONNX Runtime, of which x itself is a factor: so NaN and
   infinities need no steps of their own, and 1 is met behind the end of the fit. 5.2 ulp (6.1 without
   fused multiply-adds); never beyond 1. */
static inline float brief_tanh_32(float x) {
  const float z = brief_least_32(x * x, 0x1.138f5cp+6f);
  return brief_part_32(x * TANH_OVER_32(z), TANH_UNDER_32(z));
}
/* (1 + tanh(x / 2)) / 2, within 1.75e-7 (2e-7 without fused multiply-adds), as exact as the
   runtime's: absolutely, for x < 0 as well. In [0, 1]; 0 below -16.7. */
static inline float brief_sigmoid_32(float x) {
  const float z = brief_least_32(x * x, 0x1.138f5cp+8f);
  return FMA_32(0.5f, brief_part_32(x * HALF_OVER_32(z), HALF_UNDER_32(z)), 0.5f);
}
/* 2 ulp */
static inline float brief_softplus_32(float x) {
  return (x > 0.0f ? x : 0.0f) + log1p_32(brief_fall_32(-__builtin_fabsf(x)));
}
