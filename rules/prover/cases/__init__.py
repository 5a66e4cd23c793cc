"""A rule as the statements that are to be proved of it.

In goes a rule; out comes one statement for each case of what is discrete: ranks, axes, operators,
element types. Begin at case_split.py. It builds source_side.py and target_side.py under the choices
of enumeration.py; environment.py evaluates what the rule says in the case at hand.
"""
