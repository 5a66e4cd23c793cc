"""What clauses mean: scopes, types, strata, what is unfolded, and what may never end.

Clauses of a `Block` go in; out come clauses whose variables have one scope each, the kinds of their
expressions and an order of evaluation, or errors with places. Begin with `scope.py`; `checks.py`
has what is refused for other reasons, and `constants.py` reads facts.
"""
