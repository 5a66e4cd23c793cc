"""Fused NumPy programs against NumPy, SciPy, numexpr, JAX, PyTorch and SystemDS."""
