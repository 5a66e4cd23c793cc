"""The self-contained HTML report of an optimization."""
