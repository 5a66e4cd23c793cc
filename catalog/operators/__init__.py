"""Operator specifications as data."""
