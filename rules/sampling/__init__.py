"""Random models on which a rule matches.

In goes a rule; out come small ONNX models on which all of its conditions hold, or all but one.
Begin at instances.py; builder.py puts one left side together, sampler.py draws sizes and
attributes, domains.py says which numbers operators take, specified_shapes.py which sizes an
operator's specification leaves no choice about.
"""
