"""From the terms of a statement to normal forms.

In go the definitions of a statement; out comes what its tensors hold at an index. Begin at
lowering.py; elementwise.py, integers.py and term_kinds.py are the kinds of terms that it is made
of.
"""
