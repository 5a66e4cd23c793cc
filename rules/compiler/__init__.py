"""What a match is: rules compiled to clauses of Datalog, and what takes the place of a match.

In go rules and a view of a graph; out come clauses, near misses and replacements. The clauses are
joined elsewhere, by the graph's matcher (optimizer/match/matcher.py). Begin at compile.py, which
makes a Datalog program of rules; match_rows.py reads rows of its relations as matches and checks
what Datalog can't say, by the names that bindings.py binds; replacement.py makes the right side.
"""
