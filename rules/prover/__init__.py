"""Proofs that two tensor programs are equal for all sizes."""
