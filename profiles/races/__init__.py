"""Whole models timed against each other: interleaved, paired, in random order."""
