"""Datalog's syntax: text to trees, trees made by code, and trees to text again.

Text goes in, or calls of `builders.py`; a `Block` of declarations and clauses comes out, components
unfolded where `components.py` is asked. Begin with `syntax.py`, the trees; `parser.py` makes them
of what `preprocess.py` leaves, and `unparse.py` spells them.
"""
