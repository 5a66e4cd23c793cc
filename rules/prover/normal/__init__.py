"""The normal form of an element, and when two of them are equal.

In go sums, as lowering/ makes them; out comes whether two are equal at all sizes, or why that isn't
seen. Begin at sums.py, then equality.py. context.py holds what the normal forms of one statement
share.
"""
