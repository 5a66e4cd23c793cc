"""Programs over arrays: a DAG in the vocabulary of operators, traced from NumPy, run fused."""
