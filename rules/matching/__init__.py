"""Where rules match a graph, and what takes the place of a match.

In go rules and a view of a graph; out come matches, near misses and replacements. Begin at
compile.py, which makes a Datalog program of rules; match.py reads its relations and checks what
Datalog can't say, by the names that bindings.py binds; rewrite.py makes the right side.
"""
