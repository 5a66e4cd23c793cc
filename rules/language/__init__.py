"""The language that rules are written in, and what it means.

In goes the text of a rule file; out come rules as syntax trees (syntax.py), and all conditions
under which each applies (conditions.py). Begin at parser.py: grammar.lark and reader.py make a rule
of a text, check.py refuses what can't mean anything, and formatter.py lays a file out.
"""
