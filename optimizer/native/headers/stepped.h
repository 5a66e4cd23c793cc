/* Products of a step's rows with a constant matrix laid out as product.h has it: P = bias + x w, of a width known. */
static APART void stepped_product(
    const float *x, i64 apart, i64 rows, const float *w, const float *bias, i64 width, i64 depth, float *S, float *P) {
  for (i64 column = 0; column < width; column += PRODUCT_PANEL) {
    const i64 n = LEAST(PRODUCT_PANEL, width - column);
    product_block(
        x, apart, rows, w + column * depth, bias ? bias + column : NULL, n, S, depth, column + PRODUCT_PANEL < width);
    for (i64 r = 0; r < rows; r++)
      memcpy(P + r * width + column, S + r * PRODUCT_PANEL, sizeof(float) * (size_t)n);
  }
}
