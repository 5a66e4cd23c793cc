/* What all generated kernels share, whatever processor they are for: types and macros. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

typedef int64_t i64;

/* vectors that every processor has, unaligned */
typedef double pair_of_64 __attribute__((vector_size(16), aligned(8), may_alias));
typedef float four_of_32 __attribute__((vector_size(16), aligned(4), may_alias));
#define SMALL_64 pair_of_64
#define SMALL_32 four_of_32

/* a function that is called, so that its loops are compiled once */
#define APART __attribute__((noinline))
/* one that is compiled where it is called, as numbers are known there */
#define WITHIN inline __attribute__((always_inline))

/* n elements, filled up to a whole number of the longest vectors */
#define ALIGNED_64(n) (((n) + 7) & ~(i64)7)
#define ALIGNED_32(n) (((n) + 15) & ~(i64)15)

#define LEAST(a, b) ((a) < (b) ? (a) : (b))
/* cells that are computed at a time: their operands lie in the first cache */
#define TILE 1024
/* columns of rows that are too short for loops of their own, and so much is free behind a tile */
#define NARROW 32
/* stored entries that are looked ahead */
#define FURTHER 128
/* stored entries of a row, on average, up to which rows are taken many at a time */
#define FEW 24

/* Sums of products may use fused multiply-adds: they are at least as accurate. gcc makes vectors of
   sums of fma, clang only of sums of products that it may contract itself. */
#if defined(__clang__)
#define SUMS_OF_PRODUCTS _Pragma("clang fp contract(fast)")
#define ADD_PRODUCT_64(s, a, b) s += (a) * (b)
#define ADD_PRODUCT_32(s, a, b) s += (a) * (b)
#else
#define SUMS_OF_PRODUCTS
#define ADD_PRODUCT_64(s, a, b) s = FMA_64(a, b, s)
#define ADD_PRODUCT_32(s, a, b) s = FMA_32(a, b, s)
#endif

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

/* An array of up to two axes, strides in bytes. `type` 0: of the kernel's own type, aligned, and
   contiguous where the kernel asks for it; otherwise the type that it is converted from. Of a sparse
   one: values, where rows begin, columns, and what is known of it: DISTINCT, no row has a column twice;
   WIDE, it is told in 64 bits where rows begin. */
#define DISTINCT 1
#define WIDE 2
typedef struct { char *data; i64 row, column, type; } view;

/* Where the rows of a sparse matrix begin, in 32 bits as in SciPy unless there are too many entries. */
typedef struct { const int32_t *few; const i64 *many; } begins;

/* A sum and what rounding it lost (Neumaier 1974). Cells are summed plainly, in lanes, a tile at a
   time (of short rows a block of at most 4 TILE cells; so much in four times the lanes, too, where a
   kernel does little else), and tiles are added to it:
   |error| <= (cells / lanes + log2(lanes) + 2) u sum|x|, whatever the number of tiles. */
typedef struct { double sum, lost; } total;
