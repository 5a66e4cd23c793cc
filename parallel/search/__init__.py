"""Which plan is the best for a goal?

candidates.py has plans to begin with, of which additive.py makes the best by dynamic programming;
anneal.py changes one at random, exact.py looks at all plans of small graphs. Begin at
candidates.py.
"""
