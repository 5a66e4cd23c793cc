"""Plans against the original: verified on generated inputs, predicted, and timed end to end.

In: plans, written out by `candidate_files.py`. Out: the fastest of those that compute the same.
Begin with `contest.py`; the last word has `final.py`.
"""
