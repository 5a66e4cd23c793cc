"""Which plan is the best for a goal?

plan_candidates.py has plans to begin with, of which dynamic_programming.py makes the best;
local_search.py changes one at random, branch_and_bound.py looks at all plans of small graphs. Begin
at plan_candidates.py.
"""
