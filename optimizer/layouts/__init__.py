"""Layouts as part of a plan: blocked values of convolutional models, and the ways in and out."""
