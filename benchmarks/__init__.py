"""Benchmarks: models with random weights, and what optimizing them gains."""
