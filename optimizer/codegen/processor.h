/* What this processor has, and the system saves for each thread: asked of x86-64 itself, as the
   compilers' own functions for it aren't found by every linker. */

#if defined(__x86_64__)
#include <cpuid.h>
static int enabled(unsigned wanted) {
  unsigned a, b, c, d, low, high;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & 1u << 27)) return 0; /* OSXSAVE */
  if (!(c & 1u << 12) || !(c & 1u << 29)) return 0;                  /* FMA, F16C */
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & wanted) == wanted;
}
static int leaf_7(unsigned wanted) {
  unsigned a, b, c, d;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & wanted) == wanted;
}
/* Asked once: a virtual machine answers each time by leaving it, which takes longer than many a
   kernel. Threads that ask at once find out the same. */
static int has_avx2(void) {
  static int known = -1;
  if (known < 0) known = enabled(0x6) && leaf_7(1u << 5);
  return known;
}
/* F, DQ, BW, VL, beside AVX2 */
static int has_avx512(void) {
  static int known = -1;
  if (known < 0) known = enabled(0xe6) && leaf_7(1u << 5 | 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31);
  return known;
}
/* Products of 8-bit integers that add up in 32 bits, of vectors as long as those of AVX-512 */
static int has_vnni(void) {
  static int known = -1;
  if (known < 0) {
    unsigned a, b, c, d;
    known = has_avx512() && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & 1u << 11);
  }
  return known;
}
/* Bytes chosen from a table of 128 */
static int has_vbmi(void) {
  static int known = -1;
  if (known < 0) {
    unsigned a, b, c, d;
    known = has_avx512() && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & 1u << 1);
  }
  return known;
}
#else
static int has_avx2(void) { return 0; }
static int has_avx512(void) { return 0; }
static int has_vnni(void) { return 0; }
static int has_vbmi(void) { return 0; }
#endif

/* Matrix tiles of bfloat16 numbers, which Linux saves for a process that has asked for it: it may refuse. */
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
static int has_tiles(void) {
  static int known = -1;
  if (known < 0) {
    const unsigned wanted = 1u << 22 | 1u << 24; /* AMX-BF16, AMX-TILE */
    unsigned a, b, c, d;
    known = enabled(0x600e6) && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & wanted) == wanted
            && syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18 /* XTILEDATA */) == 0;
  }
  return known;
}
#else
static int has_tiles(void) { return 0; }
#endif
