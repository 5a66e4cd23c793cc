"""Products with a constant matrix as kernels, with what is elementwise behind them."""
