"""What a rule lacks to be true: side conditions, and the region of a partial equivalence.

In go a rule and counterexamples; out come conditions under which it was proved. Begin at
preconditions.py, which tries those of condition_candidates.py, and at partial_region.py, which
eliminates quantifiers (implicants.py, inequalities.py) or generalizes from samples
(sampled_region.py).
"""
