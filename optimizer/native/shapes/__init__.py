"""Shapes as polynomials of free sizes, followed through a graph and said at once where known."""
