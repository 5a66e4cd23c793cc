#ifndef MOST_OPERANDS
/* What a kernel is told: where its operands lie, how far their elements are apart, what to do. */

#define MOST_OPERANDS 24
#define MOST_LOOPS 8
#define MOST_AXES 8
#define MOST_ACCESSES 40
#define MOST_TASKS 64

/* columns of a panel of a matrix that was laid out in advance, for product.h */
#define PRODUCT_PANEL 48
/* half of a piece of the depth at most where seven products stand for eight, how many pieces there are,
   how far rows of sums lie apart beyond their length (powers of two fall on the same places of a
   cache), rows of a block, and units that are claimed at a time, for product_seven.h */
#define SEVEN_DEPTH 512
#define SEVEN_PIECES(depth) (((depth) / 2 + SEVEN_DEPTH - 1) / SEVEN_DEPTH)
#define SEVEN_GAP 16
#define SEVEN_BLOCK 256
#define SEVEN_RUN 4
/* rows of a block, a piece of the depth at most, as whole tiles, and panels of a unit at most where products
   are computed on matrix tiles, for product_tiles.h: together they stay in the second cache */
#define TILES_BLOCK 256
#define TILES_DEPTH 768
#define TILES_PIECES(depth) (((depth) + TILES_DEPTH - 1) / TILES_DEPTH)
#define TILES_PIECE(depth) (((depth) + 32 * TILES_PIECES(depth) - 1) / (32 * TILES_PIECES(depth)) * 32)
#define TILES_PANELS 8
/* rows of a panel of numbers of 16 bits that are float32 at a time, for product_halves.h */
#define HALVES_DEPTH 256

/* outputs of a panel of filters of 8-bit integers, for quantized.h */
#define QUANTIZED_PANEL 64

#define INLINED inline __attribute__((always_inline))

typedef struct {
  const char *in[MOST_OPERANDS];
  char *out[MOST_OPERANDS];
  i64 extent[MOST_LOOPS];                  /* of the loops, merged as the kernel has them */
  i64 stride[MOST_ACCESSES][MOST_LOOPS];   /* in elements */
  i64 offset[MOST_ACCESSES];
  i64 place[MOST_OPERANDS][MOST_LOOPS];    /* of the outputs' elements along the loops */
  i64 rows, inner, blocks, units, tasks;   /* a unit is a row, or a block of one */
  int loops;                               /* merged ones */
  i64 block;                               /* queries of a block, in attention */
  char *scratch;                           /* one part of `share` bytes a task */
  i64 share;
  i64 outside;                             /* whether an index named no element */
  i64 fresh, next[MOST_TASKS];             /* places or units that are taken; in convolutions, units of places */
} call;

typedef struct { const call *whole; i64 first, end; char *scratch; } task;
#endif
