"""What a proved rule does in floating point.

In goes a rule; out come its rounding, its treatment of special values, and whether bits are equal.
Begin at record.py. Measured under ONNX Runtime: rounding.py, special_values.py; proved:
bit_equality.py and discontinuities.py. numeric_class.py refuses rules that break what their class
promises.
"""
