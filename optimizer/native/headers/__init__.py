"""Fixed C that kernels include."""
