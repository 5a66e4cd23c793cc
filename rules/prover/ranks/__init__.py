"""From the ranks and lengths at which a rule was proved to all.

In go a rule, the statements of its cases and their outcomes; out come the ranks and lengths for
which the rule holds. Begin at induction.py, which says why each argument is sound.
"""
