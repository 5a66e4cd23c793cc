"""Numbers on which the two sides of a rule differ: the only thing that refutes one.

In go a rule and its statements; out comes a confirmed, small counterexample as a program. Begin at
refute.py; search.py looks among the numbers of symbol_values.py and operand_values.py, fuzz.py
among models that run; minimize.py makes small what they find, and rule_instance.py makes a model
of it.
"""
