"""Laws of functions of real numbers, applied as normal forms are made.

In go a function and the normal forms of its arguments; out comes a normal form, and conditions
under which it has a value. Begin at elementary.py; extrema.py has the largest and smallest of
elements.
"""
